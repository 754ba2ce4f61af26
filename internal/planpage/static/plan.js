
"use strict";
const { title, programs } = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const make = (name, props = {}, ...children) => {
  const e = Object.assign(document.createElement(name), props);
  e.append(...children);
  return e;
};
const probe = document.body.appendChild(make("i", { hidden: true }));
const css = (name) => { // a colour of the page as a canvas takes it
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
};
const dark = matchMedia("(prefers-color-scheme: dark)");

// bytes and count format numbers: 1.2 MB, 3.4 G.
const scaled = (v, units) => {
  let i = 0;
  while (Math.abs(v) >= 1000 && i < units.length - 1) [v, i] = [v / 1000, i + 1];
  return `${v < 10 && i ? v.toFixed(1) : Math.round(v)} ${units[i]}`.trim();
};
const bytes = (v) => scaled(v, ["B", "kB", "MB", "GB", "TB"]);
const count = (v) => scaled(v, ["", "k", "M", "G", "T"]);
const time = (s) => (s >= 1e-3 ? `${(s * 1e3).toFixed(2)} ms` : `${(s * 1e6).toFixed(1)} µs`);

let view = "memory", search = "", side = false, sort = { key: null, down: true };
const panes = []; // {program, at, element, body}; at is the selected step or -1

// matches reports whether a step or span fits the search.
const matches = (x) => !search || `${x.op ?? ""} ${x.name} ${x.type}`.toLowerCase().includes(search);

// colour of a name, so that the same value has the same one in every program.
function colour(name) {
  let h = 2166136261;
  for (let i = 0; i < name.length; i++) h = Math.imul(h ^ name.charCodeAt(i), 16777619) >>> 0;
  return `hsl(${h % 360} 55% ${dark.matches ? 45 : 68}%)`;
}

function addPane(index) {
  const pick = make("select", { ariaLabel: "Program" }), body = make("div", { className: "body" });
  programs.forEach((p, value) => {
    pick.append(make("option", { value, textContent: p.label + (p.runs ? " (measured)" : "") }));
  });
  const about = make("span", { className: "faint" }), element = make("section", { className: "pane" });
  element.append(make("div", { className: "top" }, pick, about), body);
  const pane = { program: programs[index], at: -1, element, body, about, pick };
  pick.value = index;
  pick.addEventListener("change", () => {
    [pane.program, pane.at] = [programs[pick.value], -1];
    draw();
  });
  panes.push(pane);
  $("panes").append(element);
  new ResizeObserver(() => ["memory", "roofline"].includes(view) && paint(pane)).observe(body);
}

function draw() {
  for (const tab of document.querySelectorAll("[role=tab]")) {
    tab.setAttribute("aria-selected", tab.dataset.view === view);
  }
  if (side && panes.length < 2) {
    const method = panes[0].program.method;
    const other = programs.findIndex((p) => p !== panes[0].program && p.method === method);
    addPane(other >= 0 ? other : Math.min(1, programs.length - 1));
  }
  if (!side && panes.length > 1) panes.pop().element.remove();
  for (const pane of panes) {
    const p = pane.program, total = p.steps.reduce((sum, s) => sum + (s.s ?? 0), 0);
    pane.about.textContent = `${p.steps.length} steps, ${count(sumOf(p, "flops"))}FLOP, arena ${bytes(p.arena)}, ` +
      `peak ${bytes(p.peak)}, ${bytes(p.naive)} without reuse` + (p.runs ? `, ${time(total)} on ${p.device}` : "");
    pane.body.replaceChildren();
    if (view === "steps") steps(pane);
    else if (view === "layers") layers(pane);
    else pane.body.append(canvasFor(pane));
    paint(pane);
  }
  say();
}

const sumOf = (p, key) => p.steps.reduce((sum, s) => sum + (s[key] ?? 0), 0);

const costOf = (s) => `${count(s.flops)}FLOP, ${bytes(s.bytes)}`;

