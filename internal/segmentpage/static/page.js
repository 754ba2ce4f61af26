// The page of `rlxrun serve`: opens images, collects the prompts of objects, and shows and saves the masks that the
// server finds.

import { mean, pick, plain } from "./colours.js";
import { List } from "./list.js";
import { fill, outline } from "./outline.js";
import * as server from "./server.js";
import { View } from "./view.js";

const $ = (id) => document.getElementById(id);
const canvas = $("view"), stage = $("stage"), view = new View(canvas, stage);

// An object is {id, name, colour, points: [[x, y, 1|0]], box: [x0, y0, x1, y1] or null, chosen: "best" or the number of
// a mask, found: the server's answer with its path, or null}. A change makes a new object with the same id, so that the
// states in past stay as they were; only found and colour are set later, when the answer comes.
const none = Object.freeze({ objects: [], current: null }); // current is the id of the object that a click changes

let about; // the server's first answer
let picture = null; // {number, width, height} of the image on the server
let pixels = null; // ImageData of the image
let name = "image"; // of the file, without the extension
let fileName = "";
let opening = null; // AbortController while an image is being opened
let looking = null; // AbortController while all objects are looked for
let state = none;
let past = []; // states before, for undo
let made = 0; // objects so far, for their ids
let chosen = "best"; // for new objects
let asked = 0; // number of the latest request for a mask
let corner = null; // start of the box that is being drawn: {x, y, drag}
let cross = { x: 0, y: 0 };

const current = () => state.objects.find((o) => o.id === state.current) ?? null;
const empty = (object) => !object?.points.length && !object?.box;
const tool = () => document.querySelector("[name=tool]:checked").value;

// become changes the state, so that undo can change it back.
function become(next) {
  past.push(state);
  state = { ...state, ...next };
}

// changed returns the objects with another one in place of that with the same id.
const changed = (object) => state.objects.map((o) => (o.id === object.id ? object : o));

function say(text, bad = false) {
  $("status").textContent = text;
  $("status").classList.toggle("bad", bad);
}

// fail shows an error, unless it is about something that was replaced meanwhile.
function fail(error) {
  if (error.name === "AbortError" || error.status === 409) return;
  console.error(error);
  say(error.code ? `${error.message} (${error.code})` : error.message, true);
}

function busy(text) {
  stage.setAttribute("aria-busy", String(Boolean(text)));
  $("busy").hidden = !text;
  $("busy-text").textContent = text;
}

// Opening images

// open shows an image file, or an image that the server already has; then file has only a name.
async function open(file, there = null) {
  opening?.abort();
  looking?.abort();
  const { signal } = (opening = new AbortController());
  const before = picture;
  busy("Reading the image…");
  say("Reading the image…");
  try {
    if (file.size > about.max_file) {
      const [has, may] = [file.size, about.max_file].map((bytes) => Math.ceil(bytes / 2 ** 20));
      throw new server.Failure(`The file has ${has} MB; allowed are ${may}.`);
    }
    const next = there ?? (await server.open(file, signal));
    const data = await server.pixels(next, signal);
    const image = await createImageBitmap(data);
    if (signal.aborted) return;
    if (before) server.close(before);
    [picture, pixels, fileName] = [next, data, file.name];
    asked++; // drops answers about the previous image
    name = file.name.replace(/\.[^.]*$/, "");
    $("name").textContent = `${file.name}, ${next.width} × ${next.height}`;
    $("empty").hidden = true;
    $("zoom").hidden = false;
    [state, past, chosen] = [none, [], "best"];
    [corner, cross] = [null, { x: next.width >> 1, y: next.height >> 1 }];
    [view.cross, view.preview] = [null, null];
    view.show(image);
    refresh();
    busy("Encoding the image…");
    say("Encoding the image. This is done once.");
    const { seconds } = await server.encode(next, signal);
    if (signal.aborted) return;
    say(`Ready after ${seconds.toFixed(1)} s. Click on an object, or drag a box around it.`);
    canvas.focus({ preventScroll: true, focusVisible: false }); // the focus ring appears with the first key
  } catch (error) {
    if (!signal.aborted) fail(error);
  } finally {
    if (!signal.aborted) busy("");
  }
}

