// What a device keeps: one plain object, written as text with the number of its layout and a checksum.
//
// A layout, once released, is read by every later version. To change what is kept, change `Data` and append to `STEPS`
// what makes the new layout of the one before; a released step is never changed. An upgrade is one change of the text,
// so a crash leaves the old layout or the new one.

/** @typedef {"unset" | "granted" | "denied" | "local"} Consent */
/**
 * @typedef {"asked" | "environment" | "silent"} Reason why nothing is recorded or answered: the person, a rule, or a plan
 * that is refused or has expired
 */
/** @typedef {import("./fraction.js").Fraction} Fraction */
/**
 * @typedef {{ how: "add" | "set" | "keep", amount: Fraction, most: Fraction, floor: Fraction }} Change what happens to
 * a total, which stops at `most`; "add": it is at least `floor` afterwards; "keep": one that is there stays
 */

/**
 * @typedef {object} Costs what questions cost, to see whether others cost more
 * @property {number} window seconds of a window of sampled answers; 0: answers are remembered
 * @property {number} report
 * @property {boolean} [isDivided] whether a device is asked some of the metrics for life
 * @property {[name: string, digest: string, round: number, lifetime: number][]} metrics
 */
/**
 * @typedef {object} HeldPlan one version of the plan
 * @property {number} version
 * @property {string} fingerprint
 * @property {number} fromRound first round answered under it
 * @property {number} window rounds of a window; 0: answers are remembered
 * @property {number} reportLoss
 * @property {[string, number][]} layout each metric and its answer bits
 * @property {any} table the export; null once no round can need it
 */
/**
 * @typedef {object} Entry what a metric has told, and can tell at most
 * @property {string} metric
 * @property {string} digest
 * @property {number} epoch
 * @property {number[]} classes remembered answers used so far
 * @property {number} loss
 * @property {number} lifetime
 */
/** @typedef {{ start: number, ends: number, loss: number, round: number | null }} HeldWindow */
/**
 * @typedef {object} Limits the largest that were ever in force, and whether answers were ever sampled: what a state that
 * is lost can have told at most
 * @property {number} lifetime
 * @property {number} year
 * @property {boolean} sampled
 */
/**
 * @typedef {object} Kept a report and what became of it
 * @property {number} round
 * @property {number} version
 * @property {number} epoch
 * @property {string} body the bytes that are sent
 * @property {string} bits "0" and "1"
 * @property {boolean[]} asked which metrics it answers
 * @property {"waiting" | "accepted" | "rejected" | "expired" | "local"} state
 * @property {string} code why it was rejected
 * @property {boolean} told whether its bytes may have left
 * @property {number} attempts
 * @property {number} nextTry unix seconds
 * @property {number} closes when the collector stops taking it, unix seconds
 */
/**
 * @typedef {object} Data
 * @property {{ said: Consent, costs: Costs, epoch: number } | null} choice of the person, and for what
 * @property {Consent} inForce the consent that was last applied
 * @property {string} plan a state serves one plan
 * @property {number} roundSeconds
 * @property {string} secret 32 bytes from the operating system, hexadecimal; empty: there is none
 * @property {number} epoch one more after each `forget`
 * @property {number} silentThrough no round up to this one is answered
 * @property {number | null} enrolledFrom first full round after the first plan was taken up
 * @property {number | null} changedIn round in which remembered answers last changed by plan
 * @property {boolean} told whether a report may ever have left
 * @property {{ epoch: number, beganIn: number, reason: string }[]} epochs
 * @property {HeldPlan[]} plans rising versions
 * @property {{ from: number, through: number | null, reason: Reason }[]} pauses
 * @property {[first: number, last: number][]} on rounds in which the program ran, rising
 * @property {HeldWindow[]} windows rising; they never overlap
 * @property {Record<string, Record<string, string>>} totals raw values, until they are answered
 * @property {Kept[]} reports rising rounds
 * @property {Record<string, number>} earlier reports that are not listed any more, by state
 * @property {Entry[]} ledger
 * @property {Limits} largest
 * @property {Limits & { at: number } | null} lost an earlier state that was damaged, and when
 * @property {Record<string, number>} notes what went wrong, by kind
 * @property {{ at: number, outcome: string } | null} lastAttempt
 */

/** Without a prototype: a metric may be called "constructor". @returns {Record<string, any>} */
export const emptyTable = () => Object.create(null);

/** @returns {Data} */
export const emptyData = () => ({
  choice: null,
  inForce: "unset",
  plan: "",
  roundSeconds: 0,
  secret: "",
  epoch: 0,
  silentThrough: -1,
  enrolledFrom: null,
  changedIn: null,
  told: false,
  epochs: [],
  plans: [],
  pauses: [],
  on: [],
  windows: [],
  totals: emptyTable(),
  reports: [],
  earlier: emptyTable(),
  ledger: [],
  largest: { lifetime: 0, year: 0, sampled: false },
  lost: null,
  notes: emptyTable(),
  lastAttempt: null,
});

/** JSON has no infinity. @param {string} _key @param {unknown} value */
const infinityAsText = (_key, value) => (value === Infinity ? "infinite" : value);
/** @param {string} _key @param {unknown} value */
const revive = (_key, value) => {
  if (value === "infinite") return Infinity;
  const isTable = typeof value === "object" && value !== null && !Array.isArray(value);
  return isTable ? Object.assign(emptyTable(), value) : value;
};

