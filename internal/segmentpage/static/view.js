// The canvas: an image as large as fits, with its mask and prompts drawn over it at the resolution of the screen.

import { Picture } from "./picture.js";

const ON = "#1fae5b", OFF = "#e5484d", WHITE = "#fff";

export class View extends Picture {
  // What is drawn over the image. Call draw after a change.
  layers = []; // masks: {path, colour, strong}; the strong one is the object that is being selected
  preview = null; // {path, colour} of the mask that a click would give
  points = []; // [x, y, 1 or 0]
  box = null; // [x0, y0, x1, y1]
  examples = []; // [x0, y0, x1, y1, 1 or 0]
  cross = null; // {x, y} of the keyboard's cursor

  paintOver(c) {
    c.setTransform(this.scale, 0, 0, this.scale, -this.left * this.scale, -this.top * this.scale); // image pixels
    const unit = devicePixelRatio / this.scale; // one CSS pixel
    const stroke = (colour, width, path) => {
      c.strokeStyle = colour;
      c.lineWidth = width * unit;
      if (path) c.stroke(path);
      else c.stroke();
    };
    c.lineJoin = "round";
    for (const { path, colour, strong } of this.layers) {
      c.globalAlpha = strong ? 0.38 : 0.26;
      c.fillStyle = colour;
      c.fill(path, "evenodd");
      c.globalAlpha = 1;
      if (strong) stroke(WHITE, 4, path);
      stroke(colour, 2, path);
    }
    if (this.preview) {
      stroke("#000a", 3.5, this.preview.path);
      c.setLineDash([5 * unit, 4 * unit]);
      stroke(this.preview.colour, 2, this.preview.path);
      c.setLineDash([]);
    }
    if (this.box) {
      const [x0, y0, x1, y1] = this.box, frame = new Path2D();
      frame.rect(x0, y0, x1 - x0, y1 - y0);
      stroke("#0009", 4, frame);
      c.setLineDash([7 * unit, 5 * unit]);
      stroke(WHITE, 2, frame);
      c.setLineDash([]);
    }
    const badge = (x, y, on) => {
      c.beginPath();
      c.arc(x, y, 8 * unit, 0, 2 * Math.PI);
      c.fillStyle = on ? ON : OFF;
      c.shadowColor = "#0008";
      c.shadowBlur = 4 * devicePixelRatio;
      c.fill();
      c.shadowColor = "transparent";
      stroke(WHITE, 2);
      c.beginPath(); // plus or minus, so that colour is not the only difference
      c.moveTo(x - 4 * unit, y);
      c.lineTo(x + 4 * unit, y);
      if (on) {
        c.moveTo(x, y - 4 * unit);
        c.lineTo(x, y + 4 * unit);
      }
      stroke(WHITE, 2);
    };
    for (const [x, y, on] of this.points) badge(x, y, on);
    for (const [x0, y0, x1, y1, like] of this.examples) {
      const frame = new Path2D();
      frame.rect(x0, y0, x1 - x0, y1 - y0);
      stroke(WHITE, 4, frame);
      stroke(like ? ON : OFF, 2, frame);
      badge(x0, y0, like);
    }
    if (this.cross) {
      const { x, y } = this.cross;
      c.beginPath();
      for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
        c.moveTo(x + 4 * unit * dx, y + 4 * unit * dy);
        c.lineTo(x + 16 * unit * dx, y + 16 * unit * dy);
      }
      stroke("#000b", 4);
      stroke("#ffd33d", 2);
    }
  }
}
