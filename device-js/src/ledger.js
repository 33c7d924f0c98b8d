// The ledger: which remembered answers a device holds, which it used, and what that may have told.
//
// There is an entry for each metric from the moment that its plan is held, before anything is answered. What it can
// tell at most, a figure of the plan, is what the policy limits. What it has told so far depends on the values; it
// stays on the device, and nothing that shows outside is decided by it.

import { fromHex, toHex } from "./bytes.js";
import { Draws } from "./draws.js";
import { compose, lifetimeLoss, lossByWidth } from "./losses.js";

/** @typedef {import("./data.js").Data} Data */
/** @typedef {import("./plan.js").Metric} Metric */
/** @typedef {import("./plan.js").Plan} Plan */

/** @param {Data} data @param {Metric[]} metrics @returns {Map<string, Metric>} */
const keyed = ({ epoch }, metrics) =>
  new Map(metrics.map((metric) => [`${metric.name} ${toHex(metric.digest)} ${epoch}`, metric]));

/**
 * What is remembered under a plan in this epoch, by key: of the metrics that the secret picks, or may pick while there
 * is none. Sampled answers are counted by windows.
 *
 * @param {Data} data @param {Plan} plan @returns {Map<string, Metric>}
 */
function remembered(data, plan) {
  if (plan.sampled) return new Map();
  if (!plan.isDivided || !data.secret) return keyed(data, plan.metrics);
  const asked = new Draws(fromHex(data.secret), plan.name, data.epoch).asked(plan);
  return keyed(data, plan.metrics.filter((/** @type {Metric} */ _, /** @type {number} */ place) => asked[place]));
}

/** @param {Data} data */
const entries = ({ ledger }) => new Map(
  ledger.map((entry) => [`${entry.metric} ${entry.digest} ${entry.epoch}`, entry]),
);

/** Whether everything that a plan asks for is entered. @param {Data} data @param {Plan} plan */
export function isHeld(data, plan) {
  const held = entries(data);
  return [...remembered(data, plan).keys()].every((key) => held.has(key));
}

/**
 * Whether a plan asks for remembered answers that no version held so far has asked for.
 *
 * @param {Data} data @param {Plan} plan
 */
export function asksAnew(data, plan) {
  const known = new Set(data.ledger.map(({ metric, digest }) => `${metric} ${digest}`));
  return [...remembered(data, plan).values()].some(({ name, digest }) => !known.has(`${name} ${toHex(digest)}`));
}

/** Enter the remembered answers that a plan may ask for from now on. @param {Data} data @param {Plan} plan */
export function hold(data, plan) {
  const held = entries(data);
  for (const [key, metric] of remembered(data, plan)) {
    if (held.has(key)) continue;
    data.ledger.push({
      metric: metric.name,
      digest: toHex(metric.digest),
      epoch: data.epoch,
      classes: [],
      loss: 0,
      lifetime: lifetimeLoss(metric),
    });
  }
}

/**
 * Enter the remembered answers that a report used.
 *
 * @param {Data} data @param {Plan} plan @param {Map<string, number>} visited
 */
export function visit(data, plan, visited) {
  const held = entries(data);
  for (const [key, metric] of remembered(data, plan)) {
    const entry = held.get(key);
    const used = visited.get(metric.name);
    if (!entry || used === undefined) throw new Error("an answer that is not counted");
    if (entry.classes.includes(used)) continue;
    entry.classes.push(used);
    entry.loss = lossByWidth(metric, entry.classes.length);
  }
}

/**
 * What all remembered answers held can tell at most, with those of a plan and what a lost state may have told; sampled
 * answers have a limit for a year instead.
 *
 * A plan that asks for some of its metrics counts as the set that costs most, or as what this device holds of its
 * metrics, whichever is more: the set is a matter of the secret, never of values.
 *
 * @param {Data} data @param {Plan} plan
 */
export function lifetime(data, plan) {
  const held = entries(data);
  const ofPlan = keyed(data, plan.sampled ? [] : plan.metrics);
  const others = [...held].filter(([key]) => !ofPlan.has(key)).map(([, entry]) => entry.lifetime);
  const asked = remembered(data, plan);
  const mine = [...ofPlan]
    .filter(([key]) => held.has(key) || (data.secret && asked.has(key)))
    .map(([key, metric]) => held.get(key)?.lifetime ?? lifetimeLoss(metric));
  const losses = [...ofPlan.values()].map(lifetimeLoss).sort((one, other) => other - one);
  const dearest = compose(losses.slice(0, plan.asked));
  return compose([data.lost?.lifetime ?? 0, ...others, Math.max(dearest, compose(mine))]);
}
