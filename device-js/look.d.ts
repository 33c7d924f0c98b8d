// What a device tells and has told and how it is doing: loaded by pages that show it, and not by those that only record.

import type { Consent, Device } from "./index.js";

/** The exact bytes that would be sent next, and what each bit means; null where there are none. */
export function previewOf(device: Device): Promise<Preview | null>;
/** Every report of a device, and what they may have told together. */
export function receiptOf(device: Device): Promise<Receipt>;
/** How a device is doing: what it answers, why not, what waits, what went wrong. */
export function statusOf(device: Device): Promise<Status>;

export interface Preview {
  /** The exact bytes. */
  body: string;
  round: number;
  when: string;
  answers: { metric: string; description: string; bits: string; meaning: string }[];
  toString(): string;
}

export interface Status {
  plan: string;
  active: boolean;
  /** Why it is not active, or what was refused. */
  reasons: string[];
  /** What went wrong, by kind; it stays on the device. */
  notes: Record<string, number>;
  version?: number | null;
  consent?: Consent;
  epoch?: number;
  currentRound?: number;
  /** The first round that this device answers by itself. */
  answersFrom?: number | null;
  /** When the next answer is given if nothing changes, unix seconds; null: never. */
  nextAnswer?: number | null;
  reports?: { waiting: number; accepted: number; rejected: number; expired: number; local: number };
  lastAttempt?: { at: number; outcome: string } | null;
  nextAttempt?: number | null;
}

/** Every report of a device, and what they may have told together. */
export interface Receipt {
  plan: string;
  owner: string;
  problem: string;
  metrics: { name: string; description: string; unit: string }[];
  reports: { round: number; from: string; to: string; version: number; epoch: number; state: string; code: string; body: string; bits: Record<string, string> }[];
  /** Reports that are not listed any more, by what became of them. */
  earlier: Record<string, number>;
  losses: { metric: string; epoch: number; answersUsed: number; loss: number; lifetime: number }[];
  windows: { start: number; ends: number; loss: number; round: number | null }[];
  epochs: { epoch: number; beganIn: number; reason: string }[];
  remembered: number;
  sampled: number;
  totalLoss: number;
  totalLifetime: number;
  /** What the losses mean: whom they compare, over what. */
  meaning: string;
  toString(): string;
  /** A page by itself, without scripts. */
  html(): string;
}
