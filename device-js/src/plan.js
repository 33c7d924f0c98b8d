// A plan as `reticent plan export` writes it, and every reason to refuse one.
//
// All that a remembered answer depends on is digested again here, so a device answers exactly the plan that was
// exported or none: a changed threshold, edge or label has another digest, and a field that this version does not
// know but that matters is in the digest too.

import { asciiJson, fromHex, sha256, toHex } from "./bytes.js";
import { WHOLE } from "./draws.js";
import { Fraction } from "./fraction.js";
import { DBitFlip, HadamardBit, OneBitMean } from "./mechanisms.js";
import { FIRST_MONDAY, firstRoundFrom, startOf } from "./times.js";

/** @typedef {{ start: number, first: number, rounds: number }} Window `start` in unix seconds */
/** @typedef {{ name: string, metrics: string[], maxTotal: Fraction }} Group */
/** @typedef {{ name: string, values: string[] }} Segment */

const NAME = /^[a-z][a-z0-9_-]{0,63}$/;
const TAG = /^[A-Za-z0-9][A-Za-z0-9_.+ -]{0,31}$/;

/** A plan that cannot be answered, and why. */
export class PlanError extends Error {
  name = "PlanError";
}

/** @param {boolean} holds @param {string} where @param {string} expected @returns {asserts holds} */
function expect(holds, where, expected) {
  if (!holds) throw new PlanError(`plan: ${where}: expected ${expected}`);
}

/** @param {any} value @param {number} low @param {number} high */
const isWhole = (value, low, high) => Number.isSafeInteger(value) && value >= low && value <= high;

/** @param {any} value @returns {value is Record<string, any>} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * An integer of 64 bits as text.
 *
 * @param {any} text @param {string} where @param {bigint} low @param {bigint} high
 */
function integer(text, where, low, high) {
  expect(typeof text === "string" && /^(0|[1-9]\d{0,19})$/.test(text), where, "an integer as text");
  expect(BigInt(text) >= low && BigInt(text) <= high, where, `an integer from ${low} to ${high}`);
  return BigInt(text);
}

/** @param {any} text @param {string} where */
function number(text, where) {
  try {
    if (typeof text === "string") return Fraction.parse(text);
  } catch {
    // the message below says where
  }
  throw new PlanError(`plan: ${where}: expected a number as text, such as "3" or "15/2"`);
}

/**
 * Numbers that start at 0 and increase.
 *
 * @param {any} texts @param {string} where @param {number} fewest @param {number} most
 */
function increasing(texts, where, fewest, most) {
  expect(
    Array.isArray(texts) && texts.length >= fewest && texts.length <= most,
    where,
    `${fewest} to ${most} numbers as text`,
  );
  const points = texts.map(
    (/** @type {any} */ text, /** @type {number} */ place) => number(text, `${where}[${place}]`),
  );
  expect(
    points[0].n === 0n && points.every((point, place) => !place || points[place - 1].below(point)),
    where,
    "numbers that start at 0 and increase",
  );
  return points;
}

/**
 * @param {any} texts @param {string} where @param {number} fewest @param {RegExp} pattern @returns {string[]}
 */
function names(texts, where, fewest, pattern) {
  expect(
    Array.isArray(texts) && texts.length >= fewest && texts.length <= 254,
    where,
    `a list of ${fewest} to 254 texts`,
  );
  expect(
    texts.every((/** @type {any} */ text) => typeof text === "string" && pattern.test(text)),
    where,
    `texts like ${pattern.source}`,
  );
  expect(new Set(texts).size === texts.length, where, "different texts");
  return texts;
}

