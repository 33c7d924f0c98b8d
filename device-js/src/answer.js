// A report: a function of secret, plan, round and values, and of nothing else.

import { packBits, toBase64, WHOLE } from "./bytes.js";
import { clamped, Fraction, ZERO } from "./fraction.js";

/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./draws.js").Draws} Draws */

const DARTS = 48; // per bar of a split whose answers are remembered

/**
 * One value for each name that is recorded: clamped, then scaled down within each group, and among the parts of each
 * split, whose sum exceeds the limit.
 *
 * @param {Plan} plan @param {Map<string, Fraction>} values @returns {Map<string, Fraction | null>}
 */
function inRange(plan, values) {
  /** @type {Map<string, Fraction | null>} */
  const clean = new Map();
  for (const [name, { kind, absent, maxValue }] of plan.recorded) {
    const value = values.get(name);
    const nothing = absent && kind !== "split" ? null : ZERO;
    clean.set(name, value === undefined ? nothing : clamped(value, maxValue)[0]);
  }
  const splits = plan.metrics.filter(({ kind }) => kind === "split");
  const limits = splits.map(({ recorded, maxValue }) => ({ metrics: recorded, maxTotal: maxValue }));
  for (const { metrics, maxTotal } of [...plan.groups, ...limits]) {
    const total = metrics.reduce((sum, name) => sum.plus(clean.get(name) ?? ZERO), ZERO);
    if (!maxTotal.below(total)) continue;
    for (const name of metrics) clean.set(name, (clean.get(name) ?? ZERO).times(maxTotal).over(total));
  }
  return clean;
}

/**
 * The part that is in front at a moment, if the range were used up part by part; null: the rest of it.
 *
 * @param {Fraction[]} amounts @param {Fraction} limit @param {bigint} moment
 */
export function partAt(amounts, limit, moment) {
  let used = ZERO;
  for (const [part, amount] of amounts.entries()) {
    used = used.plus(amount);
    if (moment * limit.n * used.d < used.n * limit.d * WHOLE) return part;
  }
  return null;
}

/**
 * The bar that the first dart hits; null: the bar of the rest. All darts are looked at, whatever is hit.
 *
 * @param {Fraction[]} amounts @param {Fraction} limit @param {bigint[]} darts
 */
export function partHit(amounts, limit, darts) {
  const bars = [...amounts, amounts.reduce((left, amount) => left.minus(amount), limit)];
  const hits = darts.map((dart) => {
    const place = dart * BigInt(bars.length);
    const bar = Number(place / WHOLE);
    return (place % WHOLE) * limit.n * bars[bar].d < bars[bar].n * limit.d * WHOLE ? bar : -1;
  });
  const first = hits.find((bar) => bar >= 0) ?? amounts.length;
  return first < amounts.length ? first : null;
}

/**
 * The part of a split that is answered, as the value of a choice.
 *
 * @param {Draws} draws @param {Plan} plan @param {import("./plan.js").Metric} metric
 * @param {Map<string, Fraction | null>} clean
 */
function partOf(draws, plan, { name, digest, recorded, maxValue }, clean) {
  const amounts = recorded.map((/** @type {string} */ part) => clean.get(part) ?? ZERO);
  const part = plan.sampled
    ? partAt(amounts, maxValue, draws.words(name, digest, "moment", 0)[0])
    : partHit(amounts, maxValue, draws.words(name, digest, "darts", 0, DARTS * (amounts.length + 1)));
  return part === null ? null : new Fraction(BigInt(part));
}

/**
 * The report of a round as the bytes of its JSON, and the remembered answer that each metric used.
 *
 * Every metric that is asked is answered, also where `values` has nothing for it: silence would be an answer.
 * For sampled answers `draws` must be those of the round's window, and the round the one that is picked in it.
 *
 * @param {Draws} draws @param {Plan} plan @param {number} round @param {Map<string, Fraction>} values
 * @param {Record<string, unknown>} segment
 */
export function answer(draws, plan, round, values, segment) {
  const asked = draws.asked(plan);
  const cohort = draws.cohort();
  const clean = inRange(plan, values);
  /** @type {number[]} */
  const bits = [];
  /** @type {Map<string, number>} */
  const visited = new Map();
  plan.metrics.forEach((/** @type {import("./plan.js").Metric} */ metric, /** @type {number} */ place) => {
    const { name, digest, mechanism, flip } = metric;
    if (!asked[place]) {
      bits.push(...Array(mechanism.bits).fill(0));
      return;
    }
    const [alpha] = draws.words(name, digest, "alpha", 0);
    const value = metric.kind === "split" ? partOf(draws, plan, metric, clean) : clean.get(name) ?? null;
    const memoClass = mechanism.classOf(value, alpha, cohort);
    const memo = draws.words(name, digest, "memo", memoClass, mechanism.memoDraws);
    const base = draws.words(name, digest, "base", 0, mechanism.baseDraws);
    const flips = plan.sampled ? null : draws.words(name, digest, "flip", round, mechanism.bits);
    mechanism.answer(memoClass, cohort, memo, base).forEach((one, bit) => {
      bits.push(Number(one !== (flips !== null && flips[bit] < flip)));
    });
    visited.set(name, memoClass);
  });
  const body = JSON.stringify({
    plan: plan.name,
    version: plan.version,
    round,
    id: toBase64(draws.reportId(plan.version, round)),
    ...(plan.usesCohort ? { cohort } : {}),
    ...(plan.asked < plan.metrics.length ? { asked: toBase64(packBits(asked.map(Number))) } : {}),
    bits: toBase64(packBits(bits)),
    ...(plan.segments.length ? { segment: plan.tags(segment) } : {}),
  });
  return { body, bits: bits.join(""), asked, visited };
}
