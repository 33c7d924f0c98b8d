// What a device tells and has told and how it is doing, for the person whose device it is: `device.look(receipt)`. An
// entry of its own, `reticent/look`: a page that only records does not load it.

import { Engine } from "./engine.js";
import { emptyTable } from "./data.js";
import { compose, lossOfRound } from "./losses.js";
import { YEAR } from "./policy.js";
import { startOf } from "./times.js";

/** @typedef {import("./device.js").Device} Device */
/** @typedef {import("./plan.js").Metric} Metric */
/** @typedef {import("./plan.js").Plan} Plan */

/** @typedef {{ name: string, unit: string, description: string }} Question */
/** @typedef {{ plan: string, reason: string, notes: Record<string, number> }} Silent a device whose state cannot be used, and why */

/** The exact bytes that would be sent next, and what each bit means in words. @param {Device} device */
export const previewOf = (device) => device.look(preview);

/** Everything that was told, and what it may have told. @param {Device} device */
export const receiptOf = (device) => device.look((engine) => new Receipt(engine));

/** How the device is doing: what it answers, why not, what waits, what went wrong. @param {Device} device */
export const statusOf = (device) => device.look(status);

const STYLE = [
  "body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}",
  "table{border-collapse:collapse;margin:1rem 0}caption{text-align:left;font-weight:bold}",
  "th,td{text-align:left;padding:.1rem .8rem .1rem 0}",
].join("");

const CONSENT = {
  unset: "consent is unset: the person has not been asked, or has to be asked again",
  denied: "consent is denied",
  local: "consent is local: reports are made and shown here, and never sent",
};

/**
 * A text of a plan or of a host, without what could command a terminal or turn the order of letters around.
 *
 * @param {string} text
 */
