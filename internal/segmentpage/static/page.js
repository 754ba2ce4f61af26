// The page of `rlxrun serve`: an image, prompts, and the mask that the server finds for them.

const $ = (id) => document.getElementById(id);
const view = $("view"), context = view.getContext("2d");

let image = null; // ImageBitmap
let id = 0; // of the image on the server, 0 while it is encoded
let name = "mask"; // of the file to save, without its ending
let mode = "point";
let prompts = []; // {kind: "point", x, y, on} and {kind: "box", x0, y0, x1, y1}, in the order in which they were added
let mask = null; // ImageBitmap, opaque inside
let cross = { x: 0, y: 0, shown: false }; // of the keyboard
let corner = null; // the first of a box that is being drawn
let pending = null; // AbortController of the request for a mask

function say(text, bad = false) {
  $("status").textContent = text;
  $("status").classList.toggle("bad", bad);
}

// reason is what a response that is no success says.
async function reason(response) {
  try {
    const { error, code } = await response.json();
    return code ? `${error} (${code})` : error;
  } catch {
    return `the server answered with status ${response.status}`;
  }
}

async function open(file) {
  pending?.abort();
  id = 0;
  prompts = [];
  mask = null;
  corner = null;
  try {
    image = await createImageBitmap(file);
  } catch {
    say(`${file.name ?? "This file"} is not an image that the browser can show.`, true);
    return;
  }
  name = (file.name ?? "image").replace(/\.[^.]*$/, "");
  view.width = image.width;
  view.height = image.height;
  view.hidden = false;
  $("empty").hidden = true;
  cross = { x: image.width >> 1, y: image.height >> 1, shown: false };
  view.classList.add("busy");
  draw();
  say("Encoding the image…");
  const mine = image;
  try {
    const response = await fetch("image", { method: "POST", body: file });
    if (image !== mine) return; // another was opened meanwhile
    if (!response.ok) {
      say(await reason(response), true);
      return;
    }
    const made = await response.json();
    if (made.width !== image.width || made.height !== image.height) {
      say(`The browser shows ${image.width} by ${image.height} pixels, and the model got ${made.width} by ${made.height}.`, true);
      return;
    }
    id = made.id;
    offer(made.masks);
    say(`Ready after ${made.seconds.toFixed(1)} s. Click on what you mean.`);
    view.focus();
    if (prompts.length) find();
  } catch {
    say("The server does not answer. Is rlxrun still running?", true);
  } finally {
    if (image === mine) view.classList.remove("busy");
  }
}

// offer lists the masks that the model gives.
function offer(count) {
  const list = $("which");
  if (list.options.length === count + 1) return;
  list.replaceChildren(new Option("best", "best"), ...Array.from({ length: count }, (_, k) => new Option(`number ${k}`, k)));
}

function request(save) {
  const box = prompts.findLast((p) => p.kind === "box");
  return JSON.stringify({
    id,
    points: prompts.filter((p) => p.kind === "point").map((p) => [p.x, p.y, p.on ? 1 : 0]),
    box: box ? [box.x0, box.y0, box.x1, box.y1] : [],
    mask: $("which").value,
    save,
  });
}

// find asks for the mask of the prompts. A newer request ends an older one.
async function find() {
  pending?.abort();
  draw();
  if (!id) return;
  if (!prompts.length) {
    mask = null;
    draw();
    say("Click on what you mean.");
    return;
  }
  const mine = (pending = new AbortController());
  try {
    const response = await fetch("mask", { method: "POST", body: request(false), signal: mine.signal });
    if (!response.ok) {
      say(await reason(response), true);
      return;
    }
    const found = await createImageBitmap(await response.blob());
    if (pending !== mine) return;
    mask = found;
    const quality = Number(response.headers.get("Mask-Quality"));
    say(`Mask ${response.headers.get("Mask-Number")}, predicted quality ${quality.toFixed(3)}, ${response.headers.get("Mask-Milliseconds")} ms.`);
    draw();
  } catch (e) {
    if (e.name !== "AbortError") say("The server does not answer. Is rlxrun still running?", true);
  }
}

function draw() {
  for (const b of [$("undo"), $("clear")]) b.disabled = !prompts.length && !corner;
  $("save").disabled = !mask;
  if (!image) return;
  context.clearRect(0, 0, view.width, view.height);
  context.drawImage(image, 0, 0);
  if (mask) {
    const tint = new OffscreenCanvas(view.width, view.height), c = tint.getContext("2d");
    c.drawImage(mask, 0, 0);
    c.globalCompositeOperation = "source-in";
    c.fillStyle = "#2f7df6";
    c.fillRect(0, 0, view.width, view.height);
    context.globalAlpha = 0.5;
    context.drawImage(tint, 0, 0);
    context.globalAlpha = 1;
  }
  const unit = view.width / (view.clientWidth || view.width); // pixels of the image in one of the screen
  const boxes = prompts.filter((p) => p.kind === "box").slice(-1);
  if (corner) boxes.push({ x0: corner.x, y0: corner.y, x1: cross.x, y1: cross.y });
  for (const b of boxes) {
    for (const [width, colour] of [[4, "#fff"], [2, "#2f7df6"]]) {
      context.lineWidth = width * unit;
      context.strokeStyle = colour;
      context.strokeRect(b.x0, b.y0, b.x1 - b.x0, b.y1 - b.y0);
    }
  }
  for (const p of prompts.filter((p) => p.kind === "point")) {
    context.beginPath();
    context.arc(p.x, p.y, 6 * unit, 0, 2 * Math.PI);
    context.fillStyle = p.on ? "#1fae5b" : "#e5484d";
    context.fill();
    context.lineWidth = 2 * unit;
    context.strokeStyle = "#fff";
    context.stroke();
    context.beginPath(); // a plus or a minus, so that colour is not all that tells them apart
    context.moveTo(p.x - 3 * unit, p.y);
    context.lineTo(p.x + 3 * unit, p.y);
    if (p.on) {
      context.moveTo(p.x, p.y - 3 * unit);
      context.lineTo(p.x, p.y + 3 * unit);
    }
    context.stroke();
  }
  if (cross.shown) {
    context.lineWidth = unit;
    context.strokeStyle = "#fff";
    context.globalCompositeOperation = "difference";
    context.beginPath();
    context.moveTo(cross.x, cross.y - 14 * unit);
    context.lineTo(cross.x, cross.y + 14 * unit);
    context.moveTo(cross.x - 14 * unit, cross.y);
    context.lineTo(cross.x + 14 * unit, cross.y);
    context.stroke();
    context.globalCompositeOperation = "source-over";
  }
}

