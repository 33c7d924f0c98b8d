// A report: a function of secret, plan, round and values, and of nothing else.

import { packBits, toBase64 } from "./bytes.js";
import { clamped, ZERO } from "./fraction.js";

/** @typedef {import("./fraction.js").Fraction} Fraction */
/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./draws.js").Draws} Draws */

/**
 * One value for each metric: clamped, then scaled down within each group whose sum exceeds its limit.
 *
 * @param {Plan} plan @param {Map<string, Fraction>} values @returns {Map<string, Fraction | null>}
 */
function inRange(plan, values) {
  /** @type {Map<string, Fraction | null>} */
  const clean = new Map();
  for (const { name, absent, maxValue } of plan.metrics) {
    const value = values.get(name);
    clean.set(name, value === undefined ? (absent ? null : ZERO) : clamped(value, maxValue)[0]);
  }
  for (const { metrics, maxTotal } of plan.groups) {
    const total = metrics.reduce((sum, name) => sum.plus(clean.get(name) ?? ZERO), ZERO);
    if (!maxTotal.below(total)) continue;
    for (const name of metrics) clean.set(name, (clean.get(name) ?? ZERO).times(maxTotal).over(total));
  }
  return clean;
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
    const memoClass = mechanism.classOf(clean.get(name) ?? null, alpha, cohort);
    const memo = draws.words(name, digest, "memo", memoClass, mechanism.bits);
    const flips = plan.sampled ? null : draws.words(name, digest, "flip", round, mechanism.bits);
    mechanism.thresholds(memoClass, cohort).forEach((threshold, bit) => {
      bits.push(Number(memo[bit] < threshold !== (flips !== null && flips[bit] < flip)));
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
