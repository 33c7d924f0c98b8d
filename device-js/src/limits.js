// Where a plan asks more than a policy allows.

import { compose, epsilon, lossOfReport } from "./losses.js";
import { YEAR } from "./policy.js";

/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./policy.js").Policy} Policy */
/**
 * @typedef {"maxEpsilon" | "maxWindow" | "maxLifetime" | "maxYear" | "shortestRound" | "shortestWindow" | "fewestRounds"
 *   | "leastFlip"} Limit
 */

const DAY = 86_400;

/**
 * What a plan asks beyond the limits of a policy.
 *
 * @param {Policy} policy @param {Plan} plan @param {number} lifetime what the state can tell for life with it
 * @param {number | null} roundsSinceChange where the plan asks for new answers, how long after the last
 */
export function problems(policy, plan, lifetime, roundsSinceChange = null) {
  /** @type {string[]} */
  const problems = [];
  /** @type {(what: string, value: number, limit: Limit) => void} */
  const atMost = (what, value, limit) => {
    const most = policy[limit];
    if (most !== null && value > most) problems.push(`${what} ${value}; the policy allows ${most} (${limit})`);
  };
  /** @type {(what: string, value: number, limit: Limit, fewest?: number | null) => void} */
  const atLeast = (what, value, limit, fewest = policy[limit]) => {
    if (fewest !== null && value < fewest) {
      problems.push(`${what} ${value}; the policy wants at least ${fewest} (${limit})`);
    }
  };
  const [loss, seconds] = [lossOfReport(plan), plan.roundSeconds];
  for (const metric of plan.metrics) {
    atMost(`metrics.${metric.name}.epsilon is`, epsilon(metric), "maxEpsilon");
    if (!plan.sampled) atLeast(`metrics.${metric.name}.flip is`, Number(metric.flip) / 2 ** 64, "leastFlip");
  }
  atLeast("plan.round in seconds is", seconds, "shortestRound");
  atMost(`one ${plan.sampled ? "window" : "round"} of the plan loses`, loss, "maxWindow");
  if (plan.sampled) {
    const length = plan.window * seconds;
    atLeast("answers.window in seconds is", length, "shortestWindow");
    // However a year begins, so many windows touch it.
    const touched = Math.ceil((YEAR - 1) / length) + 1;
    atMost(`the ${touched} windows in a year lose`, compose(Array(touched).fill(loss)), "maxYear");
  } else atMost("with this plan the state can lose for life", lifetime, "maxLifetime");
  if (roundsSinceChange !== null && policy.fewestRounds !== null) {
    const fewest = Math.min(policy.fewestRounds, (policy.fewestRounds * DAY) / seconds);
    atLeast("rounds since the last new remembered answers:", roundsSinceChange, "fewestRounds", fewest);
  }
  return problems;
}
