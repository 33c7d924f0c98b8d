// The device: a quiet guest in somebody else's page or program.

import { emptyData, emptyTable, fromText, knownLayout, layoutOf, limitsOf, NewerStateError, toText } from "./data.js";
import { clamped, ZERO } from "./fraction.js";
import { Pending } from "./pending.js";
import { checkDigests, parsePlan, PlanError } from "./plan.js";
import { Policy, readEnvironment } from "./policy.js";
import { roundAt } from "./times.js";
import { httpTransport, LONGEST_SEND } from "./transport.js";

/** @typedef {import("./data.js").Change} Change */
/** @typedef {import("./data.js").Consent} Consent */
/** @typedef {import("./data.js").Kept} Kept */
/** @typedef {import("./engine.js").Engine} Engine */
/** @typedef {import("./plan.js").Metric} Metric */

const CONSENTS = ["unset", "granted", "denied", "local"];
const LONGEST_SLEEP = 300; // s, as those below
const SLEEP_IN_TROUBLE = 30;
const WRITE_WITHIN = 1;
const MOST_NAMES = 16;

/** Answers a plan on behalf of one device: values in, at most one report per round out. See the README. */
export class Device {
  /**
   * What records, answers and sends: loaded once there is a yes or a choice to keep, so a page whose person has not
   * agreed loads no more than this entry.
   *
   * @type {() => Promise<typeof import("./engine.js")>}
   */
  static load = () => import("./engine.js");
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
  /** @type {Set<string>} kinds of notes with the name they are about */
  #names = new Set();
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
  #look = () => void this.#quietly(() => this.#arrive());
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
    const device = new this(parsePlan(settings.plan), settings);
    try {
      await checkDigests(device.#plan);
    } catch (error) {
      if (device.#settings.debug || error instanceof PlanError) throw error;
    }
    await device.#quietly(() => device.#arrive());
    device.#checkSettings();
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
      const metric = held[1]?.recorded.get(name);
      if (!metric) {
        if (!this.#plan.recorded.has(name)) {
          this.#slip(this.#named("unknown-metric", name), `metric ${name} is not in plan ${this.#plan.name}`);
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
        metric.kind === "choice" ? "unknown-label" : "not-a-number",
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
    if (fault === "not-a-number" && metric.absent && metric.kind !== "split") return null; // no value was taken
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
    const isOpen = await this.#quietly(async () => {
      await this.#arrive();
      const { length } = this.#policy.silencedBy(this.#settings.environment());
      return this.#consent === "unset" && !length && !this.#plan.isExpired(this.#now());
    });
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
    return this.#do((engine) => engine.pause("asked"));
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

  /**
   * For `reticent/look`, which says what a person can see: what it makes of the state.
   *
   * @template Seen
   * @param {(engine: Engine | null, silent: import("./look.js").Silent) => Seen} what without an engine: the state
   *   could not be used
   */
  async look(what) {
    /** @type {import("./look.js").Silent} */
    const silent = { plan: this.#plan.name, reason: "", notes: this.#notes };
    const seen = await this.#quietly(() => this.#update((engine) => ({ what: what(engine, silent) })));
    if (seen) return seen.what;
    silent.reason = this.#closed ? "the device is closed" : `the state cannot be used: ${this.#problem}`;
    return what(null, { ...silent, notes: { ...this.#notes } });
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
    await this.#quietly(() => this.#arrive());
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
      if (await this.#isIdle()) {
        sleep = LONGEST_SLEEP;
        return 0;
      }
      const { due, nextDue } = await this.#load();
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
    const { backOff, settle } = await this.#load();
    const wait = backOff(kept.attempts, this.#plan.roundSeconds, outcome.after);
    await this.#update((engine) => settle(engine, kept, outcome, wait));
    return outcome.kind === "accepted";
  }

  /** What came of sending a report; null where it is not sent. @param {Kept} kept */
  async #attempt(kept) {
    // The claim is durable before a byte leaves: no other sends it now, and after a crash the receipt lists it.
    const { claim } = await this.#load();
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

  #load() {
    return /** @type {typeof Device} */ (this.constructor).load();
  }

  /** The program runs now. */
  async #arrive() {
    if (!(await this.#isIdle())) await this.#update(() => {});
  }

  /** Whether nobody has agreed to anything, so that there is nothing to do. A look at the state tells. */
  async #isIdle() {
    if (this.#closed) throw new Error("the device is closed");
    await checkDigests(this.#plan); // not without WebCrypto either
    const usual = this.#settings.consent;
    if (isYes(this.#consent) || isYes(usual)) return false;
    /** @type {Consent | undefined} */
    let holds;
    await this.#state.update((text) => {
      const { choice, inForce } = text === null ? { choice: null, inForce: usual } : fromText(text) ?? {};
      const isKept = text === null || layoutOf(text) === knownLayout();
      holds = isKept && inForce === (choice?.said ?? usual) && !isYes(inForce) ? inForce : undefined;
      return text;
    });
    if (holds) this.#consent = holds;
    return holds !== undefined;
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
    const { afterDamage, Engine } = await this.#load();
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
      else this.#count(error instanceof NewerStateError ? "state-newer" : "state-broken");
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

  /**
   * A kind with a name that the host gave: so many of them, later ones are counted together.
   *
   * @param {string} kind @param {unknown} name
   */
  #named(kind, name) {
    if (typeof name !== "string") return kind;
    const named = `${kind}: ${name.slice(0, 64).replace(/[^A-Za-z0-9_.-]/g, "?")}`;
    if (this.#names.size < MOST_NAMES) this.#names.add(named);
    return this.#names.has(named) ? named : kind;
  }

  /** What keeps the device silent without a word, or changes a tag: counted, and raised in debug. */
  #checkSettings() {
    const { segments } = this.#plan;
    for (const [name, tag] of Object.entries(this.#settings.segment)) {
      const values = segments.find((segment) => segment.name === name)?.values;
      if (!values) this.#slip(this.#named("unknown-segment", name), `segment ${name} is not in plan ${this.#plan.name}`);
      else if (tag !== "other" && !values.includes(/** @type {string} */ (tag))) {
        this.#slip(this.#named("unknown-tag", name), `segment ${name} has no value ${tag}`);
      }
    }
    const { refused = [] } = this.#session.verdict ?? {};
    if (!this.#settings.debug) return;
    if (this.#plan.isExpired(this.#now())) throw new Error(`plan ${this.#plan.name} expired on ${this.#plan.expires}`);
    if (refused.length) throw new Error(`plan ${this.#plan.name} is refused: ${refused.join("; ")}`);
  }
}

/** @param {Consent | undefined} consent */
const isYes = (consent) => consent === "granted" || consent === "local";

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