const plain = (text) => text.replace(
  /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu,
  (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`,
);

/** A loss for people: rounded up to four digits, to within 1e-15 of the loss. @param {number} loss */
function printed(loss) {
  if (loss === Infinity) return "infinite";
  if (loss === 0) return "0.0";
  const exact = loss * (1 - 1e-15); // the figure was itself rounded up by that much
  const digits = Math.max(0, 3 - Math.floor(Math.log10(exact)));
  const text = (Math.ceil(exact * 10 ** digits) / 10 ** digits).toFixed(digits).replace(/\.?0+$/, "");
  return text.includes(".") || Number(text) >= 10 ? text : `${text}.0`;
}

/**
 * The answer bits of each metric that was asked, by name.
 *
 * @param {string} bits @param {boolean[]} asked @param {[string, number][]} layout
 */
function bitsByMetric(bits, asked, layout) {
  /** @type {Record<string, string>} */
  const byName = emptyTable(); // a metric may be called "constructor"
  let place = 0;
  layout.forEach(([name, count], number) => {
    if (asked[number]) byName[name] = bits.slice(place, place + count);
    place += count;
  });
  return byName;
}

/** What a metric's bits say, in words. @param {Metric} metric @param {string} bits */
function meaning(metric, bits) {
  const { kind, maxValue, unit, labels, parts, mechanism } = metric;
  const range = `0 to ${maxValue}${unit ? ` ${unit}` : ""}`;
  const rest = parts.length ? "the unused rest" : "nothing";
  const of = labels.length || parts.length ? `one of ${[...labels, ...parts].join(", ")}, or ${rest}` : range;
  const holds = parts.length ? "that part was picked" : "the value was in it";
  const says =
    kind === "mean"
      ? `a 1 is the likelier the larger the value was (${range})`
      : kind === "flag"
        ? "a 1 is likelier if it happened"
        : mechanism.bits > 1 || "variant" in mechanism
          ? `each bit is about one bucket (${of}) and likelier 1 if ${holds}`
          : `a 1 is likelier from some buckets than from others (${of}), which the cohort picks`;
  const times = `at most e^${printed(lossOfRound(metric))} times as likely from one value as from any other`;
  return `${bits}: ${says}. These bits are ${times}.`;
}

/**
 * The exact bytes that would be sent next, and what each bit means; null where there are none.
 *
 * @param {Engine | null} engine
 */
function preview(engine) {
  if (!engine) return null;
  const { current, data, setting } = engine;
  const waiting = data.reports.find(({ state }) => state === "waiting");
  if (waiting) return described(waiting, engine, "This is waiting to be sent.");
  const end = startOf(current + 1, setting.plan.roundSeconds);
  const ahead = engine.active ? new Engine(data, setting, engine).moveTo(end) : null;
  if (!ahead?.isDue(current) || !ahead.isAsked(current)) return null;
  const { plan, ...made } = ahead.answerOf(current);
  const kept = { ...made, version: plan.version, round: current };
  return described(kept, engine, "This would be sent if the round under way ended now.");
}

/**
 * The bytes of a report and what each bit means.
 *
 * @param {{ body: string, bits: string, asked: boolean[], round: number, version: number }} kept
 * @param {Engine} engine @param {string} when
 */
function described({ body, bits, asked, round, version }, engine, when) {
  const held = engine.data.plans.find((one) => one.version === version);
  const plan = engine.planFor(round) ?? engine.setting.plan;
  const answers = Object.entries(bitsByMetric(bits, asked, held?.layout ?? [])).map(([name, own]) => {
    const metric = plan.byName.get(name);
    return {
      metric: name,
      description: plain(metric?.description ?? ""),
      bits: own,
      meaning: metric ? plain(meaning(metric, own)) : own,
    };
  });
  const { id, cohort, segment } = JSON.parse(body);
  const lasts = plan.sampled ? "drawn again in each window" : "the same in every round";
  const words = [
    `id ${id}: names this report alone; ids of other rounds are unrelated to it`,
    ...(cohort === undefined ? [] : [`cohort ${cohort}: a public byte of this device, ${lasts}`]),
    ...answers.map(({ metric, meaning: says }) => `${metric} = ${says}`),
    ...Object.entries(segment ?? {}).map(([name, tag]) => `${name} = ${tag}: a public tag`),
  ];
  const toString = () => [body, when, ...words.map((line) => `  ${line}`)].join("\n");
  return { body, round, when, answers, toString };
}

/** Every report of a device, and what they may have told together. */
class Receipt {
  /** @param {Engine | null} engine null: the state could not be read */
  constructor(engine) {
    const data = engine?.data;
    const seconds = data?.roundSeconds ?? 0;
    const date = (/** @type {number} */ round) => new Date(startOf(round, seconds) * 1000).toISOString();
    this.plan = data?.plan ?? "";
    this.owner = plain(engine?.setting.plan.owner ?? "");
    this.problem = engine ? "" : "The state could not be read.";
    this.metrics = (engine?.setting.plan.metrics ?? []).map(
      (/** @type {Metric} */ { name, description, unit }) => ({
        name,
        description: plain(description),
        unit: plain(unit),
      }),
    );
    this.reports = (data?.reports ?? []).map(({ round, version, epoch, body, bits, asked, state, code }) => {
      const layout = data?.plans.find((one) => one.version === version)?.layout ?? [];
      return {
        round,
        from: date(round),
        to: date(round + 1),
        version,
        epoch,
        state,
        code: plain(code),
        body,
        bits: bitsByMetric(bits, asked, layout),
      };
    });
    /** Reports that are not listed any more, by what became of them. */
    this.earlier = { ...data?.earlier };
    this.losses = (data?.ledger ?? []).map(
      ({ metric, epoch, classes, loss, lifetime }) => ({ metric, epoch, answersUsed: classes.length, loss, lifetime }),
    );
    if (data?.lost) {
      // Windows of earlier years are not known any more, so there is no bound where answers were sampled.
      const loss = data.lost.sampled ? Infinity : data.lost.lifetime;
      this.losses.unshift({ metric: "", epoch: 0, answersUsed: 0, loss, lifetime: loss });
    }
    this.windows = structuredClone(data?.windows ?? []);
    this.epochs = structuredClone(data?.epochs ?? []);
    const answered = this.windows.filter(({ round }) => round !== null);
    /** Bound on what remembered answers have told so far. */
    this.remembered = compose(this.losses.map(({ loss }) => loss));
    /** Bound on what the windows that were answered have told. */
    this.sampled = compose(answered.map(({ loss }) => loss));
    this.totalLoss = compose([this.remembered, this.sampled]);
    /** Bound on everything that what was asked so far can ever tell; windows count once they are held. */
    this.totalLifetime = compose([
      ...this.losses.map(({ lifetime }) => lifetime),
      ...this.windows.map(({ loss }) => loss),
    ]);
    const ofWindows = [
      `This state answered ${answered.length} of the ${this.windows.length} windows it held.`,
      claim(this.sampled, "All their reports together", "from one history of your values as from any other"),
    ].join(" ");
    const ofAnswers = claim(
      this.remembered,
      "All answers so far",
      "from this device as from any other whose rounded values repeat in the same pattern",
    );
    /** What the losses mean: whom they compare, over what. */
    this.meaning = [
      ...(this.windows.length ? [ofWindows] : []),
      ...(this.losses.length || !this.windows.length ? [ofAnswers] : []),
    ].join(" ");
  }

  /** @returns {[string, string[][]][]} tables: a title, and rows of which the first is the head */
  #tables() {
    const names = [...new Set(this.reports.flatMap(({ bits }) => Object.keys(bits)))];
    const reports = this.reports.map(({ from, to, version, state, code, bits }) => [
      from,
      to,
      `v${version}`,
      code ? `${state} (${code})` : state,
      ...names.map((name) => bits[name] ?? ""),
    ]);
    const losses = this.losses.map(({ metric, loss, lifetime, answersUsed }) => [
      metric || "a lost state",
      printed(loss),
      printed(lifetime),
      metric ? `${answersUsed}` : "all",
    ]);
    const more = Object.entries(this.earlier).map(([state, count]) => `, and ${count} earlier ${state}`).join("");
    const together = ["together, with windows", printed(this.totalLoss), printed(this.totalLifetime), ""];
    return [
      [`Reports of plan ${this.plan}${more}`, [["from", "to", "version", "state", ...names], ...reports]],
      [
        "Privacy loss",
        [["question", "loss so far", "maximum", "remembered answers used"], ...losses, together],
      ],
      [
        "What is asked",
        [
          ["question", "unit", "description"],
          ...this.metrics.map((/** @type {Question} */ { name, unit, description }) => [name, unit, description]),
        ],
      ],
    ];
  }

  #notes() {
    return [
      ...(this.problem ? [this.problem] : []),
      this.meaning,
      ...this.epochs.map(
        ({ epoch, beganIn, reason }) => `Epoch ${epoch} began in round ${beganIn}: ${reason}.`,
      ),
      ...(this.owner ? [`Questions: ${this.owner}`] : []),
    ];
  }

  toString() {
    const tables = this.#tables().map(
      ([title, rows]) => [title, ...rows.map((row) => `  ${row.join("  ")}`)].join("\n"),
    );
    return [...tables, ...this.#notes()].join("\n");
  }

  /** A page by itself, without scripts, that an application can open for its user. */
  html() {
    const safe = (/** @type {string} */ text) => text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
    const row = (/** @type {string} */ tag, /** @type {string[]} */ cells) =>
      `<tr>${cells.map((cell) => `<${tag}>${safe(cell)}</${tag}>`).join("")}</tr>`;
    const tables = this.#tables().map(([title, [head, ...rows]]) => {
      const body = rows.map((cells) => row("td", cells)).join("");
      return `<table><caption>${safe(title)}</caption><thead>${row("th", head)}</thead><tbody>${body}</tbody></table>`;
    });
    const notes = this.#notes().map((note) => `<p>${safe(note)}</p>`);
    const title = "What this device has told";
    return [
      `<!doctype html><html lang="en"><meta charset="utf-8"><title>${title}</title><style>${STYLE}</style>`,
      `<h1>${title}</h1>`,
      ...tables,
      ...notes,
      "</html>",
    ].join("\n");
  }
}

/** @param {number} loss @param {string} what @param {string} whom */
const claim = (loss, what, whom) =>
  loss === Infinity
    ? `${what} have no bound: a state was lost.`
    : `${what} are at most e^${printed(loss)} times as likely ${whom}.`;

/**
 * When the next answer is given if nothing changes, unix seconds; null: never.
 *
 * @param {Engine} engine
 */
function nextAnswer(engine) {
  const { data, setting, current } = engine;
  const { roundSeconds } = setting.plan;
  if (!engine.active || data.enrolledFrom === null) return null;
  const ahead = new Engine(structuredClone(data), setting, engine);
  const first = Math.max(data.enrolledFrom, current);
  for (let round = first; round < current + Math.floor((3 * YEAR) / roundSeconds); round++) {
    const plan = engine.planFor(round);
    const end = startOf(round + 1, roundSeconds);
    if (!plan || plan.isExpired(end)) return null;
    if (plan.windowOf(round)?.first === round) ahead.moveTo(startOf(round, roundSeconds)).notePresence();
    const isFree = round > data.silentThrough && !engine.isPausedIn(round, round);
    if (isFree && ahead.moveTo(end).isAsked(round)) return end;
  }
  return null;
}

/**
 * How a device is doing. Nothing here is a value or comes from one, except `notes`, which stay on the device.
 *
 * @param {Engine | null} engine @param {Silent} silent
 */
function status(engine, silent) {
  if (!engine) return { plan: silent.plan, active: false, reasons: [silent.reason], notes: silent.notes };
  const { data, verdict, setting: { plan, silenced }, current, now } = engine;
  const waiting = data.reports.filter(({ state }) => state === "waiting");
  const count = (/** @type {string} */ state) =>
    data.reports.filter((kept) => kept.state === state).length + (data.earlier[state] ?? 0);
  return {
    plan: plan.name,
    version: data.plans.at(-1)?.version ?? null,
    consent: data.inForce,
    active: engine.active,
    reasons: [
      ...(data.inForce === "granted" ? [] : [CONSENT[data.inForce]]),
      ...(engine.isPaused("asked") ? ["paused"] : []),
      ...silenced,
      ...(verdict?.refused ?? []).map((reason) => `refused: ${reason}`),
      ...(plan.isExpired(now) ? [`the plan expired on ${plan.expires}`] : []),
    ],
    epoch: data.epoch,
    currentRound: current,
    answersFrom: data.enrolledFrom === null ? null : Math.max(data.enrolledFrom, data.silentThrough + 1),
    nextAnswer: nextAnswer(engine),
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
