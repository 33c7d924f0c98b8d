// A plan as `reticent plan export` writes it.
//
// `reticent plan export` has checked all that makes a plan useful. What a device checks again is what its promises rest
// on: all that a remembered answer depends on has the digest that its draws are made with, the whole has its
// fingerprint, and no number is such that a loss would be counted too low. So a device answers exactly the plan that was
// exported or none.

import { asciiJson, fromHex, sha256, toHex, WHOLE } from "./bytes.js";
import { Fraction, ZERO } from "./fraction.js";
import { DBitFlip, HadamardBit, OneBitMean, SubsetSelection } from "./mechanisms.js";
import { FIRST_MONDAY, firstRoundFrom, startOf } from "./times.js";

/** @typedef {{ start: number, first: number, rounds: number }} Window `start` in unix seconds */
/** @typedef {{ name: string, metrics: string[], maxTotal: Fraction }} Group */
/** @typedef {{ name: string, values: string[] }} Segment */

/** A plan that cannot be answered, and why. */
export class PlanError extends Error {
  name = "PlanError";
}

/** @param {unknown} holds @param {string} where @param {string} expected @returns {asserts holds} */
function expect(holds, where, expected) {
  if (!holds) throw new PlanError(`plan: ${where}: expected ${expected}`);
}

/** @param {any} value @param {string} where @param {number} most @returns {number} */
function whole(value, where, most) {
  expect(Number.isSafeInteger(value) && value >= 1 && value <= most, where, `a whole number from 1 to ${most}`);
  return value;
}

/** @param {string} text @param {string} where @param {bigint} least a draw below it, out of 2⁶⁴: less than half of them */
function threshold(text, where, least) {
  const number = BigInt(text);
  expect(number >= least && 2n * number < WHOLE, where, "less than half of 2⁶⁴");
  return number;
}

/** One question of a plan, with the mechanism that answers it. */
export class Metric {
  /** @param {any} table @param {string} plan */
  constructor(table, plan) {
    /** @type {string} */
    this.name = table.name;
    const where = `metrics.${this.name}`;
    /** @type {"mean" | "flag" | "histogram" | "choice" | "split"} */
    this.kind = table.kind;
    this.unit = String(table.unit ?? "");
    this.description = String(table.description ?? "");
    /** Turns a bit over when its draw is smaller. */
    this.flip = threshold(table.flip, `${where}.flip`, 0n);
    /** @type {string[]} what a choice is made from: label i is the value i */
    this.labels = this.kind === "choice" ? table.labels : [];
    /** @type {string[]} what a split has an amount of each: part i answers as the value i */
    this.parts = this.kind === "split" ? table.labels : [];
    /** @type {string[]} the names that programs record: its own, or those of the parts of a split */
    this.recorded = this.parts.length ? this.parts.map((part) => `${this.name}/${part}`) : [this.name];
    /** @type {"first" | "last"} which of several choices in a round counts */
    this.pick = table.pick ?? "last";
    this.absent = this.kind === "choice" || this.kind === "split" || table.absent === true;
    /** @type {Fraction[]} */
    const points = (table.points ?? table.edges).map(Fraction.parse);
    expect(
      points.length > 1 && points.every((point, place) => (place ? points[place - 1].below(point) : !point.n)),
      where,
      "points that start at 0 and rise",
    );
    this.mechanism = mechanismOf(table, points, this.absent, `${plan}/${this.name}`, where);
    this.maxValue = this.parts.length ? Fraction.parse(table.max_total) : points[points.length - 1];
    expect(ZERO.below(this.maxValue), `${where}.max_total`, "a number above 0");
    expect(
      !this.parts.length || String(points) === String(Object.keys([...this.parts, ""])),
      `${where}.edges`,
      "0, 1, 2, … for the labels",
    );
    this.digest = fromHex(table.digest);
    /** @type {Group | null} */
    this.group = null;
  }

  /** What the digest is of. @param {Metric[]} metrics @returns {unknown[]} */
  parameters(metrics) {
    /** @type {unknown[]} */
    let parameters = this.mechanism.parameters;
    if (this.labels.length) parameters = [parameters, "choice", this.labels, this.pick];
    else if (this.parts.length) parameters = [parameters, "split", this.parts, `${this.maxValue}`];
    else if (this.absent) parameters = [parameters, "absent"];
    const { group } = this;
    if (!group) return parameters;
    const members = metrics.filter((metric) => metric.group === group).map(
      (metric) => [metric.name, `${metric.maxValue}`],
    );
    return [parameters, `${group.maxTotal}`, members.sort(([one], [other]) => (one < other ? -1 : 1))];
  }
}

/**
 * @param {any} table @param {Fraction[]} points @param {boolean} absent @param {string} label
 * @param {string} where
 */
