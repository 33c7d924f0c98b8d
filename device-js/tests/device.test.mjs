import assert from "node:assert/strict";
import { test } from "node:test";
import { createServer } from "node:http";
import { Device, Fraction, indexedDbState, memoryState, PlanError, Policy, readPlan } from "../src/index.js";
import { answer } from "../src/answer.js";
import { fromText, toText } from "../src/data.js";
import { backOff } from "../src/outbox.js";
import { outcomeOf, httpTransport } from "../src/transport.js";
import { readEnvironment } from "../src/node.js";
import { HOUR, plan, START, world } from "./harness.mjs";
import { previewOf, receiptOf, statusOf } from "../src/look.js";

const rounds = (here) => here.bodies.map((body) => JSON.parse(body).round);
const first = START / HOUR + 1;

// Values

test("values are exact, clamped, and stop at the top", async () => {
  const here = await world();
  here.next();
  for (let time = 0; time < 10; time++) here.device.add("minutes", 0.1);
  here.device.set("size", 7);
  here.device.add("size", -3);
  here.device.set("seconds", Infinity);
  here.device.add("opens", "5");
  await statusOf(here.device);
  const tenth = Fraction.fromNumber(0.1);
  assert.deepEqual(here.data().totals[first], {
    minutes: `${new Fraction(tenth.n * 10n, tenth.d)}`, size: "7", seconds: "100", opens: "0",
  });
  const { notes } = await statusOf(here.device);
  assert.deepEqual(notes, { "below-range": 1, "above-range": 1, "not-a-number": 1 });
});

test("max raises a total and never lowers it, before and after writes and among other calls", async () => {
  const here = await world();
  here.next();
  const calls = [["max", 3], ["add", 1], ["max", 2], ["max", 9], ["add", 0.5], ["set", 2], ["max", 1], ["max", 4.5], ["add", 1]];
  const totals = ["3", "4", "4", "9", "19/2", "2", "2", "9/2", "11/2"]; // by hand
  for (const writes of [0b000000000, 0b111111111, 0b010101010, 0b100010001]) {
    here.device.set("minutes", 0);
    await statusOf(here.device);
    for (const [index, [verb, value]] of calls.entries()) {
      here.device[verb]("minutes", value);
      if (writes >> index & 1) {
        await statusOf(here.device);
        assert.equal(here.data().totals[first].minutes, totals[index]);
      }
    }
    await statusOf(here.device);
    assert.equal(here.data().totals[first].minutes, totals[totals.length - 1]);
  }
  here.device.max("seconds", Infinity);
  here.device.add("seconds", 1);
  here.device.max("seconds", 1);
  await statusOf(here.device);
  assert.equal(here.data().totals[first].seconds, "100"); // the top
});

test("add, set, max and choose never throw, whatever they are given", async () => {
  const here = await world({ plan: plan("kinds"), policy: Policy.unlimited() });
  here.next();
  const hostile = [undefined, null, NaN, {}, [], Symbol("x"), () => 1, -0, 1e308, -1e308, 10n ** 400n, "1", new Date(), Object.create(null)];
  for (const value of hostile) {
    for (const metric of ["start_ms", "crashed", "last_command", "nothing", value]) {
      here.device.add(metric, value);
      here.device.set(metric, value);
      here.device.max(metric, value);
      here.device.choose(metric, value);
    }
  }
  here.next();
  assert.ok(await here.device.report());
});

test("choices, flags and absent values are what the round's calls come to", async () => {
  const here = await world({ plan: plan("kinds"), policy: Policy.unlimited() });
  here.next();
  for (const label of ["test", "nothing of the kind", "run", "build"]) {
    here.device.choose("last_command", label);
    here.device.choose("first_command", label);
  }
  here.device.set("crashed", true);
  here.device.add("crashed");
  here.device.set("start_ms", NaN);
  here.device.set("memory_mb", NaN);
  await statusOf(here.device);
  const { start_ms: absent, ...others } = here.data().totals[first];
  assert.equal(absent, undefined); // it can tell no value from 0
  assert.deepEqual(others, { last_command: "0", first_command: "1", crashed: "1", memory_mb: "0" });
});

test("a first choice stays the first across writes, a last one does not", async () => {
  const here = await world({ plan: plan("kinds"), policy: Policy.unlimited() });
  here.next();
  for (const label of ["test", "run"]) {
    here.device.choose("first_command", label);
    here.device.choose("last_command", label);
    await statusOf(here.device); // written between the two
  }
  assert.deepEqual(here.data().totals[first], { first_command: "1", last_command: "2" });
});

test("debug raises what would be counted", async () => {
  const here = await world({ debug: true, plan: plan("kinds"), policy: Policy.unlimited() });
  assert.throws(() => here.device.add("nothing"), /metric nothing is not in plan/);
  assert.throws(() => here.device.choose("last_command", "dance"), /label dance/);
  assert.throws(() => here.device.add("last_command"), /use choose/);
  await assert.rejects(here.open({ segment: { planet: "mars" } }), /segment planet is not/);
  const usage = { plan: plan(), state: memoryState() };
  await assert.rejects(here.open({ ...usage, segment: { os: "plan9" } }), /has no value plan9/);
  await assert.rejects(here.open({ ...usage, plan: plan("expired") }), /expired on/);
  await assert.rejects(here.open({ ...usage, policy: { maxEpsilon: 0.5 } }), /refused: metrics.minutes.epsilon is 1; the policy allows 0.5/);
});

// Answers

test("a draw that equals its threshold gives 0 and turns nothing over", async () => {
  const asked = await readPlan(plan());
  const [metric] = asked.metrics;
  const [threshold] = metric.mechanism.thresholds(0);
  for (const [memo, flip, bit] of [[threshold, metric.flip, "0"], [threshold - 1n, metric.flip, "1"], [threshold, metric.flip - 1n, "1"], [threshold - 1n, metric.flip - 1n, "0"]]) {
    const words = (_name, _digest, purpose, _index, count = 1) => Array(count).fill({ alpha: 0n, memo, flip }[purpose]);
    const draws = { words, asked: (metrics) => Array(metrics).fill(true), cohort: () => 0, reportId: () => new Uint8Array(16) };
    assert.equal(answer(draws, asked, 1, new Map(), {}).bits[0], bit);
  }
});

// Rounds

test("every round is answered from the first full one on, also without values", async () => {
  const here = await world();
  here.device.add("minutes", 5);
  for (let round = 0; round < 4; round++) {
    here.next();
    await here.device.flush();
  }
  assert.deepEqual(rounds(here), [first, first + 1, first + 2]);
  assert.equal(new Set(here.bodies.map((body) => body.length)).size, 1);
});

test("a report is the same after a restart, and values that come later change nothing", async () => {
  const here = await world();
  here.next();
  here.device.add("minutes", 300);
  here.next();
  const body = await here.device.report();
  await here.device.close();
  await here.open();
  for (const value of [0, 360]) {
    here.device.set("minutes", value);
    assert.equal(await here.device.report(first), body);
  }
  assert.deepEqual(here.data().totals[first], undefined);
});

test("values reach the state with each change, survive a state that fails, and are added once", async () => {
  const here = await world();
  here.next();
  here.device.add("minutes", 1);
  here.broken = true;
  assert.equal(await here.device.report(), null);
  here.device.add("minutes", 2);
  here.device.set("size", 4);
  assert.equal(await here.device.pause(), false);
  here.device.add("size", 1);
  const failing = here.device.pause();
  here.device.add("minutes", 4); // while the change is under way
  here.device.set("size", 1);
  await failing;
  here.broken = false;
  await statusOf(here.device);
  assert.deepEqual(here.data().totals[first], { minutes: "7", size: "1" });
  assert.equal((await statusOf(here.device)).notes["state-broken"], 3);
});

test("a value that comes while a change fails is later than those of that change", async () => {
  const inner = memoryState();
  let fails = () => {};
  const state = { update: async (change) => (fails(), inner.update(change)), close() {} };
  const here = await world({ state });
  here.next();
  here.device.set("size", 4);
  fails = () => {
    here.device.set("size", 1);
    throw new Error("disk full");
  };
  assert.equal(await here.device.pause(), false);
  fails = () => {};
  await statusOf(here.device);
  assert.equal(here.data().totals[first].size, "1");
});

