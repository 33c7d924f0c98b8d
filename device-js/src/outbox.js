// Reports on their way: which are due, who sends them, and what came of it.

import { startOf } from "./times.js";
import { LONGEST_SEND } from "./transport.js";

/** @typedef {import("./data.js").Kept} Kept */
/** @typedef {import("./engine.js").Engine} Engine */
/** @typedef {import("./transport.js").Outcome} Outcome */

const FIRST_BACK_OFF = 15;
const LONGEST_BACK_OFF = 3600;
const LONGEST_DELAY = 1e9; // the most a collector can ask for, s: a report is given up long before

/**
 * What to send now, in the order of rounds.
 *
 * @param {Engine} engine
 * @param {boolean} early also what was never tried and waits for its place in the round
 */
export function due(engine, early) {
  if (!engine.sends) return [];
  return engine.data.reports.filter(
    ({ state, closes, nextTry, attempts }) =>
      state === "waiting" &&
      closes > engine.now &&
      (nextTry <= engine.now || (early && !attempts)),
  );
}

/**
 * Take a report for sending, unless another tab or process has; no other tries it before this attempt is
 * over.
 *
 * @param {Engine} engine @param {Kept} sent
 */
export function claim(engine, sent) {
  const kept = engine.report(sent.round);
  if (!engine.sends || kept?.body !== sent.body || kept.state !== "waiting" || kept.attempts !== sent.attempts) {
    return false;
  }
  engine.tell(kept);
  kept.attempts += 1;
  kept.nextTry = engine.now + 2 * LONGEST_SEND;
  return true;
}

/**
 * Enter what came of an attempt.
 *
 * @param {Engine} engine @param {Kept} sent @param {Outcome} outcome
 * @param {number} wait seconds to the next attempt
 */
export function settle(engine, sent, outcome, wait) {
  engine.data.lastAttempt = { at: engine.now, outcome: outcome.reason };
  const kept = engine.report(sent.round);
  // One that was given up meanwhile may have arrived all the same; one that another attempt brought there stays so.
  if (kept?.body !== sent.body || kept.state === "accepted") return;
  if (outcome.kind === "retry") kept.nextTry = engine.now + wait;
  else Object.assign(kept, { state: outcome.kind, code: outcome.kind === "rejected" ? outcome.reason : "" });
}

/**
 * When the round under way ends or a report is to be sent, whichever is first; unix seconds.
 *
 * @param {Engine} engine
 */
export function nextDue(engine) {
  const waiting = engine.sends ? engine.data.reports.filter(({ state }) => state === "waiting") : [];
  return Math.min(
    startOf(engine.current + 1, engine.setting.plan.roundSeconds),
    ...waiting.map(({ nextTry }) => nextTry),
  );
}

/**
 * Seconds to the next attempt: uniform up to a ceiling that doubles from 15 s (a sixteenth of a round, if that is
 * shorter) to an hour, and never sooner than the collector asked for.
 *
 * @param {number} attempts @param {number} roundSeconds
 * @param {unknown} [after] a transport of the host's own may say anything
 */
export function backOff(attempts, roundSeconds, after) {
  const asked = typeof after === "number" && after >= 0 ? Math.min(after, LONGEST_DELAY) : 0;
  const ceiling = Math.min(
    Math.min(FIRST_BACK_OFF, roundSeconds / 16) * 2 ** Math.min(attempts, 20),
    LONGEST_BACK_OFF,
  );
  return asked + (ceiling * crypto.getRandomValues(new Uint32Array(1))[0]) / 2 ** 32;
}