/** One question of a plan, with the mechanism that answers it. */
export class Metric {
  /** @param {any} table @param {string} where @param {string} plan */
  constructor(table, where, plan) {
    expect(isObject(table), where, "a table");
    expect(NAME.test(table.name), `${where}.name`, "a name of lower-case letters, digits, - and _");
    /** @type {string} */
    this.name = table.name;
    where = `metrics.${this.name}`;
    expect(
      ["mean", "flag", "histogram", "choice"].includes(table.kind),
      `${where}.kind`,
      "mean, histogram, choice or flag",
    );
    /** @type {"mean" | "flag" | "histogram" | "choice"} */
    this.kind = table.kind;
    this.unit = String(table.unit ?? "");
    this.description = String(table.description ?? "");
    /** Turns a bit over when its draw is smaller. */
    this.flip = integer(table.flip, `${where}.flip`, 0n, (WHOLE - 1n) / 2n);
    /** @type {string[]} what a choice is made from: label i is the value i */
    this.labels = this.kind === "choice" ? names(table.labels, `${where}.labels`, 2, TAG) : [];
    /** @type {"first" | "last"} which of several choices in a round counts */
    this.pick = table.pick ?? "last";
    expect(this.pick === "first" || this.pick === "last", `${where}.pick`, "first or last");
    this.absent = this.kind === "choice" || table.absent === true;
    this.mechanism = mechanism(this, table, where, `${plan}/${table.name}`);
    const { points } = this.mechanism;
    this.maxValue = points[points.length - 1];
    expect(
      typeof table.digest === "string" && /^[0-9a-f]{64}$/.test(table.digest),
      `${where}.digest`,
      "64 hexadecimal digits",
    );
    this.digest = fromHex(table.digest);
    /** @type {Group | null} */
    this.group = null;
    if (this.kind === "flag") expect(String(points) === "0,1", `${where}.points`, "0 and 1");
    if (this.labels.length) {
      expect(
        String(points) === String(Object.keys([...this.labels, ""])),
        `${where}.edges`,
        "0, 1, 2, … for the labels",
      );
    }
    const cells = "cells" in this.mechanism ? this.mechanism.cells.map(String) : undefined;
    expect(String(table.thresholds) === String(cells), `${where}.thresholds`, cells ? `${cells}` : "none");
  }

  /** What the digest is of. @param {Metric[]} metrics @returns {unknown[]} */
  parameters(metrics) {
    /** @type {unknown[]} */
    let parameters = this.mechanism.parameters;
    if (this.labels.length) parameters = [parameters, "choice", this.labels, this.pick];
    else if (this.absent) parameters = [parameters, "absent"];
    const { group } = this;
    if (!group) return parameters;
    const members = metrics.filter((metric) => metric.group === group).map(
      (metric) => [metric.name, `${metric.maxValue}`],
    );
    return [parameters, `${group.maxTotal}`, members.sort(([one], [other]) => (one < other ? -1 : 1))];
  }
}

/** @param {Metric} metric @param {any} table @param {string} where @param {string} label */
function mechanism(metric, table, where, label) {
  const low = integer(table.low, `${where}.low`, 1n, WHOLE / 2n - 1n);
  if (metric.kind === "mean" || metric.kind === "flag") {
    expect(
      table.mechanism === "one-bit-mean" && table.bits === 1 && !metric.absent,
      where,
      "one bit by one-bit-mean",
    );
    return new OneBitMean(low, increasing(table.points, `${where}.points`, 2, 1025));
  }
  const edges = increasing(table.edges, `${where}.edges`, 3, 257);
  const buckets = edges.length - 1 + Number(metric.absent);
  if (table.mechanism === "hadamard-bit") {
    expect(table.bits === 1 && buckets < 256, where, "one bit and at most 255 buckets");
    return new HadamardBit(low, edges, metric.absent);
  }
  expect(table.mechanism === "d-bit-flip", `${where}.mechanism`, "one-bit-mean, hadamard-bit or d-bit-flip");
  expect(buckets <= 256 && isWhole(table.bits, 1, buckets), `${where}.bits`, `1 to ${buckets}, of at most 256`);
  expect(table.variant === "tight" || table.variant === "paper", `${where}.variant`, "tight or paper");
  expect(table.label === label, `${where}.label`, label);
  const order = Array.isArray(table.order) ? table.order : [];
  expect(
    order.length === buckets && new Set(order).size === buckets && order.every(
      (/** @type {unknown} */ one) => isWhole(one, 0, buckets - 1),
    ),
    `${where}.order`,
    "every bucket once",
  );
  return new DBitFlip(low, edges, metric.absent, table.bits, table.variant, label, order);
}