test("rounds that the collector no longer takes are not answered, and their values go", async () => {
  const here = await world();
  here.next();
  here.device.add("minutes", 9);
  await statusOf(here.device);
  here.next(10);
  assert.equal(await here.device.flush(), 1); // only the last round: the grace is an hour
  assert.deepEqual(rounds(here), [first + 9]);
  assert.deepEqual(here.data().totals, {});
});

test("the state stays small for years, and nothing is answered twice", async () => {
  const here = await world();
  for (let round = 0; round < 200; round++) {
    here.next();
    await here.device.flush();
  }
  assert.ok(here.text.length < 60_000);
  assert.equal(new Set(rounds(here)).size, 199);
  assert.equal((await statusOf(here.device)).reports.accepted, 199);
  assert.equal(await here.device.report(first), null);
  assert.ok((await receiptOf(here.device)).reports.length <= 121);
});

// Consent

test("what is no longer listed is not answered again, also while a collector would take it", async () => {
  const here = await world({ plan: { ...plan(), grace_seconds: 200 * HOUR } });
  here.next(160);
  for (let time = 0; time < 3; time++, here.next()) await here.device.flush();
  assert.deepEqual(rounds(here), Array.from({ length: 161 }, (_, place) => first + place));
});

test("two programs with one plan but for its grace go by what the state holds", async () => {
  const here = await world();
  const other = await Device.open({ ...here.settings, plan: plan("patient") });
  here.next(4);
  assert.equal(await here.device.flush(), 3);
  await other.close();
});

test("without consent nothing is kept, recorded, answered or sent", async () => {
  const here = await world({ consent: "unset" });
  for (let round = 0; round < 3; round++) {
    here.device.add("minutes", 5);
    here.next();
    await here.device.flush();
    assert.equal(await here.device.report(), null);
    assert.equal(await previewOf(here.device), null);
  }
  assert.equal(here.text, null);
  await here.device.setConsent("denied");
  here.device.add("minutes", 5);
  await here.device.flush();
  const { choice, inForce, ...others } = here.data();
  assert.equal(choice.said, "denied");
  assert.deepEqual([others.secret, others.ledger, others.totals, others.reports, others.plans], ["", [], {}, [], []]);
  assert.deepEqual(here.bodies, []);
});

test("a choice wins over the host's default, and is kept", async () => {
  const here = await world();
  await here.device.setConsent("denied");
  await here.device.close();
  assert.equal((await here.open()).consent, "denied");
  await here.device.setConsent("unset");
  await here.device.close();
  assert.equal((await here.open()).consent, "unset");
  await here.device.setConsent("granted");
  await here.device.close();
  assert.equal((await here.open({ consent: "denied" })).consent, "granted");
  await assert.rejects(here.device.setConsent("perhaps"), /expected unset/);
});

test("a round is sent only if all of it was under consent", async () => {
  const here = await world({ consent: "unset" });
  here.next();
  await here.device.setConsent("granted"); // in the middle of a round
  here.device.add("minutes", 5);
  here.next();
  await here.device.flush();
  assert.deepEqual(rounds(here), []);
  here.next();
  await here.device.flush();
  assert.deepEqual(rounds(here), [first + 1]);
});

test("local collects, answers and shows, and is never sent, not even later", async () => {
  const here = await world({ consent: "local" });
  here.next();
  here.device.add("minutes", 5);
  here.next();
  await here.device.flush();
  here.next();
  await here.device.flush();
  const before = await receiptOf(here.device);
  assert.deepEqual(before.reports.map(({ state }) => state), ["local", "local"]);
  assert.ok(await previewOf(here.device));
  assert.equal(await here.device.report(), null); // one that was made, and one that was not
  assert.equal(await here.device.report(first + 2), null);
  await here.device.setConsent("granted");
  here.next();
  await here.device.flush();
  assert.deepEqual(rounds(here), []); // the round in which it was granted was local for a part
  assert.equal(await here.device.report(first), null);
  assert.equal(here.data().told, false);
  here.next();
  await here.device.flush();
  assert.deepEqual(rounds(here), [first + 3]);
});

test("a device whose state is removed while it runs enrols again", async () => {
  let kept = null;
  const here = await world({ state: { update: async (change) => void (kept = change(kept)), close() {} } });
  here.next();
  kept = null;
  await here.device.flush();
  here.next(2);
  assert.equal(await here.device.flush(), 1);
});

test("what waits when consent ends is not sent, also not when it is given again", async () => {
  for (const other of ["local", "denied", "unset"]) {
    const here = await world();
    here.next(2);
    await here.device.report();
    const [{ round }] = here.data().reports;
    await here.device.setConsent(other);
    await here.device.flush();
    await here.device.setConsent("granted");
    await here.device.flush();
    assert.ok(!rounds(here).includes(round), other);
    here.next(2);
    await here.device.flush();
    assert.ok(rounds(here).length > 0 && Math.min(...rounds(here)) > here.data().silentThrough);
  }
});

test("denying wipes values and what was not sent; what was told stays counted, with its answers", async () => {
  const here = await world();
  here.next();
  here.device.add("minutes", 360);
  here.next();
  await here.device.flush();
  here.device.add("minutes", 360);
  const before = here.data();
  await here.device.setConsent("denied");
  const after = here.data();
  assert.deepEqual(after.totals, {});
  assert.deepEqual(after.reports.map(({ state }) => state), ["accepted"]);
  assert.deepEqual([after.ledger, after.secret], [before.ledger, before.secret]);
  await here.device.setConsent("granted");
  assert.equal(here.data().secret, before.secret);
});

test("denying before anything was told leaves nothing but the choice", async () => {
  const here = await world();
  here.next(2);
  here.device.add("minutes", 360);
  here.outcomes = [];
  await previewOf(here.device);
  await here.device.setConsent("denied");
  const { secret, ledger, reports, totals, plans } = here.data();
  assert.deepEqual([secret, ledger, reports, totals, plans], ["", [], [], {}, []]);
});

test("a choice lapses when the questions cost more, unless the host says otherwise", async () => {
  const policy = { fewestRounds: 0, leastFlip: 0, maxLifetime: 1000, maxWindow: 100, maxYear: 1000, shortestRound: 0, shortestWindow: 0 };
  const next = ["more-metrics", "less-flip", "other-digest", "sampled-instead"];
  for (const name of next) {
    for (const [askAgain, consent] of [[true, "unset"], [false, "granted"]]) {
      const here = await world({ policy });
      await here.device.setConsent("granted");
      await here.device.close();
      assert.equal((await here.open({ plan: plan(name), askAgain })).consent, consent, name);
    }
  }
  for (const name of ["fewer-metrics", "other-words"]) {
    const here = await world({ policy });
    await here.device.setConsent("local");
    await here.device.close();
    assert.equal((await here.open({ plan: plan(name) })).consent, "local", name);
  }
  const here = await world({ policy });
  await here.device.setConsent("denied");
  await here.device.close();
  assert.equal((await here.open({ plan: plan("more-metrics") })).consent, "denied");
});

test("a choice lapses with the answers it was given for", async () => {
  const here = await world({ policy: { maxLifetime: 100 } });
  await here.device.setConsent("granted");
  await here.device.forget();
  await here.device.flush();
  assert.equal(here.device.consent, "unset");
});

test("once a person has said no, a report that was on its way is through", async () => {
  const here = await world();
  here.next(2);
  let [arrive, arrived] = [null, false];
  const gate = new Promise((resolve) => (arrive = resolve));
  const transport = { send: () => gate.then(() => ((arrived = true), { kind: "accepted", reason: "accepted" })) };
  await here.open({ transport });
  const flushing = here.device.flush();
  while (!here.data().reports[0]?.attempts) await new Promise((resolve) => setTimeout(resolve, 1));
  await new Promise((resolve) => setTimeout(resolve, 5));
  const denying = here.device.setConsent("denied").then((done) => [done, arrived]);
  setTimeout(arrive, 20);
  assert.deepEqual(await denying, [true, true]);
  await flushing;
});

