// Handier, never needed: theme, tooltips, local time, a filter, charts as PNG, and a fresh look from time to time.
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
  };

  // The address always says what is shown, so that it can be passed on and looked at again.
  const queryOf = (form) => {
    const query = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value) query.append(name, value);
    return query;
  };

  // The server draws all that is shown; the reader stays at the same place of the page.
  const go = (form) => {
    try { sessionStorage.setItem("reticent-scroll", `${scrollY} ${location.pathname}`); } catch { /* private window */ }
    location.assign(`${form.getAttribute("action")?.split("#")[0] || location.pathname}?${queryOf(form)}`);
  };
  const comeBack = () => {
    try {
      const [top, path] = (sessionStorage.getItem("reticent-scroll") ?? "").split(" ");
      sessionStorage.removeItem("reticent-scroll");
      if (path === location.pathname) scrollTo(0, Number(top));
    } catch { /* private window */ }
  };

  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;

  const point = (event) => {
    const hit = event.target.closest?.(".hit");
    if (!hit) { tip.hidden = true; return; }
    const title = hit.querySelector("title");
    if (title) { hit.dataset.tip = title.textContent; title.remove(); }
    tip.textContent = hit.dataset.tip;
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
    if (text) for (const group of document.querySelectorAll("details.group")) group.open = true;
  };

  // The server's drawing in a size fit for print, through a canvas.
  const png = async (button) => {
    const answer = await fetch(button.dataset.png);
    if (!answer.ok) return;
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(await answer.text())}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 2 * image.naturalWidth;
    canvas.height = 2 * image.naturalHeight;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = button.dataset.png.replace(/^.*\//, "").replace(/\.svg.*$/, ".png");
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    }, "image/png");
  };

  document.addEventListener("DOMContentLoaded", () => {
    document.body.append(tip);
    document.addEventListener("pointermove", point);
    document.addEventListener("pointerdown", point);
    document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
    document.addEventListener("click", (event) => {
      if (event.target.closest("#theme")) toggleTheme();
      const button = event.target.closest("[data-png]");
      if (button) png(button);
    });
    document.addEventListener("change", (event) => {
      const form = event.target.closest("form.controls");
      if (!form || event.target.dataset.filter !== undefined) return;
      if (event.target.name === "by") for (const box of form.querySelectorAll('input[name="tag"]')) box.checked = false;
      go(form);
    });
    document.addEventListener("input", (event) => { if (event.target.dataset.filter !== undefined) filter(); });
    localise(document);
    comeBack();
    const main = document.querySelector("main[data-refresh]");
    const seconds = Number(main?.dataset.refresh);
    if (main) setInterval(() => {
      // A page whose rounds are sealed changes less often, but a collector that is away is looked for as often.
      if (failed || Date.now() - asked >= 1000 * Number(main.dataset.refresh) - 500) refresh();
    }, 1000 * Math.min(30, seconds));
    document.addEventListener("visibilitychange", refresh);
  });
})();
