// The versions of a plan that a device holds: which it takes up, what speaks against one, and what people agreed to.

import { toHex } from "./bytes.js";
import { asksAnew, hold, isHeld, lifetime } from "./ledger.js";
import { lifetimeLoss, lossOfReport, lossOfRound } from "./losses.js";
import { Plan } from "./plan.js";

/** @typedef {import("./data.js").Costs} Costs */
/** @typedef {import("./data.js").HeldPlan} HeldPlan */
/** @typedef {import("./engine.js").Engine} Engine */
/** @typedef {import("./plan.js").Metric} Metric */
/**
 * @typedef {{ answers: boolean, refused: string[], asksMore?: boolean }} Verdict whether a plan is held that the policy
 * allows, why one was not taken up, and whether what would be answered is more than the person agreed to
 */

/** Plans by fingerprint; those in the data were checked before they came there. @type {Map<string, Plan>} */
const parsed = new Map();

/** @param {Plan} plan */
export const remember = (plan) => void parsed.set(plan.fingerprint, plan);

/** The plan of a version; null when it is not kept any more. @param {HeldPlan} held */
export function planOf({ fingerprint, table }) {
  if (table && !parsed.has(fingerprint)) parsed.set(fingerprint, new Plan(table));
  return table ? parsed.get(fingerprint) ?? null : null;
}

export const newSecret = () => toHex(crypto.getRandomValues(new Uint8Array(32)));

/**
 * Hold the plan from the next round on, unless something speaks against it; then the version held goes on.
 *
 * @param {Engine} engine @returns {Verdict}
 */
export function consider(engine) {
  const { data, setting: { plan } } = engine;
  enrol(engine);
  const newest = data.plans.at(-1);
  /** @type {string[]} */
  let problems = [];
  /** @type {HeldPlan | null} */
  let next = null;
  if (!newest || plan.version > newest.version) [next, problems] = successor(engine, newest);
  else if (plan.version < newest.version) problems = [
    `version ${plan.version} is older than version ${newest.version}, which this device holds`,
  ];
  else if (plan.fingerprint !== newest.fingerprint) problems = [
    `version ${plan.version} asks something else than the version ${plan.version} that this device holds; ` +
      "a change needs a new version",
  ];
  // A refused plan changes nothing, consent included: the version held goes on, also after a yes to the refused one.
  const held = newest && planOf(newest);
  const answered = problems.length ? (held && !isHeld(data, held) ? held : null) : plan;
  if (answered && exceedsConsent(engine, answered)) return { answers: false, refused: problems, asksMore: true };
  if (next) {
    if (asksAnew(data, plan)) data.changedIn = next.fromRound;
    data.enrolledFrom ??= next.fromRound;
    data.plans.push(next);
  } else if (newest && !problems.length) newest.table = plan.table; // better words are no new plan
  const last = data.plans.at(-1);
  const beyond = last ? goOn(engine, last) : [];
  return { answers: last !== undefined && !beyond.length, refused: [...new Set([...problems, ...beyond])] };
}

/** The first time, and after everything was wiped: a secret. @param {Engine} engine */
function enrol({ data, setting: { plan }, current }) {
  if (data.secret) return;
  data.plan = plan.name;
  data.roundSeconds = plan.roundSeconds;
  data.secret = newSecret();
  // No earlier round is ever answered: a pause that lasts began with the first, however rounds were numbered then.
  data.pauses = data.pauses.filter(({ through }) => through === null).map((pause) => ({ ...pause, from: 0 }));
  if (!data.epochs.length) data.epochs.push({ epoch: data.epoch, beganIn: current, reason: "enrolled" });
}

/**
 * Whether a plan asks for more than what the person's choice was made for.
 *
 * @param {Engine} engine @param {Plan} plan
 */
function exceedsConsent({ data: { choice, epoch }, setting: { askAgain } }, plan) {
  const isYes = choice?.said === "granted" || choice?.said === "local";
  return isYes && askAgain && (choice.epoch !== epoch || costMore(choice.costs, plan));
}

/**
 * A version that was not held before, from when it can be; or what speaks against it.
 *
 * @param {Engine} engine @param {HeldPlan | undefined} newest @returns {[HeldPlan | null, string[]]}
 */
function successor(engine, newest) {
  const { data, setting: { plan, policy } } = engine;
  const reportLoss = lossOfReport(plan);
  let first = engine.current + 1;
  if (newest && (newest.window || plan.window)) {
    // Another way of answering waits for the end of the window: windows never overlap.
    first = Math.max(first, newest.fromRound);
    if (newest.window !== plan.window) first = Math.max(first, Math.ceil(engine.freeFrom / data.roundSeconds));
  }
  const since = asksAnew(data, plan) && data.changedIn !== null ? first - data.changedIn : null;
  const problems = policy.problems(
    plan,
    reportLoss,
    lifetime(data, plan, plan.sampled ? reportLoss : 0),
    since,
  );
  if (problems.length) return [null, problems];
  const { version, fingerprint, window, table } = plan;
  /** @type {[string, number][]} */
  const layout = plan.metrics.map((/** @type {Metric} */ metric) => [metric.name, metric.mechanism.bits]);
  return [{ version, fingerprint, fromRound: first, window, reportLoss, layout, table }, []];
}

/**
 * Answer the version held in this epoch; returns what speaks against it: a limit may be lower now.
 *
 * @param {Engine} engine @param {HeldPlan} held
 */
function goOn(engine, held) {
  const plan = planOf(held);
  if (!plan) return [`version ${held.version}, which this device holds, cannot be read any more`];
  const { data } = engine;
  const isCounted = isHeld(data, plan);
  // There must be room for the next one.
  const window = plan.sampled && engine.freeFrom <= engine.now ? held.reportLoss : 0;
  const problems = engine.setting.policy.problems(
    plan,
    held.reportLoss,
    lifetime(data, isCounted ? null : plan, window),
  );
  // In one change with the plan: nothing is ever answered that is not counted.
  if (!problems.length && !isCounted) hold(data, plan);
  return problems;
}

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
