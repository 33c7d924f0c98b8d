// What a plan can tell of a device, computed upward from the integers that it is answered with.
//
// A draw is compared with integers, so every chance is a fraction of integers and every loss the logarithm of one.
// Figures are never below the truth: logarithms are computed with 200 bits and raised by more than their error.

import { WHOLE } from "./draws.js";
import { Fraction, least, ZERO } from "./fraction.js";

/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./plan.js").Metric} Metric */

const BITS = 200n;
const ONE = 1n << BITS;
const SLACK = 1n << 16n; // units of 2⁻²⁰⁰: each of some 300 steps loses less than one, times the exponent at most 2,000
const UNIT = new Fraction(1n);
const MOST_SUBSETS = 8; // members of a group of unlike counters for which every subset is looked at

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

/** How much likelier one answer bit can be from one truth than from another, after the flip. @param {Metric} metric @param {bigint} flip */
function bitRatio({ mechanism: { low } }, flip) {
  const high = WHOLE - low;
  return new Fraction(high * (WHOLE - flip) + low * flip, low * (WHOLE - flip) + high * flip);
}

/** ε of a metric: what one remembered answer tells; the paper's variant is counted as it is printed. @param {Metric} metric */
export function epsilon(metric) {
  const paper = "variant" in metric.mechanism && metric.mechanism.variant === "paper";
  return times(paper ? 2 : metric.mechanism.changedBits(1), ln(bitRatio(metric, 0n))).upward();
}

/** Between any two values, in one round. @param {Metric} metric */
export const lossOfRound = (metric) => ofRound(metric, metric.flip).upward();

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
  const odds = mechanism.cells.map((one) => (2n * one < WHOLE ? new Fraction(WHOLE - one, one) : new Fraction(one, WHOLE - one)));
  odds.sort((one, other) => (other.below(one) ? -1 : 1));
  return sum(odds.slice(0, width).map(ln)).upward();
}

/** However long it goes on. @param {Metric} metric */
export const lifetimeLoss = (metric) => lossByWidth(metric, metric.mechanism.classes);

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
 * The bound for counters that are not alike, at one price for both limits; any price gives a bound.
 *
 * @param {{ ratio: Fraction, top: Fraction }[]} counters @param {Fraction} limit @param {Fraction} one @param {Fraction} zero
 */
function priced(counters, limit, one, zero) {
  const gains = counters.map(({ ratio, top }) => {
    const slope = ratio.minus(UNIT).over(top);
    const most = least(top, limit);
    let value = most;
    if (one.n) {
      const best = UNIT.over(one).minus(UNIT.over(slope));
      value = best.n < 0n ? ZERO : least(best, most);
    }
    const ofOne = ln(UNIT.plus(slope.times(value))).minus(one.times(value));
    const share = most.over(top).times(UNIT.minus(UNIT.over(ratio)));
    const ofZero = larger(ZERO, ln(UNIT.over(UNIT.minus(share))).minus(zero.times(most)));
    return larger(ofOne, ofZero);
  });
  return one.plus(zero).times(limit).plus(sum(gains));
}

