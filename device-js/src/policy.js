// What a host allows a plan to ask, checked on the device; and where a device is silent by itself.

/** s */
export const YEAR = 365 * 86_400;

/**
 * Limits that every plan must keep before a device takes it up (null lifts one), and rules on where it is
 * silent.
 */
export class Policy {
  /** Largest ε of one metric. @type {number | null} */
  maxEpsilon = 2;
  /** Largest loss of one report, of the whole plan: of a round, or of a window of sampled answers. @type {number | null} */
  maxWindow = 3;
  /** Largest loss for life of all remembered answers that the state has ever held. @type {number | null} */
  maxLifetime = 12;
  /** Largest loss of the windows of sampled answers in any 365 days. @type {number | null} */
  maxYear = 54;
  /** Shortest round, s. @type {number | null} */
  shortestRound = 3600;
  /** Shortest window of sampled answers, s. @type {number | null} */
  shortestWindow = 604_800;
  /**
   * Fewest rounds from one plan that asks for new remembered answers to the next, or days where these are shorter.
   *
   * @type {number | null}
   */
  fewestRounds = 28;
  /** Smallest flip probability of a metric whose answers are remembered. @type {number | null} */
  leastFlip = 0.1;
  /** Be silent where the person has set Do Not Track, Global Privacy Control or DO_NOT_TRACK. */
  doNotTrack = true;
  /** Be silent in continuous integration. */
  silentInCi = true;
  /** Be silent in containers. */
  silentInContainers = true;

  /** @param {import("../index.js").PolicySettings} changes by the name of a limit or rule */
  constructor(changes = {}) {
    const usual = /** @type {Record<string, unknown>} */ ({ ...this });
    for (const [name, value] of Object.entries(changes)) {
      const isRule = typeof usual[name] === "boolean";
      const fits = isRule ? typeof value === "boolean" : value === null || (typeof value === "number" && value >= 0);
      if (!Object.hasOwn(usual, name) || !fits) {
        throw new RangeError(`policy.${name}: expected a limit from 0, or null for none; true or false for a rule`);
      }
    }
    Object.assign(this, changes);
    Object.freeze(this);
  }

  /**
   * No limits, and no silence in CI and containers: for audits and tests. The loss for life of such a device
   * has no bound.
   */
  static unlimited() {
    const lifted = Object.entries(new Policy()).map(([name, value]) => [name, typeof value === "number" ? null : false]);
    return new Policy({ ...Object.fromEntries(lifted), doNotTrack: true });
  }

  /**
   * Which of the rules hold here and now, in words; a device is silent while there is one.
   *
   * @param {Environment} environment
   */
  silencedBy(environment) {
    return [
      ...(this.doNotTrack && environment.doNotTrack ? [`${environment.doNotTrack} is set`] : []),
      ...(this.silentInCi && environment.ci ? [`this is continuous integration (${environment.ci} is set)`] : []),
      ...(this.silentInContainers && environment.container ? [`this is a container (${environment.container})`] : []),
    ];
  }
}

/**
 * @typedef {{ doNotTrack: string, ci: string, container: string }} Environment the sign of each;
 * empty: it is not so
 */

/** What a browser says of the person's wishes. @returns {Environment} */
export function readEnvironment() {
  const { navigator, doNotTrack } = /** @type {any} */ (globalThis);
  const isAsked = navigator?.doNotTrack === "1" || doNotTrack === "1";
  const doesControl = navigator?.globalPrivacyControl === true;
  return {
    doNotTrack: isAsked ? "Do Not Track" : doesControl ? "Global Privacy Control" : "",
    ci: "",
    container: "",
  };
}
