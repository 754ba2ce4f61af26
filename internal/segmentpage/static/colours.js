// Colours of masks. Each contrasts with the pixels that it covers and differs from those of the other objects.

const COLOURS = ["#2f81f7", "#ff5c39", "#ffc400", "#00c2a8", "#e03ff0", "#7ad100", "#ff2f7e", "#00b7ff", "#8f5bff",
  "#f28c00", "#00d966", "#ffffff"];

const parse = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

// distance of two colours [r, g, b], weighted as the eye does, about ("redmean").
function distance(a, b) {
  const [r, g, bl] = a.map((v, i) => v - b[i]), red = (a[0] + b[0]) / 512;
  return Math.sqrt((2 + red) * r * r + 4 * g * g + (3 - red) * bl * bl);
}

// mean returns the mean colour of the pixels inside a mask, given as run lengths. pixels is RGBA data.
export function mean(runs, pixels) {
  const sum = [0, 0, 0];
  let at = 0, n = 0;
  runs.forEach((length, i) => {
    if (i % 2) {
      for (let p = at; p < at + length; p += 7) { // a seventh of them is enough
        for (let c = 0; c < 3; c++) sum[c] += pixels[4 * p + c];
        n++;
      }
    }
    at += length;
  });
  return n ? sum.map((v) => v / n) : [128, 128, 128];
}

// pick returns the colour that is farthest from under, and far from those of other objects.
export function pick(under, others) {
  const used = others.map(parse);
  let best = COLOURS[0], most = -1;
  for (const colour of COLOURS) {
    const c = parse(colour), twice = others.filter((o) => o === colour).length;
    const apart = Math.min(distance(c, under), ...used.map((u) => 1.5 * distance(c, u) + 40)) / (1 + twice);
    if (apart > most) [best, most] = [colour, apart];
  }
  return best;
}

// plain reports whether a colour is too near to what it would cover.
export const plain = (colour, under) => distance(parse(colour), under) < 150;
