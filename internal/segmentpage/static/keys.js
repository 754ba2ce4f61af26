// Keys: on the image they move a cross and add prompts; elsewhere they are commands.

import { saveAll, saveOne } from "./files.js";
import { addPoint, begin, choose, clear, everything, undo } from "./masks.js";
import { endBox, pixel } from "./pointer.js";
import { refresh } from "./show.js";
import { $, canvas, page, say, view } from "./state.js";

const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

canvas.addEventListener("keydown", (event) => {
  const { key, shiftKey } = event, { cross, corner } = page;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (key in moves) {
    const step = shiftKey ? 1 : Math.max(1, Math.round(Math.max(view.width, view.height) / 64));
    page.cross = pixel({ x: cross.x + step * moves[key][0], y: cross.y + step * moves[key][1] });
    say(`${page.cross.x}, ${page.cross.y}`);
  } else if (key === "Enter" || key === " ") {
    if (corner) endBox(cross, event);
    else addPoint(cross, true);
  } else if (key === "-" || key === "_") {
    addPoint(cross, false);
  } else if (key === "b" || key === "B") {
    if (corner) endBox(cross, event);
    else {
      page.corner = { ...cross };
      say("A box begins here. Move to the opposite corner and press B.");
    }
  } else return;
  event.preventDefault();
  view.cross = page.cross;
  refresh();
});

// choices are the keys of tools.
const choices = { l: "like", u: "unlike" };

addEventListener("keydown", (event) => {
  const { key } = event, { about } = page;
  if ((event.ctrlKey || event.metaKey) && key === "z") {
    event.preventDefault();
    return undo();
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (key === "Escape") return clear();
  if (about?.clicks && key === "0") return choose("best");
  if (about?.clicks && Number(key) >= about.best[0] && Number(key) <= about.best[1]) return choose(key);
  if (about?.concepts && key.toLowerCase() === "t") {
    event.preventDefault(); // the letter does not go into the text box
    return $("text").focus();
  }
  const radio = document.querySelector(`[name=tool][value=${choices[key.toLowerCase()] ?? "none"}]`);
  if (radio && !radio.closest("[hidden]")) return radio.click();
  const does = { o: () => $("file").click(), s: () => saveOne("mask"), x: () => saveOne("cutout"), e: saveAll, n: begin,
    a: everything, p: () => $("preview").click(), z: () => view.magnify(event.shiftKey ? 1 / 1.5 : 1.5),
    f: () => view.magnify(0) }[key.toLowerCase()];
  if (page.picture || key === "o") does?.();
});
