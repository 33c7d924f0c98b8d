// A device in JavaScript: it answers saves.toml, and sends the bytes that reticent's own device would send. The steps
// are in docs/reference/wire.md, what must come out of each in tests/vectors/device.json.
//
//     reticent audit examples/saves.toml --client "node examples/device.mjs"

import { createHash, randomBytes } from "node:crypto";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { blake2b } from "./blake2b.mjs";

const WHOLE = 1n << 64n;
const PLAN = { name: "saves", version: 1, metric: "saves", grid: [0n, 10n, 20n], epsilon: [1n, 1n], flip: [1n, 5n] };

export function threshold([numerator, denominator]) { // ⌈2⁶⁴ / (e^ε + 1)⌉, with e^ε to 300 bits
  const one = 1n << 300n;
  let power = one, sum = one;
  for (let n = 1n; power; n++) sum += power = (power * numerator) / denominator / n;
  return (WHOLE * one) / (sum + one) + 1n;
}

const bytes = (number) => { const all = Buffer.alloc(8); all.writeBigUInt64BE(BigInt(number)); return all; };

export function draw(secret, { plan, metric, digest, epoch, purpose, index, block }) {
  const fields = ["reticent-1", plan, metric, digest, bytes(epoch), purpose, bytes(index), bytes(block)].map((x) => Buffer.from(x));
  const withLengths = fields.flatMap((field) => [bytes(field.length).subarray(4), field]);
  return blake2b(secret, Buffer.concat(withLengths));
}

export function cell(grid, [numerator, denominator], alpha) { // where a value in the range is rounded to
  const above = grid.findIndex((point) => numerator < point * denominator);
  if (above < 0) return grid.length - 1;
  const gap = grid[above] - grid[above - 1];
  return alpha * gap * denominator >= (grid[above] * denominator - numerator) * WHOLE ? above : above - 1;
}

export function report(secret, round, value, { name, version, metric, grid, epsilon, flip } = PLAN) {
  const low = threshold(epsilon), top = grid.at(-1);
  const shape = JSON.stringify(["one-bit-mean", `${low}`, grid.map(String)]);
  const own = { plan: name, metric, digest: createHash("sha256").update(shape).digest(), epoch: 0, block: 0 };
  const word = (purpose, index) => draw(secret, { ...own, purpose, index }).readBigUInt64BE();
  const point = cell(grid, value[0] < 0n ? [0n, 1n] : value, word("alpha", 0)); // clamped at both ends
  const remembered = word("memo", point) < low + (grid[point] * (WHOLE - 2n * low)) / top;
  const turned = word("flip", round) < (flip[0] * WHOLE + flip[1] - 1n) / flip[1];
  const id = draw(secret, { ...own, metric: "", digest: bytes(version), purpose: "id", index: round }).subarray(0, 16);
  const bits = Buffer.from([remembered !== turned ? 0x80 : 0]);
  return JSON.stringify({ plan: name, version, round, id: id.toString("base64url"), bits: bits.toString("base64url") });
}

const number = (value) => [...`${value}`.split("/"), 1].slice(0, 2).map(BigInt); // 3, or "10/7"

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const secrets = {}; // all that a device stores
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: what, device, round, values, to } = JSON.parse(line);
    if (what === "start") secrets[device] = randomBytes(32);
    if (what === "copy") secrets[to] = secrets[device];
    console.log(what === "answer" ? report(secrets[device], round, number(values.saves ?? 0)) : "true");
  }
}
