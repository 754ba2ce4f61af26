// Shows the state.

import { List } from "./list.js";
import { $, between, current, empty, page, view } from "./state.js";

export const list = new List($("objects"));

// rounded shows a predicted quality or score. Both are from 0 to 1; a model may predict a quality of less or more.
export const rounded = (value) => (value == null ? "not a number" : Math.min(Math.max(value, 0), 1).toFixed(2));

// score returns what the model says about an answer: the quality of the mask or, of a search, the score.
export const score = (found) => found.score ?? found.quality[found.mask];

// refresh redraws everything. It resolves when the canvas is drawn.
export function refresh() {
  const { state, corner, cross, picture } = page, object = current(), found = object?.found;
  $("undo").disabled = !page.past.length && !corner;
  $("clear").disabled = empty(object) && !corner && !state.examples.length;
  $("new").disabled = empty(object);
  $("everything").disabled = $("find").disabled = !picture;
  $("save-mask").disabled = $("save-cutout").disabled = !found;
  $("save-all").disabled = !state.objects.some((o) => o.found);
  for (const card of document.querySelectorAll(".mask")) {
    const n = Number(card.dataset.mask), quality = found?.quality?.[n];
    card.classList.toggle("shown", found?.mask === n);
    card.querySelector("output").textContent = quality !== undefined ? rounded(quality) : "";
    card.querySelector(".bar i").style.width = `${100 * Math.min(Math.max(quality ?? 0, 0), 1)}%`;
  }
  const choice = object?.chosen ?? page.chosen;
  for (const input of document.querySelectorAll("[name=mask]")) {
    input.checked = input.value === choice;
    input.disabled = object?.concept != null; // a search gives one mask for each object
  }
  list.show(state.objects, state.current, (o) => (o.found ? rounded(score(o.found)) : ""));
  showExamples(state.examples);
  view.layers = state.objects.filter((o) => o.found && o !== object).concat(found ? [object] : [])
    .map((o) => ({ path: o.found.path, colour: o.colour, strong: o === object }));
  view.points = object?.points ?? [];
  view.box = corner ? between(corner, cross) : object?.box;
  view.examples = state.examples;
  return view.draw();
}

// showExamples says how many examples there are.
function showExamples(examples) {
  const like = examples.filter((e) => e[4]).length, unlike = examples.length - like;
  const count = (n, what) => (n ? [`${n} ${what}${n === 1 ? "" : "s"}`] : []);
  $("examples").textContent = [...count(like, "example"), ...count(unlike, "counterexample")].join(", ") ||
    "or drag boxes around examples";
}
