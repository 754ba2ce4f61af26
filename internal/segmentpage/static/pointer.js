// Mouse, pen and finger on the image.

import { addPoint, ask, hover, unpreview } from "./masks.js";
import { addExample, likes } from "./search.js";
import { refresh } from "./show.js";
import { between, canvas, inExamples, page, say, tool, view } from "./state.js";

const far = 5; // a longer movement (in CSS pixels) is a drag, not a click

const fingers = new Map(); // pointers that are down, by id: [x, y]
let moving = false; // whether they move the picture
let released = -Infinity; // when the middle button was

// middleButton reports whether the middle button was released just now, which pastes on Linux.
export const middleButton = () => performance.now() - released < 200;

// pixel returns the pixel at a position.
export function pixel({ x, y }) {
  const clamp = (v, n) => Math.min(Math.max(Math.floor(v), 0), n - 1);
  return { x: clamp(x, view.width), y: clamp(y, view.height) };
}

// endBox ends a box, which is an example or a prompt. event has the keys that are held.
export function endBox(to, event) {
  const box = between(page.corner, to);
  page.corner = null;
  if (inExamples()) addExample(box, likes(event));
  else ask({ box });
}

const dragged = (event) => Math.hypot(event.clientX - page.corner.drag[0], event.clientY - page.corner.drag[1]) > far;

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0 && event.button !== 1) return;
  canvas.focus({ preventScroll: true, focusVisible: false });
  canvas.setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, [event.clientX, event.clientY]);
  hover(null);
  [view.cross, view.preview] = [null, null];
  if (event.button === 1 || tool() === "move" || fingers.size > 1) {
    [moving, page.corner] = [true, null];
    return refresh();
  }
  page.cross = pixel(view.at(event));
  page.corner = { ...page.cross, drag: [event.clientX, event.clientY] };
});
canvas.addEventListener("pointermove", (event) => {
  if (moving) return move(event);
  if (page.corner?.drag) {
    page.cross = pixel(view.at(event));
    if (dragged(event)) refresh();
  } else if (event.pointerType === "mouse" && !event.buttons) hover(pixel(view.at(event)));
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
  if (lift(event) || event.button !== 0 || !page.corner?.drag) return;
  page.cross = pixel(view.at(event));
  if (dragged(event)) return endBox(page.cross, event);
  page.corner = null;
  if (tool() === "box") return say("Drag from one corner of the box to the other.");
  addPoint(page.cross, tool() === "on" && !event.altKey && !event.shiftKey);
});
canvas.addEventListener("pointercancel", (event) => {
  lift(event);
  page.corner = null;
  refresh();
});
canvas.addEventListener("pointerleave", unpreview);
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
