// What a device does with its data: take up a plan, record, answer, pause, forget. Each step changes the data in memory;
// whoever calls it makes that durable before anything leaves the device. spec/transitions.md has the rules.
//
// No decision here depends on a value, except which remembered answer is given.

import { answer } from "./answer.js";
import { fromHex, toHex } from "./bytes.js";
import { emptyData, emptyTable } from "./data.js";
import { Draws } from "./draws.js";
import { Fraction } from "./fraction.js";
import { asksAnew, hold, isHeld, lifetime, visit } from "./ledger.js";
import { problems } from "./limits.js";
import { compose, lifetimeLoss, lossOfReport, lossOfRound } from "./losses.js";
import { changed } from "./pending.js";
import { Plan } from "./plan.js";
import { YEAR } from "./policy.js";
import { firstRoundFrom, roundAt, startOf } from "./times.js";

export { backOff, claim, due, nextDue, settle } from "./outbox.js";

/** @typedef {import("./data.js").Consent} Consent */
/** @typedef {import("./data.js").Costs} Costs */
/** @typedef {import("./data.js").Data} Data */
/** @typedef {import("./data.js").HeldPlan} HeldPlan */
/** @typedef {import("./data.js").Kept} Kept */
/** @typedef {import("./data.js").Reason} Reason */
/** @typedef {import("./plan.js").Metric} Metric */
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
/**
 * @typedef {object} Session what a running program knows beside its state
 * @property {{ answers: boolean, refused: string[] } | null} verdict whether a plan is held that the policy allows, and
 *   why one is not taken up; null: to be found out
 * @property {number | null} onSince the round since which it is known to run
 */

const MOST_REPORTS_LISTED = 120;
const MOST_SPELLS = 400;
const OLDEST_PAUSE = 10_000; // rounds

/** Plans by all that a device does by; those in the data were checked before they came there. @type {Map<string, Plan>} */
const parsed = new Map();

export class Engine {
  /** @param {Data} data @param {Setting} setting @param {Session} session */
  constructor(data, setting, { verdict, onSince }) {
    this.data = data;
    this.setting = setting;
    const isAgreed = setting.consent === "granted" || setting.consent === "local";
    this.isNew = isAgreed && !data.secret && !data.lost && !data.choice && !data.pauses.length;
    this.verdict = data.secret ? verdict : null; // none: it was wiped
    this.onSince = onSince;
    this.now = setting.now;
    this.current = roundAt(this.now, setting.plan.roundSeconds);
    parsed.set(keyOf(setting.plan.table), setting.plan);
  }

  /** @param {number} now unix seconds */
  moveTo(now) {
    this.now = now;
    this.current = roundAt(now, this.setting.plan.roundSeconds);
    return this;
  }

  /** Whether there is consent to record and answer. */
  get records() {
    return this.data.inForce === "granted" || this.data.inForce === "local";
  }

  /** Whether values are recorded and rounds answered. */
  get active() {
    return this.verdict?.answers === true && !this.isPaused() && !this.setting.plan.isExpired(this.now);
  }

  /** Whether what waits may be sent. */
  get sends() {
    return this.data.inForce === "granted" && !this.isPaused();
  }

  /** Whether there is nothing that would have to be kept. */
  get isEmpty() {
    const { data, setting } = this;
    return !data.secret &&
      !data.lost &&
      !this.isPaused("asked") &&
      (!data.choice || (data.choice.said === "unset" && setting.consent === "unset"));
  }

  /** The first step of every call: consent, environment and plan as they are now. */
  begin() {
    const { data, setting: { plan, policy, consent, silenced } } = this;
    if (data.secret && (data.plan !== plan.name || data.roundSeconds !== plan.roundSeconds)) {
      throw new Error(
        `it belongs to plan ${data.plan} with rounds of ${data.roundSeconds} s; ` +
          `plan ${plan.name} needs a state of its own`,
      );
    }
    data.largest.lifetime = Math.max(data.largest.lifetime, policy.maxLifetime ?? Infinity);
    data.largest.year = Math.max(data.largest.year, policy.maxYear ?? Infinity);
    for (const pause of [...data.pauses]) {
      if (pause.through !== null || pause.from <= this.current) continue;
      // The clock went back: one that lasts covers this round too, and the one in which it began.
      if (data.secret) data.pauses.push({ ...pause, through: pause.from });
      pause.from = this.current;
    }
    this.#apply(data.choice?.said ?? consent);
    if (!silenced.length) this.resume("environment");
    else if (data.secret) this.pause("environment");
    if (!this.records) this.verdict = null;
    else if (!this.verdict && (data.secret || !silenced.length)) this.#takeUp();
  }