// say describes the selected step, or what the search found.
function say() {
  const pane = panes.find((p) => p.at >= 0);
  if (pane) {
    const s = pane.program.steps[pane.at];
    const live = pane.program.spans.filter((x) => x.first <= pane.at && pane.at <= x.last);
    $("status").textContent = `step ${pane.at + 1}: ${s.op} ${s.name}, ${s.type}, ${costOf(s)}` +
      (s.s ? `, ${time(s.s)}` : "") + (s.reference ? ", by the reference" : "") +
      `; ${live.length} values alive, ${bytes(live.reduce((sum, x) => sum + x.size, 0))}`;
  } else if (search) {
    const found = ({ program: { steps } }) => `${steps.filter(matches).length} of ${steps.length} steps`;
    $("status").textContent = panes.map(found).join("; ");
  } else $("status").textContent = "";
}

function select(pane, at) {
  pane.at = Math.min(Math.max(at, -1), pane.program.steps.length - 1);
  if (view === "steps") {
    pane.body.querySelector(".at")?.classList.remove("at");
    const row = pane.body.querySelector(`[data-step="${pane.at}"]`);
    row?.classList.add("at");
    row?.scrollIntoView({ block: "nearest" });
  }
  paint(pane);
  say();
}

// Steps and layers, as tables

function table(pane, columns, rows, click) {
  const head = make("tr"), most = Math.max(...rows.map((r) => r.weight), 1e-12), body = make("tbody");
  for (const c of columns) {
    const arrow = sort.key !== c.name ? "" : sort.down ? " ↓" : " ↑";
    const th = make("th", { textContent: c.name + arrow, className: c.number ? "n" : "" });
    th.addEventListener("click", () => {
      sort = { key: c.name, down: sort.key === c.name ? !sort.down : true };
      draw();
    });
    head.append(th);
  }
  const by = columns.find((c) => c.name === sort.key);
  const order = (a, b) => (a < b ? 1 : a > b ? -1 : 0) * (sort.down ? 1 : -1);
  if (by) rows = [...rows].sort((a, b) => order(by.value(a), by.value(b)));
  for (const row of rows.slice(0, 3000)) {
    const tr = make("tr");
    if (row.step !== undefined) tr.dataset.step = row.step;
    if (row.step === pane.at) tr.className = "at";
    for (const c of columns) {
      const text = String(c.text ? c.text(row) : c.value(row));
      const td = make("td", { className: c.number ? "n" : "", title: text });
      if (c.bar) td.append(make("span", { className: "bar" }));
      else td.textContent = text;
      if (c.bar) td.firstChild.style.width = `${(90 * row.weight) / most}px`;
      if (c.slow?.(row)) td.classList.add("slow");
      tr.append(td);
    }
    tr.addEventListener("click", () => click(row));
    body.append(tr);
  }
  pane.body.append(make("table", {}, make("thead", {}, head), body));
  const more = rows.length - 3000;
  if (more > 0) pane.body.append(make("p", { className: "faint", textContent: `${more} more: search to see them` }));
}

// rate is x[key] in billions per second; 0 if x was not measured.
const rate = (x, key) => (x.s ? x[key] / x.s / 1e9 : 0);
const rateText = (x, key) => (x.s ? rate(x, key).toFixed(1) : "");

// cost columns, for steps and layers: x has flops, bytes and s.
const cost = (measured) => [
  { name: "FLOP", number: true, value: (x) => x.flops, text: (x) => count(x.flops) },
  { name: "bytes", number: true, value: (x) => x.bytes, text: (x) => bytes(x.bytes) },
  ...(measured ? [
    { name: "time", number: true, value: (x) => x.s ?? 0, text: (x) => (x.s ? time(x.s) : "") },
    { name: "GFLOP/s", number: true, value: (x) => rate(x, "flops"), text: (x) => rateText(x, "flops") },
    { name: "GB/s", number: true, value: (x) => rate(x, "bytes"), text: (x) => rateText(x, "bytes") },
  ] : []),
  { name: "share", bar: true, value: (x) => x.weight },
];

