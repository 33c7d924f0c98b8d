// The state in a folder, with another process or a crash at every point of a change.

import assert from "node:assert/strict";
import * as promises from "node:fs/promises";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { folderState } from "../src/node.js";

const CALLS = ["readdir", "readFile", "mkdir", "open", "writeFile", "rename", "rm"];
const root = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "reticent-"));
after(() => rmSync(root, { recursive: true }));
let made = 0;
const fresh = () => join(root, `state-of-${made++}`);

/** A file system that calls `before(place, name)` ahead of each of its calls, syncs and closes included. */
function watched(before) {
  let place = 0;
  const watch = (name, call) => async (...given) => {
    await before(place++, name, given[0]);
    return call(...given);
  };
  const fs = Object.fromEntries(CALLS.map((name) => [name, watch(name, promises[name])]));
  const { open } = fs;
  fs.open = async (path, ...given) => {
    const file = await open(path, ...given);
    return {
      writeFile: watch("write", (text) => file.writeFile(text)),
      sync: watch(`sync ${String(path).replace(root, "")}`, () => file.sync()),
      close: () => file.close(),
    };
  };
  return fs;
}

const count = async (state) => state.update((text) => `${Number(text ?? 0) + 1}`);
async function read(folder) {
  let kept;
  await folderState(folder).update((text) => (kept = text));
  return kept;
}

async function calls(prepared) {
  let places = 0;
  const folder = fresh();
  for (let time = 0; time < prepared; time++) await count(folderState(folder));
  await count(folderState(folder, watched(() => void places++)));
  return places;
}

test("what was written is read again, and wiped is gone", async () => {
  const folder = fresh();
  const state = folderState(folder);
  await state.update(() => null);
  assert.ok(!existsSync(folder)); // nothing to keep, nothing made
  await state.update(() => "one");
  assert.equal(await read(folder), "one");
  for (let time = 0; time < 5; time++) await state.update((text) => `${text}.`);
  assert.equal(await read(folder), "one.....");
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  await state.update(() => null);
  assert.equal(await read(folder), null);
  assert.ok(!readdirSync(folder, { recursive: true }).some((name) => name.endsWith("text") && readFileSync(join(folder, name), "utf8")));
});

test("only the newest text is on the disk", async () => {
  const folder = fresh();
  const state = folderState(folder);
  for (let time = 0; time < 4; time++) await state.update(() => `private value ${time}`);
  const texts = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith("text"));
  assert.deepEqual(texts.map((name) => readFileSync(join(folder, name), "utf8")), ["private value 3"]);
});

test("many changes at once, of several states, are all made", async () => {
  const folder = fresh();
  const states = Array.from({ length: 4 }, () => folderState(folder));
  await Promise.all(Array.from({ length: 40 }, (_, place) => count(states[place % 4])));
  assert.equal(await read(folder), "40");
});

for (const prepared of [0, 1, 3, 9]) { // after 9 the number has two digits
  test(`another process makes changes at every point of a change (${prepared} before)`, async () => {
    for (let stop = 0, places = await calls(prepared); stop < places; stop++) {
      for (const others of [1, 2, 3]) {
        const folder = fresh();
        for (let time = 0; time < prepared; time++) await count(folderState(folder));
        const slow = folderState(folder, watched(async (place) => {
          if (place === stop) for (let time = 0; time < others; time++) await count(folderState(folder));
        }));
        await count(slow);
        assert.equal(await read(folder), `${prepared + others + 1}`, `stopped at ${stop}, ${others} others`);
      }
    }
  });

  test(`a crash at every point of a change leaves the old text or the new one (${prepared} before)`, async () => {
    const outcomes = new Set();
    for (let stop = 0, places = await calls(prepared); stop < places; stop++) {
      const folder = fresh();
      for (let time = 0; time < prepared; time++) await count(folderState(folder));
      await new Promise((died) => {
        const dying = watched((place) => (place === stop ? new Promise(died) : undefined)); // it never goes on
        void count(folderState(folder, dying));
      });
      const left = await read(folder);
      assert.ok([prepared ? `${prepared}` : null, `${prepared + 1}`].includes(left), `stopped at ${stop}: ${left}`);
      outcomes.add(left);
      await count(folderState(folder));
      await count(folderState(folder));
      assert.equal(await read(folder), `${Number(left) + 2}`);
      const texts = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith("text"));
      assert.equal(texts.length, 1, texts); // what the dead process left is gone
    }
    assert.equal(outcomes.size, 2);
  });
}

test("a text is synced before it has its name, and the name before the change is done", async () => {
  for (const prepared of [0, 3]) {
    const folder = fresh();
    for (let time = 0; time < prepared; time++) await count(folderState(folder));
    const log = [];
    await count(folderState(folder, watched((_, name) => void log.push(name))));
    const order = log.filter((name) => /^(write|rename|sync)/.test(name) && name !== "writeFile").map((name) => name.replace(/\w{8}(-\w{4}){3}-\w{12}/, "*").replace(/\/state-of-\d+/, ""));
    const draft = prepared ? `/state-${prepared}/drafts/*` : "/draft-*";
    assert.deepEqual(order, ["write", `sync ${draft}/head`, "write", `sync ${draft}/text`, `sync ${draft}`, "rename", "sync "]);
  }
});

test("a reader waits for the name that another process has not synced yet", async () => {
  const folder = fresh();
  await count(folderState(folder));
  const log = [];
  await folderState(folder, watched((_, name) => void log.push(name.replace(/\/state-of-\d+/, "")))).update((text) => text);
  assert.ok(log.includes("sync "));
});

test("nothing that is not ours is touched", async () => {
  const file = join(root, "a file");
  writeFileSync(file, "precious");
  await assert.rejects(count(folderState(file)), /expected a folder/);
  assert.equal(readFileSync(file, "utf8"), "precious");
  const folder = join(root, "a folder");
  mkdirSync(folder);
  writeFileSync(join(folder, "text"), "precious");
  mkdirSync(join(folder, "17"));
  await assert.rejects(count(folderState(folder)), /expected an empty folder/);
  assert.deepEqual(readdirSync(folder).sort(), ["17", "text"]);
  const ours = fresh();
  await count(folderState(ours));
  writeFileSync(join(ours, "a note"), "precious");
  for (let time = 0; time < 3; time++) await count(folderState(ours));
  assert.equal(readFileSync(join(ours, "a note"), "utf8"), "precious");
  symlinkSync(ours, join(root, "link"));
  await count(folderState(join(root, "link")));
  assert.equal(await read(ours), "5");
});

test("a state whose newest part was removed by hand is lost, not new", async () => {
  const folder = fresh();
  for (let time = 0; time < 3; time++) await count(folderState(folder));
  rmSync(join(folder, "state-3"), { recursive: true });
  let seen;
  await folderState(folder).update((text) => ((seen = text), "again"));
  assert.equal(seen, "lost");
  assert.equal(await read(folder), "again");
});

test("an error of the disk is the caller's, and leaves the old text", async () => {
  const folder = fresh();
  await count(folderState(folder));
  for (const failing of ["mkdir", "write", "rename"]) {
    const broken = watched((_, name) => {
      if (name === failing) throw Object.assign(new Error("no space"), { code: "ENOSPC" });
    });
    await assert.rejects(count(folderState(folder, broken)), /no space/, failing);
    assert.equal(await read(folder), "1");
  }
});
