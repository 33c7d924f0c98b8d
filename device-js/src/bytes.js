// Bytes as text and back, in the few ways that plans, reports and states use.

/** Draws are below it. */
export const WHOLE = 1n << 64n;

const encoder = new TextEncoder();

/** @param {string} text @returns {Uint8Array} */
export const utf8 = (text) => encoder.encode(text);

/** @param {Uint8Array} bytes */
export const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** @param {string} text */
export const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** Unpadded base64url. @param {Uint8Array} bytes */
export const toBase64 = (bytes) =>
  btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** Bits, the most significant first, padded with 0. @param {number[]} bits */
export function packBits(bits) {
  const packed = new Uint8Array(Math.ceil(bits.length / 8));
  bits.forEach((bit, place) => (packed[place >> 3] |= bit << (7 - (place & 7))));
  return packed;
}

/** Compact JSON in ASCII: what digests are taken of. @param {unknown} value */
export const asciiJson = (value) =>
  JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/** SHA-256, by WebCrypto. @param {string} text */
export async function sha256(text) {
  if (!globalThis.crypto?.subtle) throw new Error("WebCrypto is missing: a page needs https:// (or localhost)");
  return new Uint8Array(await crypto.subtle.digest("SHA-256", /** @type {BufferSource} */ (utf8(text))));
}