function mechanismOf(table, points, absent, label, where) {
  const { mechanism, bits, variant, order } = table;
  if (mechanism === "subset") return subset(table, points, absent, where);
  const low = threshold(table.low, `${where}.low`, 1n);
  if (mechanism === "one-bit-mean") return new OneBitMean(low, points);
  if (mechanism === "hadamard-bit") return new HadamardBit(low, points, absent);
  expect(mechanism === "d-bit-flip", `${where}.mechanism`, "one-bit-mean, hadamard-bit, d-bit-flip or subset");
  whole(bits, `${where}.bits`, order.length);
  return new DBitFlip(low, points, absent, bits, variant, label, order);
}

/** @param {any} table @param {Fraction[]} edges @param {boolean} absent @param {string} where */
function subset({ size, inside, outside }, edges, absent, where) {
  const count = edges.length - 1 + Number(absent);
  whole(size, `${where}.size`, count - 1);
  const mechanism = new SubsetSelection(edges, absent, size, BigInt(inside), BigInt(outside));
  const { rest } = mechanism;
  const weighs = mechanism.outside > 0n && mechanism.outside < mechanism.inside && rest >= 0n && rest < BigInt(size);
  expect(weighs, where, "weights that add up to 2⁶⁴");
  return mechanism;
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
      table.format === "reticent-plan-1",
      "format",
      'what `reticent plan export` writes ("reticent-plan-1")',
    );
    this.table = table;
    /** @type {string} */
    this.name = table.name;
    this.version = whole(table.version, "version", 2 ** 31 - 1);
    this.roundSeconds = whole(table.round_seconds, "round_seconds", 10 ** 12);
    this.graceSeconds = whole(table.grace_seconds, "grace_seconds", 10 ** 12);
    this.owner = String(table.owner ?? "");
    /** @type {string | null} */
    this.expires = table.expires;
    expect(this.expires === null || Date.parse(this.expires), "expires", "a date or null");
    /** @type {string} */
    this.fingerprint = table.fingerprint;
    /** @type {Metric[]} */
    this.metrics = table.metrics.map((/** @type {any} */ one) => new Metric(one, this.name));
    /** @type {Map<string, Metric>} */
    this.byName = new Map(this.metrics.map((metric) => [metric.name, metric]));
    expect(this.byName.size === this.metrics.length, "metrics", "different names");
    /** The metrics by the names that programs record. @type {Map<string, Metric>} */
    this.recorded = new Map(
      this.metrics.flatMap((metric) => metric.recorded.map((name) => /** @type {[string, Metric]} */ ([name, metric]))),
    );
    this.groups = this.#groups(table.groups);
    /** @type {Segment[]} */
    this.segments = table.segments.map((/** @type {Segment} */ { name, values }) => ({ name, values }));
    const { kind, window, metrics = this.metrics.length } = table.answers;
    this.sampled = kind === "sampled";
    /** Rounds of a window; 0 where answers are remembered. @type {number} */
    this.window = this.sampled ? whole(window, "answers.window", 10 ** 9) : 0;
    /** How many metrics a report answers. @type {number} */
    this.asked = whole(metrics, "answers.metrics", this.metrics.length);
    /** Whether a device answers some of the metrics for as long as it remembers, and never the others. */
    this.isDivided = !this.sampled && this.asked < this.metrics.length;
    const forSampled = (/** @type {Metric} */ { mechanism, flip }) => mechanism instanceof SubsetSelection && (!this.sampled || flip);
    expect(!this.metrics.some(forSampled), "answers", "sampled answers without flips, for subset selection");
    this.usesCohort = this.metrics.some((/** @type {Metric} */ metric) => metric.mechanism.usesCohort);
  }

  /** @param {any[]} tables @returns {Group[]} */
  #groups(tables) {
    return tables.map((table) => {
      const where = `groups.${table.name}`;
      const group = { name: table.name, metrics: table.metrics, maxTotal: Fraction.parse(table.max_total) };
      expect(ZERO.below(group.maxTotal), where, "a limit above 0");
      for (const name of group.metrics) {
        const metric = this.byName.get(name);
        expect(metric?.kind === "mean" && !metric.group, where, "means that are in no other group");
        metric.group = group;
      }
      return group;
    });
  }

  /** Whether devices have stopped answering: they do at 00:00 UTC of the day `expires`. @param {number} now */
  isExpired(now) {
    return this.expires !== null && 1000 * now >= Date.parse(this.expires);
  }

  /** All that decides what a report means and costs, as the fingerprint has it. */
  get parts() {
    const metrics = this.metrics.map(
      (/** @type {Metric} */ metric) => [metric.name, toHex(metric.digest), `${metric.flip}`],
    );
    const groups = this.groups.map((group) => [group.name, group.metrics, `${group.maxTotal}`]);
    const segments = this.segments.map((segment) => [segment.name, segment.values]);
    /** @type {unknown[]} */
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
  try {
    return new Plan(typeof source === "string" ? JSON.parse(source) : structuredClone(source));
  } catch (error) {
    if (error instanceof PlanError) throw error;
    throw new PlanError(`plan: expected what \`reticent plan export\` writes: ${error}`);
  }
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