/** What is asked, of whom, how often and how privately. */
export class Plan {
  /**
   * Reads an export, without its digests: those of a plan from elsewhere are checked by `readPlan`.
   *
   * @param {any} table
   */
  constructor(table) {
    expect(
      isObject(table) && table.format === "reticent-plan-1",
      "format",
      'what `reticent plan export` writes ("reticent-plan-1")',
    );
    expect(NAME.test(table.name), "name", "a name of lower-case letters, digits, - and _");
    expect(isWhole(table.version, 1, 2 ** 31 - 1), "version", "a whole number from 1");
    expect(isWhole(table.round_seconds, 1, 10 ** 12), "round_seconds", "a whole number from 1");
    expect(isWhole(table.grace_seconds, 1, 10 ** 12), "grace_seconds", "a whole number from 1");
    expect(
      table.expires === null ||
        (/^\d{4}-\d\d-\d\d$/.test(table.expires) && !Number.isNaN(Date.parse(table.expires))),
      "expires",
      "a date or null",
    );
    expect(
      Array.isArray(table.metrics) && isWhole(table.metrics.length, 1, 1000),
      "metrics",
      "1 to 1,000 metrics",
    );
    expect(
      typeof table.fingerprint === "string" && /^[0-9a-f]{64}$/.test(table.fingerprint),
      "fingerprint",
      "64 hexadecimal digits",
    );
    this.table = table;
    /** @type {string} */
    this.name = table.name;
    /** @type {number} */
    this.version = table.version;
    /** @type {number} */
    this.roundSeconds = table.round_seconds;
    /** @type {number} */
    this.graceSeconds = table.grace_seconds;
    this.owner = String(table.owner ?? "");
    /** @type {string | null} */
    this.expires = table.expires;
    /** @type {string} */
    this.fingerprint = table.fingerprint;
    this.metrics = table.metrics.map(
      (/** @type {any} */ one, /** @type {number} */ place) => new Metric(one, `metrics[${place}]`, table.name),
    );
    /** @type {Map<string, Metric>} */
    this.byName = new Map(this.metrics.map((/** @type {Metric} */ metric) => [metric.name, metric]));
    expect(this.byName.size === this.metrics.length, "metrics", "different names");
    this.groups = this.#groups(table.groups);
    this.segments = this.#segments(table.segments);
    const answers = isObject(table.answers) ? table.answers : {};
    expect(
      answers.kind === "remembered" || answers.kind === "sampled",
      "answers.kind",
      "remembered or sampled",
    );
    this.sampled = answers.kind === "sampled";
    const asked = answers.metrics ?? this.metrics.length;
    expect(isWhole(asked, 1, this.metrics.length), "answers.metrics", `1 to ${this.metrics.length}`);
    if (this.sampled) {
      expect(isWhole(answers.window, 1, 10 ** 9), "answers.window", "a whole number of rounds");
      expect(
        this.metrics.every((/** @type {Metric} */ metric) => metric.flip === 0n),
        "answers",
        "metrics without a flip, since answers are sampled",
      );
    }
    /** Rounds of a window; 0 where answers are remembered. @type {number} */
    this.window = this.sampled ? answers.window : 0;
    /** How many metrics a report answers. @type {number} */
    this.asked = asked;
    /** Whether a device answers some of the metrics for as long as it remembers, and never the others. */
    this.isDivided = !this.sampled && asked < this.metrics.length;
    this.usesCohort = this.metrics.some((/** @type {Metric} */ metric) => metric.mechanism.usesCohort);
  }

