// The masks of objects: of clicks and boxes, under the pointer, and of all objects at once.

import { mean, pick, plain } from "./colours.js";
import { fill, outline } from "./outline.js";
import * as server from "./server.js";
import { list, refresh, rounded } from "./show.js";
import { $, become, busy, canvas, changed, current, empty, fail, hint, inExamples, make, page, say, tool, view }
  from "./state.js";

// ask changes the prompts of the current object, or makes one, and finds its mask. An object of a search becomes one of
// clicks, with its box.
export function ask(change) {
  view.preview = null;
  const now = current();
  if (now) become({ objects: changed({ ...now, box: now.box ?? frame(now), ...change, concept: null, found: null }) });
  else {
    const object = make({ colour: pick([128, 128, 128], page.state.objects.map((o) => o.colour)), ...change });
    become({ objects: [...page.state.objects, object], current: object.id });
  }
  find();
}

// frame returns the box of an object of a search inside the image, or null.
function frame({ concept, found }) {
  if (concept == null) return null;
  const { width, height } = page.picture, within = (v, most) => Math.min(Math.max(Math.round(v), 0), most);
  const [x0, y0, x1, y1] = found.box, left = within(x0, width - 1), top = within(y0, height - 1);
  return [left, top, Math.max(within(x1, width), left + 1), Math.max(within(y1, height), top + 1)];
}

// finish adds to an answer what the page needs of it, and gives the object a colour that can be seen on it.
export function finish(object, answer) {
  const { width, height } = page.picture;
  answer.path = outline(fill(answer.runs, width, height), width, height);
  const under = mean(answer.runs, page.pixels.data);
  const first = !object.coloured;
  if (first || plain(object.colour, under)) {
    object.colour = pick(under, page.state.objects.filter((o) => o.id !== object.id).map((o) => o.colour));
    object.coloured = true;
  }
  object.found = answer;
}

// share returns how much of the image is inside a mask: "4.2 % of the image".
function share(answer) {
  const part = (100 * answer.pixels) / (page.picture.width * page.picture.height);
  return `${part.toFixed(part < 10 ? 1 : 0)} % of the image`;
}

// find requests the mask for the prompts of the current object. It ignores answers that arrive after a newer request.
export async function find() {
  const mine = ++page.asked, begun = performance.now(), object = current();
  refresh();
  if (!page.picture) return;
  if (empty(object)) {
    if (object) object.found = null;
    refresh();
    say(hint());
    return;
  }
  if (object.concept != null) {
    return say(`${object.name}, score ${rounded(object.found.score)}, ${share(object.found)}`);
  }
  try {
    const { points, box } = object, answer = await server.find(page.picture, { points, box }, object.chosen);
    if (mine !== page.asked) return;
    const now = page.state.objects.find((o) => o.id === object.id); // it may have another name by now
    if (!now) return;
    finish(now, answer);
    await refresh();
    performance.measure("click to mask", { start: begun, end: performance.now(), detail: answer.seconds });
    say(`Mask ${answer.mask}, predicted quality ${rounded(answer.quality[answer.mask])}, ${share(answer)}, ${Math.round(performance.now() - begun)} ms`);
  } catch (error) {
    if (mine !== page.asked) return;
    object.found = null;
    refresh();
    fail(error);
  }
}

export function addPoint({ x, y }, on) {
  if (page.about.clicks && !inExamples()) ask({ points: [...(current()?.points ?? []), [x, y, on ? 1 : 0]] });
  else say("Drag a box around an example.");
}

// choose selects a mask of the current object, and for new ones.
export function choose(mask) {
  const now = current();
  if (now?.concept != null) return;
  if (now) become({ objects: changed({ ...now, chosen: mask, found: null }) });
  else page.chosen = mask;
  find();
}

