// Upgrades are a promise: every layout ever written is opened, and what it holds survives, also a crash half-way.

import assert from "node:assert/strict";
import * as promises from "node:fs/promises";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, test } from "node:test";
import { folderState, fromText, knownLayout, NewerStateError, plan, Policy, STEPS, toText, world } from "./harness.mjs";
import { account, here, LIVES, planNameOf, planOf, stateOf } from "./fixtures/make.mjs";
import { statusOf } from "../src/look.js";

const root = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "reticent-"));
after(() => rmSync(root, { recursive: true }));
const released = STEPS.length;
afterEach(() => void STEPS.splice(released));

const folders = readdirSync(here).filter((name) => name.startsWith("layout-")).sort();
const old = folders.flatMap((folder) => Object.keys(LIVES).map((name) => [folder, name]));
const textOf = (folder, name) => readFileSync(`${here}${folder}/${name}.txt`, "utf8");
const toldOf = (folder, name) => JSON.parse(readFileSync(`${here}${folder}/${name}.json`, "utf8"));
const settingsOf = (folder, name, state) => ({
  plan: planOf(planNameOf(name)), now: toldOf(folder, name).now, consent: "unset", segment: { os: "linux" }, policy: Policy.unlimited(), state,
});

/** A later version, with two more layouts; the second step needs the first. */
function laterVersion() {
  STEPS.push(
    (data) => ({ ...data, reports: data.reports.map((kept) => ({ ...kept, size: kept.body.length })) }),
    (data) => ({ ...data, sizes: data.reports.map(({ size }) => size) }),
  );
}

/** Everything that was told is told again; a later version may have more to say. */
function assertKept(before, now, place = "") {
  if (before === null || typeof before !== "object") return assert.deepEqual(now, before, place);
  for (const [key, value] of Object.entries(before)) assertKept(value, now?.[key], `${place}.${key}`);
}

/** Data with prototypes, to compare. */
const plainly = (data) => JSON.parse(JSON.stringify(data));

async function assertSameDevice(folder, name, state) {
  const { now, ...told } = toldOf(folder, name);
  assertKept(told, await account(state, name, now));
}

test("this layout has its states, with all that they are for", () => {
  assert.deepEqual(folders, Array.from({ length: knownLayout() }, (_, place) => `layout-${place + 1}`));
  for (const folder of folders) {
    const told = Object.fromEntries(Object.keys(LIVES).map((name) => [name, toldOf(folder, name)]));
    assert.deepEqual(Object.values(told).map(({ consent }) => consent), ["granted", "granted", "denied", "local", "granted"]);
    assert.deepEqual([...new Set(told.granted.receipt.losses.map(({ epoch }) => epoch))], [0, 1]);
    assert.equal(told.granted.sent.length, 2);
    assert.equal(told.windows.receipt.windows.length, 3);
    for (const { answers } of Object.values(told)) assert.ok(answers.some(Boolean)); // the secret shows in them
  }
});

for (const [folder, name] of old) {
  test(`${folder}/${name} is opened, and the device goes on as it would have`, async () => {
    await assertSameDevice(folder, name, stateOf(textOf(folder, name)));
  });

  test(`${folder}/${name} is upgraded by a later version`, async () => {
    laterVersion();
    const state = stateOf(textOf(folder, name));
    const life = await world(settingsOf(folder, name, state));
    assert.ok(state.text().startsWith(`reticent-state-${knownLayout()} `));
    const data = life.data();
    assert.deepEqual(data.sizes, data.reports.map(({ body }) => body.length));
    await life.device.close();
    await assertSameDevice(folder, name, state);
  });

  test(`${folder}/${name} is left alone where it is newer`, async () => {
    const newer = textOf(folder, name).replace(/^reticent-state-\d+ [0-9a-f]{16}/, `reticent-state-${knownLayout() + 1} another-checksum`);
    const state = stateOf(newer);
    await assert.rejects(world({ ...settingsOf(folder, name, state), debug: true }), (error) => {
      assert.ok(error instanceof NewerStateError);
      assert.match(error.message, /written by a newer version of reticent .*nothing was changed/);
      return true;
    });
    const life = await world(settingsOf(folder, name, state));
    assert.match((await statusOf(life.device)).reasons[0], /written by a newer version of reticent/);
    assert.equal(state.text(), newer);
  });
}

test("steps run in order, from the layout that a state has", () => {
  const text = textOf(`layout-${knownLayout()}`, "granted");
  const { secret } = fromText(text);
  STEPS.push((data) => ({ ...data, ran: ["two"] }));
  const second = toText(fromText(text));
  STEPS.push((data) => ({ ...data, ran: [...data.ran, "three"] }));
  assert.deepEqual(fromText(text).ran, ["two", "three"]);
  assert.deepEqual(fromText(second).ran, ["two", "three"]);
  assert.deepEqual(fromText(toText(fromText(second))).ran, ["two", "three"]);
  assert.equal(fromText(second).secret, secret);
});

