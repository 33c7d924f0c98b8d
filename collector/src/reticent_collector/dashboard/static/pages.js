// Handier, never needed: addresses in snippets, and figures that follow the sliders.
(() => {
  "use strict";
  for (const area of document.querySelectorAll("[data-snippet]"))
    area.value = area.value.replace("https://COLLECTOR", location.origin);

  // A slider is another way to fill in the field beside it; the server works out all figures.
  const place = (slider) => {
    const [low, high, value] = [slider.dataset.low, slider.dataset.high, document.getElementById(slider.dataset.for).value].map(Number);
    const part = slider.dataset.scale === "line" ? (value - low) / (high - low) : Math.log(value / low) / Math.log(high / low);
    slider.value = Math.round(1000 * Math.min(1, Math.max(0, part || 0)));
  };
  const fill = (slider) => {
    const [low, high, part] = [Number(slider.dataset.low), Number(slider.dataset.high), slider.value / 1000];
    const value = slider.dataset.scale === "line" ? low + part * (high - low) : low * (high / low) ** part;
    const digits = slider.dataset.scale === "line" ? value.toFixed(2) : value.toPrecision(2);
    document.getElementById(slider.dataset.for).value = slider.dataset.scale === "whole" ? Math.max(1, Math.round(digits)) : Number(digits);
  };

  let timer, asked;
  const queryOf = (form) => {
    const query = new URLSearchParams(location.search);
    for (const name of ["epsilon", "flip", "window", "devices", "range"]) query.delete(name);
    for (const [name, value] of new FormData(form)) query.set(name, value);
    return query;
  };

  const show = async (form) => {
    const panel = form.closest("#what-if");
    asked?.abort();
    asked = new AbortController();
    const figures = panel.querySelector("#what-if-figures"), fault = panel.querySelector("#what-if-fault");
    figures.setAttribute("aria-busy", "true");
    try {
      const query = queryOf(form);
      const answer = await fetch(`${panel.dataset.live}?${query}`, { headers: { accept: "text/html" }, redirect: "error", signal: asked.signal });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      fault.hidden = answer.ok;
      if (answer.ok) {
        const fresh = page.querySelector("#what-if-figures");
        const was = figures.querySelector("details"), is = fresh.querySelector("details");
        if (was && is) is.open = was.open;
        figures.replaceChildren(...document.adoptNode(fresh).childNodes);
        history.replaceState(null, "", `${location.pathname}?${query}#what-if`);
      } else fault.textContent = page.querySelector("main p")?.textContent ?? "The collector does not answer.";
    } catch (error) {
      if (error.name === "AbortError") return;
      fault.hidden = false;
      fault.textContent = "The collector does not answer. The figures below are the previous ones.";
    }
    figures.removeAttribute("aria-busy");
  };

  // The page may put in a fresh panel at any time: so events are heard at the document.
  const formOf = (event) => event.target.closest?.("#what-if form");
  document.addEventListener("input", (event) => {
    const form = formOf(event);
    if (!form || event.target.tagName === "SELECT") return;
    if (event.target.dataset.for) fill(event.target);
    else form.querySelectorAll(`[data-for="${event.target.id}"]`).forEach(place);
    clearTimeout(timer);
    timer = setTimeout(show, 200, form);
  });
  document.addEventListener("change", (event) => {
    const form = formOf(event);
    if (form && event.target.tagName === "SELECT") {
      const query = queryOf(form); // another metric, or way to answer: its own fields, as the plan has them
      for (const name of ["epsilon", "flip", "window", "range"]) if (event.target.name === "metric" || name === "flip" || name === "window") query.delete(name);
      location.assign(`${location.pathname}?${query}#what-if`);
    }
  });
  document.querySelectorAll("#what-if [data-for]").forEach(place);
})();
