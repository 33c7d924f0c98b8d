// For service workers, which cannot load a module later: the same names, in one piece.

export * from "./index.js";
