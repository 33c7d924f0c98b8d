// Whole devices on states in memory, for `reticent audit PLAN --client "node device-js/audit.mjs"`: it reads an event
// per line and answers each with what left the device (docs/how-to/audit.md).

import { createInterface } from "node:readline";
import { Device, Fraction, Policy } from "./src/index.js";
import { statusOf } from "./src/look.js";

const here = { now: 0, secret: null, answers: [], bodies: [], text: null, head: null, device: null };

const draw = crypto.getRandomValues.bind(crypto);
Object.defineProperty(crypto, "getRandomValues", {
  // The test secret; where nothing may be drawn, what nobody can foretell.
  value: (array) => (array.byteLength === 32 && here.secret ? (array.set(here.secret), array) : draw(array)),
});

globalThis.fetch = async (_, { body }) => {
  here.bodies.push(body);
  const { status, code, retry_after: wait } = here.answers.shift() ?? { status: 202 };
  const headers = wait === undefined ? {} : { "Retry-After": String(wait) };
  return new Response(code ? JSON.stringify({ code }) : "", { status, headers });
};

const state = {
  update: async (change) => {
    here.text = change(here.text, here.head);
    here.head = here.text && here.text.slice(0, here.text.indexOf("\n") + 1);
  },
  close() {},
};

function valueOf(given) {
  if (typeof given !== "string") return given;
  return /^-?\d/.test(given) ? Fraction.parse(given) : Number(given);
}

async function open({ plan, consent, segment }) {
  here.device = await Device.open({
    plan, state, consent, segment, clock: () => here.now, policy: Policy.unlimited(),
    endpoint: "https://collector.example",
    environment: () => ({ doNotTrack: "", ci: "", container: "" }), // an audit runs anywhere
  });
}

const EVENTS = {
  open,
  add: ({ metric, amount }) => here.device.add(metric, valueOf(amount)),
  set: ({ metric, value }) => here.device.set(metric, valueOf(value)),
  choose: ({ metric, label }) => here.device.choose(metric, label),
  flush: () => here.device.flush(),
  report: ({ current }) => here.device.report(current ? here.device.currentRound : undefined),
  consent: ({ choice }) => here.device.setConsent(choice),
  pause: () => here.device.pause(),
  resume: () => here.device.resume(),
  forget: () => here.device.forget(),
  close: () => here.device.close(),
  kill: () => statusOf(here.device), // values are written; the device is left as it is
};

for await (const line of createInterface({ input: process.stdin })) {
  const event = JSON.parse(line);
  if (event.do === "life") {
    here.text = here.head = here.device = null;
    console.log("true");
    continue;
  }
  here.now = event.at;
  here.secret = event.secret ? Uint8Array.from(event.secret.match(/../g), (pair) => parseInt(pair, 16)) : null;
  here.answers = event.answers ?? [];
  here.bodies = [];
  const result = await EVENTS[event.do](event);
  if (["add", "set", "choose"].includes(event.do)) await statusOf(here.device); // values are written at once
  console.log(JSON.stringify({ sent: here.bodies, result: result ?? null }));
}
