// For service workers, which cannot load a module later: `reticent/worker` is the device in one piece.

import { Device as AnyDevice } from "./device.js";
import * as engine from "./engine.js";

export * from "./index.js";

export class Device extends AnyDevice {
  static load = async () => engine;
}
