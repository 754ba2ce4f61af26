// The page of `rlxrun serve`: opens images, collects prompts, and shows and saves the masks that the server finds.

import * as server from "./server.js";
import { fill, outline } from "./outline.js";
import { View } from "./view.js";

const $ = (id) => document.getElementById(id);
const canvas = $("view"), stage = $("stage"), view = new View(canvas, stage);
const none = Object.freeze({ points: [], box: null });

let about; // the server's first answer
let picture = null; // {number, width, height} of the image on the server
let name = "image"; // of the file, without the extension
let opening = null; // AbortController while an image is being opened
let history = [none]; // prompts {points: [[x, y, 1|0]], box: [x0, y0, x1, y1] or null}, the current ones last
let chosen = "best"; // "best" or the number of a mask
let found = null; // the answer on the screen, with its prompts and its path
let asked = 0; // number of the latest request for a mask
let corner = null; // start of the box that is being drawn: {x, y, drag}
let cross = { x: 0, y: 0 };

const prompts = () => history.at(-1);
const tool = () => document.querySelector("[name=tool]:checked").value;

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
    const image = await createImageBitmap(await server.pixels(next, signal));
    if (signal.aborted) return;
    if (before) server.close(before);
    picture = next;
    asked++; // drops answers about the previous image
    name = file.name.replace(/\.[^.]*$/, "");
    $("name").textContent = `${file.name}, ${next.width} × ${next.height}`;
    $("empty").hidden = true;
    history = [none];
    [found, corner, cross] = [null, null, { x: next.width >> 1, y: next.height >> 1 }];
    view.cross = null;
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

// ask changes the prompts and finds their mask.
function ask(change) {
  history.push({ ...prompts(), ...change });
  find();
}

// find requests the mask for the prompts. It ignores answers that arrive after a newer request.
async function find() {
  const mine = ++asked, begun = performance.now(), { points, box } = prompts();
  refresh();
  if (!picture) return;
  if (!points.length && !box) {
    found = null;
    refresh();
    say("Click on an object, or drag a box around it.");
    return;
  }
  try {
    const answer = await server.find(picture, { points, box }, chosen);
    if (mine !== asked) return;
    const { width, height } = picture;
    answer.prompts = { points, box };
    answer.path = outline(fill(answer.runs, width, height), width, height);
    found = answer;
    await refresh();
    performance.measure("click to mask", { start: begun, end: performance.now(), detail: answer.seconds });
    const share = (100 * answer.pixels) / (width * height);
    say(`Mask ${answer.mask}, predicted quality ${rounded(answer.quality[answer.mask])}, ${share.toFixed(share < 10 ? 1 : 0)} % of the image, ${Math.round(performance.now() - begun)} ms`);
  } catch (error) {
    if (mine !== asked) return;
    found = null;
    refresh();
    fail(error);
  }
}

const rounded = (quality) => quality?.toFixed(2) ?? "not a number";

// refresh redraws everything from the variables above. It resolves when the canvas is drawn.
function refresh() {
  const { points, box } = prompts();
  $("undo").disabled = history.length === 1 && !corner;
  $("clear").disabled = prompts() === none && !corner;
  $("save-mask").disabled = $("save-cutout").disabled = !found;
  for (const card of document.querySelectorAll(".mask")) {
    const n = Number(card.dataset.mask), quality = found?.quality[n];
    card.classList.toggle("shown", found?.mask === n);
    card.querySelector("output").textContent = found ? rounded(quality) : "";
    card.querySelector(".bar i").style.width = `${100 * Math.min(Math.max(quality ?? 0, 0), 1)}%`;
  }
  for (const input of document.querySelectorAll("[name=mask]")) input.checked = input.value === chosen;
  view.path = found?.path;
  view.points = points;
  view.box = corner ? between(corner, cross) : box;
  return view.draw();
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
  chosen = mask;
  find();
}

async function save(what) {
  if (!found) return;
  say("Saving…");
  const link = document.createElement("a");
  try {
    link.href = URL.createObjectURL(await server.file(picture, found.prompts, String(found.mask), what));
    link.download = `${name}-${what}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    say(`Saved as ${link.download}`);
  } catch (error) {
    fail(error);
  }
}

// Prompts

// pixel returns the pixel at a position.
function pixel({ x, y }) {
  const clamp = (v, n) => Math.min(Math.max(Math.floor(v), 0), n - 1);
  return { x: clamp(x, view.width), y: clamp(y, view.height) };
}

function addPoint({ x, y }, on) {
  ask({ points: [...prompts().points, [x, y, on ? 1 : 0]] });
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
  else if (history.length > 1) history.pop();
  find();
}

function clear() {
  if (corner) corner = null;
  else if (prompts() !== none) history.push(none);
  find();
}

// Mouse, pen and finger

const far = 5; // a longer movement (in CSS pixels) is a drag, not a click

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  canvas.setPointerCapture(event.pointerId);
  view.cross = null;
  cross = pixel(view.at(event));
  corner = { ...cross, drag: [event.clientX, event.clientY] };
});
canvas.addEventListener("pointermove", (event) => {
  if (!corner?.drag) return;
  cross = pixel(view.at(event));
  if (dragged(event)) refresh();
});
canvas.addEventListener("pointerup", (event) => {
  if (event.button !== 0 || !corner?.drag) return;
  cross = pixel(view.at(event));
  if (dragged(event)) return endBox(cross);
  corner = null;
  if (tool() === "box") return say("Drag from one corner of the box to the other.");
  addPoint(cross, tool() === "on" && !event.altKey && !event.shiftKey);
});
canvas.addEventListener("pointercancel", () => {
  corner = null;
  refresh();
});
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
  const does = { o: () => $("file").click(), s: () => save("mask"), x: () => save("cutout") }[key.toLowerCase()];
  does?.();
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
$("save-mask").addEventListener("click", () => save("mask"));
$("save-cutout").addEventListener("click", () => save("cutout"));

addEventListener("paste", (event) => {
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
