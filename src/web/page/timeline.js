// SPDX-License-Identifier: Apache-2.0
// The timeline of the page: where the hours of the job went, as SVG that is made of elements. The kinds of spans, with
// their names, colours and patterns, come with the data: src/timeline has them. Sizes follow the width of the page and the
// reader's size of texts. app.js has the helpers that this file uses.
"use strict";

const timeline = { data: null, view: null, chosen: null, items: [], begin: 0, at: -1, hover: -1, pointer: null, scale: null };
// The numbers of a piece, as src/timeline/timeline.h lists them. Behind them are the kinds of a piece that has several.
const [KIND, FROM, LASTING, COUNT, ATTEMPT, STEP_FROM, STEP_TOP, STEP_TO, SHARES] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
const SECOND_MS = 1000, MINUTE_MS = 60 * SECOND_MS, HOUR_MS = 60 * MINUTE_MS, DAY_MS = 24 * HOUR_MS;
const TICKS = [...[0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30].map((n) => n * SECOND_MS), ...[1, 2, 5, 10, 20, 30].map((n) => n * MINUTE_MS),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR_MS), ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((n) => n * DAY_MS)];

function draw(name, attributes, ...inside) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes))
    element.setAttribute(key, typeof value === "number" ? Math.round(value * 100) / 100 : value);
  element.append(...inside);
  return element;
}

// --- the looks of the kinds ---

function isDark() {
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
}