// Masks

// ask changes the prompts of the current object, or makes one, and finds its mask.
function ask(change) {
  view.preview = null;
  const now = current();
  if (now) become({ objects: changed({ ...now, ...change, found: null }) });
  else {
    const id = ++made, object = { id, name: `Object ${id}`, colour: "", points: [], box: null, chosen, found: null };
    object.colour = pick([128, 128, 128], state.objects.map((o) => o.colour));
    become({ objects: [...state.objects, { ...object, ...change }], current: id });
  }
  find();
}

// finish adds to an answer what the page needs of it, and gives the object a colour that can be seen on it.
function finish(object, answer) {
  const { width, height } = picture;
  answer.path = outline(fill(answer.runs, width, height), width, height);
  const under = mean(answer.runs, pixels.data);
  const first = !object.coloured;
  if (first || plain(object.colour, under)) {
    object.colour = pick(under, state.objects.filter((o) => o.id !== object.id).map((o) => o.colour));
    object.coloured = true;
  }
  object.found = answer;
}

// find requests the mask for the prompts of the current object. It ignores answers that arrive after a newer request.
async function find() {
  const mine = ++asked, begun = performance.now(), object = current();
  refresh();
  if (!picture) return;
  if (empty(object)) {
    if (object) object.found = null;
    refresh();
    say("Click on an object, or drag a box around it.");
    return;
  }
  try {
    const { points, box } = object, answer = await server.find(picture, { points, box }, object.chosen);
    if (mine !== asked) return;
    const now = state.objects.find((o) => o.id === object.id); // it may have another name by now
    if (!now) return;
    finish(now, answer);
    await refresh();
    performance.measure("click to mask", { start: begun, end: performance.now(), detail: answer.seconds });
    const share = (100 * answer.pixels) / (picture.width * picture.height);
    say(`Mask ${answer.mask}, predicted quality ${rounded(answer.quality[answer.mask])}, ${share.toFixed(share < 10 ? 1 : 0)} % of the image, ${Math.round(performance.now() - begun)} ms`);
  } catch (error) {
    if (mine !== asked) return;
    object.found = null;
    refresh();
    fail(error);
  }
}

// rounded shows a predicted quality. It stands for an IoU, which is from 0 to 1; the model may predict more or less.
const rounded = (quality) => (quality == null ? "not a number" : Math.min(Math.max(quality, 0), 1).toFixed(2));

// refresh redraws everything from the variables above. It resolves when the canvas is drawn.
function refresh() {
  const object = current(), found = object?.found;
  $("undo").disabled = !past.length && !corner;
  $("clear").disabled = empty(object) && !corner;
  $("new").disabled = empty(object);
  $("everything").disabled = !picture;
  $("save-mask").disabled = $("save-cutout").disabled = !found;
  $("save-all").disabled = !state.objects.some((o) => !empty(o));
  for (const card of document.querySelectorAll(".mask")) {
    const n = Number(card.dataset.mask), quality = found?.quality[n];
    card.classList.toggle("shown", found?.mask === n);
    card.querySelector("output").textContent = found && quality !== undefined ? rounded(quality) : "";
    card.querySelector(".bar i").style.width = `${100 * Math.min(Math.max(quality ?? 0, 0), 1)}%`;
  }
  const choice = object?.chosen ?? chosen;
  for (const input of document.querySelectorAll("[name=mask]")) input.checked = input.value === choice;
  list.show(state.objects, state.current, (o) => (o.found ? rounded(o.found.quality[o.found.mask]) : ""));
  view.layers = state.objects.filter((o) => o.found && o !== object).concat(found ? [object] : [])
    .map((o) => ({ path: o.found.path, colour: o.colour, strong: o === object }));
  view.points = object?.points ?? [];
  view.box = corner ? between(corner, cross) : object?.box;
  return view.draw();
}

// Several objects

