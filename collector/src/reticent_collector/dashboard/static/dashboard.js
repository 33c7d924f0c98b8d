// Handier, never needed: theme, tags without reloading, tooltips, local time, a filter, and a fresh look from time to time.
(() => {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");

  const remembered = () => { try { return localStorage.getItem("reticent-theme"); } catch { return null; } };
  const remember = (theme) => { try { localStorage.setItem("reticent-theme", theme); } catch { /* private window */ } };
  const chosen = remembered();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

  const toggleTheme = () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    remember(root.dataset.theme);
    document.dispatchEvent(new Event("reticent:theme"));
  };

  // The address always says what is shown, so that it can be passed on and looked at again.
  const queryOf = (form) => {
    const query = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value) query.append(name, value);
    return query;
  };

  const setAddress = (form) => {
    history.replaceState(null, "", `${location.pathname}?${queryOf(form)}`);
  };

  const showTags = (form) => {
    // Strips and small multiples are laid out by the server.
    if (document.querySelector("[data-series], .histogram")) { location.assign(`${location.pathname}?${queryOf(form)}`); return; }
    for (const box of form.querySelectorAll('input[name="tag"]'))
      for (const line of document.querySelectorAll("[data-line]"))
        if (line.dataset.line === box.value) line.classList.toggle("off", !box.checked);
    setAddress(form);
  };

  const show = (link) => {
    const panel = link.closest("[data-view]");
    panel.dataset.view = link.dataset.switch;
    for (const each of panel.querySelectorAll("[data-switch]"))
      if (each === link) each.setAttribute("aria-current", "true"); else each.removeAttribute("aria-current");
    for (const field of document.querySelectorAll('input[name="view"]')) field.value = link.dataset.switch;
    const viewed = (text) => {
      const address = new URL(text, location.href);
      address.searchParams.set("view", link.dataset.switch);
      return address.pathname + address.search;
    };
    for (const file of panel.querySelectorAll(".files a")) file.href = viewed(file.href);
    for (const file of panel.querySelectorAll("[data-png]")) file.dataset.png = viewed(file.dataset.png);
    history.replaceState(null, "", viewed(location.href));
  };

  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;

  const hidden = (svg) => [...svg.querySelectorAll(".line.off")].map((line) => `${line.dataset.line}: `);

  const point = (event) => {
    const hit = event.target.closest?.(".hit");
    if (!hit) { tip.hidden = true; return; }
    const title = hit.querySelector("title");
    if (title) { hit.dataset.tip = title.textContent; title.remove(); }
    const off = hidden(hit.ownerSVGElement);
    tip.textContent = hit.dataset.tip.split("\n").filter((line) => !off.some((name) => line.startsWith(name))).join("\n");
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = event.clientX + 16 + width > innerWidth ? event.clientX - width - 12 : event.clientX + 16;
    tip.style.left = `${Math.max(6, left)}px`;
    tip.style.top = `${Math.max(6, event.clientY - height - 12)}px`;
  };

  // Times of day as the reader's clock shows them; the title keeps those of UTC. Dates of days, weeks and months stay.
  const [clock, precise] = ["short", "medium"].map((timeStyle) => new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle }));
  const localise = (within) => {
    for (const time of within.querySelectorAll("time[datetime]")) {
      const start = new Date(time.dateTime), end = new Date(time.dataset.end || time.dateTime);
      time.title ||= time.textContent;
      const shown = start % 60000 || end % 60000 ? precise : clock;
      time.textContent = +start === +end ? shown.format(start) : shown.formatRange(start, end);
    }
  };

  // What has not changed is left as it is: focus, selection, scroll, what is folded, and what was chosen stay.
  const PROPERTIES = ["open", "checked", "selected", "value"];
  const update = (old, fresh) => {
    if (old.isEqualNode(fresh) || old.dataset?.keep !== undefined) return;
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.nodeName === "svg") { old.replaceWith(fresh); return; }
    if (old.nodeType !== Node.ELEMENT_NODE) { if (old.data !== fresh.data) old.data = fresh.data; return; }
    for (const { name, value } of [...fresh.attributes])
      if (!PROPERTIES.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    for (const { name } of [...old.attributes])
      if (!PROPERTIES.includes(name) && name !== "class" && !fresh.hasAttribute(name)) old.removeAttribute(name);
    if (old.nodeName === "INPUT") return;
    const before = [...old.childNodes].filter((node) => node.dataset?.keep === undefined), after = [...fresh.childNodes];
    after.forEach((node, place) => { if (before[place]) update(before[place], node); else old.append(node); });
    before.slice(after.length).forEach((node) => node.remove());
  };

  const hour = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
  let asked = new Date(), failed = null, busy = false;
  const away = (words) => {
    const notice = document.getElementById("away");
    if (notice.textContent !== words) notice.textContent = words;
    notice.hidden = !words;
  };

  const refresh = async () => {
    const main = document.querySelector("main[data-refresh]");
    if (!main || document.hidden || busy) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, signal: AbortSignal.timeout(20000) });
      if (answer.redirected || answer.status === 401 || answer.status === 403) {
        away(`You are logged out. The figures are those of ${hour.format(asked)}. Load the page again to log in.`);
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
      localise(fresh);
      update(main, document.adoptNode(fresh));
      filter();
      asked = new Date();
      failed = null;
      away("");
      document.dispatchEvent(new Event("reticent:shown"));
    } catch {
      failed ??= new Date();
      away(`The collector has not answered since ${hour.format(failed)}. The figures are those of ${hour.format(asked)}.`);
    } finally { busy = false; }
  };

  // Rows without the text are hidden at once; the address, and the server's answer to it, follow.
  const filter = () => {
    const field = document.querySelector("[data-filter]");
    if (!field) return;
    const text = field.value.trim().toLowerCase();
    for (const row of document.querySelectorAll("tr[data-text]")) row.hidden = !row.dataset.text.includes(text);
  };

  document.addEventListener("DOMContentLoaded", () => {
    document.body.append(tip);
    document.addEventListener("pointermove", point);
    document.addEventListener("pointerdown", point);
    document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
    document.addEventListener("click", (event) => {
      if (event.target.closest("#theme")) toggleTheme();
      const link = event.target.closest("[data-switch]");
      if (link) { event.preventDefault(); show(link); }
    });
    document.addEventListener("change", (event) => {
      const form = event.target.closest("form.controls");
      if (!form || event.target.dataset.filter !== undefined) return;
      if (event.target.name === "tag") showTags(form);
      else {
        if (event.target.name === "by") for (const box of form.querySelectorAll('input[name="tag"]')) box.checked = false;
        location.assign(`${location.pathname}?${queryOf(form)}`);
      }
    });
    document.addEventListener("input", (event) => { if (event.target.dataset.filter !== undefined) filter(); });
    localise(document);
    const main = document.querySelector("main[data-refresh]");
    const seconds = Number(main?.dataset.refresh);
    if (main) setInterval(() => {
      // A page whose rounds are sealed changes less often, but a collector that is away is looked for as often.
      if (failed || Date.now() - asked >= 1000 * Number(main.dataset.refresh) - 500) refresh();
    }, 1000 * Math.min(30, seconds));
    document.addEventListener("visibilitychange", refresh);
  });
})();
