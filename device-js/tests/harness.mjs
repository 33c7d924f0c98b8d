// What the tests of the JavaScript device share: plans, a clock moved by hand, a transport that records.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Device, memoryState } from "../src/index.js";
import { statusOf } from "../src/look.js";

export { NewerStateError, Policy } from "../src/index.js";
export { fromText, knownLayout, STEPS, toText } from "../src/data.js";
export { folderState } from "../src/node.js";

/** The export of a plan that the Python side has written. */
export const plan = (name = "usage") => JSON.parse(readFileSync(join(process.env.PLANS, `${name}.json`), "utf8"));

export const HOUR = 3600;
export const START = 500_000 * HOUR;
export const nowhere = () => ({ doNotTrack: "", ci: "", container: "" });

/** A device with all that surrounds it; `next()` moves to the next round. */
export async function world(settings = {}) {
  const here = { now: settings.now ?? START, bodies: [], outcomes: [], texts: [], events: [], environment: nowhere() };
  const inner = settings.state ?? memoryState();
  here.state = {
    async update(change) {
      if (here.broken) throw new Error("disk full");
      await inner.update((text, head) => {
        const after = change(text, head);
        if (after !== text) here.pending = after;
        return (here.text = after);
      });
      if (here.pending !== undefined) here.events.push("durable");
      here.pending = undefined;
    },
    close: () => inner.close(),
  };
  const transport = {
    async send(body) {
      here.events.push("send");
      here.bodies.push(body);
      const outcome = here.outcomes.shift() ?? { kind: "accepted", reason: "accepted" };
      if (outcome instanceof Error) throw outcome;
      return outcome;
    },
  };
  const { plan: asked = plan(), now: _now, state: _state, ...others } = settings;
  here.settings = { plan: asked, state: here.state, consent: "granted", clock: () => here.now, transport, environment: () => here.environment, ...others };
  here.open = async (changes = {}) => {
    if (here.device) await statusOf(here.device).catch(() => {}); // the program ran until now: there is no gap
    return (here.device = await Device.open({ ...here.settings, ...changes }));
  };
  here.next = (rounds = 1) => (here.now += rounds * here.settings.plan.round_seconds);
  here.data = () => (here.text ? JSON.parse(here.text.slice(here.text.indexOf("\n") + 1)) : null);
  await here.open();
  return here;
}
