// How a device is doing. Nothing here is a value or comes from one, except `notes`, which stay on the device.

import { isExpired } from "./engine.js";

/** @param {import("./engine.js").Engine} engine */
export function statusOf(engine) {
  const { data, verdict, setting: { plan, silenced }, current, now } = engine;
  const waiting = data.reports.filter(({ state }) => state === "waiting");
  const count = (/** @type {string} */ state) =>
    data.reports.filter((kept) => kept.state === state).length + (data.earlier[state] ?? 0);
  const hasExpired = isExpired(plan, now);
  return {
    plan: plan.name,
    version: data.plans.at(-1)?.version ?? null,
    consent: data.inForce,
    active: engine.active && !hasExpired,
    reasons: [
      ...(data.inForce === "unset" || data.inForce === "denied" ? [`consent is ${data.inForce}`] : []),
      ...(engine.isPaused("asked") ? ["paused"] : []),
      ...(verdict?.refused ?? []).map((reason) => `refused: ${reason}`),
      ...(hasExpired ? [`plan ${plan.name} expired on ${plan.expires}`] : []),
      ...silenced,
    ],
    epoch: data.epoch,
    currentRound: current,
    answersFrom: data.enrolledFrom === null ? null : Math.max(data.enrolledFrom, data.silentThrough + 1),
    reports: {
      waiting: count("waiting"),
      accepted: count("accepted"),
      rejected: count("rejected"),
      expired: count("expired"),
      local: count("local"),
    },
    lastAttempt: data.lastAttempt,
    nextAttempt: waiting.length ? Math.min(...waiting.map(({ nextTry }) => nextTry)) : null,
    notes: { ...data.notes },
  };
}