test("a person's pause outlives a no and a yes, also where nothing was told", async () => {
  for (const isTold of [true, false]) {
    const here = await world();
    here.next(2);
    if (isTold) await here.device.flush();
    assert.equal(await here.device.pause(), true);
    await here.device.setConsent("denied");
    await here.device.close();
    await here.open();
    await here.device.setConsent("granted");
    here.device.add("minutes", 5);
    const before = here.bodies.length;
    here.next(3);
    await here.device.flush();
    assert.deepEqual((await statusOf(here.device)).reasons, ["paused"]);
    await here.device.resume();
    here.next(2);
    await here.device.flush();
    assert.deepEqual(rounds(here).slice(before), [here.now / HOUR - 1]); // not the one in which the pause ended
  }
});

test("a pause is kept, also where nothing else is", async () => {
  for (const choice of [null, "denied"]) {
    const here = await world({ consent: "unset" });
    if (choice) await here.device.setConsent(choice);
    assert.equal(await here.device.pause(), true);
    assert.ok((await statusOf(here.device)).reasons.includes("paused"));
    await here.device.setConsent("unset");
    await here.device.setConsent("granted");
    assert.deepEqual((await statusOf(here.device)).reasons, ["paused"]);
  }
});

test("a pause of a state that was wiped holds under a plan with longer rounds", async () => {
  const here = await world({ plan: plan(), policy: { maxLifetime: 1000 } });
  here.next(2);
  await here.device.pause();
  await here.device.setConsent("denied");
  await here.open({ plan: plan("sampled") }); // its rounds are six hours long
  await here.device.setConsent("granted");
  here.next(6 * 28 * 2);
  await here.device.resume();
  const { pauses } = here.data();
  assert.deepEqual(pauses, [{ from: 0, through: Math.floor(here.now / (6 * HOUR)), reason: "asked" }]);
});

test("a refused plan changes nothing, consent included", async () => {
  const policy = { fewestRounds: 0, maxLifetime: 8 };
  const here = await world({ policy });
  await here.device.setConsent("granted");
  await here.device.close();
  await here.open({ plan: plan("more-metrics") });
  assert.equal(here.device.consent, "granted");
  assert.match((await statusOf(here.device)).reasons.join(), /maxLifetime/);
  here.next(2);
  assert.equal(await here.device.flush(), 1);
});

test("a yes under a refused plan is one to the version that goes on", async () => {
  const here = await world();
  await here.device.setConsent("granted");
  here.next();
  await here.open({ plan: plan("other-digest") });
  assert.match((await statusOf(here.device)).reasons.join(), /fewestRounds/);
  for (const said of ["granted", "denied", "granted"]) {
    await here.device.setConsent(said);
    assert.equal(here.device.consent, said);
  }
  here.next(2);
  assert.equal(await here.device.flush(), 1);
});

test("answers under local that are no longer listed are wiped with the others", async () => {
  const here = await world();
  here.next(2);
  await here.device.flush();
  await here.state.update((text) => toText({ ...fromText(text), earlier: { accepted: 3, local: 4 } }));
  await here.device.setConsent("denied");
  assert.deepEqual(here.data().earlier, { accepted: 3 });
});

test("a report that was accepted stays so when a slower attempt comes too late", async () => {
  const here = await world({ plan: plan("patient") });
  here.next(2);
  let arrive;
  const transport = { send: () => new Promise((resolve) => (arrive = resolve)) };
  const slow = await here.open({ transport });
  const flushing = slow.flush();
  while (!arrive) await new Promise((resolve) => setTimeout(resolve, 1));
  here.now += 60; // the tab was frozen: another one takes the report
  await here.open();
  await here.device.start();
  while (!here.bodies.length) await new Promise((resolve) => setTimeout(resolve, 1));
  await here.device.close();
  arrive({ kind: "rejected", reason: "late" });
  await flushing;
  const [{ state, code }] = here.data().reports;
  assert.deepEqual([state, code], ["accepted", ""]);
});

test("after a no, each of several reports on their way is waited for, and the receipt has what came of it", async () => {
  const here = await world({ plan: plan("patient") });
  here.next(3);
  const [gates, arrived] = [[], []];
  const transport = {
    send: (body) => new Promise((resolve) => gates.push(() => (arrived.push(body), resolve({ kind: "accepted", reason: "accepted" })))),
  };
  await here.open({ transport });
  const until = async (count) => {
    while (gates.length < count) await new Promise((resolve) => setTimeout(resolve, 1));
  };
  const flushing = [here.device.flush()];
  await until(1);
  flushing.push(here.device.flush()); // begins with the other report
  await until(2);
  const denying = here.device.setConsent("denied").then((done) => [done, arrived.length]);
  gates[1]();
  setTimeout(gates[0], 20);
  assert.deepEqual(await denying, [true, 2]);
  await Promise.all(flushing);
  assert.deepEqual(here.data().reports.map(({ state }) => state), ["accepted", "accepted"]);
});

test("a transport that never answers is waited for no longer than 12 s", async (context) => {
  const here = await world({ transport: { send: () => new Promise(() => {}) } });
  here.next(2);
  void here.device.flush();
  while (!here.data().reports[0]?.attempts) await new Promise((resolve) => setTimeout(resolve, 1));
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const pausing = here.device.pause();
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  context.mock.timers.tick(12_000);
  assert.equal(await pausing, false);
  assert.deepEqual((await statusOf(here.device)).reasons, ["paused"]);
  assert.equal(await here.device.resume(), true); // which need not wait
});

test("a clock that fails changes nothing in the state", async () => {
  const here = await world();
  here.next();
  const { text, now } = here;
  for (const wrong of [NaN, Infinity, undefined, "noon"]) {
    here.now = wrong;
    here.device.add("minutes", 5);
    assert.equal(await here.device.report(), null);
    assert.equal(here.device.currentRound, -1);
  }
  assert.equal(here.text, text);
  here.now = now;
  assert.deepEqual((await statusOf(here.device)).notes, { internal: 4, "state-broken": 4 });
  assert.deepEqual(here.data().totals, {});
  await assert.rejects(here.open({ clock: () => NaN, debug: true }), /clock: expected/);
  await here.open({ clock: () => NaN });
  assert.match((await statusOf(here.device)).reasons.join(), /the state cannot be used: clock: expected/);
});

// The environment

test("the environment silences by default; rounds that it overlaps are never answered", async () => {
  for (const [sign, rule] of [["doNotTrack", "doNotTrack"], ["ci", "silentInCi"], ["container", "silentInContainers"]]) {
    const here = await world();
    here.next();
    here.device.add("minutes", 5);
    here.environment[sign] = "a sign";
    await here.device.flush();
    here.device.add("minutes", 5);
    const { active, reasons } = await statusOf(here.device);
    assert.equal(active, false);
    assert.match(reasons.join(), /a sign/);
    here.next(2);
    await here.device.flush();
    here.environment[sign] = "";
    await here.device.flush();
    here.next(2);
    await here.device.flush();
    assert.deepEqual(rounds(here), [first + 3], rule);
    const other = await world({ policy: { [rule]: false } });
    other.environment[sign] = "a sign";
    assert.equal((await statusOf(other.device)).active, true);
  }
});

test("in a silent environment no state is made", async () => {
  const here = await world({ consent: "unset" });
  here.environment.ci = "CI";
  await here.open({ consent: "granted" });
  here.device.add("minutes", 1);
  await here.device.flush();
  assert.ok(here.text === null || here.data().secret === "");
});