const list = new List($("objects"), {
  pick(id) {
    if (state.current === id) return;
    state = { ...state, current: id }; // not a change, so undo passes over it
    find();
  },
  rename(id, title) {
    const object = state.objects.find((o) => o.id === id);
    if (title && object && title !== object.name) become({ objects: changed({ ...object, name: title }) });
    refresh();
  },
  remove(id) {
    become({ objects: state.objects.filter((o) => o.id !== id), current: state.current === id ? null : state.current });
    find();
  },
});

// begin lets the next click begin another object.
function begin() {
  if (empty(current())) return;
  asked++; // an answer that is on its way still belongs to the old object
  become({ current: null });
  refresh();
  say("Click on another object.");
}

// everything finds all objects and adds those to the list.
async function everything() {
  if (!picture || looking) return;
  const { signal } = (looking = new AbortController());
  busy("Finding all objects… Esc stops");
  say(`Finding all objects, from ${about.grid} × ${about.grid} points.`);
  try {
    const { regions, dropped } = await server.everything(picture, signal);
    if (signal.aborted) return;
    const found = regions.map(({ point: [x, y], ...answer }) => {
      const id = ++made;
      return [{ id, name: `Object ${id}`, colour: "", points: [[x, y, 1]], box: null, chosen: String(answer.mask),
        found: null }, answer];
    });
    if (found.length) become({ objects: state.objects.filter((o) => !empty(o)), current: null });
    for (const [object, answer] of found) {
      state.objects = [...state.objects, object];
      finish(object, answer);
    }
    asked++;
    refresh();
    const few = found.length ? "" : ` ${dropped.poor} masks were poor and ${dropped.unstable} unstable; click on one.`;
    say(`${found.length} object${found.length === 1 ? "" : "s"}.${few}`);
  } catch (error) {
    if (!signal.aborted) fail(error);
    else say("Stopped.");
  } finally {
    looking = null;
    busy("");
  }
}

// The mask under the pointer. At most one request is on its way; then comes the latest position.
let hover = null, hovering = false;

async function preview() {
  while (hover && !hovering) {
    const { x, y } = hover, object = current(), on = tool() === "off" ? 0 : 1;
    hover = null;
    if (!picture || !$("preview").checked || corner || looking || tool() === "box" || tool() === "move") break;
    hovering = true;
    const before = asked;
    try {
      const points = [...(object?.points ?? []), [x, y, on]];
      const answer = await server.preview(picture, { points, box: object?.box ?? [] }, "best");
      const { width, height } = picture;
      if (before === asked && canvas.matches(":hover")) {
        const path = outline(fill(answer.runs, width, height), width, height);
        view.preview = { path, colour: object?.colour || pick(mean(answer.runs, pixels.data), []) };
        view.draw();
      }
    } catch { /* a preview says nothing */ }
    hovering = false;
  }
}

function unpreview() {
  hover = null;
  if (!view.preview) return;
  view.preview = null;
  view.draw();
}

// offer lists the masks that the user can choose.
function offer([first, last]) {
  const auto = document.createElement("label");
  auto.className = "auto";
  auto.innerHTML = `<input type="radio" name="mask" value="best" aria-keyshortcuts="0"> the best of them`;
  $("masks").append(auto);
  for (let n = first; n <= last; n++) {
    const card = document.createElement("label");
    card.className = "mask";
    card.dataset.mask = n;
    card.innerHTML = `<input type="radio" name="mask" value="${n}" aria-keyshortcuts="${n}"><span>Mask ${n}</span><span class="bar"><i></i></span><output></output>`;
    $("masks").append(card);
  }
  $("last-mask").textContent = last;
  $("masks").addEventListener("change", (event) => choose(event.target.value));
}

function choose(mask) {
  const now = current();
  if (now) become({ objects: changed({ ...now, chosen: mask, found: null }) });
  else chosen = mask;
  find();
}

// save saves what a promise gives as a file.
async function save(file, title) {
  say("Saving…");
  const link = document.createElement("a");
  try {
    link.href = URL.createObjectURL(await file);
    link.download = title;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    say(`Saved as ${link.download}`);
  } catch (error) {
    fail(error);
  }
}

