// Converts masks to paths, which are sharp at any size.

// fill returns a byte per pixel, 1 inside, from run lengths: outside, inside, outside, ...
export function fill(runs, width, height) {
  const inside = new Uint8Array(width * height);
  let at = 0;
  runs.forEach((n, i) => {
    if (i % 2) inside.fill(1, at, at + n);
    at += n;
  });
  return inside;
}

// Steps along the edges of pixels, clockwise: east, south, west, north. The inside is on the right.
const DX = [1, 0, -1, 0], DY = [0, 1, 0, -1];

// outline returns the border of the pixels inside as a Path2D in pixels of the image. Holes are wound the other way.
// The path goes through the middles of the edges of pixels, with curves that stay within half a pixel of them, so that
// slanted borders are smooth and not stairs.
export function outline(inside, width, height) {
  const at = (x, y) => x >= 0 && y >= 0 && x < width && y < height && inside[y * width + x] === 1;
  const seen = new Uint8Array(width * height); // pixels whose upper edge is on a finished loop
  const path = new Path2D();
  for (let top = 0; top < height; top++) {
    for (let left = 0; left < width; left++) {
      const i = top * width + left;
      if (!inside[i] || seen[i] || (top > 0 && inside[i - width])) continue;
      const corners = []; // x and y of the middles of the edges before and after each turn
      let x = left, y = top, way = 0; // the edge that starts at (x, y)
      do {
        if (way === 0) seen[y * width + x] = 1;
        const nextX = x + DX[way], nextY = y + DY[way];
        const [ahead, beside] = around(nextX, nextY, way); // the pixels left and right of the next edge
        const turn = at(...ahead) ? 3 : at(...beside) ? 0 : 1;
        if (turn) {
          const next = (way + turn) % 4;
          corners.push(x + DX[way] / 2, y + DY[way] / 2, nextX + DX[next] / 2, nextY + DY[next] / 2);
          way = next;
        }
        x = nextX;
        y = nextY;
      } while (x !== left || y !== top || way !== 0);
      addLoop(path, corners);
    }
  }
  return path;
}

// addLoop adds a closed curve through the middles of a polygon's sides; the corners are its control points.
function addLoop(path, p) {
  const n = p.length;
  path.moveTo((p[n - 2] + p[0]) / 2, (p[n - 1] + p[1]) / 2);
  for (let i = 0; i < n; i += 2) {
    path.quadraticCurveTo(p[i], p[i + 1], (p[i] + p[(i + 2) % n]) / 2, (p[i + 1] + p[(i + 3) % n]) / 2);
  }
  path.closePath();
}

// around returns the two pixels in front of a corner, left and right of the direction of travel.
function around(x, y, way) {
  switch (way) {
    case 0: return [[x, y - 1], [x, y]];
    case 1: return [[x, y], [x - 1, y]];
    case 2: return [[x - 1, y], [x - 1, y - 1]];
    default: return [[x - 1, y - 1], [x, y - 1]];
  }
}
