// Long series with zoom and crosshair (uPlot), and charts as PNG. Without it the server's drawing stays.
(() => {
  "use strict";
  // Custom properties hold light-dark(...); an element that uses one has the colour itself.
  const probe = document.createElement("i");
  const colour = (name) => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
  const faded = (text, part) => text.replace(/rgba?\(([^)]+)\)/, (_, inside) => `rgba(${inside.split(",").slice(0, 3)}, ${part})`);
  const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
  const day = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });
  const months = new Intl.DateTimeFormat("en", { month: "short", year: "numeric", timeZone: "UTC" });
  const dates = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
  const hours = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
  const named = (tick, step) => (step >= 28 * 86400 ? months : tick % 86400 ? hours : dates).format(tick * 1000);
  const charts = new Map(); // figure -> { plots, text }
  const sync = window.uPlot?.sync("time");

  const options = (figure, row, height, last, range, strip) => {
    const [name, shade, values] = row, stepped = values.every((value) => value === null);
    const ink = colour(`--shade-${shade}`), rule = colour("--rule"), text = colour("--muted");
    const steps = uPlot.paths.stepped({ align: 1 }), pathed = stepped ? { paths: steps } : {};
    const said = (_, value) => value === null ? "" : number.format(value);
    const edge = { stroke: faded(ink, strip ? 0.15 : 0.45), width: 1, points: { show: false }, value: said, ...pathed };
    return {
      width: figure.clientWidth, height,
      title: strip ? `${name}${figure.dataset.unit ? `, ${figure.dataset.unit}` : ""}` : undefined,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      cursor: { sync: { key: sync.key }, drag: { x: true, y: false } },
      legend: { live: true },
      scales: { y: { range: () => range } },
      axes: [
        { stroke: text, grid: { stroke: rule }, ticks: { stroke: rule }, show: last, space: 70, values: (_, ticks, __, ___, step) => ticks.map((tick) => named(tick, step)) },
        { stroke: text, grid: { stroke: rule }, ticks: { stroke: rule }, size: 64, values: (_, ticks) => ticks.map((tick) => number.format(tick)) },
      ],
      series: [
        { label: "UTC", value: (_, seconds) => seconds === null ? "" : day.format(seconds * 1000) },
        { label: "from", ...edge },
        { label: "to", ...edge },
        { label: figure.dataset.unit || "value", stroke: ink, width: 1.4, points: { show: false }, value: said, show: !stepped },
      ],
      bands: [{ series: [2, 1], fill: faded(ink, 0.25) }],
    };
  };

  const draw = (figure) => {
    const text = figure.dataset.series, known = charts.get(figure);
    if (!window.uPlot || !text) return;
    const [starts, end, rows] = JSON.parse(text);
    const times = [...starts, end], open = (column) => [...column, column.at(-1)];
    const ends = rows.flatMap(([, , , lower, upper]) => [...lower, ...upper]).filter((value) => value !== null);
    const low = Math.min(...ends), high = Math.max(...ends), room = 0.04 * (high - low || 1);
    const range = [low > 0 && low < 0.6 * high ? 0 : low - room, high + room];
    const data = rows.map(([, , values, lower, upper]) => [times, open(lower), open(upper), open(values)]);
    if (known && known.plots.length === rows.length) {
      known.plots.forEach((plot, place) => plot.setData(data[place], false)); // keeps the zoom
      known.plots.forEach((plot) => plot.redraw());
      return;
    }
    known?.host.remove();
    const host = document.createElement("div");
    host.className = "zoomable";
    host.dataset.keep = "";
    figure.classList.add("drawn");
    figure.prepend(host);
    const strip = rows.length > 1, height = strip ? 170 : 330;
    const plots = rows.map((row, place) =>
      new uPlot(options(figure, row, height, place === rows.length - 1 || !strip, range, strip), data[place], host));
    // A zoom of one strip is a zoom of all.
    for (const plot of plots)
      (plot.hooks.setScale ||= []).push((from, key) => {
        if (key !== "x") return;
        const { min, max } = from.scales.x;
        for (const other of plots)
          if (other !== from && (other.scales.x.min !== min || other.scales.x.max !== max)) other.setScale("x", { min, max });
      });
    charts.set(figure, { plots, host });
  };

  const all = () => {
    document.body.append(probe);
    for (const figure of charts.keys()) if (!figure.isConnected) charts.delete(figure);
    document.querySelectorAll("figure[data-series]").forEach(draw);
    probe.remove();
  };
  const again = () => { for (const [figure, { host }] of charts) { host.remove(); charts.delete(figure); } all(); };

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

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-png]");
    if (button) png(button);
  });
  document.addEventListener("reticent:shown", all);
  document.addEventListener("reticent:theme", again);
  let waiting = 0;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(again, 150); });
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", all); else all();
})();
