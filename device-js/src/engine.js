// What a device does with its data: take up a plan, record, answer, send, pause, forget. Each step changes the data in
// memory; whoever calls it makes that durable before anything leaves the device.
//
// No decision here depends on a value, except which remembered answer is given.

import { answer } from "./answer.js";
import { fromHex } from "./bytes.js";
import { emptyData } from "./data.js";
import { Draws } from "./draws.js";
import { Fraction } from "./fraction.js";
import { isHeld, lifetime, visit } from "./ledger.js";
import { changed } from "./pending.js";
import { consider, costsOf, newSecret, planOf, remember } from "./plans.js";

/** @typedef {import("./data.js").Consent} Consent */
/** @typedef {import("./data.js").Data} Data */
/** @typedef {import("./data.js").HeldPlan} HeldPlan */
/** @typedef {import("./data.js").Kept} Kept */
/** @typedef {import("./data.js").Reason} Reason */
/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./plans.js").Verdict} Verdict */
/** @typedef {import("./pending.js").Recorded} Recorded */
/**
 * @typedef {object} Setting what the host said, and the moment
 * @property {Plan} plan
 * @property {import("./policy.js").Policy} policy
 * @property {Consent} consent what holds while the person has not chosen
 * @property {boolean} askAgain
 * @property {Record<string, unknown>} segment
 * @property {string[]} silenced why the environment keeps the device silent
 * @property {number} now unix seconds
 */

const MOST_ROUNDS_AT_ONCE = 64;
const MOST_REPORTS_LISTED = 120;
const OLDEST_PAUSE = 10_000; // rounds

export class Engine {
  /** @param {Data} data @param {Setting} setting @param {Verdict | null} verdict of the plan, from earlier */
  constructor(data, setting, verdict) {
    this.data = data;
    this.setting = setting;
    this.now = setting.now;
    this.current = Math.floor(setting.now / setting.plan.roundSeconds);
    this.verdict = verdict;
    remember(setting.plan);
  }

  /** Whether values are recorded and rounds answered. */
  get active() {
    return this.verdict?.answers === true && !this.isPaused();
  }

  /** Whether what waits may be sent. */
  get sends() {
    return this.data.inForce === "granted" && !this.isPaused();
  }

  /** The first step of every change: consent, environment and plan as they are now. */
  begin() {
    const { data, setting } = this;
    if (data.secret && (data.plan !== setting.plan.name || data.roundSeconds !== setting.plan.roundSeconds)) {
      throw new Error(
        `this state belongs to plan ${data.plan} with rounds of ${data.roundSeconds} s; ` +
          `plan ${setting.plan.name} needs a state of its own`,
      );
    }
    this.#apply(data.choice?.said ?? setting.consent);
    if (!setting.silenced.length) this.resume("environment");
    else if (data.secret) this.pause("environment");
    if (data.inForce !== "granted" && data.inForce !== "local") this.verdict = null;
    else if (!this.verdict && !(setting.silenced.length && !data.secret)) this.#takeUp();
    if (this.verdict?.answers) this.#holdWindows();
  }

