// Whole devices on states in memory, for `reticent audit PLAN --client "node device-js/audit.mjs PLAN.json"`:
// it reads a request per line and answers each with a line (docs/how-to/audit.md).

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Device, Fraction, Policy, readPlan } from "./src/index.js";

const plan = await readPlan(readFileSync(process.argv[2], "utf8"));
const environment = () => ({ doNotTrack: "", ci: "", container: "" }); // an audit runs anywhere

/** A device with a clock moved by hand, a state that can be copied and a transport that records. */
class Participant {
  bodies = [];

  constructor(now, text = null) {
    this.now = now;
    this.text = text;
  }

  async open() {
    const state = { update: async (change) => void (this.text = change(this.text)), close() {} };
    const transport = { send: async (body) => (this.bodies.push(body), { kind: "accepted", reason: "accepted" }) };
    const clock = () => this.now;
    // What is audited is the law of the answers, also of plans that a device would refuse by default.
    this.device = await Device.open({ plan, state, transport, clock, environment, consent: "granted", policy: Policy.unlimited() });
    return this;
  }

  async answer(round, values) {
    if (this.now >= (round + 1) * plan.roundSeconds) return this.device.report(round);
    this.now = round * plan.roundSeconds;
    for (const [name, value] of Object.entries(values)) {
      if (plan.byName.get(name)?.kind === "choice") this.device.choose(name, value);
      else this.device.set(name, typeof value === "string" ? Fraction.parse(value) : value);
    }
    await this.device.status(); // the values belong to this round: they are written before the clock moves
    this.now += plan.roundSeconds;
    await this.device.flush();
    return this.bodies.findLast((body) => JSON.parse(body).round === round) ?? null;
  }
}

const devices = new Map();
for await (const line of createInterface({ input: process.stdin })) {
  const { do: what, device: number, first_round: first, round, values, to } = JSON.parse(line);
  const device = devices.get(number);
  let answer = "true";
  if (what === "start") devices.set(number, await new Participant((first - 1) * plan.roundSeconds).open());
  if (what === "restart") await device.open();
  if (what === "copy") devices.set(to, await new Participant(device.now, device.text).open());
  if (what === "close") devices.delete(number);
  if (what === "answer") answer = (await device.answer(round, values)) ?? "null";
  console.log(answer);
}
