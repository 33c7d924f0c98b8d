// One device, its draws and its bits, what an observer's average tends to, and what a fleet's counts say.
//
// The laws are those of reticent.mechanisms (OneBitMean, Grid.cell, Flip). Only the source of draws differs: a device
// uses BLAKE2b under a secret of 32 bytes; here a small hash of a device number is enough to look at.
"use strict";

const EPSILON = 1, FLIP = 0.2, MAX_VALUE = 100, WANDER = 20, LONGEST = 240, WINDOW = 30;
const FLEET = 10000, FIRST_OF_FLEET = 1000001, CONFIDENCE = 0.95;
const LOW = 1 / (Math.exp(EPSILON) + 1);  // the chance of a 1 at value 0; at MAX_VALUE it is 1 - LOW
const PURPOSE = { alpha: 1, memo: 2, fresh: 3, flip: 4, wander: 5, pick: 6, sampled: 7 };

// ---- draws: fixed for as long as their arguments are ----

function mix(word) {  // the finaliser of MurmurHash3
  word = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  word = Math.imul(word ^ (word >>> 13), 0xc2b2ae35);
  return (word ^ (word >>> 16)) >>> 0;
}

function draw(device, purpose, digest, index) {  // a number in [0, 1) with 53 bits
  let state = 0x9e3779b9;
  for (const field of [device, PURPOSE[purpose], digest, index]) state = mix(state ^ mix(field + 0x9e3779b9));
  const upper = mix(state ^ 0x55555555) >>> 5, lower = mix(state ^ 0xaaaaaaaa) >>> 6;
  return (upper * 67108864 + lower) / 9007199254740992;
}

// ---- the device ----

function cellOf(value, alpha, step) {  // α-point rounding: up when alpha · step >= right - value
  const below = Math.floor(value / step), right = (below + 1) * step;
  return below + (alpha * step >= right - value ? 1 : 0);
}

function chanceOfOne(point) {  // Eq. 1
  return LOW + (point / MAX_VALUE) * (1 - 2 * LOW);
}

function afterFlip(chance, flips) {
  return flips ? chance * (1 - FLIP) + (1 - chance) * FLIP : chance;
}

function unbiased(share, flips) {  // the value that explains a share of ones
  const low = afterFlip(LOW, flips), high = afterFlip(1 - LOW, flips);
  return MAX_VALUE * (share - low) / (high - low);
}

function valueIn(round, picture) {
  if (!picture.wander) return picture.value;
  const offset = Math.floor(draw(picture.device, "wander", 0, round) * (2 * WANDER + 1)) - WANDER;
  return clamp(picture.value + offset);
}

function clamp(value) { return Math.min(MAX_VALUE, Math.max(0, value)); }

// New parameters are new draws, so the step (0 without rounding) is part of what is drawn for.
function digestOf(picture) { return picture.rounding ? picture.step : 0; }

function alphaOf(picture) { return draw(picture.device, "alpha", digestOf(picture), 0); }

function pointOf(value, picture) {
  return picture.rounding ? cellOf(value, alphaOf(picture), picture.step) * picture.step : value;
}

function remembered(point, picture) {
  return draw(picture.device, "memo", digestOf(picture), point) < chanceOfOne(point) ? 1 : 0;
}

function answer(round, picture) {
  const point = pointOf(valueIn(round, picture), picture);
  const fresh = () => (draw(picture.device, "fresh", digestOf(picture), round) < chanceOfOne(point) ? 1 : 0);
  const bit = picture.memo ? remembered(point, picture) : fresh();
  const turned = picture.flips && draw(picture.device, "flip", 0, round) < FLIP;
  return { point, turned, sent: turned ? 1 - bit : bit };
}

// Sampled answers: in each window one round is picked and answered with a fresh bit about the value itself.
function sampled(window, picture) {
  const round = window * WINDOW + Math.floor(draw(picture.device, "pick", 0, window) * WINDOW);
  const sent = draw(picture.device, "sampled", 0, window) < chanceOfOne(valueIn(round, picture)) ? 1 : 0;
  return { round, sent };
}

