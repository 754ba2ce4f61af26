// A canvas that shows a picture as large as fits.

const MOST = 5; // largest magnification to fit the stage
const CLOSEST = 32; // largest magnification of a part

export class Picture {
  #canvas;
  #stage;
  #waits = false; // a promise while a frame is requested
  image = null; // an ImageBitmap
  width = 0; // of the picture, which the canvas has the shape of; image may have fewer pixels
  height = 0;
  scale = 1; // canvas pixels per pixel of the picture
  zoom = 1; // magnification of the part that is shown; 1 shows the whole picture
  left = 0; // the upper left corner of that part, in pixels of the picture
  top = 0;

  constructor(canvas, stage) {
    this.#canvas = canvas;
    this.#stage = stage;
    new ResizeObserver(() => this.fit()).observe(stage);
    addEventListener("resize", () => this.fit()); // also after a change of zoom
  }

  // show shows an image from now on, at the size of a picture with width x height pixels.
  show(image, { width, height } = image) {
    this.image?.close();
    this.image = image;
    this.#canvas.hidden = false;
    if (width === this.width && height === this.height) return this.draw();
    [this.width, this.height] = [width, height];
    [this.zoom, this.left, this.top] = [1, 0, 0];
    return this.fit();
  }

  // fit makes the canvas as large as the stage allows.
  fit() {
    if (!this.image) return;
    const { width, height } = this, style = getComputedStyle(this.#stage);
    const narrow = matchMedia("(max-width: 760px)").matches; // then the height of the stage follows the picture
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
    this.scale = (canvas.width / width) * this.zoom;
    this.#paint();
  }

  // at returns the position of a pointer in the picture.
  at({ clientX, clientY }) {
    const r = this.#canvas.getBoundingClientRect();
    const part = (at, size) => (at * size) / this.zoom;
    return { x: this.left + part((clientX - r.left) / r.width, this.width),
      y: this.top + part((clientY - r.top) / r.height, this.height) };
  }

  // magnify zooms by a factor; the pixel at a position stays where it is. Then the part moves by (dx, dy) of the
  // canvas, in CSS pixels.
  magnify(factor, position, dx = 0, dy = 0) {
    const r = this.#canvas.getBoundingClientRect(), { x, y } = position ? this.at(position) :
      { x: this.left + this.width / 2 / this.zoom, y: this.top + this.height / 2 / this.zoom };
    const zoom = Math.min(Math.max(this.zoom * factor, 1), CLOSEST);
    this.left = x - ((x - this.left) * this.zoom) / zoom - (dx * this.width) / r.width / zoom;
    this.top = y - ((y - this.top) * this.zoom) / zoom - (dy * this.height) / r.height / zoom;
    this.zoom = zoom;
    this.left = Math.min(Math.max(this.left, 0), this.width * (1 - 1 / zoom));
    this.top = Math.min(Math.max(this.top, 0), this.height * (1 - 1 / zoom));
    this.scale = (this.#canvas.width / this.width) * zoom;
    return this.draw();
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
    if (!this.image) return;
    const canvas = this.#canvas, c = canvas.getContext("2d");
    const across = canvas.width * this.zoom, down = canvas.height * this.zoom;
    c.setTransform(1, 0, 0, 1, (-this.left * across) / this.width, (-this.top * down) / this.height);
    c.imageSmoothingQuality = "high";
    c.imageSmoothingEnabled = this.zoom === 1 || this.scale < 4; // near enough, pixels are squares
    c.drawImage(this.image, 0, 0, across, down);
    this.paintOver(c);
  }

  // paintOver draws over the picture. Classes that have something to draw override it.
  paintOver() {}
}
