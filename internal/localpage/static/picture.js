// A canvas that shows a picture as large as fits.

const MOST = 5; // largest magnification

export class Picture {
  #canvas;
  #stage;
  #waits = false; // a promise while a frame is requested
  image = null; // an ImageBitmap
  width = 0; // of the picture, which the canvas has the shape of; image may have fewer pixels
  height = 0;
  scale = 1; // canvas pixels per pixel of the picture

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
    this.scale = canvas.width / width;
    this.#paint();
  }

  // at returns the position of a pointer in the picture.
  at({ clientX, clientY }) {
    const r = this.#canvas.getBoundingClientRect();
    return { x: ((clientX - r.left) / r.width) * this.width, y: ((clientY - r.top) / r.height) * this.height };
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
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.imageSmoothingQuality = "high";
    c.drawImage(this.image, 0, 0, canvas.width, canvas.height);
    this.paintOver(c);
  }

  // paintOver draws over the picture. Classes that have something to draw override it.
  paintOver() {}
}
