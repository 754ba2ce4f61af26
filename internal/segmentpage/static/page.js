// The page of `rlxrun serve` for images: it connects buttons and files with what they do, and begins.

import { open, saveAll, saveOne } from "./files.js";
import "./keys.js";
import { begin, clear, everything, offer, undo, unpreview } from "./masks.js";
import { middleButton } from "./pointer.js";
import { prepare } from "./search.js";
import * as server from "./server.js";
import { refresh } from "./show.js";
import { $, fail, page, say, stage, view } from "./state.js";

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
  if (middleButton()) return;
  const file = event.clipboardData?.files[0];
  if (file) open(file);
  else if (!event.target.matches?.("input")) say("The clipboard has no image.", true);
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

// arrange shows what a model can do, and hides the rest.
function arrange({ clicks, concepts, best }) {
  for (const part of document.querySelectorAll("[data-for=clicks]")) part.hidden = !clicks;
  for (const part of document.querySelectorAll("[data-for=concepts]")) part.hidden = !concepts;
  if (concepts) prepare(concepts);
  if (clicks) return offer(best);
  document.querySelector("[name=tool][value=like]").checked = true;
}

try {
  page.about = await server.start();
  $("model").textContent = page.about.model;
  $("keys").open = matchMedia("(min-width: 761px) and (min-height: 700px)").matches;
  arrange(page.about);
  refresh();
  say("Open an image to begin.");
  if (page.about.first) open({ name: page.about.first_name }, page.about.first);
} catch (error) {
  fail(error);
}