function patternOf(kind, i) {
  const { fill, ink } = kind[isDark() ? "dark" : "light"], { size } = kind;
  const line = kind.is_filled ? { fill: ink } : { stroke: ink, "stroke-width": 2, fill: "none" };
  return draw("pattern", {
    id: `kind-${i}`, width: size, height: size, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${kind.turn})`,
  }, draw("rect", { width: size, height: size, fill }), draw("path", { d: kind.shape, ...line }));
}

function fillOf(i) {
  const kind = timeline.data.kinds[i];
  return kind.shape ? `url(#kind-${i})` : kind[isDark() ? "dark" : "light"].fill;
}

function letterOf(i, x, y) {
  return draw("text", { class: "letter", x, y, "text-anchor": "middle" }, timeline.data.kinds[i].letter);
}

// --- what it tells in words ---

function percent(part, whole) {
  const share = whole > 0 ? 100 * part / whole : 0;
  return part > 0 && share < 0.1 ? "< 0.1 %" : `${share.toFixed(1)} %`;
}

function moment(ms) {
  const date = new Date(timeline.view.at_ms + ms), time = date.toLocaleTimeString("en-GB");
  return timeline.view.ms < DAY_MS ? time : `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${time}`;
}

// The time of each kind in a piece, as a list of [kind, ms].
function sharesOf(piece) {
  if (piece.length === SHARES) return [[piece[KIND], piece[LASTING]]];
  const pairs = piece.slice(SHARES);
  return pairs.filter((_, i) => i % 2 === 0).map((kind, i) => [kind, pairs[2 * i + 1]]);
}

function pieceText(piece) {
  const { kinds } = timeline.data;
  const shares = sharesOf(piece).sort((a, b) => b[1] - a[1]).map(([kind, ms]) => `${kinds[kind].name} ${percent(ms, piece[LASTING])}`);
  const alone = shares.length > 1 ? shares.join(", ") : kinds[piece[KIND]].name; // training, with its waits for data
  const what = piece[COUNT] > 1 ? `${number.format(piece[COUNT])} short spans (${shares.join(", ")})` : alone;
  const parts = [`${what}: ${about(piece[LASTING])} from ${moment(piece[FROM])}`, `attempt ${piece[ATTEMPT]}`];
  if (piece[STEP_TOP] > piece[STEP_FROM])
    parts.push(`steps ${number.format(piece[STEP_FROM])} to ${number.format(piece[STEP_TOP])}`);
  return parts.join(", ");
}

function flagText(flag) {
  const more = flag.count > 1 ? `, and ${number.format(flag.count - 1)} more close to it` : "";
  return `${moment(flag.ms)}, ${flag.text}${more}`;
}

function endWord(attempt) {
  return attempt.end.replaceAll("_", " ");
}

function attemptText(attempt) {
  const lasting = `${moment(attempt.from_ms)}, ${about(attempt.to_ms - attempt.from_ms)}`;
  if (attempt.last > attempt.first) return `${lasting}: attempts ${attempt.first} to ${attempt.last}`;
  return `${lasting}: attempt ${attempt.first}, ${endWord(attempt)}${attempt.text ? `, ${attempt.text}` : ""}`;
}

function timelineSays() {
  const { view } = timeline;
  const counts = [plural(view.attempt_count, "attempt"), ...[["notice", view.notices], ["failure", view.failures]]
    .filter(([, n]) => n > 0).map(([word, n]) => plural(n, word))];
  if (view.lost_steps > 0) counts.push(`${plural(view.lost_steps, "step")} lost`);
  return `Goodput ${percent(view.sums[0], view.wall_ms)}: ${about(view.sums[0])} of ${about(view.wall_ms)} were training that was `
    + `kept. ${counts.join(", ")}.`;
}

// --- the parts of the picture; each returns its elements ---

// u: a pixel, or more where the reader wants larger texts.
function measure() {
  const u = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
  const width = Math.max(120, $("chart-box").clientWidth), { view } = timeline;
  const left = view.hasSteps ? 46 * u : 2, right = width - 2;
  const flags = view.flags.length > 0 ? 22 * u : 0;
  const bar = flags + 2, brackets = bar + 56 * u, chart = brackets + 38 * u, base = chart + (view.hasSteps ? 130 * u : 0);
  return { u, width, left, right, bar, thick: 40 * u, brackets, chart, base, height: base + 24 * u };
}

function xOf(ms) {
  const { left, right } = timeline.scale;
  return left + (right - left) * ms / timeline.view.ms;
}

// About the width of a text of 13 pixels.
function widthOf(text) {
  return 7 * timeline.scale.u * text.length;
}

// A span that is too narrow to be seen beside a wider one is left to it: a fine pattern would look like noise. Many of
// them in a row are together, with the time of each kind.
function visiblePieces() {
  const { u } = timeline.scale, shown = [];
  let left = 0; // the width of the spans that were left to the last one
  for (const piece of timeline.view.pieces) {
    const shares = new Map(sharesOf(piece)), from = xOf(piece[FROM]), to = xOf(piece[FROM] + piece[LASTING]), last = shown.at(-1);
    const isMixed = shares.size > 1, wide = last ? last.to - last.from : 0, more = left + to - from;
    const isSame = last && !isMixed && last.shares.size === 1 && last.shares.has(piece[KIND]);
    const isLeft = last && to - from < 0.6 && more < 1 && wide > 4 * more;
    const joins = last && (isMixed || to - from < 1) && (last.shares.size > 1 ? wide < 4 * u : wide < 1);
    left = isLeft && !isSame && !joins ? more : 0;
    if (isSame || joins) shares.forEach((ms, kind) => last.shares.set(kind, (last.shares.get(kind) || 0) + ms));
    if (isSame || joins || isLeft) last.to = to;
    else shown.push({ shares, from, to });
  }
  return shown;
}

// Each kind has the height of its share, so that its area is its time; the first one is at the foot.
function drawShares({ shares, from, to }) {
  const { bar, thick } = timeline.scale, all = [...shares.values()].reduce((sum, ms) => sum + ms, 0);
  let y = bar + thick;
  return [...shares].sort(([a], [b]) => a - b).map(([kind, ms]) => {
    const height = thick * ms / all;
    y -= height;
    return draw("rect", { x: from, y, width: Math.max(0.5, to - from), height, fill: fillOf(kind), "data-kind": kind });
  });
}

function drawBar() {
  const { bar, thick, u, left, right } = timeline.scale;
  const rects = [], letters = [];
  for (const visible of visiblePieces()) {
    const { shares, from, to } = visible;
    rects.push(...drawShares(visible));
    if (shares.size === 1 && to - from > 22 * u) letters.push(letterOf([...shares.keys()][0], (from + to) / 2, bar + thick / 2 + 5 * u));
  }
  return [...rects, draw("rect", { class: "edge", x: left, y: bar, width: right - left, height: thick }), ...letters];
}

function drawCommits() {
  const { bar, thick, u } = timeline.scale;
  let last = -Infinity;
  const d = timeline.view.commits.map(([ms]) => xOf(ms)).filter((x) => x - last >= 2 && (last = x) !== null)
    .map((x) => `M${x.toFixed(1)} ${bar + thick + 2}v${9 * u}`).join("");
  return d ? [draw("path", { class: "commit", d })] : [];
}

// A label needs room up to the flags beside it: right of its own flag, or else left of it.
function drawFlags() {
  const { bar, u, left, right } = timeline.scale, { flags } = timeline.view;
  let taken = left;
  return flags.flatMap((flag, i) => {
    const x = xOf(flag.ms), next = i + 1 < flags.length ? xOf(flags[i + 1].ms) - 12 * u : right;
    const text = flag.label + (flag.count > 1 ? `, ${flag.count - 1} more` : ""), wide = widthOf(text) + 12 * u;
    const sign = flag.is_failure
      ? [draw("circle", { class: "failure", cx: x, cy: bar - 10 * u, r: 8 * u }),
        draw("path", { class: "cross", d: `M${x - 3 * u} ${bar - 13 * u}l${6 * u} ${6 * u}m0 ${-6 * u}l${-6 * u} ${6 * u}` })]
      : [draw("path", { class: "notice-sign", d: `M${x} ${bar - 2}l${-8 * u} ${-14 * u}h${16 * u}z` })];
    const isRight = x + wide <= next, isLeft = !isRight && x - wide >= taken;
    taken = isRight ? x + wide : x + 12 * u;
    if (isRight || isLeft)
      sign.push(draw("text", {
        class: flag.is_failure ? "bad" : "warn", x: x + (isRight ? 12 : -12) * u, y: bar - 6 * u, "text-anchor": isRight ? "start" : "end",
      }, text));
    return sign;
  });
}

// The longest label that fits.
function drawAttempts() {
  const { brackets, u } = timeline.scale;
  return timeline.view.attempts.flatMap((attempt) => {
    const from = xOf(attempt.from_ms), to = xOf(attempt.to_ms);
    const made = [draw("path", { class: "frame", d: `M${from + 0.5} ${brackets}v${6 * u}H${Math.max(from + 1, to - 0.5)}v${-6 * u}` })];
    const { first } = attempt, name = attempt.last > first ? `${first}–${attempt.last}` : `${first}`;
    const forms = attempt.last > first ? [name] : [`attempt ${first}: ${endWord(attempt)}`, `${first}: ${endWord(attempt)}`, name];
    const text = forms.find((form) => widthOf(form) + 12 * u < to - from);
    if (text) made.push(draw("text", { class: "muted", x: (from + to) / 2, y: brackets + 21 * u, "text-anchor": "middle" }, text));
    return made;
  });
}

// How far the reader's clock is from UTC then; it may change within the view.
function zoneAt(ms) {
  return -new Date(ms).getTimezoneOffset() * MINUTE_MS;
}

// The midnights of every so many days. Days may have 23 or 25 hours.
function dayTicks(from, to, tick) {
  const first = new Date(from), ticks = [];
  let day = Math.ceil(Date.UTC(first.getFullYear(), first.getMonth(), first.getDate()) / tick) * tick;
  for (let at = 0; at <= to; day += tick) {
    const utc = new Date(day);
    at = new Date(utc.getUTCFullYear(), utc.getUTCMonth(), utc.getUTCDate()).getTime();
    if (at >= from && at <= to) ticks.push(at);
  }
  return ticks;
}

// Ticks are at whole minutes, hours or days of the reader's clock. Zones change by multiples of ten minutes.
function timeTicks(from, to, tick) {
  if (tick >= DAY_MS) return dayTicks(from, to, tick);
  const grain = Math.min(tick, 10 * MINUTE_MS), zone = zoneAt(from), ticks = [];
  for (let at = Math.ceil((from + zone) / grain) * grain - zone; at <= to; at += grain)
    if ((at + zoneAt(at)) % tick === 0) ticks.push(at);
  return ticks;
}

// The first tick of a day has the date. The first one after a change of the zone, as of daylight-saving time, names it:
// an hour may come twice.
function nameTick(at, before, tick) {
  const date = new Date(at), changes = before !== undefined && zoneAt(before) !== zoneAt(at) && tick < DAY_MS;
  if ((at + zoneAt(at)) % DAY_MS === 0 || tick >= DAY_MS) return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  if (tick < SECOND_MS) return (at % MINUTE_MS / SECOND_MS).toFixed(1).padStart(4, "0"); // browsers write "8 (second: 8)"
  return date.toLocaleTimeString("en-GB", {
    hour: "2-digit", minute: "2-digit", ...(tick < MINUTE_MS && { second: "2-digit" }), ...(changes && { timeZoneName: "short" }),
  });
}

function drawTimes() {
  const { view } = timeline, { left, right, brackets, base, u } = timeline.scale;
  const room = Math.max(2, Math.floor((right - left) / (62 * u)));
  const tick = TICKS.find((ms) => view.ms / ms <= room) || TICKS.at(-1);
  const made = [draw("path", { class: "axis", d: `M${left} ${base}H${right}` })];
  let taken = 0; // the right end of the last label
  timeTicks(view.at_ms, view.at_ms + view.ms, tick).forEach((at, i, ticks) => {
    const x = xOf(at - view.at_ms), text = nameTick(at, ticks[i - 1], tick), half = widthOf(text) / 2;
    made.push(draw("path", { class: "grid", d: `M${x} ${view.hasSteps ? brackets + 28 * u : base - 4}V${base + 5}` }));
    if (x - half < taken || x + half > right + 2) return;
    taken = x + half;
    made.push(draw("text", { class: "muted time", x, y: base + 19 * u, "text-anchor": "middle" }, text));
  });
  return made;
}

// --- the steps over the time ---

function stepScale() {
  const { pieces } = timeline.view, { chart, base } = timeline.scale;
  const high = Math.max(...pieces.map((piece) => piece[STEP_TOP]));
  const least = Math.min(...pieces.map((piece) => Math.min(piece[STEP_FROM], piece[STEP_TO])));
  const rough = Math.max(1, high - least) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const tick = Math.max(1, [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough));
  const low = Math.floor(least / tick) * tick, top = Math.max(high, low + 1);
  return { low, top, tick, y: (step) => base - (base - chart) * (step - low) / (top - low) };
}

function drawStepTicks({ low, top, tick, y }) {
  const { left, right, u } = timeline.scale, made = [];
  for (let step = low; step <= top; step += tick) {
    const text = step < 10000 ? `${step}` : new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 }).format(step);
    made.push(draw("path", { class: "grid", d: `M${left} ${y(step)}H${right}` }),
      draw("text", { class: "muted", x: left - 6 * u, y: y(step) + 4 * u, "text-anchor": "end" }, text));
  }
  return made;
}

