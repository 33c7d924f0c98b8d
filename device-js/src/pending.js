// Changes of totals that are not in the state yet. There is one per round and metric, however many calls there were.

import { largest, plusUpTo, ZERO } from "./fraction.js";

/** @typedef {import("./data.js").Change} Change */
/** @typedef {import("./fraction.js").Fraction} Fraction */
/** @typedef {{ round: number, metric: string, change: Change }} Recorded */

export class Pending {
  /** @type {Map<string, Recorded>} */
  #changes = new Map();

  /** Remember a change, after those before. @param {Recorded} later */
  put(later) {
    const place = `${later.round} ${later.metric}`;
    const before = this.#changes.get(place);
    this.#changes.set(place, before ? { ...later, change: merged(before.change, later.change) } : later);
  }

  /** All changes; they are the caller's now, to write or to put back. */
  take() {
    const taken = [...this.#changes.values()];
    this.#changes.clear();
    return taken;
  }

  /** They could not be written; what came in meanwhile is later. @param {Recorded[]} taken */
  putBack(taken) {
    const meanwhile = this.take();
    for (const recorded of [...taken, ...meanwhile]) this.put(recorded);
  }
}

/** A total after a change. @param {Fraction | null} total @param {Change} change */
export function changed(total, { how, amount, most, floor }) {
  if (how === "keep") return total ?? amount;
  return how === "set" ? amount : largest(plusUpTo(total ?? ZERO, amount, most), floor);
}

/** Two changes as one. @param {Change} first @param {Change} later @returns {Change} */
function merged(first, later) {
  if (later.how === "set") return later;
  if (later.how === "keep") return first;
  if (first.how !== "add") return { ...first, amount: changed(first.amount, later) };
  return { ...later, amount: plusUpTo(first.amount, later.amount, later.most), floor: changed(first.floor, later) };
}
