// For Node: the device, silent by default in continuous integration and in containers, and a state in a folder.

import type { Environment, State } from "./index.js";

export * from "./index.js";

/** The folder cannot be the device's: something else is there. */
export class StateError extends Error {}

/** A state in a folder of its own, made for this user alone when there is something to keep. */
export function folderState(folder: string): State;

/** What a process says of where it runs; the default of `environment` here. */
export function readEnvironment(): Environment;