// How far the job went back at the end of each piece.
function waysBack() {
  const { pieces } = timeline.view;
  return pieces.map((piece, i) => ({
    ms: piece[FROM] + piece[LASTING], from: piece[STEP_TOP], to: i + 1 < pieces.length ? pieces[i + 1][STEP_FROM] : piece[STEP_TO],
  })).filter(({ from, to }) => from > to);
}

// The largest ones come first; a label that would touch another one is left out.
function labelWaysBack(ways, scale) {
  const { u, right, left } = timeline.scale, taken = [], made = [];
  const least = (scale.top - scale.low) / 100;
  for (const way of [...ways].sort((a, b) => (b.from - b.to) - (a.from - a.to)).slice(0, 12)) {
    const text = `${plural(way.from - way.to, "step")} lost`, x = xOf(way.ms), wide = widthOf(text) + 8 * u;
    const isLeft = x + wide > right, y = isLeft ? scale.y(way.from) - 6 * u : scale.y(way.to) + 15 * u;
    const box = { from: isLeft ? x - wide : x, to: isLeft ? x : x + wide, y };
    if (way.from - way.to < least || box.from < left || y > timeline.scale.base - 2
      || taken.some((other) => box.from < other.to && other.from < box.to && Math.abs(y - other.y) < 16 * u)) continue;
    taken.push(box);
    made.push(draw("text", { class: "bad", x: x + (isLeft ? -4 : 4) * u, y, "text-anchor": isLeft ? "end" : "start" }, text));
  }
  return made;
}

