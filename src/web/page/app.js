// SPDX-License-Identifier: Apache-2.0
// The page of pchrun-web. It reads /api/v1/events and shows the newest picture of the job. Texts of the job are only
// ever set as text. One section of this file for each section of the page.
"use strict";

const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const LINES_MAX = 1000, LINES_SHOWN = 250, NODES_SHOWN = 12;
const SILENT_MS = 5000; // without a byte for so long, pchrun-web is not there
const OLD_MS = 2500; // the pictures of a job that answers are younger

const job = {
  layout: null, state: null, contact: null, exit: null,
  stateAt: 0, contactAt: 0, heardAt: performance.now(), // by this browser's clock
  isCut: false, // the stream has ended, and no other has begun
};

function show(id, is) {
  $(id).hidden = !is;
}

function setText(id, text) {
  const element = $(id);
  if (element.textContent !== text) element.textContent = text;
}

function make(name, text, className) {
  const element = document.createElement(name);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

function plural(n, word) {
  return `${number.format(n)} ${word}${n === 1 ? "" : "s"}`;
}

// "node 3", "nodes 3, 7 and 5 more"
function vacant({ of_nodes: nodes, more }) {
  return `node${nodes.length > 1 ? "s" : ""} ${nodes.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

// "3.2 s", "40 s", "4 min", "2.5 h"
function about(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${Math.round(s / 86400)} days`;
}

function sentence(text) {
  return /[.?!]$/.test(text) ? text : `${text}.`;
}

// --- the head ---

function isLost() {
  return job.contact !== null && job.contact.lost_ms !== null;
}

// pchrun-web is not there.
function isAlone(now) {
  return job.isCut || now - job.heardAt > SILENT_MS;
}

function isEnded() {
  return job.exit !== null && (!job.state || isLost());
}

function headline(now) {
  const { state, exit } = job;
  if (isEnded()) return `ended: ${exit.outcome}, exit code ${exit.exit_code}: ${exit.text}`;
  if (!state) return "connecting to the supervisor";
  return isLost() || isAlone(now) ? `last seen ${state.says}` : state.says;
}

function stateWord() {
  return isEnded() ? "ended" : job.state ? job.state.state : "pchrun";
}

function contactText(now) {
  const ms = job.state && job.contact && job.contact.picture_age_ms !== null
    ? job.contact.picture_age_ms + now - job.contactAt : -1;
  const old = ms >= 0 ? ` This picture is ${about(ms)} old.` : "";
  if (isAlone(now)) return [true, `no contact with pchrun-web for ${about(now - job.heardAt)}; trying again.${old}`];
  if (!job.contact) return [null, "connecting"];
  if (!isLost() && !job.state) return [null, "connecting to the supervisor"];
  if (!isLost()) return [false, ms > OLD_MS ? `waiting for the supervisor.${old}` : "live"];
  const since = about(job.contact.lost_ms + now - job.contactAt);
  const [, more] = job.contact.lost_why.split(/; (.*)/s); // what keeps the next attempt from appearing
  const next = more ? `But ${sentence(more)}` : "The next attempt appears here by itself.";
  if (isEnded()) return [null, `ended ${since} ago.${old} ${next}`];
  return [true, `no contact for ${since}: ${sentence(job.contact.lost_why)}${old}`];
}

function drawHead(now) {
  const [lost, text] = contactText(now), says = headline(now);
  document.body.dataset.contact = isEnded() && !lost ? "ended" : lost === null ? "connecting" : lost ? "lost" : "live";
  const old = isEnded() || lost ? ", as last seen" : "";
  setText("ranks-title", `Ranks${old}`);
  setText("nodes-title", `Nodes${old}`);
  setText("timeline-title", `Timeline${isAlone(now) ? old : ""}`);
  setText("contact-text", text);
  setText("says", says[0].toUpperCase() + says.slice(1));
  const layout = job.layout;
  if (!layout) return;
  const parts = [`job ${layout.job}`, `attempt ${layout.attempt}`];
  if (layout.generation > 0) parts.push(`generation ${layout.generation}`);
  if (layout.nnodes > 1) parts.push(`node ${layout.node} of ${layout.nnodes}`);
  parts.push(layout.host);
  setText("job", parts.join(" · "));
  document.title = `${stateWord()} · ${layout.job}`;
}

// Screen readers hear a change of the state, not each step. Other texts may be spoken in between.
let said = "";
function speak(now) {
  const notice = !isEnded() && job.state.notice ? `, notice from ${job.state.notice.source}` : "";
  const isGone = !isEnded() && (isLost() || isAlone(now));
  const text = (isGone ? "No contact. The job was last seen " : "The job is ") + stateWord() + notice;
  if (text !== said) setText("spoken", text);
  said = text;
}

// --- the notice ---

function drawNotice(now) {
  const notice = job.state && !isEnded() && job.state.notice;
  show("notice", notice);
  if (!notice) return;
  setText("notice-title", `Notice from ${notice.source} on node ${notice.node}`);
  setText("notice-text", notice.text || "This machine will be taken away.");
  setText("notice-follows", notice.follows);
  const left = notice.left_ms === null ? null : Math.max(0, notice.left_ms - (now - job.stateAt));
  const s = Math.ceil(left / 1000);
  setText("notice-left", left === null ? "any time" : `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}`);
  show("notice-unit", left !== null);
}

// --- what the job waits for ---

function drawWaits() {
  const { waits, more_waits: more } = job.state;
  show("waits", waits.length > 0 && !isEnded());
  const items = waits.map((wait) => make("li", wait.text));
  if (more > 0) items.push(make("li", `and ${number.format(more)} more`, "muted"));
  $("waits-list").replaceChildren(...items);
}

// --- the grid of ranks ---

const PHASES = {
  s: "in start-up", t: "training", e: "evaluating", c: "compiling", v: "saving", d: "done", g: "gone",
  b: "starting", n: "not attached", "?": "in an unknown phase",
};
// The kinds of cells; each has a colour and a mark of its own.
const KINDS = [
  ["step", "in step"], ["behind", "behind"], ["silent", "no step for long"], ["other", "not training"],
  ["empty", "not attached"], ["gone", "gone"], ["done", "done"],
];
const grid = { cell: 0, columns: 0, at: -1, hover: -1 };
const colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["step", "behind", "silent", "other", "empty", "card", "text", "accent"])
    colours[name] = style.getPropertyValue(`--${name}`).trim();
}