  // Presence: when the program ran, never what it measured

  /** The program runs now. Every call does this, and a recorded value never does. */
  notePresence() {
    const { data, current } = this;
    if (!this.records || !data.secret) {
      this.onSince = null;
      return;
    }
    const from = Math.min(this.onSince ?? current, current);
    this.onSince = current;
    const apart = data.on.filter(([first, last]) => last < from - 1 || first > current + 1);
    const joined = data.on.filter((spell) => !apart.includes(spell));
    const firsts = joined.map(([first]) => first);
    const lasts = joined.map(([, last]) => last);
    data.on = [...apart, /** @type {[number, number]} */ ([Math.min(from, ...firsts), Math.max(current, ...lasts)])]
      .sort(([one], [other]) => one - other)
      .slice(-MOST_SPELLS);
    if (this.active) this.#holdWindows();
    else if (!this.isPaused()) this.#markSilent(from, current);
  }

  /** Refused or expired: no values were recorded in these rounds, so they have no answer. @param {number} from @param {number} through */
  #markSilent(from, through) {
    const { pauses } = this.data;
    const last = pauses.findLast(({ reason }) => reason === "silent");
    if (last?.through != null && last.from <= from && from <= last.through + 1) {
      last.through = Math.max(last.through, through);
    } else pauses.push({ from, through, reason: "silent" });
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

  /** Hold the plan from the next round on. A refused one changes nothing: the version held goes on. */
  #takeUp() {
    const { data, setting: { plan } } = this;
    const newest = data.plans.at(-1);
    /** @type {string[]} */
    let refused = [];
    if (!newest || plan.version > newest.version) {
      const first = this.#firstRound(newest);
      const isNew = asksAnew(data, plan);
      refused = this.#problems(plan, isNew && data.changedIn !== null ? first - data.changedIn : null);
      if (!refused.length) {
        if (this.#asksMore(plan)) return this.#lapse();
        this.#enrol();
        data.enrolledFrom ??= first;
        if (isNew) data.changedIn = first;
        data.plans.push(heldPlan(plan, first));
        data.largest.sampled ||= plan.sampled;
      }
    } else if (plan.version < newest.version) refused = [
      `version ${plan.version} is older than version ${newest.version}, which this device holds`,
    ];
    else if (plan.fingerprint !== newest.fingerprint) refused = [
      `version ${plan.version} asks something else than the version ${plan.version} that this device holds; ` +
        "a change needs a new version",
    ];
    else newest.table = plan.table; // better words are no new plan
    const held = data.plans.at(-1);
    const answered = held && planOf(held);
    const beyond = answered ? this.#problems(answered) : [];
    this.verdict = {
      answers: answered !== null && answered !== undefined && !beyond.length,
      refused: [...new Set([...refused, ...beyond])],
    };
    if (!this.verdict.answers || !answered || isHeld(data, answered)) return;
    if (this.#asksMore(answered)) return this.#lapse();
    hold(data, answered); // in one change with the plan: nothing is ever answered that is not counted
  }

  /** The first round under a new version: the next one; windows never overlap. @param {HeldPlan | undefined} newest */
  #firstRound(newest) {
    const { plan } = this.setting;
    const next = this.current + 1;
    if (!newest || (!newest.window && !plan.window)) return next;
    const free = newest.window === plan.window ? 0 : firstRoundFrom(this.#freeFrom, plan.roundSeconds);
    return Math.max(next, newest.fromRound, free);
  }

  /** What the policy has against a plan. @param {Plan} plan @param {number | null} roundsSinceChange */
  #problems(plan, roundsSinceChange = null) {
    return problems(this.setting.policy, plan, lifetime(this.data, plan), roundsSinceChange);
  }