/** What the means of a group lose together in one round. @param {Metric[]} members @param {Fraction} limit @param {boolean} flipped */
function jointLoss(members, limit, flipped) {
  const counters = members.map((metric) => ({ ratio: bitRatio(metric, flipped ? metric.flip : 0n), top: metric.maxValue }));
  const [first] = counters;
  const same = counters.every(({ ratio, top }) => `${ratio} ${top}` === `${first.ratio} ${first.top}`);
  if (same) return alike(first.ratio, counters.length, limit.over(first.top));
  // Prices in floating point: a better one gives a smaller bound, and none gives a wrong one.
  const size = limit.upward();
  const sketch = counters.map(({ ratio, top }) => {
    const [range, growth] = [top.upward(), ratio.upward() - 1];
    const most = Math.min(range, size);
    return { slope: growth / range, most, ofZero: -Math.log1p((-most / range) * (growth / (growth + 1))) };
  });
  const rough = (/** @type {number} */ one, /** @type {number} */ zero) =>
    sketch.reduce((total, { slope, most, ofZero }) => {
      const value = one > 0 ? Math.min(Math.max(1 / one - 1 / slope, 0), most) : most;
      return total + Math.max(Math.log1p(slope * value) - one * value, ofZero - zero * most, 0);
    }, (one + zero) * size);
  const highest = Math.max(...sketch.map(({ slope }) => slope));
  const bestZero = (/** @type {number} */ one) => lowest((zero) => rough(one, zero), highest);
  const one = lowest((price) => rough(price, bestZero(price)), highest);
  const found = priced(counters, limit, Fraction.fromNumber(one), Fraction.fromNumber(bestZero(one)));
  return least(found, sum(counters.map(({ ratio }) => ln(ratio))));
}

/** Where a convex function on [0, highest] is least, by golden section. @param {(at: number) => number} of @param {number} highest */
function lowest(of, highest) {
  const ratio = (Math.sqrt(5) - 1) / 2;
  let [left, right] = [0, highest];
  for (let step = 0; step < 48; step++) {
    const [inner, outer] = [right - ratio * (right - left), left + ratio * (right - left)];
    if (of(inner) <= of(outer)) right = outer;
    else left = inner;
  }
  return (left + right) / 2;
}

/**
 * What one report of a plan loses between any two values; where answers are sampled, between any two histories of
 * its window: the largest over all sets of so many metrics as it answers.
 *
 * @param {Plan} plan
 */
export function lossOfReport(plan) {
  const alone = plan.metrics.filter((/** @type {Metric} */ metric) => !metric.group);
  const singles = alone.map((/** @type {Metric} */ metric) => ofRound(metric, plan.sampled ? 0n : metric.flip));
  singles.sort((/** @type {Fraction} */ one, /** @type {Fraction} */ other) => (other.below(one) ? -1 : 1));
  /** The largest loss of exactly so many metrics. @type {Fraction[]} */
  let best = [ZERO];
  for (const single of singles) best.push(best[best.length - 1].plus(single));
  for (const group of plan.groups) {
    const members = group.metrics.map((name) => /** @type {Metric} */ (plan.byName.get(name)));
    /** @type {Fraction[]} */
    const joined = [];
    for (let size = plan.sampled ? 0 : members.length; size <= members.length; size++) {
      const added = ofSome(members, size, group.maxTotal, !plan.sampled);
      best.forEach((loss, before) => (joined[before + size] = larger(joined[before + size] ?? ZERO, loss.plus(added))));
    }
    best = joined;
  }
  return best.slice(0, plan.asked + 1).reduce(larger).upward();
}

/** The largest loss of so many members of a group. @param {Metric[]} members @param {number} size @param {Fraction} limit @param {boolean} flipped */
function ofSome(members, size, limit, flipped) {
  if (size === 0) return ZERO;
  const kinds = new Set(members.map((metric) => `${metric.maxValue} ${metric.mechanism.low} ${flipped && metric.flip}`));
  if (kinds.size === 1) return jointLoss(members.slice(0, size), limit, flipped);
  if (members.length <= MOST_SUBSETS) return subsets(members, size).map((some) => jointLoss(some, limit, flipped)).reduce(larger);
  // A part loses no more than the whole group, and no more than the sum of the largest.
  const singles = members.map((metric) => ofRound(metric, flipped ? metric.flip : 0n)).sort((one, other) => (other.below(one) ? -1 : 1));
  return least(sum(singles.slice(0, size)), jointLoss(members, limit, flipped));
}

/** @template One @param {One[]} all @param {number} size @returns {One[][]} */
function subsets(all, size) {
  if (size === 0) return [[]];
  return all.flatMap((one, place) => subsets(all.slice(place + 1), size - 1).map((rest) => [one, ...rest]));
}