function kindOf(i) {
  const { ranks, pace } = job.state;
  const phase = ranks.phase[i];
  if (phase === "g") return "gone";
  if (phase === "d") return "done";
  if (phase === "b" || phase === "n" || phase === "?") return "empty";
  const limit = Math.max(30, pace > 0 ? 50 / pace : 0); // tenths of seconds
  if (phase === "t" && ranks.age[i] > limit) return "silent";
  if (phase !== "t") return "other";
  return ranks.behind[i] > 1 ? "behind" : "step";
}

function drawMark(context, kind, x, y, size) {
  const middle = size / 2, arm = size * 0.26;
  context.lineWidth = Math.max(1.5, size / 9);
  context.beginPath();
  if (kind === "behind") {
    context.moveTo(x + middle - arm, y + middle);
    context.lineTo(x + middle + arm, y + middle);
  } else if (kind === "silent" || kind === "gone") {
    context.moveTo(x + middle - arm, y + middle - arm);
    context.lineTo(x + middle + arm, y + middle + arm);
    context.moveTo(x + middle + arm, y + middle - arm);
    context.lineTo(x + middle - arm, y + middle + arm);
  } else if (kind === "other") {
    context.arc(x + middle, y + middle, arm * 0.5, 0, 7);
    context.fillStyle = context.strokeStyle;
    context.fill();
    return;
  } else if (kind === "done") {
    context.moveTo(x + middle - arm, y + middle);
    context.lineTo(x + middle - arm * 0.2, y + middle + arm * 0.8);
    context.lineTo(x + middle + arm, y + middle - arm * 0.8);
  }
  context.stroke();
}

