// What a host allows a plan to ask, checked on the device; and where a device is silent by itself.

import { epsilon } from "./losses.js";

/** @typedef {import("./plan.js").Plan} Plan */
/**
 * @typedef {"maxEpsilon" | "maxRound" | "maxLifetime" | "shortestRound" | "shortestWindow" | "fewestRounds"
 *   | "leastFlip"} Limit
 */

/**
 * Limits that every plan must keep before a device takes it up (null lifts one), and rules on where it is
 * silent.
 */
export class Policy {
  /** Largest ε of one metric. @type {number | null} */
  maxEpsilon = 2;
  /** Largest loss of one round, of the whole plan. @type {number | null} */
  maxRound = 3;
  /** Largest loss for life of everything that the state has ever held. @type {number | null} */
  maxLifetime = 12;
  /** Shortest round, s. @type {number | null} */
  shortestRound = 3600;
  /** Shortest window of sampled answers, s. @type {number | null} */
  shortestWindow = 604_800;
  /** Fewest rounds from one plan that asks for new remembered answers to the next. @type {number | null} */
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
    for (const [name, value] of Object.entries(changes)) {
      const usual = Object.hasOwn(this, name) ? typeof this[/** @type {keyof Policy} */ (name)] : "";
      if (usual === "") throw new RangeError(`policy.${name}: there is no limit of that name`);
      if (usual === "boolean" && typeof value !== "boolean") {
        throw new RangeError(`policy.${name}: expected true or false`);
      }
      if (usual === "number" && value !== null && !(typeof value === "number" && value >= 0)) {
        throw new RangeError(`policy.${name}: expected a number from 0, or null for no limit`);
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
    return new Policy({
      maxEpsilon: null,
      maxRound: null,
      maxLifetime: null,
      shortestRound: null,
      shortestWindow: null,
      fewestRounds: null,
      leastFlip: null,
      silentInCi: false,
      silentInContainers: false,
    });
  }

  /**
   * What a plan asks beyond these limits.
   *
   * @param {Plan} plan @param {number} reportLoss @param {number} lifetime what the state can tell for life with it
   * @param {number | null} roundsSinceChange where the plan asks for new answers, how long after the last
   */
  problems(plan, reportLoss, lifetime, roundsSinceChange = null) {
    /** @type {string[]} */
    const problems = [];
    /** @type {(what: string, value: number | null, limit: Limit) => void} */
    const atMost = (what, value, limit) => {
      const most = this[limit];
      if (most !== null && value !== null && value > most) {
        problems.push(`${what}; the policy allows ${most} (${limit})`);
      }
    };
    /** @type {(what: string, value: number | null, limit: Limit) => void} */
    const atLeast = (what, value, limit) => {
      const fewest = this[limit];
      if (fewest !== null && value !== null && value < fewest) {
        problems.push(`${what}; the policy wants at least ${fewest} (${limit})`);
      }
    };
    for (const metric of plan.metrics) {
      const [own, flip] = [epsilon(metric), Number(metric.flip) / 2 ** 64];
      atMost(`metrics.${metric.name}.epsilon is ${own}`, own, "maxEpsilon");
      if (!plan.sampled) atLeast(`metrics.${metric.name}.flip is ${flip}`, flip, "leastFlip");
    }
    atLeast(`plan.round is ${plan.roundSeconds} s`, plan.roundSeconds, "shortestRound");
    const length = plan.window * plan.roundSeconds;
    atLeast(`answers.window is ${length} s`, length || null, "shortestWindow");
    atMost(`one ${plan.sampled ? "window" : "round"} of the plan loses ${reportLoss}`, reportLoss, "maxRound");
    atMost(`with this plan the state can lose ${lifetime} for life`, lifetime, "maxLifetime");
    atLeast(
      `asks for new remembered answers ${roundsSinceChange} rounds after the last change`,
      roundsSinceChange,
      "fewestRounds",
    );
    return problems;
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

const CI = [
  "CI", "CONTINUOUS_INTEGRATION", "GITHUB_ACTIONS", "GITLAB_CI", "BUILD_NUMBER", "BUILD_ID", "TF_BUILD",
  "TEAMCITY_VERSION", "JENKINS_URL", "TRAVIS", "CIRCLECI", "APPVEYOR", "BUILDKITE", "DRONE",
  "CODEBUILD_BUILD_ID", "BITBUCKET_BUILD_NUMBER",
];
const CONTAINER_FILES = ["/.dockerenv", "/run/.containerenv"];

/** What a browser or a process says of where it runs. @returns {Environment} */
export function readEnvironment() {
  const scope = /** @type {any} */ (globalThis);
  const { navigator, process } = scope;
  const env = process?.env ?? {};
  const isSet = (/** @type {string} */ name) => !["", "0", "false"].includes(
    String(env[name] ?? "").trim().toLowerCase(),
  );
  const fs = process?.getBuiltinModule?.("fs");
  const signs = {
    "Do Not Track": navigator?.doNotTrack === "1" || scope.doNotTrack === "1",
    "Global Privacy Control": navigator?.globalPrivacyControl === true,
    DO_NOT_TRACK: isSet("DO_NOT_TRACK"),
  };
  return {
    doNotTrack: Object.entries(signs).find(([, holds]) => holds)?.[0] ?? "",
    ci: CI.find(isSet) ?? "",
    container: [
      ...["container", "KUBERNETES_SERVICE_HOST"].filter(isSet),
      ...CONTAINER_FILES.filter((path) => fs?.existsSync(path)),
    ][0] ?? "",
  };
}
