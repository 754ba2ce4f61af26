// The canvas: an image as large as fits, with its mask and prompts drawn over it at the resolution of the screen.

const MASK = "#2f81f7", ON = "#1fae5b", OFF = "#e5484d", WHITE = "#fff";
const MOST = 5; // largest magnification of an image

export class View {
  #canvas;
  #stage;
  #image = null; // an ImageBitmap
  #scale = 1; // canvas pixels per image pixel
  #waits = false; // whether a frame is requested

  // What is drawn over the image. Call draw after a change.
  path = null; // of the mask
  points = []; // [x, y, 1 or 0]
  box = null; // [x0, y0, x1, y1]
  cross = null; // {x, y} of the keyboard's cursor

  constructor(canvas, stage) {
    this.#canvas = canvas;
    this.#stage = stage;
    new ResizeObserver(() => this.fit()).observe(stage);
    addEventListener("resize", () => this.fit()); // also after a change of zoom
  }

  get width() { return this.#image?.width ?? 0; }
  get height() { return this.#image?.height ?? 0; }

  show(image) {
    this.#image?.close();
    this.#image = image;
    this.#canvas.hidden = false;
    this.fit();
  }

  // fit makes the canvas as large as the stage allows.
  fit() {
    if (!this.#image) return;
    const { width, height } = this.#image, style = getComputedStyle(this.#stage);
    const narrow = matchMedia("(max-width: 760px)").matches; // then the height of the stage follows the image
    const room = {
      x: this.#stage.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight),
      y: narrow ? 0.6 * innerHeight : this.#stage.clientHeight - parseFloat(style.paddingTop) -
        parseFloat(style.paddingBottom),
    };
    const scale = Math.min(room.x / width, room.y / height, MOST), canvas = this.#canvas;
    canvas.style.width = `${width * scale}px`;
    canvas.style.height = `${height * scale}px`;
    canvas.width = Math.max(1, Math.round(width * scale * devicePixelRatio));
    canvas.height = Math.max(1, Math.round(height * scale * devicePixelRatio));
    this.#scale = canvas.width / width;
    this.#paint();
  }

  // at returns the position of a pointer in the image.
  at({ clientX, clientY }) {
    const r = this.#canvas.getBoundingClientRect(), { width, height } = this.#image;
    return { x: ((clientX - r.left) / r.width) * width, y: ((clientY - r.top) / r.height) * height };
  }

  // draw paints with the next frame and resolves then.
  draw() {
    if (!this.#waits) {
      this.#waits = new Promise((done) => requestAnimationFrame(() => {
        this.#waits = false;
        this.#paint();
        done();
      }));
    }
    return this.#waits;
  }

  #paint() {
    if (!this.#image) return;
    const canvas = this.#canvas, c = canvas.getContext("2d");
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.imageSmoothingQuality = "high";
    c.drawImage(this.#image, 0, 0, canvas.width, canvas.height);
    c.setTransform(this.#scale, 0, 0, this.#scale, 0, 0); // from here on in image pixels
    const unit = devicePixelRatio / this.#scale; // one CSS pixel
    const stroke = (colour, width, path) => {
      c.strokeStyle = colour;
      c.lineWidth = width * unit;
      if (path) c.stroke(path);
      else c.stroke();
    };
    c.lineJoin = "round";
    if (this.path) {
      c.globalAlpha = 0.42;
      c.fillStyle = MASK;
      c.fill(this.path, "evenodd");
      c.globalAlpha = 1;
      stroke(WHITE, 4, this.path);
      stroke(MASK, 2, this.path);
    }
    if (this.box) {
      const [x0, y0, x1, y1] = this.box, frame = new Path2D();
      frame.rect(x0, y0, x1 - x0, y1 - y0);
      stroke("#0009", 4, frame);
      c.setLineDash([7 * unit, 5 * unit]);
      stroke(WHITE, 2, frame);
      c.setLineDash([]);
    }
    for (const [x, y, on] of this.points) {
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
