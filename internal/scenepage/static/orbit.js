// A camera that goes around a target.

const sum = (a, b, k = 1) => a.map((x, i) => x + k * b[i]);
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const unit = (a) => a.map((x) => x / Math.hypot(...a));
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

const STEEPEST = (89 / 180) * Math.PI; // from above or below, "up" would be along the view

export class Orbit {
  #first; // the camera after a reset
  #radius;
  target;
  fov; // vertical, in degrees
  up; // of length 1
  #front; // axes of the circle, of length 1: to the camera at yaw 0, and to its right there
  #side;
  #yaw;
  #pitch;
  #distance;
  #nearest;
  #farthest;

  // camera is {pos, target, up, fov}.
  constructor(camera, radius) {
    this.#first = camera;
    this.#radius = radius;
    this.reset();
  }

  reset() {
    const { pos, target, up, fov } = this.#first;
    this.target = [...target];
    this.fov = fov;
    this.#begin(pos, up);
    this.#nearest = Math.min(this.#distance, this.#radius / 1000);
    this.#farthest = Math.max(this.#distance, this.#radius * 1000);
  }

  // #begin looks from pos, with the given direction up.
  #begin(pos, up) {
    const arm = sum(pos, this.target, -1);
    this.up = unit(up);
    this.#distance = Math.hypot(...arm);
    const height = dot(arm, this.up) / this.#distance;
    let front = sum(arm, this.up, -height * this.#distance);
    if (Math.hypot(...front) < 1e-6 * this.#distance) { // seen from above: any direction will do
      front = cross(this.up, Math.abs(this.up[0]) < 0.5 ? [1, 0, 0] : [0, 0, 1]);
    }
    this.#front = unit(front);
    this.#side = cross(this.up, this.#front);
    this.#yaw = 0;
    this.#pitch = clamp(Math.asin(clamp(height, -1, 1)), -STEEPEST, STEEPEST);
  }

  // #arm is the vector of length 1 from the target to the camera.
  get #arm() {
    const c = Math.cos(this.#pitch);
    const flat = sum(this.#front.map((x) => x * Math.cos(this.#yaw)), this.#side, Math.sin(this.#yaw));
    return sum(flat.map((x) => c * x), this.up, Math.sin(this.#pitch));
  }

  get camera() {
    return { pos: sum(this.target, this.#arm, this.#distance), target: this.target, up: this.up, fov: this.fov };
  }

  // turn moves the camera around the target, to the right and up, by angles in radians.
  turn(right, up) {
    this.#yaw += right;
    this.#pitch = clamp(this.#pitch + up, -STEEPEST, STEEPEST);
  }

  // pan moves camera and target to the right and up, by shares of the picture's height.
  pan(right, up) {
    const arm = this.#arm, size = 2 * this.#distance * Math.tan((this.fov * Math.PI) / 360);
    const toRight = unit(cross(this.up, arm));
    this.target = sum(sum(this.target, toRight, right * size), cross(arm, toRight), up * size);
  }

  // zoom divides the distance from the target.
  zoom(factor) {
    this.#distance = clamp(this.#distance / factor, this.#nearest, this.#farthest);
  }

  // setUp changes the direction up and keeps the position, if that is not above the target now.
  setUp(up) {
    this.#begin(this.camera.pos, up);
  }
}
