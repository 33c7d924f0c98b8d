// What a plan can tell of a device, computed upward from the integers that it is answered with.
//
// A draw is compared with integers, so every chance is a fraction of integers and every loss the logarithm of one.
// Figures are never below the truth: logarithms are computed with 200 bits and raised by more than their error.

import { WHOLE } from "./bytes.js";
import { Fraction, least, ZERO } from "./fraction.js";

/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./plan.js").Metric} Metric */

const BITS = 200n;
const ONE = 1n << BITS;
// Units of 2⁻²⁰⁰: each of some 300 steps loses less than one, times the exponent at most 2,000.
const SLACK = 1n << 16n;
const UNIT = new Fraction(1n);

/** 2·atanh(a / b) in units of 2⁻²⁰⁰, for 0 ≤ a/b ≤ 1/3. @param {bigint} a @param {bigint} b */
function twiceAtanh(a, b) {
  let power = (a << (BITS + 1n)) / b;
  let sum = 0n;
  for (let odd = 1n; power; odd += 2n) {
    sum += power / odd;
    power = (power * a * a) / (b * b);
  }
  return sum;
}

const LN2 = twiceAtanh(1n, 3n);

/** An upper bound of ln(ratio), within 2⁻¹⁸⁰, for a ratio of 1 or more. @param {Fraction} ratio */
export function ln({ n, d }) {
  let exponent = 0n;
  for (; n >= 2n * d; d *= 2n) exponent++;
  return new Fraction(twiceAtanh(n - d, n + d) + exponent * LN2 + SLACK, ONE);
}

/** @param {Fraction} one @param {Fraction} other */
const larger = (one, other) => (one.below(other) ? other : one);
/** @param {Fraction[]} terms */
const sum = (terms) => terms.reduce((total, term) => total.plus(term), ZERO);
/** @param {number} factor @param {Fraction} loss */
const times = (factor, loss) => loss.times(new Fraction(BigInt(factor)));

/** The sum of losses, rounded up to a double. @param {number[]} losses */
export const compose = (losses) =>
  losses.includes(Infinity) ? Infinity : sum(losses.map((loss) => Fraction.fromNumber(loss))).upward();

/**
 * A function of a plan or a metric whose results are kept: logarithms of 200 bits take milliseconds.
 *
 * @template {object} Of @param {(of: Of) => number} compute
 */
function kept(compute) {
  /** @type {WeakMap<Of, number>} */
  const results = new WeakMap();
  return (/** @type {Of} */ of) => {
    const result = results.get(of) ?? compute(of);
    results.set(of, result);
    return result;
  };
}

/**
 * How much likelier one answer bit can be from one truth than from another, after the flip.
 *
 * @param {Metric} metric @param {bigint} flip
 */
function bitRatio({ mechanism }, flip) {
  if ("inside" in mechanism) return new Fraction(mechanism.inside, mechanism.outside); // of a whole answer
  const { low } = mechanism;
  const high = WHOLE - low;
  return new Fraction(high * (WHOLE - flip) + low * flip, low * (WHOLE - flip) + high * flip);
}

/**
 * ε of a metric: what one remembered answer tells; the paper's variant is counted as it is printed.
 *
 * @param {Metric} metric
 */
export const epsilon = kept((/** @type {Metric} */ metric) => {
  const paper = "variant" in metric.mechanism && metric.mechanism.variant === "paper";
  return times(paper ? 2 : metric.mechanism.changedBits(1), ln(bitRatio(metric, 0n))).upward();
});

/** Between any two values, in one round. @param {Metric} metric */
export const lossOfRound = kept((/** @type {Metric} */ metric) => ofRound(metric, metric.flip).upward());

/** @param {Metric} metric @param {bigint} flip */
const ofRound = (metric, flip) => times(metric.mechanism.changedBits(1), ln(bitRatio(metric, flip)));

/**
 * Between two devices whose rounded values repeat in the same pattern with so many different ones, all rounds
 * together. For a mean it is the sum of the largest |ln P/(1-P)|: exact on even grids, a bound on others.
 *
 * @param {Metric} metric @param {number} width
 */