// A small cell has no room for a mark, so its shape tells: boxes in parts of the cell.
const SMALL = 9;
const SHAPES = {
  step: [[0, 0, 1, 1]], behind: [[0, 0.5, 1, 1]], silent: [[0, 0, 1, 0.5]], other: [[0, 0, 0.5, 1]],
  done: [[0.25, 0.25, 0.75, 0.75]], gone: [[0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1]],
};

function drawShape(context, kind, x, y, size) {
  for (const [left, top, right, bottom] of SHAPES[kind]) {
    const [x0, y0] = [Math.round(left * size), Math.round(top * size)];
    context.fillRect(x + x0, y + y0, Math.round(right * size) - x0, Math.round(bottom * size) - y0);
  }
}

function drawCell(context, kind, x, y, size, isSmall) {
  const isFrame = kind === "empty" || (kind === "gone" && !isSmall);
  const colour = { gone: colours.silent, done: colours.empty }[kind] || colours[kind];
  context.fillStyle = colour;
  context.strokeStyle = colour;
  context.lineWidth = 1;
  if (isFrame) context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  else drawShape(context, isSmall ? kind : "step", x, y, size);
  if (isSmall) return;
  context.strokeStyle = isFrame ? colour : colours.card;
  drawMark(context, kind, x, y, size);
}

function drawNumber(context, kind, rank, x, y) {
  context.font = "13px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillStyle = kind === "step" ? colours.card : colours.text;
  context.fillText(rank, x, y);
}

function sizeCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// As many ranks in a row as whole nodes fit.
function layOut(count) {
  const width = Math.max(60, $("grid-box").clientWidth);
  const cell = Math.min(44, Math.max(5, Math.floor(Math.sqrt(width * 300 / count))));
  const perNode = job.layout.rank_node.filter((node) => node === job.layout.rank_node[0]).length;
  let columns = Math.max(1, Math.floor(width / cell));
  if (perNode > 1 && columns > perNode) columns -= columns % perNode;
  grid.cell = cell;
  grid.columns = Math.min(columns, count);
}

// Node 0 knows all ranks, and asks the other nodes for theirs.
function drawRanksOf() {
  const { ranks_of: of, chief, nodes } = job.layout;
  const silent = nodes.filter((node) => node.unknown).length;
  const texts = [];
  if (of === "node") texts.push(`Only the ranks of this node. pchrun-web on node 0, which is ${chief}, shows all.`);
  if (silent > 0) texts.push(`The ranks of ${plural(silent, "node")} are unknown.`);
  show("ranks-of", texts.length > 0);
  setText("ranks-of", texts.join(" "));
}

function drawGrid() {
  const count = job.state.ranks.phase.length;
  show("ranks", true);
  show("ranks-box", count > 0);
  show("ranks-none", count === 0);
  if (count === 0 || count !== job.layout.rank.length) return;
  layOut(count);
  const { cell, columns } = grid, gap = cell > 8 ? 2 : 1, size = cell - gap;
  const context = sizeCanvas($("grid"), columns * cell, Math.ceil(count / columns) * cell);
  const counts = {};
  for (let i = 0; i < count; i++) {
    const kind = kindOf(i);
    counts[kind] = (counts[kind] || 0) + 1;
    const x = (i % columns) * cell, y = Math.floor(i / columns) * cell;
    drawCell(context, kind, x, y, size, size < SMALL);
    if (size >= 30 && (kind === "step" || kind === "empty")) drawNumber(context, kind, job.layout.rank[i], x + size / 2, y + size / 2);
  }
  const at = grid.hover >= 0 ? grid.hover : grid.at;
  if (at >= 0 && at < count) {
    context.strokeStyle = colours.text;
    context.lineWidth = 2;
    context.strokeRect((at % columns) * cell, Math.floor(at / columns) * cell, size, size);
  }
  drawLegend(counts, count, size < SMALL);
  drawRank(at, count);
}

