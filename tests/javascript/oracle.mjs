// Answers questions about the JavaScript device: a JSON list of [what, about] in, a list of answers out.

import { readFileSync } from "node:fs";
import { answer, partAt, partHit } from "../../device-js/src/answer.js";
import { Blake2b } from "../../device-js/src/blake2b.js";
import { fromHex, toHex } from "../../device-js/src/bytes.js";
import { Draws } from "../../device-js/src/draws.js";
import { Fraction } from "../../device-js/src/fraction.js";
import { problems } from "../../device-js/src/limits.js";
import { compose, epsilon, lifetimeLoss, ln, lossByWidth, lossOfReport, lossOfRound } from "../../device-js/src/losses.js";
import { OneBitMean } from "../../device-js/src/mechanisms.js";
import { readPlan } from "../../device-js/src/plan.js";
import { Policy } from "../../device-js/src/policy.js";
import { firstRoundFrom, roundAt, startOf } from "../../device-js/src/times.js";
import { statusOf } from "../../device-js/src/look.js";
import { outcomeOf } from "../../device-js/src/transport.js";
import { world } from "../../device-js/tests/harness.mjs";

const plans = new Map();

async function planOf(text) {
  if (!plans.has(text)) plans.set(text, await readPlan(text));
  return plans.get(text);
}

const doing = {
  hash: ({ secret, input }) => toHex(new Blake2b(fromHex(secret)).update(fromHex(input)).digest()),
  block: ({ secret, plan, metric, digest, epoch, purpose, index, block }) =>
    toHex(new Draws(fromHex(secret), plan, epoch).block(metric, fromHex(digest), purpose, index, block)),
  cell: ({ grid, value, alpha }) => {
    const points = grid.map((point) => Fraction.parse(point));
    return new OneBitMean(1n << 60n, points).classOf(Fraction.parse(value), BigInt(alpha));
  },
  part: ({ amounts, limit, words }) => {
    const given = amounts.map((amount) => Fraction.parse(amount));
    const draws = words.map(BigInt);
    return [partAt(given, Fraction.parse(limit), draws[0]), partHit(given, Fraction.parse(limit), draws)];
  },
  window: async ({ plan, metric, cohort }) => (await planOf(plan)).byName.get(metric).mechanism.window(cohort),
  round: ({ seconds, at }) => {
    const round = roundAt(at, seconds);
    const start = startOf(round, seconds);
    return [round, start, firstRoundFrom(start, seconds), firstRoundFrom(start + 1, seconds)];
  },
  async report({ plan: text, secret, epoch, round, values, segment }) {
    const plan = await planOf(text);
    const window = plan.windowOf(round);
    const draws = new Draws(fromHex(secret), plan.name, epoch, window && window.start);
    const exact = new Map(Object.entries(values).map(([name, value]) => {
      const { labels } = plan.recorded.get(name);
      return [name, labels.length ? new Fraction(BigInt(labels.indexOf(value))) : Fraction.parse(value)];
    }));
    const { body, visited } = answer(draws, plan, round, exact, segment);
    return { body, visited: Object.fromEntries(visited), delay: `${draws.delay(round)}`, picked: window ? draws.pickedRound(window) : round };
  },
  async losses({ plan: text, policy }) {
    const plan = await planOf(text);
    const report = lossOfReport(plan);
    const metrics = plan.metrics.map((metric) => ({
      epsilon: epsilon(metric),
      round: lossOfRound(metric),
      lifetime: lifetimeLoss(metric),
      widths: Array.from({ length: metric.mechanism.classes }, (_, width) => lossByWidth(metric, width + 1)),
    }));
    const dearest = metrics.map((one) => one.lifetime).sort((one, other) => other - one);
    const lifetime = compose(dearest.slice(0, plan.asked));
    return { report, metrics, lifetime, refused: problems(new Policy(policy), plan, lifetime).length > 0 };
  },
  outcome: ({ status, after, text }) => outcomeOf(status, after, text),
  async history({ plan, consent, steps }) {
    const here = await world({ plan, consent, policy: Policy.unlimited() });
    for (const [step, about] of steps) {
      if (step === "next") here.next();
      else if (step === "restart") await here.device.close().then(() => here.open());
      else await here.device[step](...about);
    }
    return here.bodies.map((body) => JSON.parse(body).round);
  },
  async notes({ plan, segment, calls, consent, environment }) {
    const here = await world({ plan, segment, consent, environment: () => environment, policy: { maxWindow: null, maxLifetime: null } });
    here.next();
    for (const [call, ...given] of calls) here.device[call](...given);
    const { notes, reasons } = await statusOf(here.device);
    return { notes, reasons };
  },
  ln: (ratio) => `${ln(Fraction.parse(ratio))}`,
  upward: (number) => Fraction.parse(number).upward(),
};

const answers = [];
for (const [what, about] of JSON.parse(readFileSync(0, "utf8"))) answers.push(await doing[what](about));
console.log(JSON.stringify(answers));
