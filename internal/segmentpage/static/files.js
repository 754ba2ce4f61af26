// Opens images and saves masks.

import * as server from "./server.js";
import { refresh, score } from "./show.js";
import { $, busy, canvas, current, fail, hint, none, page, say, view } from "./state.js";

let opening = null; // AbortController while an image is being opened

// open shows an image file, or an image that the server already has; then file has only a name.
export async function open(file, there = null) {
  opening?.abort();
  page.looking?.abort();
  const { signal } = (opening = new AbortController());
  const before = page.picture;
  busy("Reading the image…");
  say("Reading the image…");
  try {
    if (file.size > page.about.max_file) {
      const [has, may] = [file.size, page.about.max_file].map((bytes) => Math.ceil(bytes / 2 ** 20));
      throw new server.Failure(`The file has ${has} MB; allowed are ${may}.`);
    }
    const next = there ?? (await server.open(file, signal));
    const data = await server.pixels(next, signal);
    const image = await createImageBitmap(data);
    if (signal.aborted) return;
    if (before) server.close(before);
    show(file.name, next, data, image);
    busy("Encoding the image…");
    say("Encoding the image. This is done once.");
    const { seconds } = await server.encode(next, signal);
    if (signal.aborted) return;
    say(`Ready after ${seconds.toFixed(1)} s. ${hint()}`);
    canvas.focus({ preventScroll: true, focusVisible: false }); // the focus ring appears with the first key
  } catch (error) {
    if (!signal.aborted) fail(error);
  } finally {
    if (!signal.aborted) busy("");
  }
}

// show puts an image in place of the previous one.
function show(fileName, picture, pixels, image) {
  const { width, height } = picture;
  Object.assign(page, { picture, pixels, fileName, name: fileName.replace(/\.[^.]*$/, ""), state: none, past: [],
    chosen: "best", corner: null, cross: { x: width >> 1, y: height >> 1 } });
  page.asked++; // drops answers about the previous image
  $("name").textContent = `${fileName}, ${width} × ${height}`;
  $("empty").hidden = true;
  $("zoom").hidden = false;
  [view.cross, view.preview] = [null, null];
  view.show(image);
  refresh();
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

// saveOne saves the current object as "mask" or "cutout".
export function saveOne(what) {
  const object = current();
  if (!object?.found) return;
  const part = page.state.objects.length > 1 ? `-${object.name.replace(/[^\p{L}\p{N}]+/gu, "-")}` : "";
  save(server.file(page.picture, object.found.runs, what), `${page.name}${part}-${what}.png`);
}

export function saveAll() {
  const objects = page.state.objects.filter((o) => o.found)
    .map((o) => ({ name: o.name, runs: o.found.runs, score: score(o.found) }));
  if (objects.length) save(server.exported(page.picture, page.fileName, objects), `${page.name}-masks.zip`);
}
