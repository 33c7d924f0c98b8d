// What a person agreed to: their choice holds for the questions it was given for.

import { toHex } from "./bytes.js";
import { lifetimeLoss, lossOfReport, lossOfRound } from "./losses.js";

/** @typedef {import("./data.js").Costs} Costs */
/** @typedef {import("./plan.js").Metric} Metric */
/** @typedef {import("./plan.js").Plan} Plan */

/** What a plan costs a device, question by question. @param {Plan} plan @returns {Costs} */
export function costsOf(plan) {
  const metrics = plan.metrics.map((/** @type {Metric} */ metric) => [
    metric.name,
    { digest: toHex(metric.digest), round: lossOfRound(metric), lifetime: lifetimeLoss(metric) },
  ]);
  const answers = plan.sampled ? `sampled, ${plan.window} rounds` : "remembered";
  return { answers, report: lossOfReport(plan), metrics: Object.fromEntries(metrics) };
}

/**
 * Whether a plan asks more than what the person agreed to: a question more, new answers to an old one, a
 * higher loss.
 *
 * @param {Costs} agreed @param {Plan} plan
 */
export function costMore(agreed, plan) {
  const costs = costsOf(plan);
  return (
    costs.answers !== agreed.answers ||
    costs.report > agreed.report ||
    Object.entries(costs.metrics).some(([name, { digest, round, lifetime }]) => {
      const before = agreed.metrics[name];
      return !before || before.digest !== digest || round > before.round || lifetime > before.lifetime;
    })
  );
}