  /** Hold the plan; where it asks for more than the person agreed to, their choice lapses instead. */
  #takeUp() {
    this.verdict = consider(this);
    if (!this.verdict.asksMore || !this.data.choice) return;
    this.data.choice.said = "unset";
    this.#apply("unset");
    this.verdict = null;
  }

  // Consent

  /** What the person chose. @param {Consent} said */
  choose(said) {
    this.data.choice = { said, costs: costsOf(this.setting.plan), epoch: this.data.epoch };
    this.verdict = null;
    this.begin();
  }

  /** @param {Consent} consent */
  #apply(consent) {
    const { data } = this;
    const before = data.inForce;
    if (before === consent) return;
    data.inForce = consent;
    data.grantedFrom = consent === "granted" ? this.current + 1 : null;
    if (before === "granted") this.#dropWaiting(consent === "local");
    if (consent === "local" && before === "granted") return;
    if (consent === "granted" && before === "local") return;
    // From or to a time without consent: no round that touches it is answered.
    data.silentThrough = Math.max(data.silentThrough, this.current);
    data.totals = {};
    const untold = data.reports.filter((kept) => !kept.told).map(({ round }) => round);
    data.reports = data.reports.filter((kept) => kept.told);
    if (consent === "granted" || consent === "local") return;
    // What was told stays listed and counted, and the secret with it, so that the same answers come if the person
    // changes their mind. Where nothing was told, nothing but the choice is kept.
    data.windows = data.windows.filter(({ round }) => round !== null && !untold.includes(round));
    Object.assign(data, { notes: {}, lastAttempt: null });
    delete data.earlier.local;
    if (data.told) return;
    const pauses = data.pauses.filter(({ reason, through }) => reason === "asked" && through === null); // a choice too
    Object.assign(data, emptyData(), { choice: data.choice, inForce: consent, pauses });
  }

  /** Whether there is nothing that would have to be kept. */
  get isEmpty() {
    const { data, setting } = this;
    return !data.secret &&
      !data.ledger.length &&
      !this.isPaused("asked") &&
      (!data.choice || (data.choice.said === "unset" && setting.consent === "unset"));
  }

  // Plans

  /**
   * @param {number} round
   * @returns {HeldPlan | undefined} the version held when it began; before the first one, that
   */
  held(round) {
    return this.data.plans.findLast(({ fromRound }) => fromRound <= round) ?? this.data.plans[0];
  }

  /** @param {number} round */
  planFor(round) {
    const held = this.held(round);
    return held ? planOf(held) : null;
  }

  // Windows of sampled answers: they never overlap, whatever versions of the plan say

  /** When the latest window held ends, unix seconds. */
  get freeFrom() {
    return this.data.windows.at(-1)?.ends ?? 0;
  }

  #holdWindows() {
    const { data } = this;
    if (!data.plans.some(({ window }) => window) || data.enrolledFrom === null) return;
    const earliest = Math.max(data.enrolledFrom, data.silentThrough + 1);
    const from = Math.max(earliest, this.lastClosed() + 1, this.current - MOST_ROUNDS_AT_ONCE);
    for (let round = from; round <= this.current; round++) {
      const [plan, held] = [this.planFor(round), this.held(round)];
      const window = plan?.windowOf(round);
      if (!plan || !held || !window) continue;
      const most = this.setting.policy.maxLifetime;
      if (
        window.first >= earliest &&
        window.start >= this.freeFrom &&
        this.planFor(window.first)?.window === plan.window &&
        !this.isPausedIn(window.first, this.current, "environment") &&
        (most === null || lifetime(data, null, held.reportLoss) <= most)
      ) {
        data.windows.push({
          start: window.start,
          ends: window.start + window.rounds * data.roundSeconds,
          loss: held.reportLoss,
          round: null,
        });
      }
      round = window.first + window.rounds - 1;
    }
  }

  /**
   * The draws that a round is answered with; null where it is not answered. Never a matter of values.
   *
   * @param {number} round
   */
  drawsFor(round) {
    const { data } = this;
    const plan = this.planFor(round);
    if (!plan || isExpired(plan, this.now)) return null;
    if (!plan.sampled) {
      return isHeld(data, plan) ? new Draws(fromHex(data.secret), data.plan, data.epoch) : null;
    }
    return round < this.current ? this.#pick(plan, round) : null;
  }

  /** The same for the round under way, as if it ended now. */
  drawsForPreview() {
    const plan = this.planFor(this.current);
    return plan?.sampled &&
      !isExpired(plan, this.now) ? this.#pick(plan, this.current) : this.drawsFor(this.current);
  }

  /**
   * The draws of a round's window, if this is the round that is answered in it and none was yet.
   *
   * @param {Plan} plan @param {number} round
   */
  #pick(plan, round) {
    const { data } = this;
    const window = plan.windowOf(round);
    if (!window || window.first <= data.silentThrough) return null;
    const held = data.windows.find(({ start }) => start === window.start);
    if (!held || held.round !== null || this.isPausedIn(window.first, round, "environment")) return null;
    const draws = new Draws(fromHex(data.secret), data.plan, data.epoch, window.start);
    return draws.pickedRound(window) === round ? draws : null;
  }

  // Values

  /**
   * Apply what waited in memory; values that nobody will ask for are dropped.
   *
   * @param {Iterable<Recorded>} recorded
   */
  record(recorded) {
    const { data } = this;
    if (!this.verdict?.answers) return;
    for (const { round, metric, change } of recorded) {
      const plan = this.planFor(round);
      if (this.report(round)) this.note("late-value");
      if (!plan || this.report(round) || round <= data.silentThrough || this.isPausedIn(round, round)) continue;
      if (!plan.sampled || this.#pick(plan, round)) {
        const totals = (data.totals[round] ??= {});
        totals[metric] = `${changed(totals[metric] === undefined ? null : Fraction.parse(totals[metric]), change)}`;
      }
    }
  }

  /** @param {number} round @returns {Map<string, Fraction>} */
  values(round) {
    return new Map(
      Object.entries(this.data.totals[round] ?? {}).map(([metric, text]) => [metric, Fraction.parse(text)]),
    );
  }

  /** @param {string} kind @param {number} count */
  note(kind, count = 1) {
    this.data.notes[kind] = (this.data.notes[kind] ?? 0) + count;
  }

  // Answers

  /** @param {number} round */
  report(round) {
    return this.data.reports.find((kept) => kept.round === round);
  }

  /** The latest round for which no collector takes reports any more. */
  lastClosed() {
    const grace = this.planFor(this.current)?.graceSeconds ?? 0;
    return Math.floor((this.now - grace) / this.data.roundSeconds) - 1;
  }

  /** Answer every finished round that is still open at the collector, also those nothing was recorded in. */
  answerDue() {
    const { data } = this;
    const closed = this.lastClosed();
    if (this.active && data.enrolledFrom !== null) {
      const first = Math.max(
        data.enrolledFrom,
        data.silentThrough + 1,
        closed + 1,
        this.current - MOST_ROUNDS_AT_ONCE,
      );
      for (let round = first; round < this.current; round++) this.answer(round, false);
    }
    // Too late: reports that no collector takes any more, and values that will not be answered.
    for (const kept of data.reports) {
      if (kept.state === "waiting" && kept.closes <= this.now) kept.state = "expired";
    }
    for (const round of Object.keys(data.totals)) if (Number(round) <= closed) delete data.totals[round];
    this.#prune();
  }

  /**
   * The report of a round, made now unless it was made before; null where there is none to make.
   *
   * @param {number} round @param {boolean} told
   */
  answer(round, told) {
    const { data } = this;
    const made = this.report(round);
    if (made) {
      if (!told) return made;
      if (made.state === "local") return null; // it never leaves
      data.told = made.told = true;
      return made;
    }
    if (round <= data.silentThrough || this.isPausedIn(round, round)) return null;
    const [plan, draws] = [this.planFor(round), this.drawsFor(round)];
    if (!plan || !draws) return null;
    const window = plan.windowOf(round);
    const { body, bits, asked, visited } = answer(draws, plan, round, this.values(round), this.setting.segment);
    const end = (round + 1) * plan.roundSeconds;
    const spread = Math.floor((Math.min(plan.roundSeconds, plan.graceSeconds) * 3) / 4);
    const isSent = data.grantedFrom !== null && (window ? window.first : round) >= data.grantedFrom;
    if (told && !isSent) return null;
    /** @type {Kept} */
    const kept = {
      round,
      version: plan.version,
      epoch: data.epoch,
      body,
      bits,
      asked,
      state: isSent ? "waiting" : "local",
      code: "",
      told,
      attempts: 0,
      nextTry: end + (Number(draws.delay(round)) / 2 ** 64) * spread,
      closes: end + plan.graceSeconds,
    };
    // All in one change: the report, the end of its values, and what it may have told.
    data.reports.push(kept);
    data.reports.sort((one, other) => one.round - other.round);
    delete data.totals[round];
    if (told) data.told = true;
    if (!window) visit(data, plan, visited);
    else for (const held of data.windows) if (held.start === window.start) Object.assign(
      held,
      { round, loss: Math.max(held.loss, this.held(round)?.reportLoss ?? Infinity) },
    );
    return kept;
  }

  /** Keep the data small for years. What is not listed any more is never answered again. */
  #prune() {
    const { data } = this;
    const settled = data.reports.filter(({ state }) => state !== "waiting");
    for (const old of settled.slice(0, Math.max(0, settled.length - MOST_REPORTS_LISTED))) {
      data.reports.splice(data.reports.indexOf(old), 1);
      data.earlier[old.state] = (data.earlier[old.state] ?? 0) + 1;
      data.silentThrough = Math.max(data.silentThrough, old.round);
    }
    for (const { through } of data.pauses) {
      if (through !== null && through < this.current - OLDEST_PAUSE) {
        data.silentThrough = Math.max(data.silentThrough, through);
      }
    }
    data.pauses = data.pauses.filter(({ through }) => through === null || through > data.silentThrough);
    data.plans.forEach((held, place) => {
      if ((data.plans[place + 1]?.fromRound ?? Infinity) <= this.lastClosed() - OLDEST_PAUSE) held.table = null;
    });
  }

  // What a person can stop

  /** @param {Reason} reason */
  pause(reason) {
    const { data } = this;
    if (!this.isPaused(reason)) data.pauses.push({ from: this.current, through: null, reason });
    delete data.totals[this.current];
  }

  /** The first round answered is the next one. @param {Reason} reason */
  resume(reason) {
    for (const pause of this.data.pauses) {
      if (pause.reason === reason) pause.through ??= Math.max(pause.from, this.current);
    }
  }

  /** @param {Reason} [reason] */
  isPaused(reason) {
    return this.data.pauses.some(
      (pause) => pause.through === null && (reason ?? pause.reason) === pause.reason,
    );
  }

  /**
   * Whether a pause overlaps the rounds from `first` to `last`.
   *
   * @param {number} first @param {number} last @param {Reason} [reason]
   */
  isPausedIn(first, last, reason) {
    return this.data.pauses.some(
      (pause) =>
        pause.from <= last &&
        (pause.through ?? Infinity) >= first &&
        (reason ?? pause.reason) === pause.reason,
    );
  }

  /** A new secret: no remembered answer survives, and no round that had begun is answered any more. */
  forget() {
    const { data } = this;
    if (!data.secret) return;
    data.secret = newSecret();
    data.epoch += 1;
    data.epochs.push({ epoch: data.epoch, beganIn: this.current, reason: "forgotten" });
    data.silentThrough = Math.max(data.silentThrough, this.current);
    data.totals = {};
    this.#dropWaiting(false);
    if (this.verdict) this.#takeUp();
  }

  /** Send nothing of what waits. What may have left already stays listed. @param {boolean} keepsLocal */
  #dropWaiting(keepsLocal) {
    for (const kept of this.data.reports) {
      if (kept.state === "waiting") kept.state = kept.told ? "expired" : "local";
    }
    if (!keepsLocal) {
      this.data.reports = this.data.reports.filter((kept) => kept.told || kept.state !== "local");
    }
  }
}

/**
 * The data that replaces a damaged text: all that the policy allowed is counted as told.
 *
 * @param {Setting} setting @returns {Data}
 */
export function afterDamage({ policy, plan, now }) {
  const data = emptyData();
  const held = policy.maxLifetime ?? Infinity;
  const beganIn = Math.floor(now / plan.roundSeconds);
  data.choice = { said: "unset", costs: costsOf(plan), epoch: 1 };
  data.told = true;
  data.epoch = 1;
  data.silentThrough = beganIn;
  data.ledger.push({ metric: "", digest: "", epoch: 0, classes: [], loss: held, lifetime: held });
  data.epochs.push({
    epoch: 1,
    beganIn,
    reason: "the state was damaged; what it held is unknown, so all that the policy allowed is counted",
  });
  data.notes["state-lost"] = 1;
  return data;
}

/**
 * Whether devices have stopped answering: they do at 00:00 UTC of the day `expires`.
 *
 * @param {Plan} plan @param {number} now
 */
export const isExpired = (plan, now) =>
  plan.expires !== null && 1000 * now >= Date.parse(plan.expires);
