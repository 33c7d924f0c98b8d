// From a value to a remembered answer: which class it is in, and what each bit's draw is compared with.

import { WHOLE } from "./bytes.js";

/** @typedef {import("./fraction.js").Fraction} Fraction */
/** @typedef {Fraction | null} Value a value in range; null: none was taken */

/** How many of the sorted points are not above a value. @param {Fraction[]} points @param {Fraction} value */
const placeAmong = (points, value) => {
  const above = points.findIndex((point) => value.below(point));
  return above < 0 ? points.length : above;
};

/**
 * Bits that are drawn one by one: each is 1 when its draw is below the threshold of the class.
 *
 * @param {{ thresholds: (memoClass: number, cohort: number) => bigint[] }} mechanism
 * @param {number} memoClass @param {number} cohort @param {bigint[]} memo
 */
const coins = (mechanism, memoClass, cohort, memo) =>
  mechanism.thresholds(memoClass, cohort).map((threshold, bit) => memo[bit] < threshold);

/** One bit about a mean: a class is a point of the grid. */
export class OneBitMean {
  usesCohort = false;
  bits = 1;
  memoDraws = 1;
  baseDraws = 0;

  /** @param {bigint} low @param {Fraction[]} points */
  constructor(low, points) {
    this.low = low;
    this.points = points;
    this.classes = points.length;
    const top = points[points.length - 1];
    const spread = WHOLE - 2n * low;
    this.cells = points.map((point) => low + (point.n * spread * top.d) / (point.d * top.n));
  }

  get parameters() {
    return ["one-bit-mean", `${this.low}`, this.points.map(String)];
  }

  /** @param {Value} value @param {bigint} alpha */
  classOf(value, alpha) {
    if (value === null) return 0;
    const above = placeAmong(this.points, value);
    if (above === this.points.length) return above - 1;
    const [left, right] = [this.points[above - 1], this.points[above]];
    const [gap, missing] = [right.minus(left), right.minus(value)];
    return alpha * gap.n * missing.d >= missing.n * gap.d * WHOLE ? above : above - 1;
  }

  /** @param {number} memoClass */
  thresholds(memoClass) {
    return [this.cells[memoClass]];
  }

  /** The answer bits before flips. @param {number} memoClass @param {number} cohort @param {bigint[]} memo */
  answer(memoClass, cohort, memo) {
    return coins(this, memoClass, cohort, memo);
  }

  /** How many remembered bits can differ in law between two devices of one pattern. @param {number} width */
  changedBits(width) {
    return width;
  }
}

/** What histograms share: edges, and perhaps one more bucket for devices that have no value. */
class Histogram {
  baseDraws = 0;

  /** @param {bigint} low @param {Fraction[]} edges @param {boolean} absent */
  constructor(low, edges, absent) {
    this.low = low;
    this.points = edges;
    this.absent = absent;
    this.buckets = edges.length - 1 + Number(absent);
  }

  /** @param {Value} value */
  bucketOf(value) {
    const last = this.points.length - 1;
    if (value === null) return this.absent ? last : 0;
    return Math.min(placeAmong(this.points, value), last) - 1;
  }
}

/** One bit about the side of a public line that a bucket falls on; the cohort names the line. */
export class HadamardBit extends Histogram {
  usesCohort = true;
  bits = 1;
  memoDraws = 1;
  classes = 2;

  get parameters() {
    return ["hadamard-bit", `${this.low}`, this.points.map(String)];
  }

  /** @param {Value} value @param {bigint} _alpha @param {number} cohort */
  classOf(value, _alpha, cohort) {
    const size = 2 ** (32 - Math.clz32(this.buckets));
    let common = (cohort % size) & (this.bucketOf(value) + 1);
    let parity = 0;
    for (; common; common >>= 1) parity ^= common & 1;
    return parity;
  }

  /** @param {number} memoClass */
  thresholds(memoClass) {
    return [memoClass ? this.low : WHOLE - this.low];
  }

  /** @param {number} memoClass @param {number} cohort @param {bigint[]} memo */
  answer(memoClass, cohort, memo) {
    return coins(this, memoClass, cohort, memo);
  }

  /** @param {number} width */
  changedBits(width) {
    return width;
  }
}

