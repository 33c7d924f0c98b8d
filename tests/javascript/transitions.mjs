// The JavaScript device lives the lives of spec/transitions.json, through its public names: the document and the exports
// of its plans in ({document, plans}), what differs by life, row and field out.

import { readFileSync } from "node:fs";
import { Device, Policy } from "../../device-js/src/index.js";
import { receiptOf, statusOf } from "../../device-js/src/look.js";

const { document, plans } = JSON.parse(readFileSync(0, "utf8"));
const fromHex = (text) => Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));
const here = { secret: null, answers: [], bodies: [], elsewhere: 0, arrived: () => {}, released: Promise.resolve() };

const draw = crypto.getRandomValues.bind(crypto);
Object.defineProperty(crypto, "getRandomValues", {
  // Where nothing may be drawn, what comes is not in the document.
  value: (array) => (array.byteLength === 32 && here.secret ? (array.set(here.secret), array) : draw(array)),
});

globalThis.fetch = async (url, { body, redirect }) => {
  if (url !== "https://collector.example/v1/reports") here.elsewhere += 1;
  here.bodies.push(body);
  const answer = here.answers.shift() ?? { status: 202 };
  here.arrived();
  await here.released;
  if (answer.drop) throw new TypeError("fetch failed");
  const isRedirect = answer.status >= 300 && answer.status < 400;
  if (isRedirect && redirect !== "manual") {
    here.elsewhere += 1; // what the platform would do
    return new Response("", { status: 202 });
  }
  const headers = answer.retry_after === undefined ? {} : { "Retry-After": `${answer.retry_after}` };
  const content = answer.code ? JSON.stringify({ code: answer.code }) : "<html>";
  return new Response(answer.status === 204 ? null : content, { status: answer.status, headers });
};

function policyOf(settings = {}) {
  if (settings === "unlimited") return Policy.unlimited();
  const named = Object.entries(settings).map(([name, value]) => [
    name.replace(/_(.)/g, (_, letter) => letter.toUpperCase()),
    value,
  ]);
  return new Policy(Object.fromEntries(named));
}

const REASONS = [
  [/^consent is (unset|denied)/, (match) => match[1]],
  [/^paused$/, () => "paused"],
  [/^DO_NOT_TRACK is set$/, () => "DO_NOT_TRACK"],
  [/^this is continuous integration/, () => "CI"],
  [/^this is a container/, () => "container"],
  [/^refused: /, () => "refused"],
  [/ expired on /, () => "expired"],
  [/state cannot be/, () => "state"],
];
const ORDER = ["unset", "denied", "paused", "DO_NOT_TRACK", "CI", "container", "refused", "expired", "state"];

function reasonsOf(texts) {
  const words = texts.filter((text) => !text.startsWith("consent is local")).map((text) => {
    const [pattern, word] = REASONS.find(([one]) => one.test(text)) ?? [/.*/, () => text];
    return word(pattern.exec(text));
  });
  return [...new Set(words)].sort((one, other) => ORDER.indexOf(one) - ORDER.indexOf(other));
}

/** "80001-80003 v1 accepted" */
function listed(reports) {
  const lines = [];
  for (const { round, version, state, code } of reports) {
    const words = `v${version} ${state}${code ? ` ${code}` : ""}`;
    const last = lines.at(-1);
    if (last?.last === round - 1 && last.words === words) last.last = round;
    else lines.push({ first: round, last: round, words });
  }
  return lines.map(({ first, last, words }) => `${first === last ? first : `${first}-${last}`} ${words}`);
}

class Runner {
  text = null;
  head = null; // kept elsewhere, as a state does
  now = 0;
  device = null;
  isUsable = true;
  environment = [];
  state = {
    update: async (change) => {
      if (!this.isUsable) throw new Error("no storage");
      const before = this.text;
      this.text = change(before, this.head);
      if (this.text !== before) this.head = this.text && this.text.slice(0, this.text.indexOf("\n") + 1);
    },
    close() {},
  };

  async run(rows) {
    const failures = {};
    let isBroken = false;
    for (const [number, row] of rows.entries()) {
      let observed = {};
      try {
        observed = await this.step(row);
      } catch (error) {
        isBroken = true;
        failures[number] = { raised: `${error}` };
      }
      if (!row.then) delete failures[number];
      else if (isBroken) failures[number] ??= { raised: "earlier" };
      else {
        const problems = differences(row.then, observed);
        if (Object.keys(problems).length) failures[number] = problems;
      }
    }
    await this.device?.close();
    return failures;
  }

