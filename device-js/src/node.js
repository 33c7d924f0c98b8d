// For Node: the device, which knows of the environment of a process, and a state in a folder of the file system.
//
// The newest of the folders state-1, state-2, … holds the text. A change is written to a draft inside the folder it
// was made from, synced, and then renamed to the next number. The rename is the only moment that counts: it fails
// where another process was first, since that number exists, or where the world has moved on by several numbers,
// since the folder that the draft was in is gone. Then the change is made again from the newer text. No lock can be
// left behind by a process that is killed, and a crash at any point leaves the old text or the new one.

import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import * as promises from "node:fs/promises";
import { join } from "node:path";
import { Device as AnyDevice } from "./device.js";
import * as engine from "./engine.js";
import { readEnvironment as readBrowser } from "./policy.js";
import { headOf } from "./states.js";

export * from "./index.js";

/** @typedef {import("./states.js").State} State */

const NUMBERED = /^state-([1-9]\d{0,14})$/;
const DRAFT = /^draft-[0-9a-f-]{36}$/;
const LOST_THE_RACE = ["ENOENT", "EEXIST", "ENOTEMPTY", "EPERM", "EACCES"]; // the last two on Windows

/** The folder cannot be the device's: something else is there. */
export class StateError extends Error {
  name = "StateError";
}

/**
 * A state in a folder of its own, made for this user alone when there is something to keep.
 *
 * @param {string} folder @param {typeof promises} fs @returns {State}
 */
export function folderState(folder, fs = promises) {
  /** Changes of this process, one after the other. @type {Promise<unknown>} */
  let last = Promise.resolve();

  /** The numbers there are, rising; rejects where the folder is not a device's. */
  async function numbers() {
    /** @type {string[]} */
    let names = [];
    try {
      names = await fs.readdir(folder);
    } catch (error) {
      if (codeOf(error) === "ENOENT") return [];
      throw new StateError(`${folder}: expected a folder for the device's state (${codeOf(error)})`);
    }
    const found = names.map((name) => Number(NUMBERED.exec(name)?.[1] ?? 0)).filter(Boolean).sort(
      (one, other) => one - other,
    );
    if (!found.length && names.some((name) => !DRAFT.test(name))) {
      throw new StateError(`${folder}: expected an empty folder, or one that a device made`);
    }
    return found;
  }

  /**
   * The highest number, 0 for none, its text, the second copy of the first line, and where drafts of the next one go.
   *
   * @returns {Promise<[number, string | null, string | null, string]>}
   */
  async function latest() {
    for (;;) {
      const newest = (await numbers()).at(-1);
      if (newest === undefined) return [0, null, null, join(folder, "draft-")];
      const path = join(folder, `state-${newest}`);
      const head = await fs.readFile(join(path, "head"), "utf8").catch(() => null);
      try {
        return [newest, await fs.readFile(join(path, "text"), "utf8"), head, join(path, "drafts/")];
      } catch (error) {
        if (codeOf(error) !== "ENOENT") throw error;
        // Replaced by a newer one meanwhile: look again. If it is still the newest, somebody has removed others.
        if ((await numbers()).at(-1) === newest) return [newest, "lost", head, join(folder, "draft-")];
      }
    }
  }

  /** @param {string} path */
  async function sync(path) {
    const opened = await fs.open(path, "r");
    try {
      await opened.sync();
    } finally {
      await opened.close();
    }
  }

  /**
   * Whether the text has become that of the number after `number`.
   *
   * @param {string} text @param {number} number @param {string} drafts
   */
  async function publish(text, number, drafts) {
    const draft = drafts + randomUUID();
    try {
      if (!number) await fs.mkdir(folder, { recursive: true, mode: 0o700 });
      await fs.mkdir(draft, { mode: 0o700 });
      await fs.mkdir(join(draft, "drafts"), { mode: 0o700 });
      if (!number) await fs.writeFile(join(draft, "made"), ""); // an empty folder could be replaced
      for (const [name, content] of [["head", headOf(text)], ["text", text]]) {
        const file = await fs.open(join(draft, name), "wx", 0o600);
        try {
          await file.writeFile(content);
          await file.sync();
        } finally {
          await file.close();
        }
      }
      await sync(draft);
      await fs.rename(draft, join(folder, `state-${number + 1}`));
    } catch (error) {
      await fs.rm(draft, { recursive: true, force: true });
      if (LOST_THE_RACE.includes(codeOf(error)) && (await numbers()).some((one) => one > number)) return false;
      throw error;
    }
    await sync(folder);
    return true;
  }

  /**
   * Remove what is older than a number, the oldest first: while drafts can be made from a folder, the next number must
   * stay taken. Of the first one the name stays, so that number 1 is never taken again.
   *
   * @param {number} number
   */
  async function tidy(number) {
    try {
      for (const name of (await fs.readdir(folder)).filter((one) => DRAFT.test(one))) {
        await fs.rm(join(folder, name), { recursive: true, force: true });
      }
      for (const older of (await numbers()).filter((one) => one < number)) {
        const path = join(folder, `state-${older}`);
        if (older > 1) await fs.rm(path, { recursive: true });
        else for (const name of ["drafts", "head", "text"]) await fs.rm(
          join(path, name),
          { recursive: true, force: true },
        );
      }
    } catch {
      // Another process is at it, or makes a draft just now: the next change tidies up.
    }
  }

  /** @param {(text: string | null, head: string | null) => string | null} change */
  async function update(change) {
    for (;;) {
      const [number, text, head, drafts] = await latest();
      const after = change(text || null, head); // an empty text: everything was wiped
      // Who wrote it may not be done yet.
      if (after === (text || null)) return number ? sync(folder) : undefined;
      if (await publish(after ?? "", number, drafts)) return tidy(number + 1);
    }
  }

  return {
    update(change) {
      const done = last.then(() => update(change));
      last = done.catch(ignore);
      return done;
    },
    close() {},
  };
}

const CI = [
  "CI", "CONTINUOUS_INTEGRATION", "GITHUB_ACTIONS", "GITLAB_CI", "BUILD_NUMBER", "BUILD_ID", "TF_BUILD",
  "TEAMCITY_VERSION", "JENKINS_URL", "TRAVIS", "CIRCLECI", "APPVEYOR", "BUILDKITE", "DRONE",
  "CODEBUILD_BUILD_ID", "BITBUCKET_BUILD_NUMBER",
];
const CONTAINER_FILES = ["/.dockerenv", "/run/.containerenv"];

/** What a process says of where it runs. @returns {import("./policy.js").Environment} */
export function readEnvironment() {
  const { env } = process;
  const isSet = (/** @type {string} */ name) => !["", "0", "false"].includes((env[name] ?? "").trim().toLowerCase());
  return {
    doNotTrack: isSet("DO_NOT_TRACK") ? "DO_NOT_TRACK" : readBrowser().doNotTrack,
    ci: CI.find(isSet) ?? "",
    container: [
      // A Flatpak is an application on a person's own desktop.
      ...["container", "KUBERNETES_SERVICE_HOST"].filter((name) => isSet(name) && env[name] !== "flatpak"),
      ...CONTAINER_FILES.filter((path) => existsSync(path)),
    ][0] ?? "",
  };
}

/** The device, silent by default in continuous integration, in containers and under DO_NOT_TRACK. */
export class Device extends AnyDevice {
  static load = async () => engine;

  /** @param {import("../index.js").Settings} settings */
  static open(settings) {
    return super.open({ ...settings, environment: settings.environment ?? readEnvironment });
  }
}

/** @param {any} error @returns {string} */
const codeOf = (error) => error?.code ?? "";
const ignore = () => {};