function saveOne(what) {
  const object = current();
  if (!object?.found) return;
  const { points, box, found } = object;
  const part = state.objects.length > 1 ? `-${object.name.replace(/[^\p{L}\p{N}]+/gu, "-")}` : "";
  save(server.file(picture, { points, box }, String(found.mask), what), `${name}${part}-${what}.png`);
}

function saveAll() {
  const objects = state.objects.filter((o) => !empty(o))
    .map((o) => ({ name: o.name, points: o.points, box: o.box ?? [], mask: o.chosen }));
  if (objects.length) save(server.exported(picture, fileName, objects), `${name}-masks.zip`);
}

// Prompts

// pixel returns the pixel at a position.
function pixel({ x, y }) {
  const clamp = (v, n) => Math.min(Math.max(Math.floor(v), 0), n - 1);
  return { x: clamp(x, view.width), y: clamp(y, view.height) };
}

function addPoint({ x, y }, on) {
  ask({ points: [...(current()?.points ?? []), [x, y, on ? 1 : 0]] });
}

// between returns the box that includes two pixels.
const between = (a, b) => [Math.min(a.x, b.x), Math.min(a.y, b.y), Math.max(a.x, b.x) + 1, Math.max(a.y, b.y) + 1];

function endBox(to) {
  const box = between(corner, to);
  corner = null;
  ask({ box });
}

function undo() {
  if (corner) corner = null;
  else if (past.length) state = past.pop();
  unpreview();
  find();
}

function clear() {
  if (looking) return looking.abort();
  const now = current();
  if (corner) corner = null;
  else if (!empty(now)) become({ objects: changed({ ...now, points: [], box: null, found: null }) });
  find();
}

// Mouse, pen and finger

const far = 5; // a longer movement (in CSS pixels) is a drag, not a click

const fingers = new Map(); // pointers that are down, by id: [x, y]
let moving = false; // whether they move the picture

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0 && event.button !== 1) return;
  canvas.focus({ preventScroll: true, focusVisible: false });
  canvas.setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, [event.clientX, event.clientY]);
  [view.cross, view.preview, hover] = [null, null, null];
  if (event.button === 1 || tool() === "move" || fingers.size > 1) {
    [moving, corner] = [true, null];
    return refresh();
  }
  cross = pixel(view.at(event));
  corner = { ...cross, drag: [event.clientX, event.clientY] };
});
canvas.addEventListener("pointermove", (event) => {
  if (moving) return move(event);
  if (corner?.drag) {
    cross = pixel(view.at(event));
    if (dragged(event)) refresh();
  } else if (event.pointerType === "mouse" && !event.buttons) {
    hover = pixel(view.at(event));
    preview();
  }
});

// move moves the picture with one pointer, and magnifies it with two.
function move(event) {
  const was = fingers.get(event.pointerId), [one, two] = fingers.values();
  if (!was) return;
  const now = [event.clientX, event.clientY];
  fingers.set(event.pointerId, now);
  if (!two) return view.magnify(1, null, now[0] - was[0], now[1] - was[1]);
  const other = was === one ? two : one, apart = (p) => Math.max(Math.hypot(p[0] - other[0], p[1] - other[1]), 1);
  const middle = { clientX: (was[0] + other[0]) / 2, clientY: (was[1] + other[1]) / 2 };
  view.magnify(apart(now) / apart(was), middle, (now[0] - was[0]) / 2, (now[1] - was[1]) / 2);
}

function lift(event) {
  fingers.delete(event.pointerId);
  if (moving && !fingers.size) {
    moving = false;
    return true;
  }
  return moving;
}

