// Private telemetry for counters: the device, for browsers and Node.

/** Not asked yet; yes; no; collect and show, and send nothing. */
export type Consent = "unset" | "granted" | "denied" | "local";

/** Limits that every plan must keep before a device takes it up; null lifts one. And rules on where it is silent. */
export interface PolicySettings {
  /** Largest ε of one metric: 2. */
  maxEpsilon?: number | null;
  /** Largest loss of one report, of the whole plan: of a round, or of a window of sampled answers: 3. */
  maxWindow?: number | null;
  /** Largest loss for life of all remembered answers that the state has ever held: 12. */
  maxLifetime?: number | null;
  /** Largest loss of the windows of sampled answers in any 365 days: 54. */
  maxYear?: number | null;
  /** Shortest round, s: 3,600. */
  shortestRound?: number | null;
  /** Shortest window of sampled answers, s: 604,800. */
  shortestWindow?: number | null;
  /** Fewest rounds from one plan that asks for new remembered answers to the next, or days where these are shorter: 28. */
  fewestRounds?: number | null;
  /** Smallest flip probability of a metric whose answers are remembered: 0.1. */
  leastFlip?: number | null;
  /** Be silent under Do Not Track, Global Privacy Control and DO_NOT_TRACK: true. */
  doNotTrack?: boolean;
  /** Be silent in continuous integration, where `reticent/node` sees it: true. */
  silentInCi?: boolean;
  /** Be silent in containers, where `reticent/node` sees them: true. */
  silentInContainers?: boolean;
}

export class Policy implements Required<PolicySettings> {
  constructor(changes?: PolicySettings);
  /** No limits: for audits and tests. The loss for life of such a device has no bound. */
  static unlimited(): Policy;
  maxEpsilon: number | null;
  maxWindow: number | null;
  maxLifetime: number | null;
  maxYear: number | null;
  shortestRound: number | null;
  shortestWindow: number | null;
  fewestRounds: number | null;
  leastFlip: number | null;
  doNotTrack: boolean;
  silentInCi: boolean;
  silentInContainers: boolean;
}

/** Where a device keeps its state: one text, replaced as a whole. */
export interface State {
  /**
   * Replaces the text by what `change` makes of it; null: there is none. Resolves when the new text is durable. No two
   * changes are made from the same text; `change` may run several times, and the last run counts. `head` is the first
   * line of the text, kept a second time: it says what a text that is damaged can have told at most.
   */
  update(change: (text: string | null, head?: string | null) => string | null): Promise<void>;
  /** Calls `notice` after another tab has called `announce`. */
  watch?(notice: () => void): void;
  /** Tells other tabs that the person has decided something. */
  announce?(): void;
  close(): void;
}

/** A state that ends with the program. */
export function memoryState(): State;
/** A state in the browser's IndexedDB, in a database of this name, shared by all tabs of the origin. */
export function indexedDbState(name: string): State;

export interface Outcome {
  kind: "accepted" | "rejected" | "retry";
  /** Without private data: the collector's code of a rejection, or what went wrong in the words of the Python device. */
  reason: string;
  /** Seconds that the collector asked to wait. */
  after?: number;
}

/** Takes one report as JSON to the collector. */
export interface Transport {
  send(body: string, seconds: number): Promise<Outcome>;
}

/** POST {endpoint}/v1/reports, over https, or to this machine. */
export function httpTransport(endpoint: string, key?: string | null): Transport;

/** By which sign each is known; empty: it is not so. */
export interface Environment {
  doNotTrack: string;
  ci: string;
  container: string;
}

export interface Settings {
  /** What `reticent plan export` writes: an object, its JSON, or a plan that was read. */
  plan: unknown;
  state: State;
  /** What holds while the person has not chosen: "unset". */
  consent?: Consent;
  /** Whether a choice lapses when a plan asks more than it was given for: true. */
  askAgain?: boolean;
  /** Whether slips of the developer throw: false. */
  debug?: boolean;
  endpoint?: string;
  key?: string | null;
  segment?: Record<string, unknown>;
  policy?: Policy | PolicySettings;
  /** Unix seconds. */
  clock?: () => number;
  /** Instead of `endpoint`. */
  transport?: Transport | null;
  environment?: () => Environment;
}

/** n / d, exactly: a value that no double is. */
export class Fraction {
  constructor(n: bigint, d?: bigint);
  static parse(text: string): Fraction;
  static fromNumber(number: number): Fraction;
  readonly n: bigint;
  readonly d: bigint;
  toString(): string;
}

/** A state that a newer version of reticent has written; nothing in it was changed. */
export class NewerStateError extends Error {}

/** A plan that cannot be answered, and why. */
export class PlanError extends Error {}

export class Plan {
  readonly name: string;
  readonly version: number;
  readonly roundSeconds: number;
  readonly fingerprint: string;
}

/** A plan from its export; rejects with `PlanError` unless every digest is right. */
export function readPlan(source: unknown): Promise<Plan>;

/** Answers a plan on behalf of one device: values in, at most one report per round out. */
export class Device {
  private constructor();
  /**
   * Rejects for a plan that is not whole and for settings that cannot be. Where the state cannot be used the device is
   * silent, and `statusOf` has the reason. Nothing throws or rejects after that, unless `debug` is set.
   */
  static open(settings: Settings): Promise<Device>;
  readonly consent: Consent;
  readonly currentRound: number;
  /** Add to a metric's total in the round under way; it stops at the metric's top. */
  add(metric: string, amount?: number | bigint | Fraction): void;
  /** Set a metric's total in the round under way; true for a flag. */
  set(metric: string, value: number | bigint | boolean | Fraction): void;
  /** Raise a metric's total in the round under way to a value, if it is lower: the largest one counts. */
  max(metric: string, value: number | bigint | Fraction): void;
  /** Choose one of a metric's labels for the round under way. */
  choose(metric: string, label: string): void;
  /** The bytes of a round's report, durable before they are returned; the latest finished round unless another is given. */
  report(round?: number): Promise<string | null>;
  /** Answer what is due and send what waits; resolves to how many were accepted. */
  flush(): Promise<number>;
  /**
   * Whether to ask the person now: there is no answer yet and no default, no rule silences the device, its state can be
   * used, and there is a page or a terminal to ask in.
   */
  shouldAsk(): Promise<boolean>;
  /** Enter the person's choice; resolves to whether it is done, and then nothing leaves that was not agreed to. A report on its way is waited for, 12 s at most. */
  setConsent(consent: Consent): Promise<boolean>;
  /** Record and send nothing from now on; a later no and yes do not end it. Not done where nothing is kept. */
  pause(): Promise<boolean>;
  resume(): Promise<boolean>;
  /** Wipe the remembered answers, the values and what was not sent. */
  forget(): Promise<boolean>;
  /** For `reticent/look`, which says what a person can see: what it makes of the state. */
  look<Seen>(what: (engine: any, silent: any) => Seen): Promise<Seen>;
  /** Answer and send in the background from now on. */
  start(): this;
  /** Write what waits in memory and stop. */
  close(): Promise<void>;
}
