// A service worker with a device, driven by messages: {plan, now} opens it, {call, given} calls it.

import { Device, indexedDbState } from "/device-js/src/worker.js";
import { statusOf } from "/device-js/src/look.js";

let device;
let now = 0;
const sent = [];
const transport = { send: async (body) => (sent.push(body), { kind: "accepted", reason: "accepted" }) };

async function answer({ plan, at, call, given = [] }) {
  now = at ?? now;
  if (plan) device = await Device.open({ plan, state: indexedDbState("telemetry"), transport, clock: () => now });
  const result = call ? await device[call](...given) : null;
  return { result, sent, consent: device.consent, status: await statusOf(device) };
}

self.oninstall = () => self.skipWaiting();
self.onactivate = (event) => event.waitUntil(self.clients.claim());
self.onmessage = (event) => event.waitUntil(answer(event.data).then((result) => event.ports[0].postMessage(result)));