test("the environment is read from the process", () => {
  const before = { ...process.env };
  try {
    for (const name of ["CI", "GITHUB_ACTIONS", "TF_BUILD", "BUILD_NUMBER"]) {
      for (const other of Object.keys(process.env)) if (/^(CI|CONTINUOUS|GITHUB|GITLAB|BUILD|TF_|TEAMCITY|JENKINS|TRAVIS|CIRCLE)/.test(other)) delete process.env[other];
      assert.equal(readEnvironment().ci, "");
      process.env[name] = "1";
      assert.equal(readEnvironment().ci, name);
      process.env[name] = "false";
      assert.equal(readEnvironment().ci, "");
    }
    process.env.DO_NOT_TRACK = "1";
    assert.equal(readEnvironment().doNotTrack, "DO_NOT_TRACK");
    process.env.DO_NOT_TRACK = "0";
    process.env.KUBERNETES_SERVICE_HOST = "10.0.0.1";
    assert.deepEqual([readEnvironment().doNotTrack, readEnvironment().container], ["", "KUBERNETES_SERVICE_HOST"]);
    delete process.env.KUBERNETES_SERVICE_HOST;
    process.env.container = "podman";
    assert.equal(readEnvironment().container, "container");
    process.env.container = "flatpak"; // an application on a person's own desktop
    assert.notEqual(readEnvironment().container, "container");
  } finally {
    for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
    Object.assign(process.env, before);
  }
});

// The policy and the ledger

test("each limit refuses by its name, and what is refused changes nothing", async () => {
  const limits = { maxEpsilon: 0.9, maxWindow: 1, maxLifetime: 5, shortestRound: 7200, leastFlip: 0.3 };
  for (const [name, value] of Object.entries(limits)) {
    const here = await world({ policy: { [name]: value } });
    here.device.add("minutes", 1);
    here.next(2);
    assert.equal(await here.device.flush(), 0);
    const { active, reasons } = await statusOf(here.device);
    assert.equal(active, false);
    assert.match(reasons.join(), new RegExp(`\\(${name}\\)`));
    assert.equal(here.text, null); // not even a secret is drawn
  }
  for (const wrong of [{ maxEpsilonn: 1 }, { maxEpsilon: -1 }, { maxEpsilon: "1" }, { doNotTrack: 1 }, { doNotTrack: null }, { constructor: 1 }]) {
    assert.throws(() => new Policy(wrong), new RegExp(`policy.${Object.keys(wrong)[0]}: expected`));
  }
});

test("a version that asks for new answers is counted from the moment it is held, and not too soon", async () => {
  const here = await world();
  const before = here.data().ledger.reduce((sum, { lifetime }) => sum + lifetime, 0);
  assert.equal(before, 8); // four metrics of ε = 1, two answers each
  here.next();
  await here.open({ plan: plan("other-digest") });
  assert.match((await statusOf(here.device)).reasons.join(), /fewestRounds/);
  here.next(40);
  await here.open({ plan: plan("other-digest") });
  assert.deepEqual((await statusOf(here.device)).reasons, []);
  assert.equal(here.data().ledger.length, 5);
  await here.open({ plan: plan() });
  assert.match((await statusOf(here.device)).reasons.join(), /version 1 is older than version 2/);
  assert.equal((await receiptOf(here.device)).totalLifetime, 10);
});

test("a changed plan under the same version is refused", async () => {
  const here = await world();
  await here.open({ plan: plan("silently-changed") });
  assert.match((await statusOf(here.device)).reasons.join(), /a change needs a new version/);
});

test("a round is answered under the version it began with", async () => {
  const here = await world();
  here.next(40);
  await here.open({ plan: plan("other-digest") });
  here.next();
  await here.device.flush();
  here.next();
  await here.device.flush();
  const versions = here.bodies.map((body) => JSON.parse(body).version);
  assert.deepEqual(versions.slice(-2), [1, 2]);
});

test("a state is one plan's: another plan's device is silent and changes nothing", async () => {
  const here = await world();
  const { text } = here;
  await here.open({ plan: plan("kinds") });
  assert.match((await statusOf(here.device)).reasons.join(), /the state cannot be used: it belongs to plan usage/);
  assert.equal(here.text, text);
  await assert.rejects(here.open({ plan: plan("kinds"), debug: true }), /belongs to plan usage/);
});