function drawSteps() {
  if (!timeline.view.hasSteps) return [];
  const scale = stepScale(), { y } = scale, ways = waysBack();
  const paths = { idle: "", back: "", climb: "", "climb-lost": "" };
  const lost = timeline.data.kinds.findIndex((kind) => kind.kind === "training_lost");
  for (const piece of timeline.view.pieces) {
    const isFlat = piece[STEP_TOP] === piece[STEP_FROM] && piece[STEP_TO] === piece[STEP_FROM];
    paths[isFlat ? "idle" : piece[KIND] === lost ? "climb-lost" : "climb"]
      += `M${xOf(piece[FROM]).toFixed(1)} ${y(piece[STEP_FROM]).toFixed(1)}L${xOf(piece[FROM] + piece[LASTING]).toFixed(1)} ${y(piece[STEP_TOP]).toFixed(1)}`;
  }
  for (const { ms, from, to } of ways) paths.back += `M${xOf(ms).toFixed(1)} ${y(from).toFixed(1)}V${y(to).toFixed(1)}`;
  return [...drawStepTicks(scale), ...Object.entries(paths).filter(([, d]) => d).map(([name, d]) => draw("path", { class: name, d })),
    ...labelWaysBack(ways, scale)];
}

// --- what is chosen ---

function isFlag(item) {
  return item.from === item.to;
}

