// BLAKE2b with a key (RFC 7693), which Node's own crypto lacks: 64 bytes that nobody predicts without the key.
//
// A BigUint64Array wraps around by itself, as the additions of the RFC do.

const START = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];
const ORDER = [
  "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
  "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
].map((row) => [...row].map((digit) => parseInt(digit, 16)));
const COLUMNS = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]];
const DIAGONALS = [[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];
const BLOCK = 128;

const turned = (word, by) => (word >> by) | (word << (64n - by));

function mix(v, [a, b, c, d], x, y) {
  for (const [word, first, second] of [[x, 32n, 24n], [y, 16n, 63n]]) {
    v[a] += v[b] + word;
    v[d] = turned(v[d] ^ v[a], first);
    v[c] += v[d];
    v[b] = turned(v[b] ^ v[c], second);
  }
}

function compress(state, block, length, isLast) {
  const v = new BigUint64Array([...state, ...START]);
  v[12] ^= BigInt(length);
  if (isLast) v[14] = ~v[14];
  const words = Array.from({ length: 16 }, (_, place) => block.readBigUInt64LE(8 * place));
  for (let round = 0; round < 12; round++) {
    const order = ORDER[round % 10];
    [...COLUMNS, ...DIAGONALS].forEach((places, g) => mix(v, places, words[order[2 * g]], words[order[2 * g + 1]]));
  }
  for (let place = 0; place < 8; place++) state[place] ^= v[place] ^ v[place + 8];
}

export function blake2b(key, data) {
  const input = Buffer.concat([key, Buffer.alloc(BLOCK - key.length), data]);
  const state = new BigUint64Array(START);
  state[0] ^= 0x01010040n ^ BigInt(key.length << 8); // 64 bytes of output, this long a key, no tree
  for (let start = 0; start < input.length; start += BLOCK) {
    const block = Buffer.alloc(BLOCK);
    input.copy(block, 0, start);
    const length = Math.min(start + BLOCK, input.length);
    compress(state, block, length, length === input.length);
  }
  const output = Buffer.alloc(64);
  state.forEach((word, place) => output.writeBigUInt64LE(word, 8 * place));
  return output;
}
