// How a report travels: every outcome of a network is one of three.

/**
 * @typedef {{ kind: "accepted" | "rejected" | "retry", reason: string, after?: number }} Outcome `reason` without
 * private data; `after`: seconds that the collector asked to wait
 */
/**
 * @typedef {{ send(body: string, seconds: number): Promise<Outcome> }} Transport takes one report as JSON to
 * the collector; may reject with anything
 */

/** How long one attempt to send a report may take, s. */
export const LONGEST_SEND = 10;
const LARGEST_ANSWER = 4096;
/** The collector's own codes that are final for a report. All else may pass: a proxy answers 4xx too. */
const FINAL = [
  "malformed", "bad_request", "unknown_plan", "not_acceptable", "version_mismatch", "late", "too_large",
  "unsupported_media_type",
];
/** What other statuses are called, as the Python device calls them. @type {Record<number, string>} */
const REASONS = {
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
 * HTTPS, or plain HTTP to this machine only; an address that ends with /v1/reports is taken as well. No redirects, cookies or referrer, and no header that differs between
 * devices besides those that a browser adds by itself.
 *
 * @param {string} endpoint @param {string | null} key @returns {Transport}
 */
export function httpTransport(endpoint, key = null) {
  const address = URL.canParse(endpoint) ? new URL(endpoint) : null;
  const isSafe = address?.protocol === "https:" || (address?.protocol === "http:" && LOOPBACK.test(address.hostname));
  const { username, password, search, hash, port } = address ?? {};
  if (!isSafe || username || password || search || hash || port === "0") {
    throw new RangeError(
      "endpoint: expected an https:// address, or http:// of this machine, without user, query, # or port 0",
    );
  }
  if (key !== null && !/^[!-~]{1,512}$/.test(key)) {
    throw new RangeError("key: expected printable ASCII without spaces or line breaks");
  }
  const url = `${address.origin}${address.pathname.replace(/\/+$/, "").replace(/\/v1\/reports$/, "")}/v1/reports`;
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
        const text = await beginning(response);
        const outcome = outcomeOf(response.status, response.headers.get("Retry-After"), text);
        return outcome.reason === "wrong-key" && key === null ? { ...outcome, reason: "no-key" } : outcome;
      } catch {
        return { kind: "retry", reason: signal.aborted ? "timeout" : "network" };
      }
    },
  };
}

/** At most 4 kB of an answer, or the part that exceeds them. @param {Response} response */
async function beginning({ body }) {
  let text = "";
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  while (reader && text.length < LARGEST_ANSWER) {
    const { done, value = "" } = await reader.read();
    if (done) break;
    text += value;
  }
  await reader?.cancel();
  return text;
}

/**
 * What an answer means. Only 202 is an acceptance: a hotel's login page answers 200 to anything. Only a code of the
 * collector's own is a rejection.
 *
 * @param {number} status @param {string | null} retryAfter @param {string} text @returns {Outcome}
 */
export function outcomeOf(status, retryAfter, text) {
  if (status === 202) return { kind: "accepted", reason: "accepted" };
  const code = codeOf(text);
  if (status >= 400 && status < 500 && FINAL.includes(code)) return { kind: "rejected", reason: code };
  const reason = REASONS[status] ?? (status >= 500 ? "server-error" : "not-a-collector");
  const seconds = /^\d{1,9}$/.test(retryAfter?.trim() ?? "")
    ? Number(retryAfter)
    : (Date.parse(retryAfter ?? "") - Date.now()) / 1000;
  return Number.isNaN(seconds)
    ? { kind: "retry", reason }
    : { kind: "retry", reason, after: Math.max(0, seconds) };
}

/** The code of a problem document (RFC 9457). @param {string} text */
function codeOf(text) {
  try {
    return JSON.parse(text).code;
  } catch {
    return "";
  }
}