function everySampled(rounds, picture) {  // those sent in the first rounds
  const windows = Array.from({ length: Math.ceil(rounds / WINDOW) }, (_, window) => sampled(window, picture));
  return windows.filter(({ round }) => round < rounds);
}

// ---- the observer ----

function averages(rounds, picture) {
  let ones = 0;
  return Array.from({ length: rounds }, (_, round) => {
    ones += answer(round, picture).sent;
    return unbiased(ones / (round + 1), picture.flips);
  });
}

function sampledAverages(rounds, picture) {  // after each sampled answer
  let ones = 0;
  return everySampled(rounds, picture).map(({ round, sent }, place) => {
    ones += sent;
    return { round, value: unbiased(ones / (place + 1), false) };
  });
}

function everyPoint(picture) {  // one per value that a round may bring, each as likely as the others
  const offsets = picture.wander ? Array.from({ length: 2 * WANDER + 1 }, (_, place) => place - WANDER) : [0];
  return offsets.map((offset) => pointOf(clamp(picture.value + offset), picture));
}

function pointsUsed(picture) { return new Set(everyPoint(picture)); }

// What the average tends to: a remembered bit counts as itself, a fresh one as its chance.
function limit(picture) {
  const chance = (point) => (picture.memo ? remembered(point, picture) : chanceOfOne(point));
  const shares = everyPoint(picture).map((point) => afterFlip(chance(point), picture.flips));
  return unbiased(shares.reduce((sum, share) => sum + share, 0) / shares.length, picture.flips);
}

// ---- the collector ----

// What a fleet sends in one round, each device with its own draws and all with the value of the picture.
function fleetCounts(round, picture) {
  let ones = 0, total = 0;
  for (let device = FIRST_OF_FLEET; device < FIRST_OF_FLEET + FLEET; device++) {
    const one = { ...picture, device };
    ones += answer(round, one).sent;
    total += valueIn(round, one);
  }
  return { ones, truth: total / FLEET };
}

const logFactorials = [0];
for (let number = 1; number <= FLEET; number++) logFactorials.push(logFactorials[number - 1] + Math.log(number));

function chanceOfAtLeast(ones, chance) {  // ones among FLEET coins
  let sum = 0;
  for (let count = ones; count <= FLEET; count++) {
    const ways = logFactorials[FLEET] - logFactorials[count] - logFactorials[FLEET - count];
    const term = Math.exp(ways + count * Math.log(chance) + (FLEET - count) * Math.log1p(-chance));
    sum += term;
    if (count > FLEET * chance && term < 1e-15) break;
  }
  return sum;
}

function lowerBound(ones) {  // Clopper and Pearson's, for a share
  let below = 0, above = 1;
  if (ones === 0) return 0;
  for (let halving = 0; halving < 40; halving++) {
    const middle = (below + above) / 2;
    if (chanceOfAtLeast(ones, middle) < (1 - CONFIDENCE) / 2) below = middle; else above = middle;
  }
  return below;
}

function estimate(ones, flips) {  // counts, debiased, with their interval
  const [lower, upper] = [lowerBound(ones), 1 - lowerBound(FLEET - ones)];
  return { value: unbiased(ones / FLEET, flips), lower: clamp(unbiased(lower, flips)), upper: clamp(unbiased(upper, flips)) };
}

const model = { LOW, FLIP, FLEET, draw, cellOf, chanceOfOne, unbiased, valueIn, alphaOf, pointOf, remembered, answer, sampled, averages, sampledAverages, limit, fleetCounts, estimate };

// ---- drawing ----

const SPACE = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
const across = (value) => 30 + value * 6.6;

function add(parent, name, attributes, text) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return parent.appendChild(element);
}