function steps(pane) {
  const { program } = pane, weight = (s) => (program.runs ? s.s ?? 0 : s.flops);
  const rows = program.steps.map((s, step) => ({ ...s, step, weight: weight(s) })).filter(matches);
  table(pane, [
    { name: "#", number: true, value: (r) => -r.step, text: (r) => r.step + 1 },
    { name: "op", value: (r) => r.op },
    { name: "name", value: (r) => r.name },
    { name: "type", value: (r) => r.type },
    { name: "kernel", value: (r) => (r.reference ? "reference" : "native"), slow: (r) => r.reference },
    ...cost(program.runs),
  ], rows, (r) => select(pane, r.step));
}

// layers groups steps by the beginning of their names: a.b.0.c belongs to a.b.0. A layer reads others.
function layers(pane) {
  const { program } = pane, above = (name) => name.split(".").slice(0, -1).join(".") || name;
  const of = (name) => (name.startsWith("%") ? "(unnamed)" : above(name));
  const all = new Map(), layerOf = program.steps.map((s) => of(s.name));
  program.steps.forEach((s, i) => {
    const name = layerOf[i];
    const none = { name, type: "", op: "", n: 0, flops: 0, bytes: 0, s: 0, first: i, reads: new Set(), ops: new Map() };
    const l = all.get(name) ?? none;
    all.set(name, l);
    [l.n, l.flops, l.bytes, l.s] = [l.n + 1, l.flops + s.flops, l.bytes + s.bytes, l.s + (s.s ?? 0)];
    l.ops.set(s.op, (l.ops.get(s.op) ?? 0) + 1);
    for (const r of s.reads) if (layerOf[r] !== name) l.reads.add(layerOf[r]);
  });
  const rows = [...all.values()].map((l) => ({ ...l, weight: program.runs ? l.s : l.flops,
    op: [...l.ops].map(([op, n]) => (n > 1 ? `${op} ×${n}` : op)).join(", ") })).filter(matches);
  table(pane, [
    { name: "layer", value: (r) => r.name },
    { name: "steps", number: true, value: (r) => r.n },
    { name: "ops", value: (r) => r.op },
    { name: "reads", value: (r) => [...r.reads].join(", ") },
    ...cost(program.runs),
  ], rows, (r) => {
    view = "steps";
    $("search").value = search = r.name === "(unnamed)" ? "%" : r.name.toLowerCase();
    draw();
    select(pane, r.first);
  });
}

// Memory and roofline, as pictures

function canvasFor(pane) {
  const canvas = make("canvas", { tabIndex: 0 });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", view === "memory" ? "Memory over the steps" : "Roofline");
  const near = (event) => {
    const r = canvas.getBoundingClientRect();
    return pane.hit?.(event.clientX - r.left, event.clientY - r.top) ?? { at: -1, text: "" };
  };
  canvas.addEventListener("pointermove", (event) => { canvas.title = near(event).text; });
  canvas.addEventListener("click", (event) => select(pane, near(event).at));
  return canvas;
}

function paint(pane) {
  const canvas = pane.body.querySelector("canvas");
  if (!canvas) return;
  const w = canvas.clientWidth, h = canvas.clientHeight;
  if (!w || !h) return;
  [canvas.width, canvas.height] = [w * devicePixelRatio, h * devicePixelRatio];
  const c = canvas.getContext("2d");
  c.scale(devicePixelRatio, devicePixelRatio);
  c.font = "12px system-ui, sans-serif";
  (view === "memory" ? memory : roofline)(pane, c, w, h);
}

