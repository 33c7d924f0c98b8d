// How a report travels: every outcome of a network is one of three.

/**
 * @typedef {{ kind: "accepted" | "rejected" | "retry", reason: string, after?: number }} Outcome `reason` without
 * private data; `after`: seconds that the collector asked to wait
 */
/**
 * @typedef {{ send(body: string, seconds: number): Promise<Outcome> }} Transport takes one report as JSON to
 * the collector; may reject with anything
 */

const LARGEST_ANSWER = 4096;
/**
 * Statuses of the 4xx kind that may pass, with their reason, which the Python device calls the same: a key not known
 * yet, a wrong address, a timeout, a clock that is early, too many requests.
 *
 * @type {Record<number, string>}
 */
const TEMPORARY = {
  401: "wrong-key",
  403: "wrong-key",
  404: "wrong-path",
  405: "wrong-path",
  408: "timeout",
  425: "too-busy",
  429: "too-busy",
};
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/**
 * POST {endpoint}/v1/reports, with `Authorization: Bearer KEY`.
 *
 * HTTPS, or plain HTTP to this machine only. No redirects, cookies or referrer, and no header that differs between
 * devices besides those that a browser adds by itself.
 *
 * @param {string} endpoint @param {string | null} key @returns {Transport}
 */
export function httpTransport(endpoint, key = null) {
  const address = URL.canParse(endpoint) ? new URL(endpoint) : null;
  const isWeb = address?.protocol === "https:" || address?.protocol === "http:";
  const { username, password, search, hash, port } = address ?? {};
  if (!isWeb || username || password || search || hash || port === "0") {
    throw new RangeError(
      "endpoint: expected an address such as https://telemetry.example.org, without user, query, # or port 0",
    );
  }
  if (address.protocol === "http:" && !LOOPBACK.test(address.hostname)) {
    throw new RangeError("endpoint: expected https://; plain http:// is for a collector on this machine only");
  }
  if (key !== null && !/^[!-~]{1,512}$/.test(key)) {
    throw new RangeError("key: expected printable ASCII without spaces or line breaks");
  }
  const url = `${address.origin}${address.pathname.replace(/\/+$/, "")}/v1/reports`;
  const headers = {
    "Content-Type": "application/json",
    ...(key === null ? {} : { Authorization: `Bearer ${key}` }),
  };
  return {
    async send(body, seconds) {
      // One limit for the whole attempt, the answer included: a collector that drips bytes gains nothing.
      const signal = AbortSignal.timeout(1000 * seconds);
      try {
        const response = await fetch(url, {
          method: "POST",
          body,
          headers,
          signal,
          redirect: "manual",
          credentials: "omit",
          referrerPolicy: "no-referrer",
          cache: "no-store",
        });
        const text = response.status === 202 ? "" : await beginning(response);
        await response.body?.cancel().catch(() => {});
        const outcome = outcomeOf(response.status, response.headers.get("Retry-After"), text);
        return outcome.reason === "wrong-key" && key === null ? { ...outcome, reason: "no-key" } : outcome;
      } catch {
        return { kind: "retry", reason: signal.aborted ? "timeout" : "network" };
      }
    },
  };
}

/** At most 4 kB of an answer. @param {Response} response */
async function beginning(response) {
  const reader = response.body?.getReader();
  if (!reader) return "";
  let text = "";
  const decoder = new TextDecoder();
  for (let part = await reader.read(); !part.done && text.length < LARGEST_ANSWER; part = await reader.read()) {
    text += decoder.decode(part.value, { stream: true });
  }
  await reader.cancel().catch(() => {});
  reader.releaseLock();
  return text.slice(0, LARGEST_ANSWER);
}

/**
 * What an answer of the collector means. Only 202 is an acceptance: a hotel's login page answers 200 to anything. 404
 * is a rejection where a collector does not know the plan; otherwise the address may be wrong.
 *
 * @param {number} status @param {string | null} retryAfter @param {string} text @returns {Outcome}
 */
export function outcomeOf(status, retryAfter, text) {
  if (status === 202) return { kind: "accepted", reason: "accepted" };
  const code = codeOf(text);
  const isOfReport = !["", "not_found", "method_not_allowed"].includes(code); // else it is about the address
  const passes = TEMPORARY[status];
  if (status >= 400 && status < 500 && (!passes || (passes === "wrong-path" && isOfReport))) {
    return { kind: "rejected", reason: code || `http-${status}` };
  }
  const reason = passes ?? (status >= 500 ? "server-error" : "not-a-collector");
  const seconds = /^\d{1,9}$/.test(retryAfter?.trim() ?? "")
    ? Number(retryAfter)
    : (Date.parse(retryAfter ?? "") - Date.now()) / 1000;
  return Number.isNaN(seconds)
    ? { kind: "retry", reason }
    : { kind: "retry", reason, after: Math.max(0, seconds) };
}

/** The code of a problem document (RFC 9457), if it has a plausible one. @param {string} text */
function codeOf(text) {
  try {
    const { code } = JSON.parse(text);
    return typeof code === "string" && /^[a-z0-9_-]{1,64}$/.test(code) ? code : "";
  } catch {
    return "";
  }
}
