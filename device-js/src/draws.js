// Where a device's randomness comes from: a keyed hash of its secret, so that nothing is ever drawn twice.
//
// spec/wire.md has the fields of each draw, and why each is there.

import { Blake2b } from "./blake2b.js";
import { utf8 } from "./bytes.js";

const NOTHING = new Uint8Array(0);

/** Eight bytes, big-endian. @param {number} number */
function eight(number) {
  const bytes = new DataView(new ArrayBuffer(8));
  bytes.setBigUint64(0, BigInt(number));
  return new Uint8Array(bytes.buffer);
}

/** Fields, each preceded by its length in four bytes. @param {Uint8Array[]} fields */
function encode(...fields) {
  const joined = new Uint8Array(fields.reduce((sum, field) => sum + 4 + field.length, 0));
  const view = new DataView(joined.buffer);
  let place = 0;
  for (const field of fields) {
    view.setUint32(place, field.length);
    joined.set(field, place + 4);
    place += 4 + field.length;
  }
  return joined;
}

/** The draws of one device, plan and epoch; for sampled answers those of one window, named by its start. */
export class Draws {
  #root;
  #epoch;

  /**
   * @param {Uint8Array} secret @param {string} plan @param {number} epoch
   * @param {number | null} window unix seconds
   */
  constructor(secret, plan, epoch, window = null) {
    if (secret.length !== 32) throw new RangeError("a secret has 32 bytes");
    const scheme = window === null
      ? [utf8("reticent-1"), utf8(plan)]
      : [utf8("reticent-1/sampled"), utf8(plan), eight(window)];
    this.#root = new Blake2b(secret).update(encode(...scheme));
    this.#epoch = eight(epoch);
  }

  /**
   * @param {string} metric @param {Uint8Array} digest @param {string} purpose @param {number} index
   * @param {number} block
   */
  block(metric, digest, purpose, index, block = 0) {
    const fields = encode(utf8(metric), digest, this.#epoch, utf8(purpose), eight(index), eight(block));
    return this.#root.copy().update(fields).digest();
  }

  /**
   * `count` draws of 64 bits.
   *
   * @param {string} metric @param {Uint8Array} digest @param {string} purpose @param {number} index
   * @param {number} count
   */
  words(metric, digest, purpose, index, count = 1) {
    const words = [];
    for (let block = 0; words.length < count; block++) {
      const bytes = new DataView(this.block(metric, digest, purpose, index, block).buffer);
      for (let place = 0; place < 64 && words.length < count; place += 8) words.push(bytes.getBigUint64(place));
    }
    return words;
  }

  /** The device's public byte. */
  cohort() {
    return Number(this.words("", NOTHING, "cohort", 0)[0] >> 56n);
  }

  /** @param {number} version @param {number} round */
  reportId(version, round) {
    return this.block("", eight(version), "id", round).subarray(0, 16);
  }

  /**
   * When the report of a round is sent: a share of the time there is, in units of 2⁻⁶⁴.
   *
   * @param {number} round
   */
  delay(round) {
    return this.words("", NOTHING, "delay", round)[0];
  }

  /** The round of its window that is answered. @param {import("./plan.js").Window} window */
  pickedRound(window) {
    return window.first + Number((this.words("", NOTHING, "round", 0)[0] * BigInt(window.rounds)) >> 64n);
  }

  /**
   * Which metrics are answered: those with the smallest draws, the earlier name of two that are equal.
   *
   * @param {import("./plan.js").Plan} plan @returns {boolean[]}
   */
  asked({ metrics, asked }) {
    if (asked === metrics.length) return metrics.map(() => true);
    const ranks = metrics.map(
      (/** @type {import("./plan.js").Metric} */ { name }) => ({ name, draw: this.words(name, NOTHING, "metrics", 0)[0] }),
    );
    const ordered = [...ranks].sort((one, other) =>
      one.draw < other.draw || (one.draw === other.draw && one.name < other.name) ? -1 : 1,
    );
    const chosen = new Set(ordered.slice(0, asked));
    return ranks.map((/** @type {{ name: string, draw: bigint }} */ rank) => chosen.has(rank));
  }
}