function drawLine(picture) {
  const svg = byId("line");
  svg.replaceChildren();
  const y = 66, x = across(picture.value), point = pointOf(picture.value, picture);
  add(svg, "line", { class: "axis", x1: across(0), x2: across(100), y1: y, y2: y });
  const points = [];
  for (let at = 0; at <= 100; at += picture.rounding ? picture.step : 10) points.push(at);
  const apart = points.filter((at) => picture.rounding || Math.abs(at - picture.value) > 6);
  const drawn = picture.memo ? [...new Set([...apart, point])] : [];
  for (const at of points) {
    add(svg, "line", { class: "axis", x1: across(at), x2: across(at), y1: y - 4, y2: y + 4 });
    add(svg, "text", { x: across(at), y: y + 20, "text-anchor": "middle" }, at);
  }
  if (picture.rounding) {
    const cut = (1 - alphaOf(picture)) * picture.step;
    for (let left = 0; left < 100; left += picture.step) {
      add(svg, "line", { class: "cut", x1: across(left + cut), x2: across(left + cut), y1: y - 20, y2: y + 10 });
    }
    const middle = (x + across(point)) / 2, lift = y - 14 - Math.min(34, Math.abs(x - across(point)) / 6);
    if (point !== picture.value) {
      add(svg, "path", { class: "arrow", d: `M ${x} ${y - 8} Q ${middle} ${lift} ${across(point)} ${y - 8}` });
      add(svg, "circle", { class: "head", cx: across(point), cy: y - 8, r: 4 });
    }
  }
  for (const at of drawn) {
    const bit = remembered(at, picture), used = at === point ? "" : " unused";
    add(svg, "circle", { class: `bit${bit ? " one" : ""}${used}`, cx: across(at), cy: y + 36, r: 8, "data-point": at, "data-bit": bit });
    if (picture.rounding || !used) {
      add(svg, "text", { x: across(at), y: y + 60, "text-anchor": "middle" }, `${bit} (${chanceOfOne(at).toFixed(2)})`);
    }
  }
  add(svg, "path", { class: "value", id: "handle", d: `M ${x} ${y - 3} l -7 -12 h 14 z` });
  add(svg, "text", { class: "strong", x, y: y - 50, "text-anchor": x > 650 ? "end" : x < 80 ? "start" : "middle" }, `value ${picture.value}`);
}

function drawSent(picture) {
  const svg = byId("sent");
  svg.replaceChildren();
  for (let round = 0; round < picture.rounds; round++) {
    const { sent, turned } = answer(round, picture);
    const place = { x: 2 + (round % 60) * 12, y: 2 + Math.floor(round / 60) * 14, width: 8, height: 8, rx: 1 };
    add(svg, "rect", { class: `bit${sent ? " one" : ""}${turned ? " turned" : ""}`, "data-bit": sent, ...place });
  }
}

function drawSampled(picture) {
  const svg = byId("sampled");
  svg.replaceChildren();
  for (let round = 0; round < LONGEST; round += WINDOW) {
    add(svg, "rect", { class: "window", x: round * 3 + 1, y: 1, width: WINDOW * 3 - 2, height: 14, rx: 3 });
  }
  for (const { round, sent } of everySampled(picture.rounds, picture)) {
    add(svg, "rect", { class: `bit sampled${sent ? " one" : ""}`, "data-bit": sent, x: Math.min(round * 3 + 1, 709), y: 4, width: 8, height: 8, rx: 1 });
  }
}

function drawAverage(picture) {
  const svg = byId("average");
  svg.replaceChildren();
  const down = (value) => 12 + (200 - Math.min(200, Math.max(-100, value))) * 0.52;
  const along = (round) => 60 + (round / LONGEST) * 530;
  for (const value of [-100, 0, 100, 200]) {
    add(svg, "line", { class: "rule", x1: 60, x2: 590, y1: down(value), y2: down(value) });
    add(svg, "text", { x: 52, y: down(value) + 4, "text-anchor": "end" }, value);
  }
  add(svg, "text", { x: 60, y: 184 }, "round 1");
  add(svg, "text", { x: 590, y: 184, "text-anchor": "end" }, `round ${LONGEST}`);
  const end = limit(picture), close = Math.abs(down(end) - down(picture.value)) < 14;
  add(svg, "line", { class: "truth", x1: 60, x2: 590, y1: down(picture.value), y2: down(picture.value) });
  add(svg, "text", { class: "strong", x: 596, y: down(picture.value) + (!close ? 4 : end > picture.value ? 20 : 0) }, `value ${picture.value}`);
  add(svg, "line", { class: "limit", x1: 60, x2: 590, y1: down(end), y2: down(end) });
  add(svg, "text", { x: 596, y: down(end) + (!close ? 4 : end > picture.value ? -2 : 22) }, `limit ${whole(end)}`);
  const line = averages(picture.rounds, picture).map((value, round) => `${along(round + 1).toFixed(1)},${down(value).toFixed(1)}`);
  add(svg, "polyline", { class: "seen", points: line.join(" ") });
  const steps = sampledAverages(picture.rounds, picture);
  const stairs = steps.flatMap(({ round, value }, place) => {
    const until = place + 1 < steps.length ? steps[place + 1].round : picture.rounds - 1;
    return [round, until].map((at) => `${along(at + 1).toFixed(1)},${down(value).toFixed(1)}`);
  });
  add(svg, "polyline", { class: "seen sampled", points: stairs.join(" ") });
}

