// BLAKE2b with a key and 64 bytes of output (RFC 7693), which WebCrypto does not have.

const START = new BigUint64Array([
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
]);
const ORDER = [
  "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
  "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
].map((row) => Uint8Array.from(row, (digit) => parseInt(digit, 16)));
const BLOCK = 128;
const v = new BigUint64Array(16); // 64 bits each: what is stored loses what is above
const words = new BigUint64Array(16);

/** v[to] ^= v[from], turned right by so many bits. @param {number} to @param {number} from @param {bigint} by */
function turn(to, from, by) {
  const word = v[to] ^ v[from];
  v[to] = (word >> by) | (word << (64n - by));
}

/** A hash that takes data piece by piece; `copy` lets many inputs share a beginning. */
export class Blake2b {
  #state = START.slice();
  #block = new Uint8Array(BLOCK);
  #filled = 0;
  #length = 0;

  /** @param {Uint8Array} key at most 64 bytes; none: a plain hash */
  constructor(key = new Uint8Array(0)) {
    this.#state[0] ^= BigInt(0x01010040 ^ (key.length << 8));
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
      if (this.#filled === BLOCK) this.#compress(0n); // only when more follows: the last block is special
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
    this.#compress(~0n);
    const output = new DataView(new ArrayBuffer(64));
    this.#state.forEach((word, place) => output.setBigUint64(8 * place, word, true));
    return new Uint8Array(output.buffer);
  }

  /** @param {bigint} last all bits set for the last block */
  #compress(last) {
    this.#length += this.#filled;
    const block = new DataView(this.#block.buffer);
    words.forEach((_, place) => (words[place] = block.getBigUint64(8 * place, true)));
    v.set(this.#state);
    v.set(START, 8);
    v[12] ^= BigInt(this.#length);
    v[14] ^= last;
    for (let round = 0; round < 12; round++) {
      const order = ORDER[round % 10];
      for (let step = 0; step < 8; step++) {
        // four columns, then four diagonals
        const [a, shift] = [step % 4, step >> 2];
        const b = 4 + ((a + shift) % 4);
        const c = 8 + ((a + 2 * shift) % 4);
        const d = 12 + ((a + 3 * shift) % 4);
        v[a] += v[b] + words[order[2 * step]];
        turn(d, a, 32n);
        v[c] += v[d];
        turn(b, c, 24n);
        v[a] += v[b] + words[order[2 * step + 1]];
        turn(d, a, 16n);
        v[c] += v[d];
        turn(b, c, 63n);
      }
    }
    this.#state.forEach((_, place) => (this.#state[place] ^= v[place] ^ v[place + 8]));
    this.#filled = 0;
  }
}
