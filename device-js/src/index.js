// Private telemetry for counters: devices answer with noisy bits. See README.md.

export { NewerStateError } from "./data.js";
export { Device } from "./device.js";
export { Fraction } from "./fraction.js";
export { Plan, PlanError, readPlan } from "./plan.js";
export { Policy } from "./policy.js";
export { indexedDbState, memoryState } from "./states.js";
export { httpTransport } from "./transport.js";
