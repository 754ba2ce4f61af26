// The page of `rlxrun serve` for a scene: moves a camera, and shows the frames that the server renders from there. One
// frame is on its way at a time; the next one is of the newest camera. Frames are small while the camera moves.

import { ask, json, tab } from "./ask.js";
import { Orbit } from "./orbit.js";
import { Picture } from "./picture.js";

const $ = (id) => document.getElementById(id);
const canvas = $("view"), stage = $("stage"), picture = new Picture(canvas, stage);

// Milliseconds without a movement until a full frame; more while a finger or button may go on.
const STILL = 150, HELD = 700;

let about; // the server's first answer: {model, sizes, camera, rest, radius}
let orbit;
let wanted = ""; // the next frame: "", "moving" or "still"
let running = false; // whether a frame is on its way
let timer = 0; // of the full frame; 0 if none is due

function say(text, bad = false) {
  $("status").textContent = text;
  $("status").classList.toggle("bad", bad);
}

// fail shows an error, unless it is about a frame that was replaced meanwhile.
function fail(error) {
  if (error.status === 409) return;
  console.error(error);
  say(error.code ? `${error.message} (${error.code})` : error.message, true);
}

// Frames

const file = async (camera, [width], format, own) =>
  (await json("frames", { tab: own ? tab : "", ...camera, width, format })).blob();

// moved shows the camera's new place, and a full frame once it is still.
function moved() {
  settle(pointers.size ? HELD : STILL);
  want("moving");
  describe();
}

// settle asks for a full frame after some milliseconds.
function settle(after) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    timer = 0;
    want("still");
  }, after);
}

async function want(frame) {
  wanted = frame;
  if (running) return;
  running = true;
  while (wanted) {
    const next = wanted;
    wanted = "";
    try {
      await render(next);
    } catch (error) {
      fail(error);
    }
  }
  running = false;
}

async function render(frame) {
  const [full] = about.sizes, still = frame === "still", begun = performance.now();
  const blob = await file(orbit.camera, still ? full : about.sizes.at(-1), still ? "png" : "jpeg", true);
  await picture.show(await createImageBitmap(blob), { width: full[0], height: full[1] });
  $("busy").hidden = true;
  stage.setAttribute("aria-busy", "false");
  $("save").disabled = false;
  performance.measure(`${frame} frame`, { start: begun, end: performance.now() });
  if (still) say(`Rendered in ${Math.round(performance.now() - begun)} ms`);
  else if ($("status").classList.contains("bad")) say("");
}

async function save() {
  if ($("save").disabled) return;
  say("Saving…");
  const link = document.createElement("a");
  try {
    link.href = URL.createObjectURL(await file(orbit.camera, about.sizes[0], "png", false));
    link.download = `${about.model.replace(/\.[^.]*$/, "")}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    say(`Saved as ${link.download}`);
  } catch (error) {
    fail(error);
  }
}

// short writes a number with 5 digits at most.
const short = (x) => String(Number(x.toPrecision(5)));

// describe shows the camera beside the picture.
function describe() {
  const { pos, target, up, fov } = orbit.camera, list = (v) => v.map(short).join(",");
  const parts = [`pos=${list(pos)}`, `target=${list(target)}`, `up=${list(up)}`, `fov=${short(fov)}`];
  if (about.rest) parts.push(about.rest);
  $("camera").textContent = `--camera '${parts.join(";")}'`;
  $("fov").value = fov;
  $("fov-shown").textContent = `${Math.round(fov)}°`;
  $("up").value = up.map((x) => Math.round(x * 1e6) / 1e6 + 0).join(","); // empty for a direction between the axes
}

// Mouse, pen and fingers

const pointers = new Map(); // by id: {x, y} of those that are down

// middle returns the middle of the pointers that are down and their distance from it.
function middle() {
  const all = [...pointers.values()], n = all.length;
  const x = all.reduce((s, p) => s + p.x, 0) / n, y = all.reduce((s, p) => s + p.y, 0) / n;
  return { x, y, far: all.reduce((s, p) => s + Math.hypot(p.x - x, p.y - y), 0) / n };
}

canvas.addEventListener("pointerdown", (event) => {
  if (!orbit) return;
  canvas.setPointerCapture(event.pointerId);
  const sideways = event.button !== 0 || event.shiftKey;
  pointers.set(event.pointerId, { x: event.clientX, y: event.clientY, sideways });
});
canvas.addEventListener("pointermove", (event) => {
  const pointer = pointers.get(event.pointerId);
  if (!pointer) return;
  const before = middle(), height = canvas.clientHeight;
  [pointer.x, pointer.y] = [event.clientX, event.clientY];
  const after = middle(), dx = (after.x - before.x) / height, dy = (after.y - before.y) / height;
  if (pointers.size > 1) {
    orbit.pan(-dx, dy);
    if (before.far > 0 && after.far > 0) orbit.zoom(after.far / before.far);
  } else if (pointer.sideways) orbit.pan(-dx, dy);
  else orbit.turn(-Math.PI * dx, Math.PI * dy);
  moved();
});
for (const event of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(event, ({ pointerId }) => {
    if (pointers.delete(pointerId) && timer) settle(STILL);
  });
}
canvas.addEventListener("contextmenu", (event) => event.preventDefault());
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (!orbit) return;
  const lines = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : 16;
  orbit.zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0015))); // Ctrl: a pinch on a touchpad
  moved();
}, { passive: false });

// Keys

const STEP = Math.PI / 36, SHIFT = 1 / 24, CLOSER = 1.1;
const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

canvas.addEventListener("keydown", (event) => {
  const way = ways[event.key];
  if (!way || !orbit || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  if (event.shiftKey) orbit.pan(SHIFT * way[0], SHIFT * way[1]);
  else orbit.turn(STEP * way[0], STEP * way[1]);
  moved();
});

addEventListener("keydown", (event) => {
  if (!orbit || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select")) return;
  const zoom = (factor) => () => {
    orbit.zoom(factor);
    moved();
  };
  const closer = zoom(CLOSER), away = zoom(1 / CLOSER);
  const does = { "+": closer, "=": closer, "-": away, "_": away, r: reset, s: save };
  does[event.key.toLowerCase()]?.();
});

// Buttons

function reset() {
  orbit.reset();
  moved();
}

$("reset").addEventListener("click", reset);
$("save").addEventListener("click", save);
$("fov").addEventListener("input", ({ target }) => {
  orbit.fov = Number(target.value);
  moved();
});
$("up").addEventListener("change", ({ target }) => {
  orbit.setUp(target.value.split(",").map(Number));
  moved();
});
$("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText($("camera").textContent);
    say("Copied");
  } catch {
    say("The browser does not allow it: select the text and copy it.", true);
  }
});

try {
  about = await (await ask("start")).json();
  $("model").textContent = about.model;
  $("size").textContent = about.sizes[0].join(" × ");
  $("keys").open = matchMedia("(min-width: 761px) and (min-height: 700px)").matches;
  orbit = new Orbit(about.camera, about.radius);
  describe();
  await want("still");
  canvas.focus({ preventScroll: true, focusVisible: false }); // the focus ring appears with the first key
} catch (error) {
  fail(error);
}
