// For Node: a state in a folder of the file system.

import type { State } from "./index.js";

/** The folder cannot be the device's: something else is there. */
export class StateError extends Error {}

/** A state in a folder of its own, made for this user alone when there is something to keep. */
export function folderState(folder: string): State;