function drawLegend(counts, total, isSmall) {
  const told = KINDS.filter(([kind]) => counts[kind]);
  const key = told.map(([kind]) => `${kind}${counts[kind]}`).join() + colours.card + isSmall;
  $("grid").setAttribute("aria-label", `${number.format(total)} ranks: `
    + told.map(([kind, text]) => `${number.format(counts[kind])} ${text}`).join(", ") + ". Arrow keys choose a rank.");
  if ($("legend").dataset.key === key) return;
  $("legend").dataset.key = key;
  $("legend").replaceChildren(...told.map(([kind, text]) => {
    const item = document.createElement("li"), sample = document.createElement("canvas");
    sample.setAttribute("aria-hidden", "true");
    drawCell(sizeCanvas(sample, 16, 16), kind, 0, 0, 16, isSmall);
    item.append(sample, `${number.format(counts[kind])} ${text}`);
    return item;
  }));
}

function drawRank(i, count) {
  if (i < 0 || i >= count) {
    setText("rank", "Point at a rank, or choose one with the arrow keys.");
    return;
  }
  const { layout, state } = job;
  const node = layout.nodes.find((entry) => entry.node === layout.rank_node[i]);
  const host = node && node.host ? `${node.host} (node ${node.node})` : layout.host;
  const parts = [`rank ${layout.rank[i]}`, host, PHASES[state.ranks.phase[i]]];
  const behind = state.ranks.behind[i], age = state.ranks.age[i];
  parts.push(`step ${number.format(state.top - behind)}${behind > 0 ? `, ${number.format(behind)} behind` : ""}`);
  if (age >= 0) parts.push(`last step ${about(age * 100)} ago`);
  setText("rank", parts.join(" · "));
}

function rankUnder(event) {
  const box = $("grid").getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left) / grid.cell);
  const i = Math.floor((event.clientY - box.top) / grid.cell) * grid.columns + column;
  return column >= 0 && column < grid.columns && i >= 0 && i < job.layout.rank.length ? i : -1;
}

function choose(i) {
  grid.at = i;
  drawGrid();
  setText("spoken", $("rank").textContent);
}

function moveTo(i) {
  choose(Math.max(0, Math.min(job.layout.rank.length - 1, i)));
}