const DAMAGE = [
  (text) => text.replace("granted", "grantee"),
  (text) => text.slice(0, 200),
  () => "x",
  (text) => text.replace(/"secret":"(.)/, (_, digit) => `"secret":"${digit === "0" ? 1 : 0}`),
];

/** A state that can be damaged: text and second copy are what a browser would find. */
function fragile() {
  const state = { text: null, head: null, close() {} };
  state.update = async (change) => {
    state.text = change(state.text, state.head);
    state.head = state.text && state.text.slice(0, state.text.indexOf("\n") + 1);
  };
  return state;
}

test("a damaged state is counted in full: silence until the host raises the limit", async () => {
  for (const damage of DAMAGE) {
    const state = fragile();
    const here = await world({ state });
    here.next(2);
    await here.device.flush();
    state.text = damage(state.text);
    await here.open();
    await here.device.setConsent("granted");
    here.next(2);
    assert.equal(await here.device.flush(), 0);
    assert.match((await statusOf(here.device)).reasons.join(), /maxLifetime/);
    assert.equal((await receiptOf(here.device)).totalLoss, 12);
    await here.open({ policy: { maxLifetime: 24 } });
    here.next(2);
    assert.equal(await here.device.flush(), 1);
  }
});

test("a damaged state counts the largest limit that was ever in force, not today's", async () => {
  for (const damage of DAMAGE) {
    const state = fragile();
    const here = await world({ state, policy: { maxLifetime: 40 } });
    here.next(2);
    await here.device.flush();
    state.text = damage(state.text);
    await here.open({ policy: {} });
    assert.equal((await receiptOf(here.device)).totalLoss, 40);
    assert.equal((await receiptOf(here.device)).totalLifetime, 40);
  }
});

test("a damaged state of sampled answers has no bound: windows of earlier years are not known any more", async () => {
  for (const damage of DAMAGE) {
    const state = fragile();
    const here = await world({ state, plan: plan("sampled"), policy: { maxLifetime: 40 } });
    state.text = damage(state.text);
    await here.open();
    assert.equal((await receiptOf(here.device)).totalLoss, Infinity);
  }
});

test("where the limits are lost too, and where there were none, a damaged state has no bound", async () => {
  for (const damage of DAMAGE) {
    const [state, other] = [fragile(), fragile()];
    const here = await world({ state });
    [state.text, state.head] = ["x", "reticent-state-2 0 0/1/1/0 0123456789abcdef\n"];
    await here.open();
    assert.equal((await receiptOf(here.device)).totalLoss, Infinity);
    const unlimited = await world({ state: other, policy: { maxLifetime: null } });
    other.text = damage(other.text);
    await unlimited.open({ policy: {} });
    assert.equal((await receiptOf(unlimited.device)).totalLifetime, Infinity);
    assert.equal((await unlimited.open()).consent, "unset");
  }
});

test("after forget nothing is answered that had begun, the answers are new and both are counted", async () => {
  const here = await world();
  here.next(2);
  await here.device.flush();
  const { secret } = here.data();
  here.device.add("minutes", 5);
  await statusOf(here.device);
  assert.notDeepEqual(here.data().totals, {});
  await here.device.forget();
  assert.notEqual(here.data().secret, secret);
  assert.deepEqual(here.data().totals, {});
  assert.equal(await here.device.report(first + 1), null);
  const { reasons } = await statusOf(here.device);
  assert.match(reasons.join(), /maxLifetime/); // 8 and 8 more exceed 12
  await here.open({ policy: { maxLifetime: 16 } });
  assert.equal(await here.device.report(first + 1), null);
  here.next(2);
  await here.device.flush();
  assert.equal((await receiptOf(here.device)).totalLifetime, 16);
  assert.equal(here.data().epoch, 1);
});

test("rounds that a pause overlaps are never answered", async () => {
  const here = await world();
  here.next();
  here.device.add("minutes", 5);
  await here.device.pause();
  assert.deepEqual(here.data().totals, {});
  here.device.add("minutes", 5);
  here.next(2);
  await here.device.flush();
  await here.device.resume();
  here.next();
  await here.device.flush();
  assert.deepEqual(rounds(here), []);
  assert.deepEqual(here.data().totals, {});
  here.next();
  await here.device.flush();
  assert.deepEqual(rounds(here), [first + 3]);
});

// Sending

test("a report and its claim are durable before a byte leaves", async () => {
  const here = await world();
  here.next(2);
  here.events.length = 0;
  await here.device.flush();
  assert.deepEqual(here.events, ["durable", "durable", "send", "durable"]);
  const [kept] = here.data().reports;
  assert.deepEqual([kept.told, kept.state, kept.attempts], [true, "accepted", 1]);
});

test("two devices on one state send a report once, and answer it once", async () => {
  const here = await world();
  const other = await Device.open(here.settings);
  here.next();
  here.device.add("minutes", 1);
  other.add("minutes", 2);
  await Promise.all([statusOf(here.device), statusOf(other)]);
  assert.equal(here.data().totals[first].minutes, "3");
  here.next();
  await Promise.all([here.device.flush(), other.flush(), here.device.flush(), other.flush()]);
  assert.deepEqual(rounds(here), [first]);
});

test("what another tab has paused, denied or sent meanwhile is not sent", async () => {
  for (const act of [(device) => device.pause(), (device) => device.setConsent("denied"), (device) => device.flush()]) {
    const here = await world({ plan: plan("patient") });
    const other = await Device.open(here.settings);
    here.next(4);
    await other.report(first); // three rounds wait
    const sent = [];
    const transport = {
      async send(body) {
        sent.push(body);
        if (sent.length === 1) await act(other);
        return { kind: "accepted", reason: "accepted" };
      },
    };
    await here.open({ transport });
    await here.device.flush();
    assert.equal(sent.length, 1);
    assert.equal(new Set([...sent, ...here.bodies]).size, sent.length + here.bodies.length);
  }
});

test("a failed report waits, longer than the collector asked for, and is sent again with the same bytes", async () => {
  const here = await world();
  here.next(2);
  here.outcomes = [{ kind: "retry", reason: "busy", after: 120 }, new Error("transport"), { kind: "rejected", reason: "late" }];
  await here.device.flush();
  const { lastAttempt, nextAttempt, reports } = await statusOf(here.device);
  assert.equal(lastAttempt.outcome, "busy");
  assert.ok(nextAttempt > here.now + 120 && nextAttempt <= here.now + 120 + 15);
  assert.equal(reports.waiting, 1);
  here.now += 100;
  await here.device.flush();
  assert.equal(here.bodies.length, 1); // a retry waits for its time
  here.now += 40;
  await here.device.flush();
  here.now += 60;
  await here.device.flush();
  assert.deepEqual(new Set(here.bodies).size, 1);
  assert.equal(here.bodies.length, 3);
  const [kept] = here.data().reports;
  assert.deepEqual([kept.state, kept.code], ["rejected", "late"]);
  assert.equal(here.data().notes.transport, 1);
});

test("whatever a transport returns, a report that was not taken is sent again", async () => {
  for (const answer of [undefined, "accepted", { kind: "odd", reason: "odd" }]) {
    const here = await world({ transport: { send: async () => answer } });
    here.next(2);
    assert.equal(await here.device.flush(), 0);
    const { reports, notes } = await statusOf(here.device);
    assert.deepEqual([reports.waiting, notes.transport], [1, 1]);
  }
});

test("the moment of sending is drawn from the secret, within three quarters of the next round", async () => {
  const moments = new Set();
  for (let device = 0; device < 8; device++) {
    const here = await world();
    here.next(2);
    here.settings.transport = null;
    await here.open({ transport: undefined });
    await here.device.flush();
    const [{ nextTry }] = here.data().reports;
    assert.ok(nextTry >= here.now && nextTry <= here.now + 0.75 * HOUR);
    moments.add(nextTry);
  }
  assert.equal(moments.size, 8);
});

test("in the background each round is answered and sent at its moment; values are written within a second", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const here = await world();
  const moments = [];
  const transport = { send: async (body) => (moments.push([JSON.parse(body).round, here.now]), { kind: "accepted", reason: "accepted" }) };
  await here.open({ transport });
  const pass = async (seconds) => {
    here.now += seconds;
    context.mock.timers.tick(1000 * seconds);
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  here.device.start();
  here.next();
  await pass(1);
  here.device.add("minutes", 3);
  await pass(1);
  assert.equal(here.data().totals[first].minutes, "3");
  const planned = new Map();
  for (let minute = 0; minute < 60 * 4; minute++) {
    await pass(60);
    for (const { round, attempts, nextTry } of here.data().reports) if (!attempts) planned.set(round, nextTry);
  }
  assert.deepEqual(moments.map(([round]) => round), [first, first + 1, first + 2]);
  for (const [round, sent] of moments) {
    assert.ok(sent >= (planned.get(round) ?? (round + 1) * HOUR) && sent <= (round + 1.75) * HOUR + 120);
  }
  await here.device.close();
  const before = moments.length;
  await pass(HOUR);
  assert.equal(moments.length, before);
});

test("a device that is closed waits for the report on its way and begins no other", async () => {
  const here = await world({ plan: plan("patient") });
  here.next(3);
  await statusOf(here.device);
  let [arrive, sent] = [null, 0];
  const gate = new Promise((resolve) => (arrive = resolve));
  const transport = { send: () => ((sent += 1), gate.then(() => ({ kind: "accepted", reason: "accepted" }))) };
  await here.open({ transport });
  await here.device.report(first);
  await here.device.report(first + 1);
  here.now += 0.9 * HOUR; // beyond the moments of both
  here.device.start();
  while (!sent) await new Promise((resolve) => setTimeout(resolve, 1));
  const closing = here.device.close();
  arrive();
  await closing;
  assert.equal(sent, 1);
  assert.deepEqual(here.data().reports.map(({ state }) => state), ["accepted", "waiting"]);
});

test("answers of a collector mean one of three things", () => {
  assert.equal(outcomeOf(202, null, "").kind, "accepted");
  for (const status of [200, 204, 0, 302, 500, 503, 401, 403, 408, 425, 429]) assert.equal(outcomeOf(status, null, "<html>").kind, "retry", status);
  assert.deepEqual(outcomeOf(410, null, '{"code":"late"}'), { kind: "rejected", reason: "late" });
  assert.deepEqual(outcomeOf(404, null, '{"code":"<script>"}'), { kind: "retry", reason: "wrong-path" });
  assert.equal(outcomeOf(503, "120", "").after, 120);
  assert.ok(Math.abs(outcomeOf(503, new Date(Date.now() + 60_000).toUTCString(), "").after - 60) < 5);
  assert.equal(outcomeOf(503, "soon", "").after, undefined);
});

test("the back-off has a ceiling that doubles, with jitter from 0", () => {
  for (const [attempts, ceiling] of [[0, 15], [1, 30], [4, 240], [30, 3600]]) {
    const waits = Array.from({ length: 200 }, () => backOff(attempts, 21_600));
    assert.ok(Math.max(...waits) <= ceiling && Math.max(...waits) > 0.9 * ceiling && Math.min(...waits) < 0.1 * ceiling);
  }
  assert.ok(backOff(0, 32) <= 2);
});

test("whatever a transport asks for, a report waits for some time and is tried again", async () => {
  for (const after of [NaN, -5, "7", {}, null]) assert.ok(backOff(0, HOUR, after) >= 0 && backOff(0, HOUR, after) <= 15);
  assert.ok(backOff(0, HOUR, Infinity) < 1.1e9);
  const here = await world();
  here.next(2);
  here.outcomes = [{ kind: "retry", reason: "busy", after: NaN }];
  await here.device.flush();
  assert.ok((await statusOf(here.device)).nextAttempt >= here.now);
});

test("a wrong path, or a key that is missing, loses no report", async (context) => {
  const answers = [[404, "<html>"], [404, '{"code":"not_found"}'], [405, '{"code":"method_not_allowed"}'], [401, ""], [202, ""]];
  const urls = [];
  context.mock.method(globalThis, "fetch", async (url) => {
    urls.push(url);
    const [status, text] = answers.shift();
    return new Response(text, { status });
  });
  const here = await world({ plan: plan("patient") });
  here.next(2);
  await here.open({ transport: undefined, endpoint: "https://example.org/base//?" });
  const seen = [];
  for (let attempt = 0; attempt < 5; attempt++) {
    await here.device.flush();
    const { reports, lastAttempt } = await statusOf(here.device);
    seen.push([reports.waiting, lastAttempt.outcome]);
    here.now += 600;
  }
  assert.deepEqual(seen, [[1, "wrong-path"], [1, "wrong-path"], [1, "wrong-path"], [1, "no-key"], [0, "accepted"]]);
  assert.deepEqual(new Set(urls), new Set(["https://example.org/base/v1/reports"]));
});

test("an endpoint is https, or this machine", () => {
  for (const bad of ["http://example.org", "example.org", "ftp://example.org", "https://user@example.org", "https://:word@example.org", "https://example.org:0", "https://example.org/?x", "https://example.org/#x", ""]) {
    assert.throws(() => httpTransport(bad), /endpoint: expected/, bad);
  }
  for (const good of ["https://example.org", "http://127.0.0.1:8000", "http://localhost:1", "http://[::1]:2", "https://example.org/base/"]) httpTransport(good);
  assert.throws(() => httpTransport("https://example.org", "a\nb"), /key: expected/);
});

// What a person sees

test("a preview is exactly what is sent, and says what each bit means", async () => {
  const here = await world({ segment: { os: "linux" } });
  here.next();
  here.device.add("minutes", 200);
  const [text, before] = [here.text, await previewOf(here.device)];
  assert.equal(here.data().reports.length, 0);
  here.next();
  assert.equal(await here.device.report(), before.body);
  const waiting = await previewOf(here.device);
  assert.equal(waiting.body, before.body);
  await here.device.flush();
  assert.deepEqual(here.bodies, [before.body]);
  assert.deepEqual(before.answers.map(({ metric }) => metric), plan().metrics.map(({ name }) => name));
  assert.match(String(before), /minutes = [01]: a 1 is the likelier the larger the value was \(0 to 360 minute\).*e\^0\.5695/);
  assert.match(String(before), /os = linux: a public tag/);
  assert.ok(text !== undefined);
});

test("a receipt lists every report and what they may have told", async () => {
  const here = await world();
  for (let round = 0; round < 4; round++) {
    here.next();
    here.device.set("minutes", round % 2 ? 360 : 0);
    await here.device.flush();
  }
  const receipt = await receiptOf(here.device);
  assert.deepEqual(receipt.reports.map(({ round, state }) => [round, state]), [0, 1, 2].map((place) => [first + place, "accepted"]));
  assert.equal(receipt.reports[0].from, new Date(first * HOUR * 1000).toISOString());
  assert.equal(receipt.losses.find(({ metric }) => metric === "minutes").loss, 2);
  assert.ok(receipt.totalLoss >= 5 && receipt.totalLoss <= receipt.totalLifetime);
  assert.match(receipt.meaning, /^All answers so far are at most e\^/);
  assert.match(String(receipt), /minutes {2}2\.0 {2}2\.0 {2}2/);
  const page = receipt.html();
  assert.ok(page.includes("Minutes &#60;b&#62;in front") && !page.includes("<b>") && !page.includes("<script"));
});

// Sampled answers

test("one report per window, in the round that is picked; values of other rounds are never kept", async () => {
  const here = await world({ plan: plan("sampled"), policy: { maxYear: 1000 } });
  for (let round = 0; round < 28 * 6; round++) {
    here.next();
    await here.device.flush();
    here.device.set("saves", 7);
    const kept = Object.keys((await statusOf(here.device), here.data().totals));
    assert.ok(kept.length <= 1);
  }
  const { windows } = here.data();
  assert.deepEqual(windows.map(({ round }) => round).filter((round) => round !== null).sort(), rounds(here).sort());
  assert.ok(rounds(here).length >= 5 && windows.length - rounds(here).length <= 1);
  windows.slice(1).forEach(({ start }, place) => assert.ok(start >= windows[place].ends));
  const starts = windows.map(({ start }) => start);
  assert.ok(Math.min(...starts) >= START && starts.every((start) => (start - 345_600) % (7 * 24 * HOUR) === 0));
  for (const { round, start, ends } of windows) assert.ok(round === null || (round * 6 * HOUR >= start && round * 6 * HOUR < ends));
  const receipt = await receiptOf(here.device);
  assert.equal(receipt.totalLifetime, windows.length);
  assert.match(receipt.meaning, /^This state answered \d+ of the \d+ windows it held\. All their reports together/);
});

test("windows that were answered stay counted after a no, also when their reports are not listed any more", async () => {
  const here = await world({ plan: plan("sampled") });
  for (let round = 0; round < 28 * 4; round++) {
    here.next();
    await here.device.flush();
  }
  const { windows } = here.data();
  await here.state.update((text) => toText({ ...fromText(text), reports: [], earlier: { accepted: here.bodies.length } }));
  for (const round of rounds(here)) assert.equal(await here.device.report(round), null); // a window has one report
  await here.device.setConsent("denied");
  assert.deepEqual(here.data().windows, windows.filter(({ round }) => round !== null));
  assert.equal((await receiptOf(here.device)).totalLoss, here.bodies.length);
});

test("the round that is picked is answered when it is over, not earlier", async () => {
  const here = await world({ plan: plan("sampled"), now: 80_000 * 6 * HOUR });
  for (let asked = 0, given = 0; given < 2; asked++) {
    assert.ok(asked < 100);
    assert.equal(await here.device.report(here.device.currentRound), null);
    here.next();
    given += (await here.device.report()) === null ? 0 : 1;
  }
});

test("the window of a report that was not sent goes with it after a no", async () => {
  const here = await world({ plan: plan("sampled"), consent: "unset", now: 80_000 * 6 * HOUR });
  await here.device.setConsent("granted");
  while (!here.bodies.length) here.next(), await here.device.flush();
  await here.device.setConsent("local");
  while (here.data().windows.filter(({ round }) => round !== null).length < 2) here.next(), await here.device.flush();
  await here.device.setConsent("denied");
  const told = JSON.parse(here.bodies[0]).round;
  assert.deepEqual((await receiptOf(here.device)).windows.map(({ round }) => round), [told]);
});

test("windows that cost more than a year's limit are refused from the start", async () => {
  for (const [maxYear, isActive] of [[54, true], [53.9, false], [null, true]]) {
    const here = await world({ plan: plan("sampled"), policy: { maxYear } }); // 54 weeks touch a year, at ε = 1
    const { active, reasons } = await statusOf(here.device);
    assert.equal(active, isActive);
    assert.equal(/windows in a year lose 54; the policy allows 53.9 \(maxYear\)/.test(reasons.join()), !isActive);
  }
});

test("a window that consent, forget or a silent environment overlaps is not answered", async () => {
  for (const act of ["forget", "consent", "environment"]) {
    const here = await world({ plan: plan("sampled"), policy: { maxYear: 1000 } });
    const week = 28;
    here.next(2 * week);
    await here.device.flush();
    const { start } = here.data().windows.at(-1);
    if (act === "forget") await here.device.forget();
    if (act === "consent") await here.device.setConsent("denied");
    if (act === "consent") await here.device.setConsent("granted");
    if (act === "environment") {
      here.environment.ci = "CI";
      await here.device.flush();
      here.environment.ci = "";
    }
    const before = here.bodies.length;
    while (here.now < start + week * 6 * HOUR) {
      await here.device.flush();
      here.next();
    }
    assert.equal(here.bodies.length, before, act);
  }
});

// Plans

test("a plan that is not what was exported is refused, with its place", async () => {
  const places = {
    format: "format", name: "digest", version: "version", round_seconds: "round_seconds", grace_seconds: "grace_seconds", expires: "expires",
    metrics: "answers.metrics", groups: "export", segments: "export", fingerprint: "fingerprint",
  };
  const changes = {
    format: "reticent-plan-2", name: "Usage", version: 0, round_seconds: 1.5, grace_seconds: "1h", expires: "soon", metrics: [], groups: null,
    segments: "x", fingerprint: "00".repeat(32),
  };
  for (const [key, value] of Object.entries(changes)) {
    const hostile = { ...plan(), [key]: value };
    await assert.rejects(readPlan(hostile), (error) => error instanceof PlanError && error.message.includes(places[key]), key);
    delete hostile[key];
    await assert.rejects(readPlan(hostile), PlanError, key);
  }
  const low = plan().metrics[0].low;
  const inMetric = [
    ["name", "__proto__"], ["mechanism", "rappor"], ["low", "0"], ["flip", "9223372036854775808"], ["points", ["0", "0"]], ["points", ["1", "360"]],
    ["points", ["0"]], ["digest", "00".repeat(32)], ["low", 5], ["low", `-${low}`], ["low", "9223372036854775808"], ["low", `${BigInt(low) + 1n}`],
    ["points", ["0", "1/0"]], ["points", ["0", "361"]], ["flip", "-1"], ["absent", true],
  ];
  for (const [key, value] of inMetric) {
    const hostile = plan();
    hostile.metrics[0][key] = value;
    await assert.rejects(readPlan(hostile), PlanError, `${key} ${value}`);
  }
  const shuffled = plan();
  const flipped = shuffled.metrics.find(({ mechanism }) => mechanism === "d-bit-flip");
  flipped.order = [...flipped.order].reverse();
  await assert.rejects(readPlan(shuffled), /order: expected the buckets sorted/);
  const more = plan();
  more.metrics[0].flip = `${BigInt(more.metrics[0].flip) + 1n}`;
  await assert.rejects(readPlan(more), /fingerprint: expected/);
  for (const hostile of ["", "[]", "null", "{", '"x"', "1"]) await assert.rejects(readPlan(hostile), PlanError);
  for (const hostile of [null, undefined, 5, [], true]) await assert.rejects(readPlan(hostile), PlanError);
});

/** Why an export with every digest made right is refused; null: it is taken. */
async function refusalOf(table) {
  for (;;) {
    try {
      await readPlan(table);
      return null;
    } catch (error) {
      const [, metric, digest] = /^plan: (?:metrics\.(\w+)\.digest|fingerprint): expected ([0-9a-f]{64})/.exec(error.message) ?? [];
      if (!digest) return error.message;
      if (metric) table.metrics.find(({ name }) => name === metric).digest = digest;
      else table.fingerprint = digest;
    }
  }
}

test("numbers that would make a loss be counted too low are refused, also where every digest is right", async () => {
  const group = { name: "g", metrics: ["minutes"], max_total: "5" };
  const isBits = ({ mechanism, order, bits }) => mechanism === "d-bit-flip" && bits < order.length;
  const changed = (change) => {
    const table = plan("kinds");
    table.metrics.push({ ...plan().metrics[0], name: "minutes" });
    table.groups.push(structuredClone(group));
    change(table, table.metrics.at(-1), table.groups.at(-1), table.metrics.find(isBits));
    return refusalOf(table);
  };
  assert.equal(await changed(() => {}), null);
  const half = `${1n << 63n}`;
  const hostile = [
    [(_, metric) => (metric.low = half), /minutes.low/], [(_, metric) => (metric.low = "0"), /minutes.low/],
    [(_, metric) => (metric.flip = half), /minutes.flip/], [(_, metric) => (metric.flip = "-1"), /minutes.flip/],
    [(_, metric) => (metric.points = ["0", "9", "5"]), /minutes: .*rise/], [(_, metric) => (metric.points = ["1", "9"]), /minutes: .*start at 0/],
    [(_, metric) => (metric.points = ["0"]), /minutes/], [(_, metric) => (metric.name = "m"), /groups.g/],
    [(_, __, groups) => (groups.max_total = "0"), /groups.g/], [(_, __, groups) => (groups.metrics = ["minutes", "minutes"]), /groups.g/],
    [({ groups }) => groups.push({ ...group, name: "h" }), /groups.h/], [(_, metric) => (metric.kind = "flag"), /groups.g/],
    [(_, __, ___, many) => (many.bits = many.order.length + 1), /bits/], [(_, __, ___, many) => (many.bits = 0), /bits/],
    [(_, __, ___, many) => many.order.reverse(), /order/], [(table) => table.metrics.push(table.metrics.at(-1)), /different names/],
    [(table) => (table.answers.metrics = 0), /answers.metrics/], [(table) => (table.round_seconds = 0), /round_seconds/],
  ];
  for (const [change, place] of hostile) assert.match((await changed(change)) ?? "taken", place);
});

test("settings that cannot be are refused at once", async () => {
  const here = await world();
  await assert.rejects(here.open({ state: null }), /state: expected/);
  await assert.rejects(here.open({ consent: "yes" }), /consent: expected/);
  await assert.rejects(here.open({ policy: { maxWindow: "3" } }), /policy.maxWindow/);
});

test("a closed device says so, and does nothing", async () => {
  const here = await world();
  here.next();
  here.device.add("minutes", 4);
  await here.device.close();
  assert.equal(here.data().totals[first].minutes, "4");
  here.device.add("minutes", 1);
  assert.equal(await here.device.report(), null);
  assert.match((await statusOf(here.device)).reasons.join(), /the device is closed/);
  assert.equal(await here.device.pause(), false);
});

// Never in the way

test("without WebCrypto, and where IndexedDB is missing, blocked or does not answer, the device is silent and says why", async (context) => {
  const request = () => ({ error: new DOMException("blocked", "SecurityError") });
  const blocked = {
    open() {
      const opening = request();
      queueMicrotask(() => opening.onerror());
      return opening;
    },
  };
  const cases = [
    [undefined, /indexedDB is not defined/],
    [{ open: () => { throw new DOMException("not here", "SecurityError"); } }, /not here/],
    [blocked, /blocked/],
    [{ open: () => ({}) }, /the database does not open/],
  ];
  for (const [database, reason] of cases) {
    const here = await world();
    if (database) globalThis.indexedDB = database;
    context.mock.timers.enable({ apis: ["setTimeout"] });
    const whileTimePasses = async (work) => {
      let isOver = false;
      work.finally(() => (isOver = true)).catch(() => {});
      for (let turn = 0; turn < 10_000 && !isOver; turn++) {
        await new Promise((resolve) => setImmediate(resolve));
        context.mock.timers.tick(5000);
      }
      return work;
    };
    const device = await whileTimePasses(Device.open({ ...here.settings, state: indexedDbState("telemetry") }));
    device.add("minutes", 5);
    const calls = [statusOf(device), device.flush(), device.setConsent("granted"), device.report()];
    const [status, ...others] = await whileTimePasses(Promise.all(calls));
    context.mock.timers.reset();
    assert.deepEqual(others, [0, false, null]);
    assert.equal(status.active, false);
    assert.match(status.reasons.join(), /^the state cannot be used: /);
    assert.match(status.reasons.join(), reason);
    if (database !== cases[3][0]) {
      await assert.rejects(Device.open({ ...here.settings, state: indexedDbState("telemetry"), debug: true }), reason);
    }
    delete globalThis.indexedDB;
  }
});

test("where nobody has agreed nothing of the engine is needed, and the host's default holds as it is now", async () => {
  let loads = 0;
  class Lazy extends Device {
    static load = () => ((loads += 1), super.load());
  }
  const here = await world();
  here.next();
  await here.device.report();
  here.next();
  assert.equal(await here.device.flush(), 1); // so a secret is kept
  await here.open({ consent: "unset" });
  for (const consent of ["unset", "denied", "unset"]) {
    await here.open({ consent });
    const before = here.text;
    loads = 0;
    const idle = await Lazy.open({ ...here.settings, consent });
    idle.start();
    idle.add("minutes", 5);
    assert.equal(await idle.flush(), 0);
    assert.deepEqual([idle.consent, loads, here.text], [consent, 0, before]);
    await idle.close();
  }
  await here.open({ consent: "unset" });
  const asked = await Lazy.open({ ...here.settings, consent: "denied" });
  assert.deepEqual([asked.consent, here.data().inForce], ["denied", "denied"]);
  await here.device.setConsent("denied");
  const denied = await Lazy.open({ ...here.settings, consent: "unset" });
  assert.equal(denied.consent, "denied");
  assert.equal(await denied.shouldAsk(), false);
});

test("a no that cannot be kept holds all the same while the program runs", async () => {
  const here = await world();
  here.next();
  here.device.add("minutes", 5);
  here.broken = true;
  assert.equal(await here.device.setConsent("denied"), false);
  here.broken = false;
  here.next();
  assert.equal(await here.device.flush(), 0);
  assert.deepEqual([here.device.consent, here.bodies], ["denied", []]);
});

test("without WebCrypto nobody is asked", async (context) => {
  const { subtle } = crypto;
  const tty = { stdin: process.stdin.isTTY, stderr: process.stderr.isTTY };
  const restore = () => {
    Object.defineProperty(crypto, "subtle", { value: subtle, configurable: true });
    Object.assign(process.stdin, { isTTY: tty.stdin });
    Object.assign(process.stderr, { isTTY: tty.stderr });
  };
  context.after(restore);
  process.stdin.isTTY = process.stderr.isTTY = true;
  const settings = () => ({ plan: plan(), state: memoryState(), clock: () => START, environment: () => ({ doNotTrack: "", ci: "", container: "" }) });
  assert.equal(await (await Device.open(settings())).shouldAsk(), true);
  Object.defineProperty(crypto, "subtle", { value: undefined, configurable: true });
  assert.equal(await (await Device.open(settings())).shouldAsk(), false);
});

test("without WebCrypto the device is silent and says why", async () => {
  const { subtle } = crypto;
  const here = await world();
  Object.defineProperty(crypto, "subtle", { value: undefined, configurable: true });
  try {
    const device = await Device.open({ ...here.settings, plan: plan("patient") });
    device.add("minutes", 5);
    assert.match((await statusOf(device)).reasons.join(), /the state cannot be used: WebCrypto is missing/);
    assert.equal(await device.flush(), 0);
    await assert.rejects(Device.open({ ...here.settings, plan: plan("patient"), debug: true }), /WebCrypto is missing/);
  } finally {
    Object.defineProperty(crypto, "subtle", { value: subtle, configurable: true });
  }
});

test("a state that fails for some time is used again afterwards", async () => {
  const here = await world();
  here.broken = true;
  const device = await Device.open(here.settings);
  assert.match((await statusOf(device)).reasons.join(), /the state cannot be used: disk full/);
  here.broken = false;
  assert.deepEqual((await statusOf(device)).reasons, []);
  here.next();
  await device.flush();
  here.next();
  assert.equal(await device.flush(), 1);
});

// Twins: the same times and other values

test("a value holds no window, marks no round and causes no report: twins store the same but for their totals and bits", async (context) => {
  const stored = [];
  for (const amount of [0, 7]) {
    const draws = [];
    context.mock.method(crypto, "getRandomValues", (array) => array.fill(draws.push(1)));
    const here = await world({ plan: plan("sampled") });
    for (let round = 0; round < 28 * 5; round++) {
      here.next();
      here.environment.ci = round === 40 ? "CI" : ""; // seen by calls alone
      if (amount) here.device.add("saves", amount);
      context.mock.timers.enable({ apis: ["setTimeout"] });
      if (amount) here.device.add("opens", amount);
      context.mock.timers.tick(1000); // written by the timer
      context.mock.timers.reset();
      for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
      if (round !== 40) await here.device.flush();
    }
    await here.device.close();
    const { totals, reports, ...others } = here.data();
    stored.push({ ...others, reports: reports.map(({ body, bits, ...kept }) => ({ ...kept, size: body.length })) });
    assert.ok(here.bodies.length > 2);
    context.mock.restoreAll();
  }
  assert.deepEqual(stored[0], stored[1]);
});

// Names and words of a plan

test("a metric may have any name that a plan allows, also that of something every object has", async () => {
  const odd = plan("odd-names");
  const names = odd.metrics.map(({ name }) => name);
  const here = await world({ plan: odd, policy: Policy.unlimited() });
  here.next();
  for (const name of names) here.device.add(name, 1);
  await statusOf(here.device);
  assert.deepEqual(here.data().totals[first], Object.fromEntries(names.map((name) => [name, "1"])));
  here.next();
  assert.equal(await here.device.flush(), 1);
  assert.ok(await previewOf(here.device));
  const receipt = await receiptOf(here.device);
  assert.deepEqual(Object.keys(receipt.reports[0].bits), names);
  assert.ok(names.every((name) => String(receipt).includes(`${name}  `)));
  assert.equal(await here.device.forget(), true);
  assert.equal(await here.device.setConsent("denied"), true);
  assert.equal(here.device.consent, "denied");
});

test("a choice for one plan does not cover a metric named like something that every object has", async () => {
  const here = await world({ policy: Policy.unlimited() });
  await here.device.setConsent("granted");
  await here.device.close();
  assert.equal((await here.open({ plan: plan("odd-names-2") })).consent, "unset");
});

test("words of a plan cannot command a terminal or turn letters around", async () => {
  const hostile = "Minutes \u001b[2J\u202etxet\u2066\u2028\u0007\u009b31m\r\nid 0: nothing";
  const changed = plan();
  changed.owner = hostile;
  for (const metric of changed.metrics) Object.assign(metric, { description: hostile, unit: hostile });
  const here = await world({ plan: changed });
  here.next();
  const preview = await previewOf(here.device);
  here.next();
  await here.device.flush();
  const receipt = await receiptOf(here.device);
  const texts = [preview, receipt, receipt.html(), ...preview.answers.map(({ description, meaning }) => description + meaning), ...receipt.metrics.map(({ description, unit }) => description + unit), receipt.owner];
  for (const text of texts.map(String)) {
    assert.doesNotMatch(text.replaceAll("\n", ""), /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u);
    assert.doesNotMatch(text, /^\s*id 0: nothing/m);
  }
  assert.ok(String(receipt).includes("\\u001b[2J\\u202etxet"));
});

// Where reports go

test("a collector that never answers, or never ends its answer, is given up in time", async () => {
  for (const begin of [() => {}, (response) => response.writeHead(503).write("{")]) {
    const collector = createServer((_request, response) => begin(response)).unref();
    await new Promise((resolve) => collector.listen(0, "127.0.0.1", resolve));
    const transport = httpTransport(`http://127.0.0.1:${collector.address().port}`);
    const late = new Promise((resolve) => setTimeout(resolve, 5000, "late").unref());
    const outcome = await Promise.race([transport.send("{}", 0.2), late]);
    collector.closeAllConnections();
    assert.deepEqual(outcome, { kind: "retry", reason: "timeout" });
  }
});

