// The ledger: which remembered answers a device holds, which it used, and what that may have told.
//
// There is an entry for each metric from the moment that its plan is held, before anything is answered. What it can
// tell at most, a figure of the plan, is what the policy limits. What it has told so far depends on the values; it
// stays on the device, and nothing that shows outside is decided by it.

import { toHex } from "./bytes.js";
import { compose, lifetimeLoss, lossByWidth } from "./losses.js";

/** @typedef {import("./data.js").Data} Data */
/** @typedef {import("./plan.js").Metric} Metric */
/** @typedef {import("./plan.js").Plan} Plan */

/**
 * What is remembered under a plan in this epoch, by key; sampled answers are counted by windows.
 *
 * @param {Data} data @param {Plan} plan @returns {Map<string, Metric>}
 */
function remembered({ epoch }, plan) {
  const metrics = plan.sampled ? [] : plan.metrics;
  return new Map(
    metrics.map((/** @type {Metric} */ metric) => [`${metric.name} ${toHex(metric.digest)} ${epoch}`, metric]),
  );
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
export function asksAnew({ ledger }, plan) {
  const known = new Set(ledger.map(({ metric, digest }) => `${metric} ${digest}`));
  return !plan.sampled && plan.metrics.some(
    (/** @type {Metric} */ { name, digest }) => !known.has(`${name} ${toHex(digest)}`),
  );
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
 * @param {Data} data @param {Plan} plan
 */
export function lifetime(data, plan) {
  const held = entries(data);
  const more = [...remembered(data, plan)].filter(([key]) => !held.has(key));
  return compose([
    data.lost?.lifetime ?? 0,
    ...data.ledger.map((entry) => entry.lifetime),
    ...more.map(([, metric]) => lifetimeLoss(metric)),
  ]);
}