function startGrid() {
  const canvas = $("grid");
  const steps = () => ({ ArrowLeft: -1, ArrowRight: 1, ArrowUp: -grid.columns, ArrowDown: grid.columns });
  canvas.addEventListener("pointermove", (event) => { grid.hover = rankUnder(event); drawGrid(); });
  canvas.addEventListener("pointerleave", () => { grid.hover = -1; drawGrid(); });
  canvas.addEventListener("click", (event) => moveTo(rankUnder(event)));
  canvas.addEventListener("focus", () => { if (grid.at < 0) moveTo(0); });
  canvas.addEventListener("keydown", (event) => {
    const ends = { Home: 0, End: job.layout.rank.length - 1 };
    if (event.key === "Escape") choose(-1);
    else if (event.key in ends) moveTo(ends[event.key]);
    else if (event.key in steps()) moveTo(grid.at + steps()[event.key]);
    else return;
    event.preventDefault();
  });
  const redraw = () => { readColours(); if (job.state) drawGrid(); };
  window.addEventListener("resize", redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  readColours();
}

// --- the first cause ---

// While a job that was restarted in place runs on, it has no first cause. Its last failure tells why it was restarted.
function lastFailure() {
  const line = lines.findLast((each) => each.event === "failed" && each.attempt === job.layout.attempt);
  return line && { node: line.of_node, rank: line.rank, at: line.ts, text: line.text };
}

function drawCause() {
  const cause = job.layout.cause || (!isEnded() && lastFailure());
  show("cause", cause);
  if (!cause) return;
  setText("cause-title", job.layout.cause ? "First cause" : "Last failure");
  const host = cause.host ? ` (${cause.host})` : "", rank = cause.rank >= 0 ? `, rank ${cause.rank}` : "";
  setText("cause-text", cause.text);
  setText("cause-where", `node ${cause.node}${host}${rank}${cause.at ? `, ${clock(cause.at)}` : ""}`);
  show("cause-output", cause.output);
  setText("cause-output", cause.output);
}

// --- the nodes ---

const NODES = {
  m: "missing", w: "waiting", k: "checking", r: "running", e: "ended", f: "finished", x: "failed", g: "gone", l: "lost",
  "?": "unknown",
};
let showsAllNodes = false;

// How far behind the last attached rank of each node is.
function nodesBehind() {
  const { ranks } = job.state, behind = new Map();
  job.layout.rank_node.forEach((node, i) => {
    if ("stecv".includes(ranks.phase[i])) behind.set(node, Math.max(behind.get(node) || 0, ranks.behind[i]));
  });
  return behind;
}

function nodeRow(i, allBehind) {
  const entry = job.layout.nodes[i], nodes = job.state.nodes;
  const link = nodes.link[i], letter = nodes.state[i];
  const isCut = link === "-" || link === "N", hasNotice = link === "N" || link === "n";
  const words = [NODES[letter]];
  if (isCut && letter !== "m" && letter !== "g") words.push("no connection");
  if (hasNotice) words.push("notice");
  const whys = entry.why ? [entry.why] : [];
  if (entry.unknown && letter === "r") whys.push(`its ranks are unknown: ${entry.unknown}`);
  const expected = entry.expected < 0 ? "?" : entry.expected;
  const isBad = "mxl".includes(letter) || words.length > 1 || whys.length > 0;
  const behind = allBehind.has(entry.node) ? number.format(allBehind.get(entry.node)) : "–";
  const heard = nodes.heard[i] < 0 ? "–" : about(nodes.heard[i] * 100);
  const cells = [entry.node, entry.host || "–", words.join(", "), `${nodes.attached[i]}/${expected}`, behind, heard];
  return { isBad, cells, why: whys.join("; ") };
}

// A node with a reason has a second row for it. A long name of a host breaks behind a dot.
function nodeItems({ isBad, cells, why }) {
  const row = make("tr", "", `${isBad ? "bad" : ""} ${why ? "explained" : ""}`.trim());
  cells.forEach((text, i) => row.append(make("td", text, i > 2 ? "number" : "")));
  row.cells[1].replaceChildren(...cells[1].split(/(?<=\.)/).flatMap((part) => [part, document.createElement("wbr")]));
  if (!why) return [row];
  const reason = make("tr", "", "why"), cell = make("td", why);
  cell.colSpan = cells.length;
  reason.append(cell);
  return [row, reason];
}

function drawNodes() {
  const count = job.layout.nodes.length;
  show("nodes", count > 1);
  if (count < 2 || count !== job.state.nodes.state.length) return;
  show("spares", job.state.spares);
  setText("spares", `Spares: ${job.state.spares}`);
  const allBehind = nodesBehind();
  const rows = job.layout.nodes.map((_, i) => nodeRow(i, allBehind));
  rows.sort((a, b) => b.isBad - a.isBad || a.cells[0] - b.cells[0]);
  const shown = showsAllNodes ? rows : rows.slice(0, NODES_SHOWN);
  $("nodes-rows").replaceChildren(...shown.flatMap(nodeItems));
  show("nodes-all", rows.length > NODES_SHOWN);
  setText("nodes-all", showsAllNodes ? "Show fewer" : `Show all ${number.format(rows.length)} nodes`);
}

// --- the events ---

const lines = []; // the newest last
const BAD = new Set(["failed", "lost", "notice", "dropped", "stop_given_up"]);

function clock(ts) {
  const date = new Date(ts);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleTimeString("en-GB");
}

function lineText(line) {
  const texts = {
    started: () => plural(line.commands, "command") + (line.resume_step > 0 ? `, resume at step ${number.format(line.resume_step)}` : ""),
    attached: () => `rank ${line.rank}`,
    signal: () => `${line.signal} to ${line.to}`,
    state: () => line.state,
    phase: () => line.phase + (line.step > 0 ? `, step ${number.format(line.step)}` : ""),
    round: () => `round ${line.round}, step ${number.format(line.step)}: ${line.phase}`,
    saved: () => `step ${number.format(line.step)} by ${plural(line.ranks, "rank")} of this node`,
    committed: () => `step ${number.format(line.step)}`,
    notice: () => `${line.source}, node ${line.of_node}, ${about(line.left_ms)} left${line.text ? `: ${line.text}` : ""}`,
    waits_for: () => (line.of_nodes.length === 0 ? "the processes of the lost node end" : `a replacement of ${vacant(line)}, ${about(line.left_ms)} left`),
    failed: () => `node ${line.of_node}${line.rank >= 0 ? `, rank ${line.rank}` : ""}: ${line.text}`,
    exit: () => `${line.outcome}, exit code ${line.exit_code}: ${line.text}`,
    dropped: () => plural(line.count, "line"),
  };
  if (Object.hasOwn(texts, line.event)) return texts[line.event]();
  return ["error", "warning"].includes(line.level) ? `${line.level}: ${line.text}` : line.text || "";
}

function isShown(line) {
  const kind = $("kind").value, text = $("filter").value.toLowerCase();
  return (!kind || line.event === kind) && (!text || `${line.event} ${lineText(line)}`.toLowerCase().includes(text));
}

function lineItem(line) {
  const isBad = BAD.has(line.event) || line.level === "error" || line.level === "warning";
  const item = make("li", "", isBad ? "bad" : ""), time = make("time", clock(line.ts));
  time.dateTime = line.ts;
  time.title = `${line.ts}, attempt ${line.attempt}`;
  item.append(time, make("b", line.event), make("span", lineText(line)));
  return item;
}

function drawLines() {
  const shown = lines.filter(isShown).slice(-LINES_SHOWN).reverse();
  show("lines-none", shown.length === 0 && lines.length > 0);
  $("lines").replaceChildren(...shown.map(lineItem));
}

function addLine(line) {
  lines.push(line);
  if (lines.length > LINES_MAX) lines.shift();
  if (line.event === "exit") job.exit = line;
  if (line.event === "started" && line.generation === 0) job.exit = null;
  if (![...$("kind").options].some((option) => option.value === line.event))
    $("kind").append(new Option(line.event, line.event));
  linesChanged();
  if (line.event === "failed" || line.event === "exit") drawPicture();
}

function clearLines() {
  lines.length = 0;
  job.exit = null;
}

let isLinesDue = false;
function linesChanged() {
  if (isLinesDue) return;
  isLinesDue = true;
  requestAnimationFrame(() => { isLinesDue = false; drawLines(); });
}

// --- all of it ---

function drawPicture() {
  if (!job.state || !job.layout) return;
  drawWaits();
  drawRanksOf();
  drawGrid();
  drawCause();
  drawNodes();
}

function drawClock() {
  const now = performance.now();
  drawHead(now);
  drawNotice(now);
  if (job.state && job.contact) speak(now);
}

const TAKE = {
  layout(data) { job.layout = data; },
  state(data) {
    job.state = data;
    job.stateAt = performance.now();
    drawPicture();
    drawClock();
  },
  contact(data) {
    const wasLost = isLost(), isFirst = !job.contact;
    job.contact = data;
    job.contactAt = performance.now();
    if (isFirst || wasLost !== isLost()) drawPicture();
    drawClock();
  },
  line: addLine,
  timeline: takeTimeline,
};

// --- the stream ---

// EventSource cannot send a header, and the token belongs into no address. So the stream is read by fetch().
const stream = { lastId: null, token: null };
// Those of str_is_control() but tab and newline: with them a line could seem to say something else.
const UNSEEN = /[\0-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

// In the JSON they may be escaped, so this looks at the values.
function readable(_, value) {
  return typeof value === "string" ? value.replace(UNSEEN, "\ufffd") : value;
}

// "EPOCH-NUMBER". A pchrun-web that was started again sends all lines again, in another epoch.
function takeId(id) {
  if (stream.lastId && stream.lastId.split("-")[0] !== id.split("-")[0]) clearLines();
  stream.lastId = id;
}

function takeEvent(block) {
  let name = "message", data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data = line.slice(6);
    else if (line.startsWith("id: ")) takeId(line.slice(4));
  }
  if (Object.hasOwn(TAKE, name)) TAKE[name](JSON.parse(data, readable));
}

async function readStream() {
  const headers = { Accept: "text/event-stream" };
  if (stream.token) headers.Authorization = `Bearer ${stream.token}`;
  if (stream.lastId) headers["Last-Event-ID"] = stream.lastId;
  const stop = new AbortController();
  const watch = setInterval(() => { if (performance.now() - job.heardAt > 2 * SILENT_MS) stop.abort(); }, 1000);
  try {
    const response = await fetch("api/v1/events", { headers, signal: stop.signal, cache: "no-store" });
    if (response.status === 401) return "token";
    if (!response.ok) return "again";
    job.isCut = false;
    show("main", true);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { value, done } = await reader.read();
      if (done) return "again";
      job.heardAt = performance.now();
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      blocks.forEach(takeEvent);
    }
  } finally {
    clearInterval(watch);
  }
}

