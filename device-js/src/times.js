// Which round a time is in, and when a round starts. Rounds of whole weeks are counted from Monday 5 January 1970,
// 00:00 UTC, all others from the epoch: so weeks, and windows of weeks, begin on Monday.

const WEEK = 604_800;
export const FIRST_MONDAY = 345_600;

/** When a round starts, in unix seconds. @param {number} round @param {number} roundSeconds */
export const startOf = (round, roundSeconds) =>
  round * roundSeconds + (roundSeconds % WEEK === 0 ? FIRST_MONDAY : 0);

/** The round that is under way at a time. @param {number} now unix seconds @param {number} roundSeconds */
export const roundAt = (now, roundSeconds) => Math.floor((now - startOf(0, roundSeconds)) / roundSeconds);

/** The first round that starts at a time or later. @param {number} time unix seconds @param {number} roundSeconds */
export const firstRoundFrom = (time, roundSeconds) =>
  Math.ceil((time - startOf(0, roundSeconds)) / roundSeconds);