function drawFleet(picture) {
  const svg = byId("fleet"), y = 34;
  svg.replaceChildren();
  const { ones, truth } = fleetCounts(picture.rounds - 1, picture), { value, lower, upper } = estimate(ones, picture.flips);
  const percent = (chance) => `${(100 * chance).toFixed(1)} %`;
  add(svg, "line", { class: "axis", x1: across(0), x2: across(100), y1: y, y2: y });
  for (const at of [0, 25, 50, 75, 100]) {
    add(svg, "line", { class: "axis", x1: across(at), x2: across(at), y1: y - 4, y2: y + 4 });
    add(svg, "text", { x: across(at), y: y + 20, "text-anchor": "middle" }, at);
    if (at % 50 === 0) add(svg, "text", { x: across(at), y: y + 38, "text-anchor": at ? at === 100 ? "end" : "middle" : "start" }, `${percent(afterFlip(chanceOfOne(at), picture.flips))} ones`);
  }
  add(svg, "rect", { class: "interval", x: across(lower), y: y - 8, width: Math.max(2, across(upper) - across(lower)), height: 16, rx: 3 });
  add(svg, "circle", { class: "head", cx: across(clamp(value)), cy: y, r: 5 });
  add(svg, "path", { class: "value", d: `M ${across(truth)} ${y - 10} l -6 -10 h 12 z` });
  byId("counted").textContent = `In round ${picture.rounds}, ${ones.toLocaleString("en")} of ${FLEET.toLocaleString("en")} devices sent a 1: ${percent(ones / FLEET)}. Debiased, that is a mean of ${value.toFixed(1)}, 95 % interval ${lower.toFixed(1)} to ${upper.toFixed(1)}. The true mean is ${truth.toFixed(1)}.`;
}

function whole(number) { return Math.round(number) + 0; }  // + 0: never "-0"

function caption(picture) {
  const cuts = picture.rounding ? "Dashed: from here on this device rounds up. " : "";
  return cuts + (picture.memo ? "Circles: remembered bits, filled for 1, with the chance of a 1 in brackets." : "Nothing is remembered: each round draws a new bit.");
}

// What is remembered decides what the average can tell.
function sentence(picture) {
  const seen = averages(picture.rounds, picture).at(-1), bits = pointsUsed(picture).size;
  const after = `After ${picture.rounds} round${picture.rounds === 1 ? "" : "s"} the average is ${whole(seen)}. `;
  if (!picture.memo) {
    const known = `the ${picture.wander ? "mean of the " : ""}${picture.rounding ? "rounded " : ""}value${picture.wander ? "s" : ""}, ${whole(limit(picture))}`;
    const other = picture.rounding && !picture.wander && pointOf(picture.value, picture) !== picture.value;
    return `${after}Fresh noise averages out: with enough rounds an observer learns ${known}${other ? ` (not the value, ${picture.value})` : ""}.`;
  }
  const flips = picture.flips ? " Flips (orange) hide the remembered bit for a few rounds only." : "";
  if (bits === 1) return `${after}It tends to one remembered bit, debiased. All rounds together reveal what one answer reveals.${flips}`;
  if (!picture.rounding) return `${after}Each of the ${bits} values has its own bit, and ${bits} bits average out like ${bits} rounds of fresh noise. Memoization alone is not enough: round the value first.`;
  return `${after}It tends to a mix of ${bits} remembered bits. All rounds together reveal about the values what ${bits} answers reveal. They can also show when the device changes.${flips}`;
}

