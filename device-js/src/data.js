// What a device keeps: one plain object, written as text with the number of its layout and a checksum.
//
// A layout, once released, is read by every later version. To change what is kept, change `Data` and append to `STEPS`
// what makes the new layout of the one before; a released step is never changed. An upgrade is one change of the text,
// so a crash leaves the old layout or the new one.

/** @typedef {"unset" | "granted" | "denied" | "local"} Consent */
/** @typedef {"asked" | "environment"} Reason why nothing is recorded or answered */
/** @typedef {import("./fraction.js").Fraction} Fraction */
/**
 * @typedef {{ how: "add" | "set" | "keep", amount: Fraction, most: Fraction }} Change what happens to a total,
 * which stops at `most`; "keep": one that is there stays
 */

/**
 * @typedef {object} Costs what questions cost, to see whether others cost more
 * @property {string} answers
 * @property {number} report
 * @property {Record<string, { digest: string, round: number, lifetime: number }>} metrics
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
 * @typedef {object} Entry what a metric has told, and can tell at most; that of a lost state has no metric
 * @property {string} metric
 * @property {string} digest
 * @property {number} epoch
 * @property {number[]} classes remembered answers used so far
 * @property {number} loss
 * @property {number} lifetime
 */
/** @typedef {{ start: number, ends: number, loss: number, round: number | null }} HeldWindow */
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
 * @property {number | null} grantedFrom first round wholly under "granted"
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
 * @property {HeldWindow[]} windows rising; they never overlap
 * @property {Record<string, Record<string, string>>} totals raw values, until they are answered
 * @property {Kept[]} reports rising rounds
 * @property {Record<string, number>} earlier reports that are not listed any more, by state
 * @property {Entry[]} ledger
 * @property {Record<string, number>} notes what went wrong, by kind
 * @property {{ at: number, outcome: string } | null} lastAttempt
 */

/** @returns {Data} */
export const emptyData = () => ({
  choice: null,
  inForce: "unset",
  grantedFrom: null,
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
  windows: [],
  totals: {},
  reports: [],
  earlier: {},
  ledger: [],
  notes: {},
  lastAttempt: null,
});

/** JSON has no infinity. @param {string} _key @param {unknown} value */
const infinityAsText = (_key, value) => (value === Infinity ? "infinite" : value);
/** @param {string} _key @param {unknown} value */
const infinityFromText = (_key, value) => (value === "infinite" ? Infinity : value);

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
export const STEPS = [];

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

/** @param {Data} data */
export function toText(data) {
  const json = JSON.stringify(data, infinityAsText);
  return `reticent-state-${knownLayout()} ${checksum(json)}\n${json}`;
}

const HEAD = /^reticent-state-([1-9]\d{0,8}) ([^\n]*)\n/;

/**
 * The data of a text of this layout or an older one; null when it is damaged, so that nothing in it can be trusted.
 * Throws `NewerStateError` for a newer layout, and whatever a step throws: that is no reason for a new secret.
 *
 * @param {string} text @returns {Data | null}
 */
export function fromText(text) {
  const head = HEAD.exec(text);
  if (!head) return null;
  const layout = Number(head[1]);
  // First: a newer version may have another checksum.
  if (layout > knownLayout()) throw new NewerStateError(`layout ${layout}; this version knows ${knownLayout()}`);
  const json = text.slice(head[0].length);
  if (head[2] !== checksum(json)) return null;
  return STEPS.slice(layout - 1).reduce((data, step) => step(data), JSON.parse(json, infinityFromText));
}
