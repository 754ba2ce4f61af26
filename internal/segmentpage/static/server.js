// The requests of this page to rlxrun. Every function throws a Failure with a text for the user.

import { ask, json, tab } from "./ask.js";

export { Failure } from "./ask.js";

const post = (path, body, signal) => ask(path, { method: "POST", body, signal });

// start returns {model, clicks: bool, best: [first, last], concepts: {examples, threshold} or null, grid, max_file,
// first: picture or null, first_name}.
export const start = async () => (await ask("start")).json();

// open sends an image file and returns {number, width, height} once it is decoded.
export const open = async (file, signal) => (await post("images", file, signal)).json();

// pixels returns an image as the model sees it, as ImageData.
export async function pixels({ number, width, height }, signal) {
  const response = await ask(`images/${number}/pixels`, { signal });
  return new ImageData(new Uint8ClampedArray(await response.arrayBuffer()), width, height);
}

// encode waits until an image is encoded and returns {seconds}.
export const encode = async ({ number }, signal) => (await post(`images/${number}/encode`, null, signal)).json();

// close tells the server that this page no longer shows an image.
export const close = ({ number }) => ask(`images/${number}`, { method: "DELETE" }).catch(() => {});

// find returns {mask, quality, pixels, runs, seconds} for prompts {points, box} and the mask "best" or a number. A
// newer call replaces one that waits, which then throws a Failure with status 409.
export const find = async ({ number }, prompts, mask) =>
  (await json(`images/${number}/masks`, { tab, ...prompts, mask })).json();

// preview is find for the mask that a click would give. It replaces a preview that waits, and no click.
export const preview = async ({ number }, prompts, mask) =>
  (await json(`images/${number}/masks`, { tab: `${tab}-preview`, ...prompts, mask })).json();

// everything returns {regions: [{mask, quality, pixels, runs, point}], dropped}, the largest region first.
export const everything = async ({ number }, signal) =>
  (await post(`images/${number}/everything`, null, signal)).json();

// search returns {objects: [{score, box, pixels, runs}], closest, seconds}, the highest score first, for a text,
// examples [x0, y0, x1, y1, 1|0] or both. closest is the highest score of what is no object.
export const search = async ({ number }, concept, signal) =>
  (await json(`images/${number}/search`, concept, signal)).json();

// exported returns a ZIP with the masks of objects [{name, runs, score}] of an image file.
export const exported = async ({ number }, image, objects) =>
  (await json(`images/${number}/export`, { image, objects })).blob();

// file returns a mask, or with save "cutout" the image inside it, as a PNG file.
export const file = async ({ number }, runs, save) => (await json(`images/${number}/file`, { runs, save })).blob();