async function follow() {
  for (;;) {
    const end = await readStream().catch(() => "again");
    if (end === "token") {
      askForToken();
      return;
    }
    job.isCut = job.contact !== null;
    drawClock();
    await new Promise((resolve) => { setTimeout(resolve, 1500); });
  }
}

// --- the token ---

function askForToken() {
  show("token-wrong", stream.token);
  show("token-form", true);
  show("main", false);
  setText("says", "Locked");
  setText("contact-text", "waiting for the token");
  sessionStorage.removeItem("pchrun-token");
  $("token").value = "";
  $("token").focus();
}

function takeToken(token) {
  stream.token = token;
  sessionStorage.setItem("pchrun-token", token);
  show("token-form", false);
  job.heardAt = performance.now();
  follow();
}

// "#token=..." never leaves the browser; the address bar and the history forget it.
function tokenOfAddress() {
  const found = /^#token=([\w.~-]+)$/.exec(window.location.hash);
  if (found) window.history.replaceState(null, "", window.location.pathname);
  return found && found[1];
}

// An address that differs only behind the "#" does not load the page again.
function onAddress() {
  const token = tokenOfAddress();
  if (token && !$("token-form").hidden) takeToken(token);
}

function start() {
  startGrid();
  startTimeline();
  $("kind").addEventListener("change", drawLines);
  $("filter").addEventListener("input", drawLines);
  $("nodes-all").addEventListener("click", () => { showsAllNodes = !showsAllNodes; drawNodes(); });
  $("token-form").addEventListener("submit", (event) => { event.preventDefault(); takeToken($("token").value.trim()); });
  setInterval(() => { if ($("token-form").hidden) drawClock(); }, 500);
  window.addEventListener("hashchange", onAddress);
  const token = tokenOfAddress() || sessionStorage.getItem("pchrun-token");
  if (token) takeToken(token);
  else follow();
}

start();