  async step(row) {
    this.now = row.at;
    const number = row.then?.secret;
    here.secret = number === undefined ? null : fromHex(document.secrets[number]);
    here.answers = [...(row.answers ?? [])];
    here.bodies = [];
    here.elsewhere = 0;
    const result = await (row.while_sending ? this.callWhileSending(row) : this[row.do](row));
    return row.then ? { result: result ?? null, sent: here.bodies, ...(await this.look()) } : {};
  }

  async look() {
    const [status, receipt] = [await statusOf(this.device), await receiptOf(this.device)];
    return {
      consent: this.device.consent,
      active: status.active,
      reasons: reasonsOf(status.reasons),
      version: status.version,
      epoch: status.epoch,
      reports: listed(receipt.reports),
      loss: receipt.totalLoss,
      elsewhere: here.elsewhere,
      next: status.nextAnswer,
    };
  }

  // Events

  async open(row) {
    this.environment = row.environment ?? [];
    this.isUsable = !row.unusable;
    const sign = (name) => (this.environment.includes(name) ? name : "");
    this.device = await Device.open({
      plan: plans[row.plan],
      state: this.state,
      consent: row.consent,
      askAgain: row.ask_again ?? true,
      policy: policyOf(row.policy),
      endpoint: "https://collector.example",
      clock: () => this.now,
      environment: () => ({ doNotTrack: sign("DO_NOT_TRACK"), ci: sign("CI"), container: sign("container") }),
    });
  }

  close = () => this.device.close();
  kill = async () => {}; // it is left as it is
  add = async ({ metric, amount }) => this.device.add(metric, amount);
  write = () => new Promise((resolve) => setTimeout(resolve, 1100)); // values are written within a second
  flush = () => this.device.flush();
  report = (row) => this.device.report(row.current ? this.device.currentRound : undefined);
  consent = ({ choice }) => this.device.setConsent(choice);
  pause = () => this.device.pause();
  resume = () => this.device.resume();
  forget = () => this.device.forget();

  async callWhileSending(row) {
    let release = () => {};
    here.answers = [row.while_sending];
    here.released = new Promise((resolve) => (release = resolve));
    const arrived = new Promise((resolve) => (here.arrived = resolve));
    const sending = this.device.flush();
    await Promise.race([arrived, sending]);
    let hasReturned = false;
    const calling = this[row.do](row).then((result) => ((hasReturned = true), result));
    await new Promise((resolve) => setTimeout(resolve, 100));
    const hasWaited = !hasReturned && here.bodies.length > 0;
    release();
    const result = await calling;
    await sending;
    here.arrived = () => {};
    here.released = Promise.resolve();
    return hasWaited ? result : "it did not wait";
  }

  async damage({ how }) {
    if (how === "truncate") this.text = this.text.slice(0, this.text.length / 2);
    else if (how === "zeros") this.text = "\0".repeat(this.text.length);
    else {
      const place = Math.max(...document.secrets.map((secret) => this.text.indexOf(secret)));
      const flipped = (parseInt(this.text[place], 16) ^ 1).toString(16);
      this.text = this.text.slice(0, place) + flipped + this.text.slice(place + 1);
    }
  }

  async delete() {
    this.text = this.head = null;
  }
}

/** What is not as the rules say, by field. */
function differences(expected, observed) {
  const problems = {};
  for (const [name, value] of Object.entries(expected)) {
    if (name === "secret") continue;
    if (name === "loss") {
      const [least, most] = value;
      const isBelow = !(observed.loss >= least - 1e-12);
      if (isBelow || (most !== null && observed.loss > most * (1 + 1e-6) + 1e-9)) {
        problems.loss = `${observed.loss} is not in ${value}`;
      }
    } else if (JSON.stringify(observed[name]) !== JSON.stringify(value)) {
      problems[name] = `expected ${JSON.stringify(value)}, got ${JSON.stringify(observed[name])}`;
    }
  }
  if (observed.elsewhere) problems.elsewhere = "a redirect was followed";
  return problems;
}

const failures = {};
for (const { name, rows } of document.lives) {
  const found = await new Runner().run(rows);
  if (Object.keys(found).length) failures[name] = found;
}
console.log(JSON.stringify(failures));