function sentenceOnSampled(picture) {
  const steps = sampledAverages(picture.rounds, picture), answers = `${steps.length} answer${steps.length === 1 ? "" : "s"}`;
  const seen = steps.length ? `, average ${whole(steps.at(-1).value)}` : "";
  return `Sampled (green): ${answers} so far${seen}. Each is drawn afresh, so with enough windows this average finds the ${picture.wander ? "mean of the values" : "value"}. Any two histories lose at most ε = 1 per window, ${steps.length} so far.`;
}

// ---- what the reader does ----

const state = { device: 1, value: 37, step: 100, rounding: true, memo: true, flips: true, wander: false, rounds: LONGEST };

function render() {
  drawLine(state);
  drawSent(state);
  drawSampled(state);
  drawAverage(state);
  drawFleet(state);
  for (const id of ["value", "step", "rounds"]) byId(id).value = state[id];
  for (const id of ["rounding", "memo", "flips", "wander"]) byId(id).checked = state[id];
  byId("shown").textContent = state.value;
  byId("count").textContent = state.rounds;
  byId("step").disabled = !state.rounding;
  byId("caption").textContent = caption(state);
  byId("said").textContent = sentence(state);
  byId("said-sampled").textContent = sentenceOnSampled(state);
  fit();
}

function fit() {  // as high on the page around it as it needs to be
  try { if (frameElement) frameElement.style.height = `${document.body.scrollHeight}px`; } catch { /* another origin: its height stands */ }
}

function change(changes) { Object.assign(state, changes); render(); }

let playing = null;
function stop() { clearInterval(playing); playing = null; byId("play").textContent = "Play"; }
function play() {
  if (playing) return stop();
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return change({ rounds: LONGEST });
  change({ rounds: 1 });
  byId("play").textContent = "Stop";
  playing = setInterval(() => (state.rounds < LONGEST ? change({ rounds: state.rounds + 1 }) : stop()), 40);
}

for (const id of ["rounding", "memo", "flips", "wander"]) byId(id).addEventListener("change", (event) => change({ [id]: event.target.checked }));
byId("value").addEventListener("input", (event) => change({ value: Number(event.target.value) }));
byId("step").addEventListener("change", (event) => change({ step: Number(event.target.value) }));
byId("rounds").addEventListener("input", (event) => { stop(); change({ rounds: Number(event.target.value) }); });
byId("another").addEventListener("click", () => change({ device: state.device + 1 }));
byId("play").addEventListener("click", play);

// The triangle can be dragged too; the slider is the same thing for the keyboard.
byId("line").addEventListener("pointerdown", (event) => {
  if (event.target.id !== "handle") return;
  event.preventDefault();
  const box = byId("line").getBoundingClientRect();
  const move = (moved) => {
    change({ value: Math.round(clamp(((moved.clientX - box.left) * 720 / box.width - 30) / 6.6)) });
  };
  const drop = () => { removeEventListener("pointermove", move); removeEventListener("pointerup", drop); };
  addEventListener("pointermove", move);
  addEventListener("pointerup", drop);
});

// Light or dark as the page around it, or else as the system.
const night = matchMedia("(prefers-color-scheme: dark)");
function outerTheme() {
  try { return parent === window ? "auto" : parent.document.body.dataset.theme || "auto"; } catch { return "auto"; }
}
function dress() {
  const outer = outerTheme();
  document.documentElement.dataset.theme = outer === "auto" ? (night.matches ? "dark" : "light") : outer;
}
night.addEventListener("change", dress);
try { if (parent !== window) new MutationObserver(dress).observe(parent.document.body, { attributeFilter: ["data-theme"] }); } catch { /* another origin: the system's choice stands */ }
dress();
render();
addEventListener("resize", fit);
Object.assign(window, { model, state, change });