// The item that was chosen has another number when the past in front of it has changed, or has left the view.
function findAgain(item, begin) {
  const ms = begin - timeline.view.at_ms + (item.from + item.to) / 2;
  const far = (one) => (isFlag(one) === isFlag(item) ? Math.max(one.from - ms, ms - one.to, 0) : Infinity);
  const least = Math.min(...timeline.items.map(far));
  return least <= SECOND_MS ? timeline.items.findIndex((one) => far(one) === least) : -1;
}

// In the order of time: a flag stands before the piece that it is in.
function listItems() {
  const { view } = timeline, chosen = timeline.items[timeline.at], begin = timeline.begin;
  timeline.items = [
    ...view.pieces.map((piece) => ({ from: piece[FROM], to: piece[FROM] + piece[LASTING], text: () => pieceText(piece) })),
    ...view.flags.map((flag) => ({ from: flag.ms, to: flag.ms, text: () => flagText(flag) })),
  ].sort((a, b) => a.from - b.from || a.to - b.to);
  timeline.begin = view.at_ms;
  timeline.at = chosen ? findAgain(chosen, begin) : -1;
  timeline.hover = timeline.pointer ? itemUnder(timeline.pointer) : -1;
}

function drawChoice() {
  const { bar, thick, u, chart, base } = timeline.scale;
  const item = timeline.items[timeline.hover >= 0 ? timeline.hover : timeline.at];
  $("chart").querySelector(".chosen")?.remove();
  setText("span", item ? item.text() : "Point at the timeline, or go along it with the arrow keys.");
  if (!item) return;
  const from = xOf(item.from), to = xOf(item.to), middle = (from + to) / 2;
  $("chart").append(draw("g", { class: "chosen" }, draw("path", { class: "pole", d: `M${middle} ${chart}V${base}` }),
    draw("rect", { x: Math.min(from, middle - 2 * u), y: bar - 1, width: Math.max(to - from, 4 * u), height: thick + 2 })));
}

// A flag is met at its sign, and a piece anywhere at its time.
function itemUnder(event) {
  const { u, left, right, bar } = timeline.scale, box = $("chart").getBoundingClientRect();
  const x = event.clientX - box.left, isAbove = event.clientY - box.top < bar;
  const ms = timeline.view.ms * (x - left) / (right - left);
  const near = timeline.items.findIndex((item) => isFlag(item) && Math.abs(xOf(item.from) - x) < 11 * u);
  if (isAbove && near >= 0) return near;
  return timeline.items.findIndex((item) => item.from <= ms && ms < item.to);
}

function chooseSpan(i) {
  timeline.at = i;
  drawChoice();
  setText("spoken", $("span").textContent);
}

function goTo(i) {
  chooseSpan(Math.max(0, Math.min(timeline.items.length - 1, i)));
}

// --- the texts beside it ---

