// Where a device keeps its state: one text, replaced as a whole. In memory, or in a browser's IndexedDB.

import { NewerStateError } from "./data.js";

/**
 * @typedef {object} State
 * @property {(change: (text: string | null, head?: string | null) => string | null) => Promise<void>} update
 *   Replaces the text by what `change` makes of it; null: there is none. It resolves when the new text is durable.
 *   No two changes of one state are made from the same text, also not by two tabs or processes: `change` may run
 *   several times, and the last run counts. `head` is the first line of the text, kept a second time.
 * @property {(notice: () => void) => void} [watch] calls `notice` after another tab has called `announce`
 * @property {() => void} [announce] tells other tabs that the person has decided something
 * @property {() => void} close
 */

/** The first line of a text, which says what a damaged one may have held. @param {string} text */
export const headOf = (text) => text.slice(0, text.indexOf("\n") + 1);

/** Of the database in the browser, which has one store of one text; the text has a layout of its own. */
const DATABASE_VERSION = 1;
const LONGEST_OPEN = 5; // s: some browsers never answer

/** A state that ends with the program: for tests. @returns {State} */
export function memoryState() {
  /** @type {string | null} */
  let kept = null;
  return {
    async update(change) {
      kept = change(kept, kept && headOf(kept));
    },
    close() {},
  };
}

/**
 * A state in the browser's IndexedDB, shared by all tabs of an origin. Its transactions are what keeps tabs apart.
 *
 * @param {string} name of the database, which is the device's own @returns {State}
 */
export function indexedDbState(name) {
  /** @type {Promise<IDBDatabase> | null} */
  let opening = null;
  /** @type {BroadcastChannel | null} */
  let channel = null;

  function open() {
    opening ??= new Promise((resolve, reject) => {
      const request = indexedDB.open(name, DATABASE_VERSION);
      let isTooLate = false;
      const timer = setTimeout(() => {
        isTooLate = true;
        reject(new Error("the database does not open"));
      }, 1000 * LONGEST_OPEN);
      request.onupgradeneeded = ({ oldVersion }) => {
        if (oldVersion < 1) request.result.createObjectStore("state");
      };
      request.onerror = () => {
        clearTimeout(timer);
        reject(
          request.error?.name === "VersionError"
            ? new NewerStateError(`a database beyond version ${DATABASE_VERSION}`)
            : request.error,
        );
      };
      request.onsuccess = () => {
        clearTimeout(timer);
        if (isTooLate) return request.result.close();
        // Somebody deletes the database: let go of it, and open it anew next time.
        request.result.onversionchange = close;
        request.result.onclose = () => (opening = null);
        resolve(request.result);
      };
    });
    opening.catch(() => (opening = null));
    return opening;
  }

  function close() {
    opening?.then((database) => database.close(), () => {});
    opening = null;
  }

  return {
    async update(change) {
      const database = await open();
      await new Promise((resolve, reject) => {
        const transaction = database.transaction("state", "readwrite", { durability: "strict" });
        const store = transaction.objectStore("state");
        /** @type {unknown} */
        let thrown;
        transaction.oncomplete = () => resolve(undefined); // only now is it on the disk
        transaction.onabort = () => reject(thrown ?? transaction.error);
        const reading = [store.get("text"), store.get("head")];
        reading[1].onsuccess = () => {
          try {
            const before = reading[0].result ?? null;
            const after = change(before, reading[1].result ?? null);
            if (after === before) return;
            if (after === null) store.clear();
            else {
              store.put(after, "text");
              store.put(headOf(after), "head");
            }
          } catch (error) {
            thrown = error;
            transaction.abort();
          }
        };
      });
    },
    watch(notice) {
      if (!globalThis.BroadcastChannel) return;
      channel = new BroadcastChannel(`reticent ${name}`);
      channel.onmessage = notice;
      /** @type {any} */ (channel).unref?.(); // in Node: it does not keep a program alive
    },
    announce() {
      channel?.postMessage(null);
    },
    close() {
      channel?.close();
      close();
    },
  };
}
