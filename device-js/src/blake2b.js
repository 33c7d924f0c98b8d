// BLAKE2b with a key and 64 bytes of output (RFC 7693), which WebCrypto does not have.
//
// A 64-bit word is two places of a Uint32Array, the low half first.

const START = new Uint32Array([
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
  0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
]);
const ORDER = [
  "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
  "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
].map((row) => Uint8Array.from(row, (digit) => 2 * parseInt(digit, 16)));
const MIXED = [
  [0, 8, 16, 24], [2, 10, 18, 26], [4, 12, 20, 28], [6, 14, 22, 30],
  [0, 10, 20, 30], [2, 12, 22, 24], [4, 14, 16, 26], [6, 8, 18, 28],
];
const BLOCK = 128;
const v = new Uint32Array(32);
const words = new Uint32Array(32);

/** v[a] += low and high. @param {number} a @param {number} low @param {number} high */
function add(a, low, high) {
  const sum = v[a] + low;
  v[a + 1] = v[a + 1] + high + (sum > 0xffffffff ? 1 : 0);
  v[a] = sum;
}

/** v[a] ^= v[b], turned right by `by` bits. @param {number} a @param {number} b @param {number} by */
function turn(a, b, by) {
  const swaps = by >= 32 ? 1 : 0;
  const low = v[a + swaps] ^ v[b + swaps];
  const high = v[a + 1 - swaps] ^ v[b + 1 - swaps];
  const rest = by % 32;
  v[a] = rest ? (low >>> rest) | (high << (32 - rest)) : low;
  v[a + 1] = rest ? (high >>> rest) | (low << (32 - rest)) : high;
}

/** A hash that takes data piece by piece; `copy` lets many inputs share a beginning. */
export class Blake2b {
  #state = START.slice();
  #block = new Uint8Array(BLOCK);
  #filled = 0;
  #length = 0;

  /** @param {Uint8Array} key at most 64 bytes; none: a plain hash */
  constructor(key = new Uint8Array(0)) {
    this.#state[0] ^= 0x01010000 ^ (key.length << 8) ^ 64;
    if (key.length) {
      this.#block.set(key);
      this.#filled = BLOCK;
    }
  }

  copy() {
    const twin = new Blake2b();
    twin.#state = this.#state.slice();
    twin.#block = this.#block.slice();
    twin.#filled = this.#filled;
    twin.#length = this.#length;
    return twin;
  }

  /** @param {Uint8Array} data */
  update(data) {
    for (let start = 0; start < data.length; ) {
      if (this.#filled === BLOCK) this.#compress(false); // only when more follows: the last block is special
      const piece = data.subarray(start, start + BLOCK - this.#filled);
      this.#block.set(piece, this.#filled);
      this.#filled += piece.length;
      start += piece.length;
    }
    return this;
  }

  /** The 64 bytes; nothing can be added afterwards. */
  digest() {
    this.#block.fill(0, this.#filled);
    this.#compress(true);
    const output = new DataView(new ArrayBuffer(64));
    this.#state.forEach((half, place) => output.setUint32(4 * place, half, true));
    return new Uint8Array(output.buffer);
  }

  /** @param {boolean} isLast */
  #compress(isLast) {
    this.#length += this.#filled;
    const block = new DataView(this.#block.buffer);
    for (let place = 0; place < 32; place++) words[place] = block.getUint32(4 * place, true);
    v.set(this.#state);
    v.set(START, 16);
    v[24] ^= this.#length; // messages here are shorter than 2³² bytes
    if (isLast) {
      v[28] = ~v[28];
      v[29] = ~v[29];
    }
    for (let round = 0; round < 12; round++) {
      const order = ORDER[round % 10];
      for (let g = 0; g < 8; g++) {
        const places = MIXED[g];
        const a = places[0];
        const b = places[1];
        const c = places[2];
        const d = places[3];
        const x = order[2 * g];
        const y = order[2 * g + 1];
        add(a, v[b], v[b + 1]);
        add(a, words[x], words[x + 1]);
        turn(d, a, 32);
        add(c, v[d], v[d + 1]);
        turn(b, c, 24);
        add(a, v[b], v[b + 1]);
        add(a, words[y], words[y + 1]);
        turn(d, a, 16);
        add(c, v[d], v[d + 1]);
        turn(b, c, 63);
      }
    }
    for (let place = 0; place < 16; place++) this.#state[place] ^= v[place] ^ v[place + 16];
    this.#filled = 0;
  }
}