function drawSums() {
  const { view, data, scale: { u } } = timeline;
  $("sums").replaceChildren(...data.kinds.map((kind, i) => ({ kind, i, ms: view.sums[i] })).filter(({ i, ms }) => ms > 0 || i === 0)
    .map(({ kind, i, ms }) => {
      const item = document.createElement("li"), isCounted = kind.kind !== "excluded";
      const sample = draw("svg", { width: 34 * u, height: 20 * u, "aria-hidden": "true" },
        draw("rect", { width: 34 * u, height: 20 * u, rx: 2, fill: fillOf(i) }));
      if (kind.letter) sample.append(letterOf(i, 17 * u, 15 * u));
      item.append(sample, make("span", kind.name), make("span", about(ms), "number"), make("span", isCounted ? percent(ms, view.wall_ms) : "", "number muted"));
      return item;
    }));
}

function drawStory() {
  const { view } = timeline;
  const told = [...view.attempts.map((attempt) => [attempt.from_ms, attemptText(attempt)]), ...view.flags.map((flag) => [flag.ms, flagText(flag)])];
  const texts = told.sort((a, b) => b[0] - a[0]).map(([, text]) => text), key = texts.join("\n");
  if ($("story").dataset.key === key) return;
  $("story").dataset.key = key;
  $("story").replaceChildren(...texts.map((text) => make("li", text)));
}

// A name that changed with the time would close the list under the reader's hand.
function viewName({ hours }) {
  if (hours === 0) return "whole job";
  return hours === 1 ? "last hour" : `last ${hours} hours`;
}

// By itself it shows the last six hours, or all of a younger job.
function chooseView() {
  const { views } = timeline.data, select = $("view"), names = views.map(viewName);
  const wanted = timeline.chosen === null ? 6 : timeline.chosen;
  timeline.view = views.find((view) => view.hours === wanted) || views[0];
  timeline.view.hasSteps = timeline.view.pieces.some((piece) => piece[STEP_TOP] > 0);
  if ([...select.options].map((option) => option.text).join() !== names.join())
    select.replaceChildren(...views.map((view, i) => new Option(names[i], view.hours)));
  select.value = timeline.view.hours;
  show("view-row", views.length > 1);
}

// --- all of it ---

function drawTimeline() {
  const { data } = timeline;
  show("timeline", data);
  if (!data) return;
  const isThere = !data.why && data.views.length > 0;
  show("timeline-box", isThere);
  show("timeline-none", !isThere);
  show("view-row", false);
  setText("timeline-none", data.why ? `There is no timeline: ${sentence(data.why)}` : "Nothing has happened so far.");
  if (!isThere) return;
  chooseView();
  timeline.scale = measure();
  listItems();
  const { width, height } = timeline.scale, says = timelineSays();
  const marks = draw("defs", {}, ...data.kinds.map((kind, i) => [kind, i]).filter(([kind]) => kind.shape).map(([kind, i]) => patternOf(kind, i)));
  const chart = $("chart");
  chart.setAttribute("width", width);
  chart.setAttribute("height", height);
  chart.setAttribute("aria-label", `Timeline. ${says} Arrow keys go along it.`);
  chart.replaceChildren(marks, ...drawTimes(), ...drawSteps(), ...drawBar(), ...drawCommits(), ...drawFlags(), ...drawAttempts());
  drawChoice();
  setText("timeline-says", says);
  setText("timeline-notes", data.notes.map((note) => `Note: ${sentence(note)}`).join(" "));
  show("timeline-notes", data.notes.length > 0);
  drawSums();
  drawStory();
}

function takeTimeline(data) {
  timeline.data = data;
  drawTimeline();
}

function startTimeline() {
  const chart = $("chart");
  chart.addEventListener("pointermove", (event) => { timeline.pointer = event; timeline.hover = itemUnder(event); drawChoice(); });
  chart.addEventListener("pointerleave", () => { timeline.pointer = null; timeline.hover = -1; drawChoice(); });
  chart.addEventListener("click", (event) => chooseSpan(itemUnder(event)));
  chart.addEventListener("focus", () => { if (timeline.at < 0) goTo(timeline.items.length - 1); });
  chart.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: timeline.at - 1, ArrowRight: timeline.at + 1, Home: 0, End: timeline.items.length - 1 };
    if (event.key === "Escape") chooseSpan(-1);
    else if (event.key in steps) goTo(steps[event.key]);
    else return;
    event.preventDefault();
  });
  $("view").addEventListener("change", () => {
    timeline.chosen = Number($("view").value);
    timeline.at = timeline.hover = -1;
    drawTimeline();
  });
  window.addEventListener("resize", drawTimeline);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawTimeline);
}