// offer lists the masks that the user can choose.
export function offer([first, last]) {
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

// Several objects

list.does = {
  pick(id) {
    if (page.state.current === id) return;
    page.state = { ...page.state, current: id }; // not a change, so undo passes over it
    find();
  },
  rename(id, title) {
    const object = page.state.objects.find((o) => o.id === id);
    if (title && object && title !== object.name) become({ objects: changed({ ...object, name: title }) });
    refresh();
  },
  remove(id) {
    const { objects, current: now } = page.state;
    become({ objects: objects.filter((o) => o.id !== id), current: now === id ? null : now });
    find();
  },
};

// begin lets the next click begin another object.
export function begin() {
  if (empty(current())) return;
  page.asked++; // an answer that is on its way still belongs to the old object
  become({ current: null });
  refresh();
  say(page.about.clicks ? "Click on another object." : hint());
}

// look runs work, which looks for several objects, until it ends or Esc stops it.
export async function look(text, work) {
  if (!page.picture || page.looking) return;
  const { signal } = (page.looking = new AbortController());
  unpreview();
  busy(`${text} Esc stops`);
  try {
    await work(signal);
  } catch (error) {
    if (!signal.aborted) fail(error);
    else say("Stopped.");
  } finally {
    page.looking = null;
    busy("");
  }
}

// add adds objects with their answers, pairs [object, answer], to those that stay. Undo takes them back together.
export function add(found, stay) {
  become({ objects: stay, current: null });
  for (const [object, answer] of found) {
    page.state.objects = [...page.state.objects, object];
    finish(object, answer);
  }
  page.asked++;
  refresh();
}

// everything finds all objects and adds those to the list.
export function everything() {
  if (!page.about.clicks) return;
  look("Finding all objects…", async (signal) => {
    say(`Finding all objects, from ${page.about.grid} × ${page.about.grid} points.`);
    const { regions, dropped } = await server.everything(page.picture, signal);
    if (signal.aborted) return;
    const found = regions.map(({ point: [x, y], ...answer }) =>
      [make({ points: [[x, y, 1]], chosen: String(answer.mask) }), answer]);
    if (found.length) add(found, page.state.objects.filter((o) => !empty(o)));
    const few = found.length ? "" : ` ${dropped.poor} masks were poor and ${dropped.unstable} unstable; click on one.`;
    say(`${found.length} object${found.length === 1 ? "" : "s"}.${few}`);
  });
}

// Going back

export function undo() {
  if (page.corner) page.corner = null;
  else if (page.past.length) page.state = page.past.pop();
  unpreview();
  find();
}

export function clear() {
  if (page.looking) return page.looking.abort();
  const now = current();
  if (page.corner) page.corner = null;
  else if (!empty(now)) {
    become(now.concept != null ? { current: null }
      : { objects: changed({ ...now, points: [], box: null, found: null }) });
  } else if (page.state.examples.length) become({ examples: [] });
  find();
}

// The mask under the pointer. At most one request is on its way; then comes the latest position.
let hovered = null, hovering = false;

export function hover(at) {
  hovered = at;
  if (at) preview();
}

async function preview() {
  while (hovered && !hovering) {
    const { x, y } = hovered, object = current(), on = tool() === "off" ? 0 : 1;
    hovered = null;
    if (!page.about.clicks || !page.picture || !$("preview").checked || page.corner || page.looking ||
      !["on", "off"].includes(tool())) break;
    hovering = true;
    const before = page.asked;
    try {
      const points = [...(object?.points ?? []), [x, y, on]];
      const box = object ? object.box ?? frame(object) : null;
      const answer = await server.preview(page.picture, { points, box: box ?? [] }, "best");
      const { width, height } = page.picture;
      if (before === page.asked && canvas.matches(":hover")) {
        const path = outline(fill(answer.runs, width, height), width, height);
        view.preview = { path, colour: object?.colour || pick(mean(answer.runs, page.pixels.data), []) };
        view.draw();
      }
    } catch { /* a preview says nothing */ }
    hovering = false;
  }
}

export function unpreview() {
  hovered = null;
  if (!view.preview) return;
  view.preview = null;
  view.draw();
}
