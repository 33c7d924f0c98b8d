// Handier, never needed: theme, tags without reloading, tooltips, and a fresh look while rounds are open.
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

  const setAddress = (form) => {
    const query = queryOf(form);
    history.replaceState(null, "", `${location.pathname}?${query}`);
    const twin = document.querySelector(".bottom a");
    if (twin) twin.href = `${twin.pathname}?${query}`;
  };

  const showTags = (form) => {
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
    const form = panel.querySelector("form");
    form.elements.view.value = link.dataset.switch;
    setAddress(form);
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

  const refresh = async () => {
    const main = document.querySelector("main[data-refresh]");
    if (!main || document.hidden || document.activeElement?.tagName === "SELECT") return;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
      for (const details of main.querySelectorAll("details[id]")) {
        const same = fresh.querySelector(`#${details.id}`);
        if (same) same.open = details.open;
      }
      main.replaceChildren(...document.adoptNode(fresh).childNodes);
      tip.hidden = true;
    } catch { /* the next look may succeed */ }
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
      if (!form) return;
      if (event.target.name === "tag") showTags(form);
      else {
        if (event.target.name === "by") for (const box of form.querySelectorAll('input[name="tag"]')) box.checked = false;
        location.assign(`${location.pathname}?${queryOf(form)}`);
      }
    });
    const main = document.querySelector("main[data-refresh]");
    if (main) setInterval(refresh, 1000 * Number(main.dataset.refresh));
  });
})();