// at is the pixel of the image under the pointer.
function at(event) {
  const r = view.getBoundingClientRect();
  const clamp = (v, most) => Math.min(Math.max(Math.floor(v), 0), most - 1);
  return { x: clamp(((event.clientX - r.left) / r.width) * view.width, view.width), y: clamp(((event.clientY - r.top) / r.height) * view.height, view.height) };
}

function addPoint(x, y, on) {
  prompts.push({ kind: "point", x, y, on });
  find();
}

// addBox adds a box between two corners, or nothing if it is empty.
function addBox(a, b) {
  corner = null;
  if (a.x !== b.x && a.y !== b.y) prompts.push({ kind: "box", x0: Math.min(a.x, b.x), y0: Math.min(a.y, b.y), x1: Math.max(a.x, b.x), y1: Math.max(a.y, b.y) });
  find();
}

function undo() {
  if (corner) corner = null;
  else prompts.pop();
  find();
}

function clear() {
  corner = null;
  prompts = [];
  find();
}

async function save() {
  if (!mask) return;
  try {
    const response = await fetch("mask", { method: "POST", body: request(true) });
    if (!response.ok) {
      say(await reason(response), true);
      return;
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await response.blob());
    link.download = `${name}-mask.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    say(`Saved ${link.download}.`);
  } catch {
    say("The server does not answer. Is rlxrun still running?", true);
  }
}

function choose(to) {
  mode = to;
  corner = null;
  for (const m of ["point", "not", "box"]) {
    $(`mode-${m}`).setAttribute("aria-checked", String(m === to));
    $(`mode-${m}`).tabIndex = m === to ? 0 : -1;
  }
  draw();
}

view.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  view.setPointerCapture(event.pointerId);
  cross = { ...at(event), shown: false };
  corner = at(event);
});
view.addEventListener("pointermove", (event) => {
  if (!corner || !view.hasPointerCapture(event.pointerId)) return;
  cross = { ...at(event), shown: false };
  draw();
});
view.addEventListener("pointerup", (event) => {
  if (event.button !== 0 || !corner) return;
  const from = corner, to = at(event);
  const unit = view.width / view.clientWidth;
  const dragged = Math.hypot(to.x - from.x, to.y - from.y) > 5 * unit;
  if (dragged || mode === "box") {
    addBox(from, to);
  } else {
    corner = null;
    addPoint(to.x, to.y, mode === "point" && !event.altKey);
  }
});
view.addEventListener("pointercancel", () => {
  corner = null;
  draw();
});
view.addEventListener("contextmenu", (event) => {
  event.preventDefault();
  const p = at(event);
  addPoint(p.x, p.y, false);
});
view.addEventListener("keydown", (event) => {
  const step = event.shiftKey ? 10 : 1;
  const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
  if (event.key in moves) {
    const [dx, dy] = moves[event.key];
    cross = { x: Math.min(Math.max(cross.x + dx, 0), view.width - 1), y: Math.min(Math.max(cross.y + dy, 0), view.height - 1), shown: true };
    draw();
    say(`${cross.x}, ${cross.y}`);
  } else if (event.key === "Enter" || event.key === " ") {
    cross.shown = true;
    if (mode !== "box") addPoint(cross.x, cross.y, mode === "point");
    else if (corner) addBox(corner, cross);
    else {
      corner = { x: cross.x, y: cross.y };
      say("One corner of the box; move to the other and press Enter.");
      draw();
    }
  } else return;
  event.preventDefault();
});

addEventListener("keydown", (event) => {
  if (event.target.matches("select, input")) return;
  if (event.key === "Escape") return clear();
  if (event.key === "Backspace" || ((event.ctrlKey || event.metaKey) && event.key === "z")) {
    event.preventDefault();
    return undo();
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const does = { o: () => $("file").click(), p: () => choose("point"), n: () => choose("not"), b: () => choose("box"), s: save }[event.key.toLowerCase()];
  does?.();
});
for (const m of ["point", "not", "box"]) $(`mode-${m}`).addEventListener("click", () => choose(m));
document.querySelector("[role=radiogroup]").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const modes = ["point", "not", "box"];
  choose(modes[(modes.indexOf(mode) + step + 3) % 3]);
  $(`mode-${mode}`).focus();
});
$("open").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => $("file").files[0] && open($("file").files[0]));
$("undo").addEventListener("click", undo);
$("clear").addEventListener("click", clear);
$("save").addEventListener("click", save);
$("which").addEventListener("change", find);
addEventListener("resize", draw);

const drop = $("drop");
drop.addEventListener("dragover", (event) => {
  event.preventDefault();
  drop.classList.add("over");
});
drop.addEventListener("dragleave", () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  if (event.dataTransfer.files[0]) open(event.dataTransfer.files[0]);
});

choose("point");
offer(0);
const first = await fetch("first");
if (first.status === 200) await open(await first.blob());