/** d bits, one for each of d buckets; the cohort says which. */
export class DBitFlip extends Histogram {
  /**
   * @param {bigint} low @param {Fraction[]} edges @param {boolean} absent @param {number} bits
   * @param {"tight" | "paper"} variant @param {string} label
   * @param {number[]} order the buckets, shuffled in public
   */
  constructor(low, edges, absent, bits, variant, label, order) {
    super(low, edges, absent);
    this.bits = bits;
    this.memoDraws = bits;
    this.variant = variant;
    this.label = label;
    this.order = order;
    this.usesCohort = bits < this.buckets;
    this.remembersBuckets = variant === "paper" || !this.usesCohort;
    this.classes = this.remembersBuckets ? this.buckets : bits + 1;
  }

  get parameters() {
    return ["d-bit-flip", this.variant, `${this.low}`, this.points.map(String), this.bits, this.label];
  }

  /** The buckets that a device of this cohort answers about. @param {number} cohort */
  window(cohort) {
    if (!this.usesCohort) return Array.from({ length: this.buckets }, (_, bucket) => bucket);
    const start = Math.floor((cohort * this.buckets) / 256);
    return Array.from({ length: this.bits }, (_, place) => this.order[(start + place) % this.buckets]);
  }

  /** @param {Value} value @param {bigint} _alpha @param {number} cohort */
  classOf(value, _alpha, cohort) {
    const bucket = this.bucketOf(value);
    if (this.remembersBuckets) return bucket;
    const place = this.window(cohort).indexOf(bucket);
    return place < 0 ? this.bits : place;
  }

  /** @param {number} memoClass @param {number} cohort */
  thresholds(memoClass, cohort) {
    const own = this.remembersBuckets ? this.window(cohort).indexOf(memoClass) : memoClass;
    return Array.from({ length: this.bits }, (_, place) => (place === own ? WHOLE - this.low : this.low));
  }

  /** @param {number} memoClass @param {number} cohort @param {bigint[]} memo */
  answer(memoClass, cohort, memo) {
    return coins(this, memoClass, cohort, memo);
  }

  /** @param {number} width */
  changedBits(width) {
    return this.bits >= 2 ? 2 * Math.min(width, this.bits) : Math.min(width, 2);
  }
}

/** A set of so many buckets, shifted so that it is likelier to hold the value's own; for sampled answers alone. */
export class SubsetSelection extends Histogram {
  usesCohort = false;
  memoDraws = 1;

  /**
   * @param {Fraction[]} edges @param {boolean} absent @param {number} size
   * @param {bigint} inside the weight of each bucket of the base set @param {bigint} outside that of each other one
   */
  constructor(edges, absent, size, inside, outside) {
    super(0n, edges, absent);
    this.bits = this.classes = this.baseDraws = this.buckets;
    this.size = size;
    this.inside = inside;
    this.outside = outside;
    /** What the weights leave of all draws. */
    this.rest = WHOLE - BigInt(size) * inside - BigInt(this.buckets - size) * outside;
  }

  get parameters() {
    return ["subset", `${this.inside}`, `${this.outside}`, this.points.map(String), this.size];
  }

  /** @param {Value} value */
  classOf(value) {
    return this.bucketOf(value);
  }

  /** @param {number} memoClass @param {number} _cohort @param {bigint[]} memo @param {bigint[]} base */
  answer(memoClass, _cohort, [draw], base) {
    const order = base.map((_, bucket) => bucket);
    order.sort((one, other) => (base[one] < base[other] || (base[one] === base[other] && one < other) ? -1 : 1));
    const rising = (/** @type {number} */ one, /** @type {number} */ other) => one - other;
    const members = order.slice(0, this.size).sort(rising);
    const others = order.slice(this.size).sort(rising);
    const middle = BigInt(this.size) * this.inside;
    let shift = 0;
    if (draw < middle) shift = memoClass - members[Number(draw / this.inside)];
    else if (draw < WHOLE - this.rest) shift = memoClass - others[Number((draw - middle) / this.outside)];
    const answered = new Set(members.map((member) => (member + shift + this.buckets) % this.buckets));
    return base.map((_, bucket) => answered.has(bucket));
  }

  /** An answer counts as one bit. @param {number} width */
  changedBits(width) {
    return width;
  }
}
