// What the parts of the page share: the image, its objects with all earlier states, and the line of status.

import { View } from "./view.js";

export const $ = (id) => document.getElementById(id);
export const canvas = $("view"), stage = $("stage"), view = new View(canvas, stage);

// A state has
//   objects: a list of {id, name, colour, points: [[x, y, 1|0]], box: [x0, y0, x1, y1] or null, chosen: "best" or the
//     number of a mask, concept: the text that it was found with, or null for an object of clicks, found: the server's
//     answer with its path, or null}
//   current: the id of the object that a click changes, or null
//   examples: boxes [x0, y0, x1, y1, 1|0] of what to find, and what not to
// A change makes a new object with the same id, so that the states in past stay as they were; only found and colour are
// set later, when the answer comes.
export const none = Object.freeze({ objects: [], current: null, examples: [] });

export const page = {
  about: null, // the server's first answer
  picture: null, // {number, width, height} of the image on the server
  pixels: null, // ImageData of the image
  name: "image", // of the file, without the extension
  fileName: "",
  state: none,
  past: [], // states before, for undo
  made: 0, // objects so far, for their ids
  chosen: "best", // for new objects
  asked: 0, // number of the latest request for a mask
  looking: null, // AbortController while several objects are looked for
  corner: null, // start of the box that is being drawn: {x, y, drag}
  cross: { x: 0, y: 0 },
};

export const current = () => page.state.objects.find((o) => o.id === page.state.current) ?? null;
export const empty = (object) => !object?.points.length && !object?.box && object?.concept == null;
export const tool = () => document.querySelector("[name=tool]:checked").value;

// inExamples reports whether a box is an example, with the tool that is chosen.
export const inExamples = () => tool() === "like" || tool() === "unlike";

// become changes the state, so that undo can change it back.
export function become(next) {
  page.past.push(page.state);
  page.state = { ...page.state, ...next };
}

// changed returns the objects with another one in place of that with the same id.
export const changed = (object) => page.state.objects.map((o) => (o.id === object.id ? object : o));

// make returns a new object.
export function make(fields) {
  const id = ++page.made;
  return { id, name: `Object ${id}`, colour: "", points: [], box: null, chosen: page.chosen, concept: null, found: null,
    ...fields };
}

// between returns the box that includes two pixels.
export const between = (a, b) =>
  [Math.min(a.x, b.x), Math.min(a.y, b.y), Math.max(a.x, b.x) + 1, Math.max(a.y, b.y) + 1];

// hint says what to do next.
export const hint = () => (page.about.clicks ? "Click on an object, or drag a box around it." : searchHint());

// searchHint says how to search.
export const searchHint = () => (page.about.concepts.examples ? "Say what to find, or drag a box around an example."
  : "Say what to find.");

export function say(text, bad = false) {
  $("status").textContent = text;
  $("status").classList.toggle("bad", bad);
}

// fail shows an error, unless it is about something that was replaced meanwhile.
export function fail(error) {
  if (error.name === "AbortError" || error.status === 409) return;
  console.error(error);
  say(error.code ? `${error.message} (${error.code})` : error.message, true);
}

export function busy(text) {
  stage.setAttribute("aria-busy", String(Boolean(text)));
  $("busy").hidden = !text;
  $("busy-text").textContent = text;
}
