// Where a device keeps its state: one text, replaced as a whole. In memory, or in a browser's IndexedDB.

import { NewerStateError } from "./data.js";

/**
 * @typedef {object} State
 * @property {(change: (text: string | null) => string | null) => Promise<void>} update
 *   Replaces the text by what `change` makes of it; null: there is none. It resolves when the new text is durable.
 *   No two changes of one state are made from the same text, also not by two tabs or processes: `change` may run
 *   several times, and the last run counts.
 * @property {() => void} close
 */

/** Of the database in the browser, which has one store of one text; the text has a layout of its own. */
const DATABASE_VERSION = 1;

/** A state that ends with the program: for tests. @returns {State} */
export function memoryState() {
  /** @type {string | null} */
  let kept = null;
  return {
    async update(change) {
      kept = change(kept);
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

  function open() {
    opening ??= new Promise((resolve, reject) => {
      const request = indexedDB.open(name, DATABASE_VERSION);
      request.onupgradeneeded = ({ oldVersion }) => {
        if (oldVersion < 1) request.result.createObjectStore("state");
      };
      request.onerror = () =>
        reject(
          request.error?.name === "VersionError"
            ? new NewerStateError(`a database beyond version ${DATABASE_VERSION}`)
            : request.error,
        );
      request.onsuccess = () => {
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
        const reading = store.get("text");
        reading.onsuccess = () => {
          try {
            const before = reading.result ?? null;
            const after = change(before);
            if (after === null) store.delete("text");
            else if (after !== before) store.put(after, "text");
          } catch (error) {
            thrown = error;
            transaction.abort();
          }
        };
      });
    },
    close,
  };
}