export function lossByWidth(metric, width) {
  const { mechanism } = metric;
  if (!("cells" in mechanism)) return times(mechanism.changedBits(width), ln(bitRatio(metric, 0n))).upward();
  const odds = mechanism.cells.map(
    (one) => (2n * one < WHOLE ? new Fraction(WHOLE - one, one) : new Fraction(one, WHOLE - one)),
  );
  odds.sort((one, other) => (other.below(one) ? -1 : 1));
  return sum(odds.slice(0, width).map(ln)).upward();
}

/** However long it goes on. @param {Metric} metric */
export const lifetimeLoss = kept(
  (/** @type {Metric} */ metric) => lossByWidth(metric, metric.mechanism.classes),
);

/**
 * What t means lose together in one round when their values add up to `limit` at most: section 4 of the maths,
 * with e^τ the fraction `ratio`. Exact for counters that are alike.
 *
 * @param {Fraction} ratio @param {number} counters @param {Fraction} share the limit as a multiple of the range
 */
function alike(ratio, counters, share) {
  const growth = ratio.minus(UNIT);
  const decay = growth.over(ratio);
  let worst = ZERO;
  for (let ones = 0; ones <= counters; ones++) {
    const heaped = least(share, new Fraction(BigInt(counters - ones)));
    const rest = UNIT.minus(heaped.minus(new Fraction(heaped.floor())).times(decay));
    let loss = times(Number(heaped.floor()), ln(ratio)).plus(ln(UNIT.over(rest)));
    if (ones) {
      const count = new Fraction(BigInt(ones));
      loss = loss.plus(times(ones, ln(UNIT.plus(least(share, count).over(count).times(growth)))));
    }
    worst = larger(worst, loss);
  }
  return worst;
}

/**
 * What the means of a group lose together in one round; counters that are not alike are counted as their sum.
 *
 * @param {Metric[]} members @param {Fraction} limit @param {boolean} flipped
 */
function jointLoss(members, limit, flipped) {
  const ratios = members.map((metric) => bitRatio(metric, flipped ? metric.flip : 0n));
  const kinds = new Set(members.map(({ maxValue }, place) => `${maxValue} ${ratios[place]}`));
  return kinds.size === 1
    ? alike(ratios[0], members.length, limit.over(members[0].maxValue))
    : sum(ratios.map(ln));
}

/**
 * What one report of a plan loses between any two values; where answers are sampled, between any two histories of its
 * window: the largest over all sets of so many metrics as it answers.
 *
 * @param {Plan} plan
 */
export const lossOfReport = kept((/** @type {Plan} */ plan) => {
  const flipOf = (/** @type {Metric} */ metric) => (plan.sampled ? 0n : metric.flip);
  const alone = plan.metrics.filter((/** @type {Metric} */ metric) => !metric.group);
  /** The largest loss of exactly so many metrics. @type {Fraction[]} */
  let best = sums(alone.map((/** @type {Metric} */ metric) => ofRound(metric, flipOf(metric))));
  for (const group of plan.groups) {
    const members = group.metrics.map((name) => /** @type {Metric} */ (plan.byName.get(name)));
    const whole = jointLoss(members, group.maxTotal, !plan.sampled);
    // A part of a group loses no more than the whole, and no more than the sum of its largest.
    const parts = sums(members.map((metric) => ofRound(metric, flipOf(metric)))).map(
      (loss) => least(loss, whole),
    );
    /** @type {Fraction[]} */
    const joined = [];
    best.forEach((loss, count) =>
      parts.forEach(
        (added, more) => (joined[count + more] = larger(joined[count + more] ?? ZERO, loss.plus(added))),
      ),
    );
    best = joined;
  }
  return best.slice(0, plan.asked + 1).reduce(larger).upward();
});

/** The sums of the largest 0, 1, 2, … of some losses. @param {Fraction[]} losses */
function sums(losses) {
  const totals = [ZERO];
  for (const loss of losses.sort((one, other) => (other.below(one) ? -1 : 1))) {
    totals.push(totals[totals.length - 1].plus(loss));
  }
  return totals;
}
