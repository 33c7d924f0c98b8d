// The device: a quiet guest in somebody else's page or program.

import { emptyData, emptyTable, fromText, limitsOf, NewerStateError, toText } from "./data.js";
import { afterDamage, Engine, isExpired } from "./engine.js";
import { clamped, ZERO } from "./fraction.js";
import { backOff, claim, due, LONGEST_SEND, nextDue, settle } from "./outbox.js";
import { Pending } from "./pending.js";
import { checkDigests, parsePlan, PlanError } from "./plan.js";
import { Policy, readEnvironment } from "./policy.js";
import { roundAt } from "./times.js";
import { httpTransport } from "./transport.js";

/** @typedef {import("./data.js").Change} Change */
/** @typedef {import("./data.js").Consent} Consent */
/** @typedef {import("./data.js").Kept} Kept */
/** @typedef {import("./plan.js").Metric} Metric */

const CONSENTS = ["unset", "granted", "denied", "local"];
const LONGEST_SLEEP = 300; // s, as those below
const SLEEP_IN_TROUBLE = 30;
const WRITE_WITHIN = 1;

/** Answers a plan on behalf of one device: values in, at most one report per round out. See the README. */
export class Device {
  #plan;
  #state;
  #policy;
  #settings;
  #transport;
  /** @type {import("./engine.js").Session} */
  #session = { verdict: null, onSince: null };
  #pending = new Pending();
  /** @type {Record<string, number>} what went wrong and is not in the state yet */
  #notes = emptyTable();
  /** Why the state could not be used when it was last needed; empty: it could. */
  #problem = "";
  /**
   * @type {[number, import("./plan.js").Plan | null][]} rounds and plans, the newest first; empty: nothing is recorded
   */
  #timeline = [];
  /** @type {Consent} */
  #consent = "unset";
  #started = false;
  #closed = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #wakesAt = Infinity;
  /** @type {Promise<unknown>} */
  #working = Promise.resolve();
  /** @type {Promise<unknown>} the attempts under way, each from its claim on; it never rejects */
  #sending = Promise.resolve();
  #look = () => void this.#quietly(() => this.#update(() => {}));
  #onHide = () => {
    if (globalThis.document?.visibilityState === "hidden") this.#look();
  };

  /**
   * Use `Device.open`.
   *
   * @param {import("./plan.js").Plan} plan @param {import("../index.js").Settings} settings
   */
  constructor(plan, settings) {
    this.#plan = plan;
    this.#state = settings.state;
    this.#policy = settings.policy instanceof Policy ? settings.policy : new Policy(settings.policy);
    const { endpoint, key = null } = settings;
    this.#transport = settings.transport ?? (endpoint ? httpTransport(endpoint, key) : null);
    this.#settings = {
      consent: settings.consent ?? "unset",
      askAgain: settings.askAgain ?? true,
      debug: settings.debug ?? false,
      segment: settings.segment ?? {},
      clock: settings.clock ?? (() => Date.now() / 1000),
      environment: settings.environment ?? readEnvironment,
    };
    if (!CONSENTS.includes(this.#settings.consent)) {
      throw new RangeError("consent: expected unset, granted, denied or local");
    }
    if (typeof this.#state?.update !== "function") {
      throw new RangeError("state: expected indexedDbState(…), folderState(…) or memoryState()");
    }
  }

  /**
   * A device, once its state is open. Rejects for a plan that is not whole and for settings that cannot be. A state that
   * cannot be used makes a silent device: `status()` has the reason, and `debug` throws it.
   *
   * @param {import("../index.js").Settings} settings
   */
  static async open(settings) {
    const device = new Device(parsePlan(settings.plan), settings);
    try {
      await checkDigests(device.#plan);
    } catch (error) {
      if (device.#settings.debug || error instanceof PlanError) throw error;
    }
    await device.#quietly(() => device.#update(() => {}));
    if (device.#settings.debug) device.#slips();
    else device.#countTags();
    device.#state.watch?.(device.#look);
    globalThis.document?.addEventListener("visibilitychange", device.#onHide);
    return device;
  }

  /** What holds now: the person's choice, or the host's default while there is none. */
  get consent() {
    return this.#consent;
  }

  /** The number of the round under way; -1 where the clock fails. */
  get currentRound() {
    try {
      return roundAt(this.#now(), this.#plan.roundSeconds);
    } catch {
      return -1;
    }
  }

  /** Unix seconds; a clock of the host's own may say anything. */
  #now() {
    const now = this.#settings.clock();
    if (!(Math.abs(now) < 2 ** 53)) throw new RangeError("clock: expected a function that returns unix seconds");
    return now;
  }

  // Values: in memory only; they reach the state within a second, before a round is answered, and on close

  /** Add to a metric's total in the round under way. @param {string} metric @param {unknown} amount */
  add(metric, amount = 1) {
    this.#record(metric, amount, "add");
  }

  /** Set a metric's total in the round under way. @param {string} metric @param {unknown} value */
  set(metric, value) {
    this.#record(metric, value, "set");
  }

  /** Raise a metric's total to a value: the largest of the round counts. @param {string} metric @param {unknown} value */
  max(metric, value) {
    this.#record(metric, value, "max");
  }

  /** Choose one of a metric's labels for the round under way. @param {string} metric @param {string} label */
  choose(metric, label) {
    this.#record(metric, label, "choose");
  }

  /** @param {string} name @param {unknown} given @param {"add" | "set" | "max" | "choose"} verb */
  #record(name, given, verb) {
    try {
      if (this.#closed || !this.#timeline.length) return;
      const round = roundAt(this.#now(), this.#plan.roundSeconds);
      const held = this.#timeline.find(([first]) => first <= round) ?? this.#timeline[this.#timeline.length - 1];
      const metric = held[1]?.byName.get(name);
      if (!metric) {
        if (!this.#plan.byName.has(name)) {
          this.#slip("unknown-metric", `metric ${name} is not in plan ${this.#plan.name}`);
        }
        return;
      }
      const change = this.#changeOf(metric, given, verb);
      if (!change) return;
      this.#pending.put({ round, metric: name, change });
      this.#wake(WRITE_WITHIN);
    } catch (error) {
      if (this.#settings.debug) throw error;
      this.#count("internal");
    }
  }

  /**
   * @param {Metric} metric @param {unknown} given @param {"add" | "set" | "max" | "choose"} verb
   * @returns {Change | null}
   */
  #changeOf(metric, given, verb) {
    if ((metric.kind === "choice") !== (verb === "choose")) {
      this.#slip(
        "wrong-call",
        `metric ${metric.name} is a ${metric.kind}: use ${metric.kind === "choice" ? "choose" : "add, set or max"}`,
      );
      return null;
    }
    if (verb === "choose") {
      const label = metric.labels.indexOf(/** @type {string} */ (given));
      if (label < 0) {
        this.#slip("unknown-label", `label ${given} is not one of metric ${metric.name}`);
        return null;
      }
      return {
        how: metric.pick === "first" ? "keep" : "set",
        amount: clamped(label, metric.maxValue)[0],
        most: metric.maxValue,
        floor: ZERO,
      };
    }
    const [amount, fault] = clamped(given, metric.maxValue);
    if (fault) {
      this.#slip(
        fault,
        `metric ${metric.name} was given a value that is ${fault === "not-a-number" ? "not a number" : "out of range"}`,
        false,
      );
    }
    if (fault === "not-a-number" && metric.absent) return null; // no value was taken
    const most = metric.maxValue;
    return verb === "max"
      ? { how: "add", amount: ZERO, most, floor: amount }
      : { how: verb, amount, most, floor: ZERO };
  }

  // Reports

  /**
   * The bytes of a round's report as JSON, durable before they are returned; the latest finished round unless another
   * is given. Asked again, the same bytes come. null: there is none to give.
   *
   * @param {number} [round]
   */
  async report(round) {
    return this.#quietly(() =>
      this.#update((engine) => {
        const number = round ?? engine.current - 1;
        if (!Number.isSafeInteger(number) || number > engine.current || !engine.active || !engine.sends) return null;
        const kept = engine.report(number) ??
          (engine.isDue(number) && engine.isAsked(number) ? engine.answer(number) : null);
        if (!kept || kept.state === "local") return null; // it never leaves
        engine.tell(kept);
        return kept.body;
      }),
    );
  }

  /**
   * Answer what is due and send what waits, also what would be spread over the round; resolves to how many
   * were accepted.
   */
  async flush() {
    return (await this.#quietly(() => this.#work(true))) ?? 0;
  }

  // What a person can see and stop

  /**
   * Whether to ask the person now: there is no answer yet, no rule silences the device, its state can be used, and there
   * is a page or a terminal to ask in.
   */
  async shouldAsk() {
    const { document, process } = /** @type {any} */ (globalThis);
    if (!document && !(process?.stdin?.isTTY && process.stderr?.isTTY)) return false;
    const isOpen = await this.#quietly(() =>
      this.#update(({ data, setting: { plan, silenced }, now }) =>
        data.inForce === "unset" && !silenced.length && !isExpired(plan, now)),
    );
    return isOpen ?? false;
  }

  /** Enter the person's choice. @param {Consent} consent */
  async setConsent(consent) {
    if (!CONSENTS.includes(consent)) throw new RangeError("consent: expected unset, granted, denied or local");
    const done = await this.#do((engine) => engine.choose(consent), consent !== "granted");
    // A no holds here, also where it cannot be kept.
    if (!done && consent !== "granted") this.#settings.consent = consent;
    return done;
  }

  /** Record and send nothing from now on; rounds that a pause overlaps are never answered. */
  pause() {
    return this.#do((engine) => !engine.isEmpty && engine.pause("asked"));
  }

  /** End a pause; the first round answered is the next one. */
  resume() {
    return this.#do((engine) => engine.resume("asked"), false);
  }

  /**
   * Wipe the remembered answers, the values and what was not sent. Past losses stay: the collector has not
   * forgotten.
   */
  forget() {
    return this.#do((engine) => engine.forget());
  }

  /**
   * Whether a step was taken and, where it silences the device, nothing leaves any more.
   *
   * @param {(engine: Engine) => unknown} step @param {boolean} silences
   */
  async #do(step, silences = true) {
    const done = await this.#quietly(() => this.#update((engine) => step(engine) !== false));
    if (done) this.#state.announce?.();
    if (!silences || !done) return done ?? false;
    // A report that was on its way; not forever, since a transport of the host's own may never answer.
    return soon(this.#sending.then(() => true), LONGEST_SEND + 2);
  }

  /** The exact bytes that would be sent next, and what each bit means in words. */
  async preview() {
    const { previewOf } = await import("./look.js");
    return this.#quietly(() => this.#update(previewOf));
  }

  /** Everything that was told, and what it may have told. */
  async receipt() {
    const { Receipt } = await import("./look.js");
    return (await this.#quietly(() => this.#update((engine) => new Receipt(engine)))) ?? new Receipt(null);
  }

  /** How the device is doing: what it answers, why not, what waits, what went wrong. */
  async status() {
    const { statusOf } = await import("./look.js");
    const status = await this.#quietly(() => this.#update(statusOf));
    const reason = this.#closed ? "the device is closed" : `the state cannot be used: ${this.#problem}`;
    return status ?? { plan: this.#plan.name, active: false, reasons: [reason], notes: { ...this.#notes } };
  }

  // Life

  /** Answer and send in the background from now on. */
  start() {
    this.#started = true;
    this.#wake(0);
    return this;
  }

  /** Write what waits in memory and stop; what waits to be sent is sent after the next start. */
  async close() {
    if (this.#closed) return;
    this.#started = false;
    clearTimeout(this.#timer);
    globalThis.document?.removeEventListener("visibilitychange", this.#onHide);
    await this.#working.catch(() => {});
    await this.#quietly(() => this.#update(() => {}));
    this.#closed = true;
    this.#timeline = [];
    this.#state.close();
  }

  /** Do something within so many seconds. @param {number} seconds */
  #wake(seconds) {
    const at = Date.now() + 1000 * seconds;
    if (this.#closed || at >= this.#wakesAt) return;
    clearTimeout(this.#timer);
    this.#wakesAt = at;
    this.#timer = setTimeout(() => {
      this.#wakesAt = Infinity;
      this.#working = this.#quietly(async () => {
        await (this.#started ? this.#work(false) : this.#write());
      });
    }, 1000 * seconds);
    /** @type {any} */ (this.#timer).unref?.(); // in Node: a device does not keep its program alive
  }

  /** Answer what is due, then send. @param {boolean} early */
  async #work(early) {
    let accepted = 0;
    let sleep = SLEEP_IN_TROUBLE;
    try {
      const [waiting, wakeAt] = await this.#update((engine) => {
        engine.answerDue();
        return [this.#transport ? due(engine, early) : [], nextDue(engine)];
      });
      for (const kept of waiting) {
        if (early || this.#started) accepted += Number(await this.#send(kept)); // not after `close`
      }
      sleep = (waiting.length ? await this.#update(nextDue) : wakeAt) - this.#now();
    } finally {
      if (this.#started) this.#wake(Math.min(Math.max(sleep, 0.05), LONGEST_SLEEP));
    }
    return accepted;
  }

  /**
   * Send one report, unless another tab or process does; resolves to whether it was accepted.
   *
   * @param {Kept} kept
   */
  async #send(kept) {
    const attempt = this.#attempt(kept);
    this.#sending = Promise.allSettled([this.#sending, attempt]);
    const outcome = await attempt;
    if (!outcome) return false;
    const wait = backOff(kept.attempts, this.#plan.roundSeconds, outcome.after);
    await this.#update((engine) => settle(engine, kept, outcome, wait));
    return outcome.kind === "accepted";
  }

  /** What came of sending a report; null where it is not sent. @param {Kept} kept */
  async #attempt(kept) {
    // The claim is durable before a byte leaves: no other sends it now, and after a crash the receipt lists it.
    if (!this.#transport || !(await this.#update((engine) => claim(engine, kept)))) return null;
    try {
      const outcome = await this.#transport.send(kept.body, LONGEST_SEND);
      if (["accepted", "rejected", "retry"].includes(outcome.kind)) return outcome;
    } catch {
      // one of the host's own may reject with anything, and return anything
    }
    this.#count("transport");
    return /** @type {import("./transport.js").Outcome} */ ({ kind: "retry", reason: "transport" });
  }

  /**
   * One call: the program runs now, and the state changes by one step.
   *
   * @template Result @param {(engine: Engine) => Result} step @returns {Promise<Result>}
   */
  #update(step) {
    return this.#change((engine, record) => {
      engine.begin();
      engine.notePresence();
      record();
      const result = step(engine);
      engine.notePresence();
      return result;
    });
  }

  /** Write what waits in memory, and nothing else: what shows outside must not depend on values. */
  #write() {
    return this.#change((_engine, record) => record());
  }

  /**
   * Change the state; it takes along what waits in memory.
   *
   * @template Result @param {(engine: Engine, record: () => void) => Result} step @returns {Promise<Result>}
   */
  async #change(step) {
    if (this.#closed) throw new Error("the device is closed");
    await checkDigests(this.#plan);
    const [recorded, notes] = [this.#pending.take(), this.#notes];
    this.#notes = emptyTable();
    /** @type {Result | undefined} */
    let result;
    /** @type {Engine | undefined} */
    let last;
    try {
      await this.#state.update((text, head) => {
        const { consent, askAgain, segment, environment } = this.#settings;
        const setting = {
          plan: this.#plan,
          policy: this.#policy,
          consent,
          askAgain,
          segment,
          silenced: this.#policy.silencedBy(environment()),
          now: this.#now(),
        };
        const data = text === null
          ? emptyData()
          : fromText(text) ?? afterDamage(setting, limitsOf(text, head ?? ""));
        const engine = new Engine(data, setting, this.#session);
        result = step(engine, () => {
          engine.record(recorded);
          for (const [kind, count] of Object.entries(notes)) engine.note(kind, count);
        });
        last = engine;
        return engine.isEmpty ? null : toText(data);
      });
    } catch (error) {
      this.#pending.putBack(recorded); // they wait for the next change
      for (const [kind, count] of Object.entries(notes)) this.#count(kind, count);
      throw error;
    }
    if (last) {
      const engine = last;
      this.#session = { verdict: engine.verdict, onSince: engine.onSince };
      this.#consent = engine.data.inForce;
      this.#timeline = engine.active
        ? engine.data.plans.slice(-4).reverse().map((held) => [held.fromRound, engine.planFor(held.fromRound)])
        : [];
    }
    return /** @type {Result} */ (result);
  }

  /**
   * Nothing reaches the host, unless it asked for it.
   *
   * @template Result @param {() => Promise<Result>} work @returns {Promise<Result | null>}
   */
  async #quietly(work) {
    try {
      const result = await work();
      this.#problem = "";
      return result;
    } catch (error) {
      if (this.#settings.debug) throw error;
      this.#problem = error instanceof Error ? error.message : String(error);
      if (this.#closed) this.#count("closed");
      else this.#count(error instanceof NewerStateError ? "state-newer" : "state");
      return null;
    }
  }

  /** @param {string} kind @param {number} count */
  #count(kind, count = 1) {
    this.#notes[kind] = (this.#notes[kind] ?? 0) + count;
  }

  /**
   * A slip of the developer: raised in debug, counted otherwise.
   *
   * @param {string} kind @param {string} message @param {boolean} raised
   */
  #slip(kind, message, raised = true) {
    if (this.#settings.debug && raised) throw new Error(message);
    this.#count(kind);
  }

  /** Tags that the plan does not have are left out or sent as "other". */
  #countTags() {
    for (const [name, tag] of Object.entries(this.#settings.segment)) {
      const declared = this.#plan.segments.find((one) => one.name === name);
      if (!declared) this.#count(`unknown-segment: ${plainName(name)}`);
      else if (![...declared.values, "other"].includes(/** @type {string} */ (tag))) {
        this.#count(`unknown-tag: ${name}`);
      }
    }
  }

  /** In debug, what would keep the device silent without a word, by name. */
  #slips() {
    const { segment } = this.#settings;
    for (const [name, value] of Object.entries(segment)) {
      const declared = this.#plan.segments.find((one) => one.name === name);
      if (!declared) throw new Error(`segment ${name} is not in plan ${this.#plan.name}`);
      if (!declared.values.includes(/** @type {string} */ (value)) && value !== "other") {
        throw new Error(`segment ${name} has no value ${value}`);
      }
    }
    if (isExpired(this.#plan, this.#settings.clock())) {
      throw new Error(`plan ${this.#plan.name} expired on ${this.#plan.expires}`);
    }
    if (this.#session.verdict?.refused.length) {
      throw new Error(`plan ${this.#plan.name} is refused: ${this.#session.verdict.refused.join("; ")}`);
    }
  }
}

/** A name of the host's own, for a note. @param {string} name */
const plainName = (name) => name.slice(0, 64).replace(/[^A-Za-z0-9_.-]/g, "?");

/**
 * What a promise resolves to; false when it takes longer.
 *
 * @param {Promise<boolean>} promise @param {number} seconds
 */
function soon(promise, seconds) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {Promise<boolean>} */
  const tooLong = new Promise((resolve) => (timer = setTimeout(resolve, 1000 * seconds, false)));
  return Promise.race([promise, tooLong]).finally(() => clearTimeout(timer));
}
