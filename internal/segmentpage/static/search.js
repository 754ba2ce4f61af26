// Finds all objects that a text describes, or that look like examples.

import { add, look } from "./masks.js";
import * as server from "./server.js";
import { refresh, rounded } from "./show.js";
import { $, become, make, page, say, searchHint, tool } from "./state.js";

// addExample adds a box around an example, or with like false around a counterexample.
export function addExample(box, like) {
  const { examples } = page.state, most = page.about.concepts.examples;
  if (examples.length >= most) return say(`The model takes up to ${most} examples.`, true);
  become({ examples: [...examples, [...box, like ? 1 : 0]] });
  refresh();
  say("Find (Enter in the text box) looks for objects like the examples.");
}

// likes reports whether a box that is drawn now is an example and not a counterexample.
export const likes = (event) => tool() !== "unlike" && !event?.shiftKey && !event?.altKey;

// search looks for objects, and puts them in place of those that it found with the same text before.
export function search() {
  const text = $("text").value.trim(), { examples } = page.state, threshold = $("threshold").valueAsNumber;
  if (!text && !examples.length) {
    $("text").focus();
    return say(searchHint(), true);
  }
  look("Looking…", async (signal) => {
    say(`Looking for ${text ? `“${text}”` : "objects like the examples"}.`);
    const { objects, closest, seconds } = await server.search(page.picture, { text, examples, threshold }, signal);
    if (signal.aborted) return;
    const found = objects.map((answer, i) =>
      [make({ concept: text, ...(text && { name: `${text.slice(0, 50)} ${i + 1}` }) }), answer]);
    const stay = page.state.objects.filter((o) => o.concept !== text);
    if (found.length || stay.length < page.state.objects.length) add(found, stay);
    const took = `${seconds.toFixed(1)} s`;
    if (!found.length) return say(`Nothing scores above ${threshold}; the highest score is ${rounded(closest)}. ${took}`);
    const [most, least] = [objects[0], objects.at(-1)].map((o) => rounded(o.score));
    const scores = most === least ? `score ${most}` : `scores ${most} to ${least}`;
    say(`${found.length} object${found.length === 1 ? "" : "s"}, ${scores}, ${took}`);
  });
}

// prepare sets the form up for a model.
export function prepare({ examples, threshold }) {
  $("threshold").value = threshold;
  $("search").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  for (const input of [$("text"), $("threshold")]) {
    input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") input.blur();
      else event.stopPropagation(); // the letters are no commands
    });
  }
  for (const label of document.querySelectorAll(".like, .unlike, #examples")) label.hidden = !examples;
}