// memory has a column per step. Above, the bytes that are alive; below, each value at its place in the arena.
function memory(pane, c, w, h) {
  const { program, at } = pane, n = Math.max(program.steps.length, 1), left = 62, curve = Math.min(90, h / 4);
  const x = (step) => left + (step / n) * (w - left - 8), top = curve + 24, floor = h - 22;
  const y = (off) => top + (off / Math.max(program.arena, 1)) * (floor - top);
  const live = new Float64Array(n + 1);
  for (const s of program.spans) for (let i = s.first; i <= s.last; i++) live[i] += s.size;
  c.fillStyle = css("--field");
  c.fillRect(left, top, w - left - 8, floor - top);
  c.fillStyle = css("--faint");
  c.textAlign = "right";
  for (let i = 0; i <= 4; i++) c.fillText(bytes((program.arena * i) / 4), left - 6, y((program.arena * i) / 4) + 4);
  c.fillText(bytes(program.peak), left - 6, 16);
  c.textAlign = "center";
  for (let i = 0; i <= 4; i++) c.fillText(String(Math.round((n * i) / 4)), Math.min(x((n * i) / 4), w - 16), h - 6);
  c.beginPath();
  c.moveTo(x(0), curve + 8);
  for (let i = 0; i < n; i++) {
    const level = 8 + curve * (1 - live[i] / Math.max(program.peak, 1));
    c.lineTo(x(i), level);
    c.lineTo(x(i + 1), level);
  }
  c.lineTo(x(n), curve + 8);
  c.fillStyle = css("--main");
  c.globalAlpha = 0.35;
  c.fill();
  for (const s of program.spans) {
    const now = at < 0 || (s.first <= at && at <= s.last);
    c.globalAlpha = matches(s) && now ? 1 : 0.15;
    c.fillStyle = colour(s.name);
    const width = Math.max(x(s.last + 1) - x(s.first), 0.7), height = Math.max(y(s.offset + s.size) - y(s.offset), 0.7);
    c.fillRect(x(s.first), y(s.offset), width, height);
    if (height > 14 && width > 7 * (s.name.length + 1)) {
      c.fillStyle = dark.matches ? "#fff" : "#000";
      c.textAlign = "left";
      c.fillText(s.name, x(s.first) + 4, y(s.offset) + 12);
    }
  }
  c.globalAlpha = 1;
  if (at >= 0) {
    c.strokeStyle = css("--hot");
    c.strokeRect(x(at), 6, Math.max(x(at + 1) - x(at), 1), floor - 6);
  }
  pane.hit = (px, py) => {
    const step = Math.floor(((px - left) / (w - left - 8)) * n);
    if (step < 0 || step >= n) return { at: -1, text: "" };
    const off = ((py - top) / (floor - top)) * program.arena;
    const covers = (s) => s.first <= step && step <= s.last && s.offset <= off && off < s.offset + s.size;
    const s = program.spans.find(covers);
    const t = program.steps[step];
    return { at: step, text: `step ${step + 1}: ${t?.op} ${t?.name}; ${bytes(live[step])} alive` +
      (s ? `\n${s.name} ${s.type}, ${bytes(s.size)} at ${s.offset}, steps ${s.first + 1} to ${s.last + 1}` : "") };
  };
}