  /** @param {any} tables @returns {Group[]} */
  #groups(tables) {
    expect(Array.isArray(tables), "groups", "a list");
    return tables.map((table, place) => {
      const where = `groups[${place}]`;
      expect(isObject(table) && NAME.test(table.name), `${where}.name`, "a name");
      const group = {
        name: table.name,
        metrics: names(table.metrics, `${where}.metrics`, 1, NAME),
        maxTotal: number(table.max_total, `${where}.max_total`),
      };
      expect(group.maxTotal.n > 0n, `${where}.max_total`, "a number above 0");
      for (const name of group.metrics) {
        const metric = this.byName.get(name);
        expect(
          metric?.kind === "mean" && metric.group === null,
          `${where}.metrics`,
          "means that are in no other group",
        );
        metric.group = group;
      }
      return group;
    });
  }

  /** @param {any} tables @returns {Segment[]} */
  #segments(tables) {
    expect(Array.isArray(tables) && tables.length <= 4, "segments", "at most 4 segments");
    return tables.map((table, place) => {
      expect(isObject(table) && NAME.test(table.name), `segments[${place}].name`, "a name");
      const values = names(table.values, `segments.${table.name}`, 1, TAG);
      expect(!values.includes("other"), `segments.${table.name}`, 'tags without "other"');
      return { name: table.name, values };
    });
  }

  /** All that decides what a report means and costs, as the fingerprint has it. */
  get parts() {
    const metrics = this.metrics.map(
      (/** @type {Metric} */ metric) => [metric.name, toHex(metric.digest), `${metric.flip}`],
    );
    const groups = this.groups.map((group) => [group.name, group.metrics, `${group.maxTotal}`]);
    const segments = this.segments.map((segment) => [segment.name, segment.values]);
    const parts = [this.name, this.version, this.roundSeconds, metrics, groups, segments];
    if (this.sampled) parts.push(["sampled", this.window, this.asked]);
    else if (this.isDivided) parts.push(["remembered", this.asked]);
    return parts;
  }

  /**
   * The public tags of a device; what is not in a segment's closed set is "other".
   *
   * @param {Record<string, unknown>} segment
   */
  tags(segment) {
    return Object.fromEntries(
      this.segments.map(
        ({ name, values }) => [name, values.find((value) => value === segment[name]) ?? "other"],
      ),
    );
  }

  /**
   * The window of a round; null where answers are remembered, and before the first window.
   *
   * @param {number} round @returns {Window | null}
   */
  windowOf(round) {
    const origin = firstRoundFrom(FIRST_MONDAY, this.roundSeconds);
    if (!this.sampled || round < origin) return null;
    const first = round - ((round - origin) % this.window);
    return { start: startOf(first, this.roundSeconds), first, rounds: this.window };
  }
}

/** A plan from its export, an object or JSON as text, without its digests. @param {unknown} source */
export function parsePlan(source) {
  if (source instanceof Plan) return source;
  let table = source;
  if (typeof source === "string") {
    try {
      table = JSON.parse(source);
    } catch {
      throw new PlanError("plan: expected JSON, as `reticent plan export` writes it");
    }
  }
  return new Plan(structuredClone(table));
}

/** @type {WeakSet<Plan>} */
const checked = new WeakSet();

/** Rejects with `PlanError` unless every digest of a plan is right. @param {Plan} plan */
export async function checkDigests(plan) {
  if (checked.has(plan)) return;
  for (const metric of plan.metrics) {
    const digest = toHex(await sha256(asciiJson(metric.parameters(plan.metrics))));
    expect(
      digest === toHex(metric.digest),
      `metrics.${metric.name}.digest`,
      `${digest}, the digest of its parameters`,
    );
    if (metric.mechanism instanceof DBitFlip) {
      const { label, order } = metric.mechanism;
      const keys = await Promise.all(order.map(async (_, bucket) => toHex(await sha256(`${label}/${bucket}`))));
      const sorted = keys.map((_, bucket) => bucket).sort((one, other) => (keys[one] < keys[other] ? -1 : 1));
      expect(String(sorted) === String(order), `metrics.${metric.name}.order`, "the buckets sorted by SHA-256");
    }
  }
  const fingerprint = toHex(await sha256(asciiJson(plan.parts)));
  expect(fingerprint === plan.fingerprint, "fingerprint", `${fingerprint}, the digest of the whole plan`);
  checked.add(plan);
}

/** A plan from its export; rejects with `PlanError` unless every digest is right. @param {unknown} source */
export async function readPlan(source) {
  const plan = parsePlan(source);
  await checkDigests(plan);
  return plan;
}