  #enrol() {
    const { data, setting: { plan }, current } = this;
    if (data.secret) return;
    data.plan = plan.name;
    data.roundSeconds = plan.roundSeconds;
    data.secret = newSecret();
    // No earlier round is ever answered: a pause that lasts began with the first, however rounds were numbered then.
    data.pauses = data.pauses.filter(({ through }) => through === null).map((pause) => ({ ...pause, from: 0 }));
    if (!data.epochs.length) data.epochs.push({ epoch: data.epoch, beganIn: current, reason: "enrolled" });
  }

  // Consent

  /** What the person chose. @param {Consent} said */
  choose(said) {
    this.data.choice = { said, costs: costsOf(this.setting.plan), epoch: this.data.epoch };
    this.verdict = null;
    this.begin();
  }

  /** Whether a plan asks for more than what the person said yes to. @param {Plan} plan */
  #asksMore(plan) {
    const { choice, epoch } = this.data;
    const isYes = choice?.said === "granted" || choice?.said === "local";
    return isYes && this.setting.askAgain && (choice.epoch !== epoch || costMore(choice.costs, plan));
  }

  /** The person has to be asked again. */
  #lapse() {
    if (this.data.choice) this.data.choice.said = "unset";
    this.#apply("unset");
    this.verdict = null;
  }

  /** @param {Consent} consent */
  #apply(consent) {
    const { data } = this;
    const before = data.inForce;
    if (before === consent) return;
    data.inForce = consent;
    this.onSince = null;
    if (consent === "local" && before === "granted") {
      // What waits stays here and is shown; the round under way is answered here too.
      for (const kept of data.reports) if (kept.state === "waiting") kept.state = kept.told ? "expired" : "local";
      return;
    }
    // No round that touches another consent is answered; a new state knows of no other.
    if (!this.isNew) data.silentThrough = Math.max(data.silentThrough, this.current);
    data.totals = emptyTable();
    if (!this.records) this.#wipe();
  }

  /** Keep the choice, and what was told with the secret it came from; where nothing was told, nothing else. */
  #wipe() {
    const { data } = this;
    const untold = data.reports.filter((kept) => !kept.told).map(({ round }) => round);
    this.#dropWaiting();
    data.reports = data.reports.filter((kept) => kept.told);
    data.windows = data.windows.filter(({ round }) => round !== null && !untold.includes(round));
    data.pauses = data.pauses.filter(({ through }) => through === null);
    Object.assign(data, { on: [], notes: emptyTable(), lastAttempt: null });
    delete data.earlier.local;
    if (data.told) return;
    const { choice, inForce, largest } = data;
    const pauses = data.pauses.filter(({ reason }) => reason === "asked"); // a choice too
    Object.assign(data, emptyData(), { choice, inForce, largest, pauses });
  }

  // Windows of sampled answers: they never overlap, whatever versions of the plan say

  /** When the latest window held ends, unix seconds. */
  get #freeFrom() {
    return this.data.windows.at(-1)?.ends ?? 0;
  }

  /** Hold each window that has begun and can still be answered, if the year's limit has room for it. */
  #holdWindows() {
    const { data, current } = this;
    const earliest = Math.max(data.enrolledFrom ?? Infinity, data.silentThrough + 1);
    data.plans.forEach((held, place) => {
      const plan = held.window ? planOf(held) : null;
      if (!plan) return;
      const last = Math.min(current, (data.plans[place + 1]?.fromRound ?? Infinity) - 1);
      let round = Math.max(earliest, held.fromRound, firstOpen(plan, this.now));
      while (round <= last) {
        const window = plan.windowOf(round);
        if (!window) return;
        if (
          window.first >= earliest &&
          window.start >= this.#freeFrom &&
          this.held(window.first)?.window === held.window &&
          !this.isPausedIn(window.first, current, "environment") &&
          this.#hasRoom(held.reportLoss, window.start)
        ) {
          const ends = window.start + window.rounds * data.roundSeconds;
          data.windows.push({ start: window.start, ends, loss: data.inForce === "local" ? 0 : held.reportLoss, round: null });
        }
        round = window.first + window.rounds;
      }
    });
  }

  /** Whether a window and those that ended in the 365 days before its start stay within the limit. @param {number} loss @param {number} start */
  #hasRoom(loss, start) {
    const { windows, lost } = this.data;
    const most = this.setting.policy.maxYear;
    const before = windows.filter(({ ends }) => ends > start - YEAR).map((window) => window.loss);
    if (lost && lost.at > start - YEAR) before.push(lost.year);
    return most === null || compose([...before, loss]) <= most;
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
      if (plan.sampled && !this.#isPicked(plan, round)) continue;
      const totals = (data.totals[round] ??= emptyTable());
      totals[metric] = `${changed(totals[metric] === undefined ? null : Fraction.parse(totals[metric]), change)}`;
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

  /** @param {Plan} plan @param {number} round */
  #draws(plan, round) {
    const { secret, plan: name, epoch } = this.data;
    return new Draws(fromHex(secret), name, epoch, plan.windowOf(round)?.start ?? null);
  }

  /** Whether a round is the one of its window that is answered, if any is. @param {Plan} plan @param {number} round */
  #isPicked(plan, round) {
    const { silentThrough, enrolledFrom } = this.data;
    const window = plan.windowOf(round);
    return window !== null &&
      window.first > silentThrough &&
      window.first >= (enrolledFrom ?? Infinity) &&
      this.#draws(plan, round).pickedRound(window) === round;
  }

  /**
   * Whether the collector still takes a round that is this device's to answer, and the last round up to it in which the
   * program ran: that one and the gap after it are answered together or not at all.
   *
   * @param {number} round
   */
  isDue(round) {
    const spell = this.data.on.findLast(([first]) => first <= round);
    return spell !== undefined && this.#isAnswerable(round) && this.#isAnswerable(Math.min(round, spell[1]));
  }

  /** @param {number} round */
  #isAnswerable(round) {
    const { data } = this;
    const plan = this.planFor(round);
    return plan !== null &&
      data.enrolledFrom !== null &&
      round >= data.enrolledFrom &&
      round > data.silentThrough &&
      !this.isPausedIn(round, round) &&
      round >= firstOpen(plan, this.now);
  }

  /** Whether a round has no answer yet, and is the one of its window where answers are sampled. @param {number} round */
  isAsked(round) {
    const { data } = this;
    const plan = this.planFor(round);
    if (!plan || plan.isExpired(this.now) || this.report(round)) return false;
    if (!plan.sampled) return isHeld(data, plan);
    const window = plan.windowOf(round);
    return window !== null &&
      round < this.current &&
      data.windows.some((held) => held.start === window.start && held.round === null) &&
      !this.isPausedIn(window.first, round, "environment") &&
      this.#isPicked(plan, round);
  }

  /** What a round that is due and asked is answered with. @param {number} round */
  answerOf(round) {
    const plan = /** @type {Plan} */ (this.planFor(round));
    return { plan, ...answer(this.#draws(plan, round), plan, round, this.values(round), this.setting.segment) };
  }

  /** Answer every finished round that the collector still takes, whole spells only. */
  answerDue() {
    const { data, current } = this;
    const opens = Math.min(
      ...data.plans.map((held) => planOf(held)).map((plan) => (plan ? firstOpen(plan, this.now) : Infinity)),
    );
    if (this.active) {
      const first = Math.max(data.enrolledFrom ?? Infinity, data.silentThrough + 1, opens);
      for (let round = first; round < current; round++) {
        if (this.isDue(round) && this.isAsked(round)) this.answer(round);
      }
    }
    // Too late: reports that no collector takes any more, and values that will not be answered.
    for (const kept of data.reports) {
      if (kept.state === "waiting" && kept.closes <= this.now) kept.state = "expired";
    }
    for (const round of Object.keys(data.totals).map(Number)) {
      const plan = this.planFor(round);
      if (!plan || round < firstOpen(plan, this.now)) delete data.totals[round];
    }
    this.#prune();
  }

  /** Make the report of a round that is due and asked. @param {number} round */
  answer(round) {
    const { data } = this;
    const { plan, body, bits, asked, visited } = this.answerOf(round);
    const window = plan.windowOf(round);
    const end = startOf(round + 1, plan.roundSeconds);
    const spread = Math.floor((Math.min(plan.roundSeconds, plan.graceSeconds) * 3) / 4);
    const isLocal = data.inForce !== "granted";
    /** @type {Kept} */
    const kept = {
      round,
      version: plan.version,
      epoch: data.epoch,
      body,
      bits,
      asked,
      state: isLocal ? "local" : "waiting",
      code: "",
      told: false,
      attempts: 0,
      nextTry: end + (Number(this.#draws(plan, round).delay(round)) / 2 ** 64) * spread,
      closes: end + plan.graceSeconds,
    };
    // All in one change: the report, the end of its values, and what it may tell.
    data.reports.push(kept);
    data.reports.sort((one, other) => one.round - other.round);
    delete data.totals[round];
    const held = data.windows.find(({ start }) => start === window?.start);
    if (held) {
      held.round = round;
      if (!isLocal) held.loss = Math.max(held.loss, lossOfReport(plan)); // of what was answered, not of what was held
    } else if (!isLocal) visit(data, plan, visited);
    return kept;
  }

  /** The bytes of a report may leave from now on. @param {Kept} kept */
  tell(kept) {
    kept.told = this.data.told = true;
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
      const next = data.plans[place + 1]?.fromRound ?? Infinity;
      const plan = planOf(held);
      if (plan && next <= firstOpen(plan, this.now) - OLDEST_PAUSE) held.table = null;
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
    data.totals = emptyTable();
    data.on = [];
    this.onSince = null;
    this.#dropWaiting();
    if (this.records) this.#takeUp();
  }

  /** Send nothing of what waits. What may have left already stays listed. */
  #dropWaiting() {
    const { data } = this;
    data.reports = data.reports.filter((kept) => kept.told || kept.state !== "waiting");
    for (const kept of data.reports) if (kept.state === "waiting") kept.state = "expired";
  }
}

/**
 * The data that replaces a damaged text: all that was ever allowed is counted as told.
 *
 * @param {Setting} setting @param {import("./data.js").Limits & { epoch: number }} limits
 */
export function afterDamage({ plan, now }, { epoch, ...limits }) {
  const data = emptyData();
  const beganIn = roundAt(now, plan.roundSeconds);
  data.epoch = epoch + 1;
  data.choice = { said: "unset", costs: costsOf(plan), epoch: data.epoch };
  data.told = true;
  data.silentThrough = beganIn;
  data.largest = { ...limits };
  data.lost = { ...limits, at: now };
  data.epochs.push({
    epoch: data.epoch,
    beganIn,
    reason: "the state was damaged; what it held is unknown, so all that the policy ever allowed is counted",
  });
  data.notes["state-lost"] = 1;
  return data;
}

/** The first round that collectors still take reports of. @param {Plan} plan @param {number} now */
const firstOpen = ({ graceSeconds, roundSeconds }, now) => roundAt(now - graceSeconds, roundSeconds);

/** The plan of a version; null when it is not kept any more. @param {HeldPlan} held */
function planOf({ table }) {
  if (!table) return null;
  const key = keyOf(table);
  if (!parsed.has(key)) parsed.set(key, new Plan(table));
  return parsed.get(key) ?? null;
}

/** Two plans with one fingerprint may have another grace or expiry. @param {any} table */
const keyOf = (table) => `${table.fingerprint} ${table.grace_seconds} ${table.expires}`;

/** @param {Plan} plan @param {number} fromRound @returns {HeldPlan} */
const heldPlan = (plan, fromRound) => ({
  version: plan.version,
  fingerprint: plan.fingerprint,
  fromRound,
  window: plan.window,
  reportLoss: lossOfReport(plan),
  layout: plan.metrics.map((/** @type {Metric} */ metric) => [metric.name, metric.mechanism.bits]),
  table: plan.table,
});

const newSecret = () => toHex(crypto.getRandomValues(new Uint8Array(32)));

/** What a plan costs a device, question by question. @param {Plan} plan @returns {Costs} */
const costsOf = (plan) => ({
  window: plan.window * plan.roundSeconds,
  report: lossOfReport(plan),
  isDivided: plan.isDivided,
  metrics: plan.metrics.map((/** @type {Metric} */ metric) => [
    metric.name,
    toHex(metric.digest),
    lossOfRound(metric),
    lifetimeLoss(metric),
  ]),
});

/**
 * Whether a plan asks more than what the person agreed to: a question more, new answers to an old one, a higher loss,
 * shorter windows; where a device was asked some of the metrics for life, one metric less, since it may be asked another
 * one instead.
 *
 * @param {Costs} agreed @param {Plan} plan
 */
function costMore(agreed, plan) {
  const costs = costsOf(plan);
  return (
    agreed.window > 0 !== costs.window > 0 ||
    costs.window < agreed.window ||
    costs.report > agreed.report ||
    (agreed.isDivided && costs.metrics.length < agreed.metrics.length) ||
    costs.metrics.some(([name, digest, round, lifetime]) => {
      const before = agreed.metrics.find((one) => one[0] === name);
      return !before || before[1] !== digest || round > before[2] || lifetime > before[3];
    })
  );
}