test("of an answer without end no more than the beginning is read", async () => {
  const collector = createServer((_request, response) => {
    const pour = () => { while (response.writable && response.write("x".repeat(4096))); };
    response.writeHead(503).on("drain", pour);
    pour();
  }).unref();
  await new Promise((resolve) => collector.listen(0, "127.0.0.1", resolve));
  const outcome = await httpTransport(`http://127.0.0.1:${collector.address().port}`).send("{}", 5);
  collector.closeAllConnections();
  assert.equal(outcome.reason, "server-error");
});

test("a redirect is not followed: another address gets nothing", async () => {
  const elsewhere = [];
  const other = createServer((request, response) => (elsewhere.push(request.url), response.writeHead(202).end())).unref();
  await new Promise((resolve) => other.listen(0, "127.0.0.1", resolve));
  const seen = [];
  const collector = createServer((request, response) => {
    seen.push(request.url);
    response.writeHead(seen.length === 1 ? 307 : 308, { Location: `http://127.0.0.1:${other.address().port}/v1/reports` }).end();
  }).unref();
  await new Promise((resolve) => collector.listen(0, "127.0.0.1", resolve));
  const here = await world({ transport: undefined, endpoint: `http://127.0.0.1:${collector.address().port}`, plan: plan("patient") });
  for (let round = 0; round < 3; round++) {
    here.next();
    assert.equal(await here.device.flush(), 0);
  }
  assert.deepEqual(new Set(seen), new Set(["/v1/reports"]));
  assert.deepEqual(elsewhere, []);
  assert.equal((await statusOf(here.device)).lastAttempt.outcome, "not-a-collector");
  for (const server of [other, collector]) await new Promise((resolve) => (server.closeAllConnections(), server.close(resolve)));
});