// roofline shows steps by FLOP per byte, and FLOP/s if they were measured. The lines are the best that steps of this
// run reached, not what the device promises.
function roofline(pane, c, w, h) {
  const { program, at } = pane, left = 62, floor = h - 40, top = 14;
  const speedOf = (s) => (program.runs ? s.flops / s.s : s.flops);
  const points = program.steps.map((s, i) => ({ i, s, x: s.flops / s.bytes, y: speedOf(s) }))
    .filter((p) => p.x > 0 && p.y > 0 && Number.isFinite(p.x + p.y));
  c.fillStyle = css("--faint");
  c.textAlign = "left";
  if (!points.length) return c.fillText("No step has arithmetic.", 20, 30);
  const lo = (key) => Math.log10(Math.min(...points.map((p) => p[key]))) - 0.2;
  const hi = (key) => Math.log10(Math.max(...points.map((p) => p[key]))) + 0.3;
  const [x0, x1, y0, y1] = [lo("x"), hi("x"), lo("y"), hi("y")];
  const px = (v) => left + ((Math.log10(v) - x0) / (x1 - x0)) * (w - left - 14);
  const py = (v) => floor - ((Math.log10(v) - y0) / (y1 - y0)) * (floor - top);
  c.strokeStyle = css("--line");
  for (let e = Math.ceil(x0); e <= x1; e++) {
    c.textAlign = "center";
    c.fillText(10 ** e, px(10 ** e), h - 22);
    line([px(10 ** e), top], [px(10 ** e), floor]);
  }
  for (let e = Math.ceil(y0); e <= y1; e++) {
    c.textAlign = "right";
    c.fillText(count(10 ** e), left - 6, py(10 ** e) + 4);
    line([left, py(10 ** e)], [w - 14, py(10 ** e)]);
  }
  c.textAlign = "center";
  const up = program.runs ? "FLOP/s. The size is the time" : "FLOP. rlxrun --profile -o plan=FILE.html measures times";
  c.fillText(`FLOP per byte; up: ${up}`, w / 2, h - 6);
  function line(a, b) {
    c.beginPath();
    c.moveTo(...a);
    c.lineTo(...b);
    c.stroke();
  }
  if (program.runs) {
    const best = Math.max(...points.map((p) => p.y));
    const speed = Math.max(...program.steps.filter((s) => s.s > 0).map((s) => s.bytes / s.s));
    c.strokeStyle = css("--hot");
    c.setLineDash([6, 4]);
    const ridge = best / speed, from = Math.max(10 ** x0, 10 ** y0 / speed);
    if (ridge > from) line([px(from), py(from * speed)], [px(ridge), py(best)]);
    line([px(Math.max(ridge, 10 ** x0)), py(best)], [w - 14, py(best)]);
    c.setLineDash([]);
    c.fillStyle = css("--hot");
    c.textAlign = "right";
    c.fillText(`best of this run: ${count(best)}FLOP/s, ${bytes(speed)}/s`, w - 18, Math.max(py(best) - 6, 12));
  }
  const total = Math.max(sumOf(program, "s"), 1e-12);
  const size = (p) => (program.runs ? 3 + 22 * Math.sqrt(p.s.s / total) : 4);
  for (const p of points) {
    c.globalAlpha = matches(p.s) ? 0.65 : 0.12;
    c.fillStyle = colour(p.s.op);
    c.beginPath();
    c.arc(px(p.x), py(p.y), size(p), 0, 7);
    c.fill();
    if (p.i === at) {
      c.globalAlpha = 1;
      c.strokeStyle = css("--ink");
      c.lineWidth = 2;
      c.stroke();
      c.lineWidth = 1;
    }
  }
  c.globalAlpha = 1;
  pane.hit = (mx, my) => {
    let best = null, near = 20;
    for (const p of points) {
      const d = Math.hypot(px(p.x) - mx, py(p.y) - my);
      if (d < near) [best, near] = [p, d];
    }
    if (!best) return { at: -1, text: "" };
    const { s } = best;
    const took = s.s ? `, ${time(s.s)}` : "";
    return { at: best.i, text: `${s.op} ${s.name}\n${s.type}\n${costOf(s)}${took}` };
  };
}

for (const tab of document.querySelectorAll("[role=tab]")) tab.addEventListener("click", () => show(tab.dataset.view));
function show(name) {
  view = name;
  draw();
}
$("search").addEventListener("input", (event) => {
  search = event.target.value.trim().toLowerCase();
  draw();
});
$("side").addEventListener("change", (event) => {
  side = event.target.checked;
  draw();
});
addEventListener("keydown", (event) => {
  const { key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (key === "Escape") {
    $("search").value = search = "";
    for (const p of panes) p.at = -1;
    document.activeElement?.blur();
    return draw();
  }
  if (event.target.matches?.("input[type=search], select")) return;
  if (key === "/") {
    event.preventDefault();
    return $("search").focus();
  }
  if (key >= "1" && key <= "4") return show(["memory", "steps", "layers", "roofline"][key - 1]);
  if (key.toLowerCase() === "b" && programs.length > 1) return $("side").click();
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[key];
  if (!by || (view !== "steps" && (key === "ArrowUp" || key === "ArrowDown"))) return;
  event.preventDefault();
  for (const p of panes) select(p, p.at < 0 ? (by > 0 ? 0 : p.program.steps.length - 1) : Math.max(p.at + by, 0));
});
dark.addEventListener("change", draw);

document.title = `Plan of ${title}`;
$("title").textContent = title;
$("two").hidden = programs.length < 2;
addPane(0);
draw();