test("a step that fails changes nothing, and is no reason for a new secret", async () => {
  laterVersion();
  STEPS[released + 1] = (data) => {
    data.secret = "";
    throw new Error("a slip");
  };
  const text = textOf("layout-1", "granted");
  const state = stateOf(text);
  await assert.rejects(world({ ...settingsOf("layout-1", "granted", state), debug: true }), /a slip/);
  assert.equal(state.text(), text);
});

test("a state of another plan is not upgraded", async () => {
  laterVersion();
  const text = textOf("layout-1", "granted");
  const state = stateOf(text);
  const other = { ...settingsOf("layout-1", "granted", state), plan: plan("usage") };
  await assert.rejects(world({ ...other, debug: true }), /belongs to plan app-usage/);
  assert.equal(state.text(), text);
});

test("a damaged state of an older layout is damaged, not upgraded", async () => {
  laterVersion();
  const text = textOf("layout-1", "granted").replace("granted", "grantee");
  assert.equal(fromText(text), null);
  for (const head of ["reticent-state-0 ", "reticent-state- ", "reticent-state-x ", "reticent-state--1 ", "lost", ""]) {
    assert.equal(fromText(text.replace("reticent-state-1 ", head)), null, head);
  }
});

test("a device stops when its state becomes newer", async () => {
  const state = stateOf(textOf("layout-1", "granted"));
  const life = await world(settingsOf("layout-1", "granted", state));
  const newer = state.text().replace(/^reticent-state-\d+/, `reticent-state-${knownLayout() + 1}`);
  await state.update(() => newer);
  const { device } = life;
  device.add("saves", 3);
  assert.equal(await device.report(), null);
  assert.equal(await device.flush(), 0);
  assert.equal(await device.forget(), false);
  assert.equal(await device.pause(), false);
  assert.equal(await device.setConsent("denied"), false);
  const status = await statusOf(device);
  assert.match(status.reasons[0], /newer version of reticent/);
  assert.ok(status.notes["state-newer"] > 0);
  await device.close();
  assert.equal(state.text(), newer);
  assert.deepEqual(life.bodies, []);
});

/** A file system that calls `before(place)` ahead of each of its calls, syncs and closes included. */
function watched(before) {
  let place = 0;
  const watch = (call) => async (...given) => {
    await before(place++);
    return call(...given);
  };
  const names = ["readdir", "readFile", "mkdir", "open", "writeFile", "rename", "rm"];
  const fs = Object.fromEntries(names.map((name) => [name, watch(promises[name])]));
  const { open } = fs;
  fs.open = async (...given) => {
    const file = await open(...given);
    return { writeFile: watch((text) => file.writeFile(text)), sync: watch(() => file.sync()), close: () => file.close() };
  };
  return fs;
}

for (const name of ["granted", "windows"]) {
  test(`a crash at every call of an upgrade leaves the old layout or the new one, whole (${name})`, async () => {
    const text = textOf("layout-1", name);
    const before = fromText(text);
    laterVersion();
    let made = 0;
    const folderWith = () => {
      const folder = join(root, `${name}-${made++}`);
      mkdirSync(join(folder, "state-1", "drafts"), { recursive: true });
      writeFileSync(join(folder, "state-1", "text"), text);
      return folder;
    };
    const layouts = [];
    for (let stop = 0, done = false; !done; stop++) {
      assert.ok(stop < 200);
      const folder = folderWith();
      await new Promise((ended) => {
        const dying = watched((place) => (place === stop ? new Promise(ended) : undefined)); // it never goes on
        world(settingsOf("layout-1", name, folderState(folder, dying))).then(() => ended((done = true)));
      });
      let left;
      await folderState(folder).update((kept) => (left = kept));
      const layout = Number(/^reticent-state-(\d+) /.exec(left)[1]);
      layouts.push(layout);
      if (layout === 1) assert.equal(left, text);
      else {
        assert.equal(layout, knownLayout());
        const data = plainly(fromText(left));
        for (const key of ["secret", "epoch", "choice", "ledger", "windows", "pauses", "totals", "epochs"]) {
          assert.deepEqual(data[key], plainly(before)[key], key);
        }
        assert.deepEqual(data.reports.map(({ size, ...kept }) => kept), plainly(before).reports);
      }
      if (stop % 5 === 0 || done) await assertSameDevice("layout-1", name, folderState(folder));
    }
    assert.deepEqual(layouts, [...layouts].sort());
    assert.deepEqual([...new Set(layouts)], [1, knownLayout()]);
    assert.ok(layouts.length > 10);
  });
}