canvas.addEventListener("pointerup", (event) => {
  if (lift(event) || event.button !== 0 || !corner?.drag) return;
  cross = pixel(view.at(event));
  if (dragged(event)) return endBox(cross);
  corner = null;
  if (tool() === "box") return say("Drag from one corner of the box to the other.");
  addPoint(cross, tool() === "on" && !event.altKey && !event.shiftKey);
});
canvas.addEventListener("pointercancel", (event) => {
  lift(event);
  corner = null;
  refresh();
});
canvas.addEventListener("pointerleave", unpreview);
let released = -Infinity; // when the middle button was
for (const kind of ["mousedown", "mouseup", "auxclick"]) { // it would scroll and, on Linux, paste
  canvas.addEventListener(kind, (event) => {
    if (event.button !== 1) return;
    event.preventDefault();
    released = performance.now();
  });
}
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
  view.magnify(Math.exp((-event.deltaY * lines) / 400), event);
}, { passive: false });
canvas.addEventListener("contextmenu", (event) => {
  event.preventDefault();
  addPoint(pixel(view.at(event)), false);
});

const dragged = (event) => Math.hypot(event.clientX - corner.drag[0], event.clientY - corner.drag[1]) > far;

// Keys

const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

canvas.addEventListener("keydown", (event) => {
  const { key, shiftKey } = event;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (key in moves) {
    const step = shiftKey ? 1 : Math.max(1, Math.round(Math.max(view.width, view.height) / 64));
    cross = pixel({ x: cross.x + step * moves[key][0], y: cross.y + step * moves[key][1] });
    say(`${cross.x}, ${cross.y}`);
  } else if (key === "Enter" || key === " ") {
    if (corner) endBox(cross);
    else addPoint(cross, true);
  } else if (key === "-" || key === "_") {
    addPoint(cross, false);
  } else if (key === "b" || key === "B") {
    if (corner) endBox(cross);
    else {
      corner = { ...cross };
      say("A box begins here. Move to the opposite corner and press B.");
    }
  } else return;
  event.preventDefault();
  view.cross = cross;
  refresh();
});

addEventListener("keydown", (event) => {
  const { key } = event;
  if ((event.ctrlKey || event.metaKey) && key === "z") {
    event.preventDefault();
    return undo();
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (key === "Escape") return clear();
  if (key === "0") return choose("best");
  if (Number(key) >= about?.best[0] && Number(key) <= about?.best[1]) return choose(key);
  const does = { o: () => $("file").click(), s: () => saveOne("mask"), x: () => saveOne("cutout"), e: saveAll, n: begin,
    a: everything, p: () => $("preview").click(), z: () => view.magnify(event.shiftKey ? 1 / 1.5 : 1.5),
    f: () => view.magnify(0) }[key.toLowerCase()];
  if (picture || key === "o") does?.();
});

// Buttons and files

$("open").addEventListener("click", () => $("file").click());
$("choose").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", ({ target }) => {
  if (target.files[0]) open(target.files[0]);
  target.value = ""; // so that the same file can be chosen again
});
$("undo").addEventListener("click", undo);
$("clear").addEventListener("click", clear);
$("new").addEventListener("click", begin);
$("everything").addEventListener("click", everything);
$("preview").addEventListener("change", unpreview);
$("zoom-in").addEventListener("click", () => view.magnify(1.5));
$("zoom-out").addEventListener("click", () => view.magnify(1 / 1.5));
$("zoom-fit").addEventListener("click", () => view.magnify(0));
$("save-mask").addEventListener("click", () => saveOne("mask"));
$("save-cutout").addEventListener("click", () => saveOne("cutout"));
$("save-all").addEventListener("click", saveAll);

addEventListener("paste", (event) => {
  if (performance.now() - released < 200) return; // by the middle button
  const file = event.clipboardData?.files[0];
  if (file) open(file);
  else say("The clipboard has no image.", true);
});
addEventListener("dragover", (event) => {
  event.preventDefault();
  stage.classList.add("over");
});
addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) stage.classList.remove("over");
});
addEventListener("drop", (event) => {
  event.preventDefault();
  stage.classList.remove("over");
  const file = event.dataTransfer.files[0];
  if (file) open(file);
  else say("That is not a file.", true);
});

try {
  about = await server.start();
  $("model").textContent = about.model;
  $("keys").open = matchMedia("(min-width: 761px) and (min-height: 700px)").matches;
  offer(about.best);
  refresh();
  say("Open an image to begin.");
  if (about.first) open({ name: about.first_name }, about.first);
} catch (error) {
  fail(error);
}