/**
 * 64 bits that differ for certain when one character does: multiplying by an odd number loses nothing.
 *
 * @param {string} json
 */
function checksum(json) {
  let [one, other] = [0, 1];
  for (let place = 0; place < json.length; place++) {
    const character = json.charCodeAt(place);
    one = Math.imul(one ^ character, 0x9e3779b1);
    other = Math.imul(other + character, 0x85ebca77);
  }
  return [one, other].map((half) => (half >>> 0).toString(16).padStart(8, "0")).join("");
}

/**
 * The first makes layout 2 of the data of layout 1, the second layout 3 of layout 2, and so on. A step changes nothing
 * but the data it is given: it may run several times, and the last run counts.
 *
 * @type {((data: any) => any)[]}
 */
export const STEPS = [
  // 2: when the program ran, which is not known of earlier rounds; what a lost state can have told; costs as a list.
  ({ grantedFrom: _, ...data }) => {
    const { choice, ledger, plans } = data;
    const isSampled = plans.some((/** @type {HeldPlan} */ { window }) => window > 0);
    const lost = ledger.find((/** @type {Entry} */ { metric }) => metric === "");
    if (choice) {
      const { answers, report, metrics } = choice.costs;
      const window = answers === "remembered" ? 0 : parseInt(answers.slice("sampled, ".length)) * data.roundSeconds;
      const costs = Object.entries(metrics).map(
        ([name, { digest, round, lifetime }]) => [name, digest, round, lifetime],
      );
      choice.costs = { window, report, metrics: costs };
    }
    return {
      ...data,
      on: [],
      ledger: ledger.filter((/** @type {Entry} */ entry) => entry !== lost),
      largest: { lifetime: upTo(ledger, "lifetime"), year: upTo(data.windows, "loss"), sampled: isSampled },
      lost: lost
        ? { lifetime: lost.lifetime, year: Infinity, sampled: isSampled, at: lostAt(data) }
        : null,
    };
  },
];

/** A bound of a sum. @param {any[]} entries @param {string} name */
const upTo = (entries, name) => 1.000001 * entries.reduce((sum, entry) => sum + entry[name], 0);

/** When a state of layout 1 was found damaged. @param {any} data */
const lostAt = ({ epochs, roundSeconds }) =>
  (epochs.find((/** @type {{ epoch: number }} */ { epoch }) => epoch === 1)?.beganIn ?? 0) * roundSeconds;

/** The number of the layout that is written. */
export const knownLayout = () => 1 + STEPS.length;

/** The state has a layout that this version does not know; nothing in it was changed. */
export class NewerStateError extends Error {
  name = "NewerStateError";

  /** @param {string} layout what it has, and what this version knows */
  constructor(layout) {
    super(
      `this state was written by a newer version of reticent (${layout}); nothing was changed: ` +
        "update reticent in this program",
    );
  }
}

/**
 * The first line says what the state can have told at most. A state keeps it a second time, for the day on which the
 * text is damaged.
 *
 * @param {Data} data
 */
export function toText(data) {
  const json = JSON.stringify(data, infinityAsText);
  const { epoch, largest: { lifetime, year, sampled } } = data;
  const limits = `${epoch}/${lifetime}/${year}/${Number(sampled)}`;
  return `reticent-state-${knownLayout()} ${checksum(json)} ${limits} ${checksum(limits)}\n${json}`;
}

const HEAD = /^reticent-state-([1-9]\d{0,8}) ([^ \n]*)([^\n]*)(?:\n|$)/;

/** The number of a text's layout; 0: it has none. @param {string} text */
export const layoutOf = (text) => Number(HEAD.exec(text)?.[1] ?? 0);

/**
 * The data of a text of this layout or an older one; null when it is damaged, so that nothing in it can be trusted.
 * Throws `NewerStateError` for a newer layout, and whatever a step throws: that is no reason for a new secret.
 *
 * @param {string} text @returns {Data | null}
 */
export function fromText(text) {
  const head = HEAD.exec(text);
  if (!head) return null;
  const layout = layoutOf(text);
  // First: a newer version may have another checksum.
  if (layout > knownLayout()) throw new NewerStateError(`layout ${layout}; this version knows ${knownLayout()}`);
  const json = text.slice(head[0].length);
  if (head[2] !== checksum(json)) return null;
  return STEPS.slice(layout - 1).reduce((data, step) => step(data), JSON.parse(json, revive));
}

/**
 * The epoch and the limits that the first line of a damaged text names, or its second copy; without them there is no
 * bound.
 *
 * @param {string[]} texts @returns {Limits & { epoch: number }}
 */
export function limitsOf(...texts) {
  for (const text of texts) {
    const [limits, sum] = HEAD.exec(text)?.[3].trim().split(" ") ?? [];
    if (!limits || sum !== checksum(limits)) continue;
    const [epoch, lifetime, year, sampled] = limits.split("/").map(Number);
    return { epoch, lifetime, year, sampled: sampled === 1 };
  }
  return { epoch: 0, lifetime: Infinity, year: Infinity, sampled: true };
}
