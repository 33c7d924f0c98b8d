// A program with a device, for tests from outside: a JSON of settings as its argument, a JSON of results on its output.
//
// `die`: kill -9 itself before the so-many-th call of the file system.

import * as promises from "node:fs/promises";
import { readFileSync } from "node:fs";
import { Device } from "../../device-js/src/index.js";
import { folderState } from "../../device-js/src/node.js";
import { statusOf } from "../../device-js/src/look.js";

const { plan, folder, endpoint, key, now, values = {}, round, die = -1, segment = {} } = JSON.parse(process.argv[2]);
let calls = 0;
const point = () => {
  if (calls++ === die) process.kill(process.pid, "SIGKILL");
};
const fs = new Proxy(promises, {
  get(target, name) {
    const call = target[name];
    if (typeof call !== "function") return call;
    return async (...given) => {
      point();
      const result = await call(...given);
      if (name !== "open") return result;
      return new Proxy(result, {
        get: (file, verb) => (typeof file[verb] === "function" ? (...more) => (point(), file[verb](...more)) : file[verb]),
      });
    };
  },
});

let time = now[0];
const policy = { silentInCi: false, silentInContainers: false };
const transport = endpoint ? undefined : { send: async (body) => (console.error(`sent ${body}`), { kind: "retry", reason: "test" }) };
const device = await Device.open({
  plan: readFileSync(plan, "utf8"), state: folderState(folder, fs), consent: "granted", clock: () => time, policy, endpoint, key, segment, transport,
});
for (const [place, moment] of now.entries()) {
  time = moment;
  if (place === now.length - 1) continue;
  for (const [name, value] of Object.entries(values)) device.add(name, value);
  await statusOf(device);
}
const accepted = await device.flush();
const body = round === undefined ? null : await device.report(round);
const status = await statusOf(device);
await device.close();
console.log(JSON.stringify({ accepted, body, status, calls }));
