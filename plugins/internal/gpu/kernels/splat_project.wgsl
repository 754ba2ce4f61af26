{{define "memory"}}
fn word(i: u32) -> u32 { return scratch_word(i); }
fn real(i: u32) -> f32 { return bitcast<f32>(scratch_word(i)); }
fn set_word(i: u32, v: u32) { scratch_put(i, v); }
fn set_real(i: u32, v: f32) { scratch_put(i, bitcast<u32>(v)); }
{{- end}}

{{define "view_pairs"}}
fn real2(i: u32) -> vec2<f32> { return vec2<f32>(real(i), real(i + 1u)); }
fn set_real2(i: u32, v: vec2<f32>) {
  set_real(i, v.x);
  set_real(i + 1u, v.y);
}
fn real6(i: u32) -> Pairs3 { return Pairs3(real2(i), real2(i + 2u), real2(i + 4u)); }
fn set_real6(i: u32, v: Pairs3) {
  set_real2(i, v.x);
  set_real2(i + 2u, v.y);
  set_real2(i + 4u, v.z);
}
{{- end}}

{{define "valid"}}
// Whether meta may have its values.
fn valid() -> bool {
  var finite = true;
  for (var k = 0u; k < 22u; k = k + 1u) {
    finite = finite && ((k >= 10u && k < 12u) || (k >= 15u && k < 18u) || is_finite(cam(k)));
  }
  return finite && cam(9u) > 0.0 && cam(9u) < 180.0 && cam(18u) > 0.0 && cam(18u) <= 1.0e6 && cam(19u) > 1.0e-9;
}
{{end}}

{{define "view"}}
{{template "memory" .}}{{template "pairs" .}}{{template "view_pairs" .}}{{template "log2" .}}{{template "valid" .}}
fn unit3(v: Pairs3) -> Pairs3 {
  let m = max(max(abs(v.x.x), abs(v.y.x)), abs(v.z.x));
  if (!(m > 1.0e-30)) {
    return Pairs3(pair(0.0), pair(0.0), pair(1.0));
  }
  let f = to_one(m);
  let s = Pairs3(v.x * f, v.y * f, v.z * f);
  let n = root(dot3(s, s));
  if (n.x <= 1.0e-8 * f) {
    return Pairs3(pair(0.0), pair(0.0), pair(1.0));
  }
  return times3(s, quotient(pair(1.0), n));
}

// The tangent of t, 0 to pi/2, from the series for t/8.
fn tangent(t: vec2<f32>) -> vec2<f32> {
  let x = t * 0.125;
  let s = mul(x, x);
  var sine = {{.C.S6}};
  sine = add({{.C.S5}}, mul(s, sine));
  sine = add({{.C.S4}}, mul(s, sine));
  sine = add({{.C.S3}}, mul(s, sine));
  sine = add({{.C.S2}}, mul(s, sine));
  sine = add({{.C.S1}}, mul(s, sine));
  sine = mul(x, add(pair(1.0), mul(s, sine)));
  var cosine = root(less(pair(1.0), mul(sine, sine)));
  for (var k = 0u; k < 3u; k = k + 1u) {
    let c = less(pair(1.0), 2.0 * mul(sine, sine));
    sine = 2.0 * mul(sine, cosine);
    cosine = c;
  }
  return quotient(sine, cosine);
}

// Reads meta: the camera, in memory from word P.view on.
@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  if (local > 0u || group.x + group.y > 0u) {
    return;
  }
  if (!valid()) {
    status_put(0u, 1u);
    return;
  }
  let fov = cam(9u);
  let radius = cam(18u);
  let forward = unit3(Pairs3(sum2(cam(3u), -cam(0u)), sum2(cam(4u), -cam(1u)), sum2(cam(5u), -cam(2u))));
  let right = unit3(cross3(Pairs3(pair(cam(6u)), pair(cam(7u)), pair(cam(8u))), forward));
  let focal = quotient(pair(0.5 * f32(P.height)), tangent(mul(pair(fov), {{.C.Degree}})));
  for (var k = 0u; k < 3u; k = k + 1u) {
    set_real(P.view + k, cam(k));
  }
  set_word(P.view + 3u, 0u);
  set_real6(P.view + 4u, forward);
  set_real6(P.view + 10u, right);
  set_real6(P.view + 16u, cross3(forward, right));
  set_real2(P.view + 22u, focal);
  // log2 of 3*radius, with one step of Newton's method
  let x = mul(pair(radius), pair(3.0));
  let y = pair(log2_of(x.x));
  set_real2(P.view + 24u, add(y, mul(less(mul(x, exp2_pair(-y)), pair(1.0)), {{.C.Log2E}})));
}
{{end}}

{{define "check"}}
{{template "memory" .}}
// Checks the values of a scene, one splat per invocation, and whether its colours have a constant term.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * 256u + local;
  if (i >= P.n) {
    return;
  }
  var good = is_finite(opacities(i));
  var largest = 0.0;
  for (var k = 0u; k < 3u; k = k + 1u) {
    good = good && is_finite(positions(3u * i + k)) && is_finite(scales(3u * i + k)) && scales(3u * i + k) <= 80.0 &&
        is_finite(colors(3u * i + k));
  }
  var zero = 0u;
  for (var k = 0u; k < 4u; k = k + 1u) {
    good = good && is_finite(rotations(4u * i + k));
    zero = zero | (bitcast<u32>(rotations(4u * i + k)) << 1u);
  }
  for (var k = 0u; k < 3u * P.terms; k = k + 1u) {
    let x = sh(i * 3u * P.terms + k);
    good = good && is_finite(x);
    if (k < 3u) {
      largest = max(largest, abs(x));
    }
  }
  if (!good || zero == 0u) {
    status_put(0u, 1u);
  }
  if (largest > 1.0e-8) {
    set_word(P.view + 3u, 1u);
  }
}
{{end}}

{{define "harmonics"}}
// The functions of the real spherical harmonics that count, in direction (x, y, z).
fn harmonics(x: f32, y: f32, z: f32) -> array<f32, 16> {
  var b: array<f32, 16>;
  b[0] = 0.28209479;
{{- if ge .C.Count 4}}
  b[1] = -0.48860251 * y;
  b[2] = 0.48860251 * z;
  b[3] = -0.48860251 * x;
{{- end}}
{{- if ge .C.Count 9}}
  b[4] = 1.0925484305920792 * x * y;
  b[5] = -1.0925484305920792 * y * z;
  b[6] = 0.31539156525252005 * (2.0 * z * z - x * x - y * y);
  b[7] = -1.0925484305920792 * x * z;
  b[8] = 0.5462742152960396 * (x * x - y * y);
{{- end}}
{{- if ge .C.Count 16}}
  b[9] = -0.5900435899266435 * y * (3.0 * x * x - y * y);
  b[10] = 2.890611442640554 * x * y * z;
  b[11] = -0.4570457994644658 * y * (4.0 * z * z - x * x - y * y);
  b[12] = 0.3731763325901154 * z * (2.0 * z * z - 3.0 * x * x - 3.0 * y * y);
  b[13] = -0.4570457994644658 * x * (4.0 * z * z - x * x - y * y);
  b[14] = 1.445305721320277 * z * (x * x - y * y);
  b[15] = -0.5900435899266435 * x * (x * x - 3.0 * y * y);
{{- end}}
  return b;
}
{{end}}

{{define "clip"}}
// The integers [x, y) below n between a and b, which are moved apart by 1/64.
fn clip(a: vec2<f32>, b: vec2<f32>, n: f32) -> vec2<f32> {
  let lo = rounded_up(least(most(add(a, pair(-0.015625)), pair(0.0)), pair(n)));
  let hi = rounded_down(least(most(add(b, pair(0.015625)), pair(-1.0)), pair(n - 1.0))) + 1.0;
  return vec2<f32>(lo, max(lo, hi));
}

struct Conic {
  at: vec2<f32>, // the pixel from which the others count
  cy: vec2<f32>,
  hx: vec2<f32>,
  hy: vec2<f32>,
  tilt: vec2<f32>,
  a: vec2<f32>,
  b: vec2<f32>,
  d: vec2<f32>,
  w: vec2<f32>, // 1 - b^2/(4ac)
}

// The end of the ellipse at a height above its centre: the left one for a sign of -1, the right one for 1.
fn edge(c: Conic, above: vec2<f32>, sign: f32) -> vec2<f32> {
  let y = least(most(above, -c.hy), c.hy);
  let half = -quotient(add(mul(c.b, add(y, c.cy)), c.d), 2.0 * c.a);
  if (!(c.hy.x > 0.0)) {
    return half;
  }
  let t = quotient(y, c.hy);
  let r = mul(c.hx, root(mul(most(less(pair(1.0), mul(t, t)), pair(0.0)), c.w)));
  return add(half, r * sign);
}

// The columns [x, y) that the ellipse meets in rows [top, bottom).
fn columns(c: Conic, top: f32, bottom: f32) -> vec2<f32> {
  let low = most(less(pair(top - c.at.y), c.cy), -c.hy);
  let high = most(least(less(pair(bottom - 1.0 - c.at.y), c.cy), c.hy), low);
  let left = edge(c, least(most(-c.tilt, low), high), -1.0);
  let right = edge(c, least(most(c.tilt, low), high), 1.0);
  return clip(add(pair(c.at.x), left), add(pair(c.at.x), right), f32(P.width));
}
{{end}}

{{define "project"}}
{{template "memory" .}}{{template "pairs" .}}{{template "view_pairs" .}}{{template "log2" .}}{{template "harmonics" .}}
{{- template "clip" .}}
{{- if not .C.Conics}}
fn form_put(i: u32, v: u32) { scratch_put(i, v); }
fn color_put(i: u32, v: u32) { scratch_put(i, v); }
{{- end}}

// The axes of splat i: the rows of its rotation, transposed.
fn axes(i: u32) -> array<Pairs3, 3> {
  let q = vec4<f32>(rotations(4u * i), rotations(4u * i + 1u), rotations(4u * i + 2u), rotations(4u * i + 3u));
  let f = to_one(max(max(abs(q.x), abs(q.y)), max(abs(q.z), abs(q.w))));
  var w = pair(q.x * f);
  var x = pair(q.y * f);
  var y = pair(q.z * f);
  var z = pair(q.w * f);
  let s = quotient(pair(1.0), root(add(add(mul(w, w), mul(x, x)), add(mul(y, y), mul(z, z)))));
  w = mul(w, s);
  x = mul(x, s);
  y = mul(y, s);
  z = mul(z, s);
  let one = pair(1.0);
  let xx = mul(x, x);
  let yy = mul(y, y);
  let zz = mul(z, z);
  let xy = mul(x, y);
  let xz = mul(x, z);
  let yz = mul(y, z);
  let wx = mul(w, x);
  let wy = mul(w, y);
  let wz = mul(w, z);
  return array<Pairs3, 3>(
      Pairs3(less(one, 2.0 * add(yy, zz)), 2.0 * add(xy, wz), 2.0 * less(xz, wy)),
      Pairs3(2.0 * less(xy, wz), less(one, 2.0 * add(xx, zz)), 2.0 * add(yz, wx)),
      Pairs3(2.0 * add(xz, wy), 2.0 * less(yz, wx), less(one, 2.0 * add(xx, yy))));
}

fn shown(i: u32, rel: vec3<f32>) -> vec3<f32> {
  let f = to_one(max(max(abs(rel.x), abs(rel.y)), abs(rel.z)));
  let r = rel * f;
  let d = -r / sqrt(dot(r, r));
  var b = harmonics(d.x, d.y, d.z);
  let from_colors = word(P.view + 3u) == 0u;
  var c = vec3<f32>(0.5);
  if (from_colors) {
    c = clamp(vec3<f32>(colors(3u * i), colors(3u * i + 1u), colors(3u * i + 2u)), vec3<f32>(0.0), vec3<f32>(1.0));
  }
  for (var k = 0u; k < {{.C.Count}}u; k = k + 1u) {
    let at = 3u * (P.terms * i + k);
    if (k > 0u || !from_colors) {
      c = c + b[k] * vec3<f32>(sh(at), sh(at + 1u), sh(at + 2u));
    }
  }
  return c;
}

fn nearest(a: vec2<f32>, n: u32) -> f32 {
  let c = least(most(a, pair(0.0)), pair(f32(n) - 1.0));
  let whole = rounded_down(c);
  return select(whole, whole + 1.0, less(c, pair(whole)).x >= 0.5);
}

// Projects splat i. The result is false if no pixel shows it.
fn project(i: u32) -> bool {
  let opacity = clamp(opacities(i), 0.0, 1.0);
  let view = P.view;
  let rel = Pairs3(sum2(positions(3u * i), -real(view)), sum2(positions(3u * i + 1u), -real(view + 1u)),
      sum2(positions(3u * i + 2u), -real(view + 2u)));
  let forward = real6(view + 4u);
  let right = real6(view + 10u);
  let down = real6(view + 16u);
  let focal = real2(view + 22u);
  let depth = dot3(rel, forward);
  if (!(opacity > cam(19u)) || !(depth.x > 1.0e-4)) {
    return false;
  }
  let limit = log2_of(opacity / cam(19u));
  let middle_x = 0.5 - 0.5 * f32(P.width);
  let middle_y = 0.5 - 0.5 * f32(P.height);
  let col = less(mul(quotient(dot3(rel, right), depth), focal), pair(middle_x));
  let row = less(mul(quotient(dot3(rel, down), depth), focal), pair(middle_y));
  let x = nearest(col, P.width);
  let y = nearest(row, P.height);

  // The semi-axes are 2^size, at least 1e-6. Their inverses count in units of the largest, so that none overflows.
  var size: array<vec2<f32>, 3>;
  for (var k = 0u; k < 3u; k = k + 1u) {
    size[k] = most(add(mul(pair(scales(3u * i + k)), {{.C.Log2E}}), real2(view + 24u)), {{.C.Smallest}});
  }
  let least_size = least(least(size[0], size[1]), size[2]);
  let unit = exp2_pair(-least_size);
  var local = axes(i);
  for (var k = 0u; k < 3u; k = k + 1u) {
    local[k] = times3(local[k], exp2_pair(less(least_size, size[k])));
  }
  let ray = add3(forward, add3(times3(right, quotient(pair(x + middle_x), focal)),
      times3(down, quotient(pair(y + middle_y), focal))));
  let o = Pairs3(-dot3(local[0], rel), -dot3(local[1], rel), -dot3(local[2], rel));
  var d = Pairs3(dot3(local[0], ray), dot3(local[1], ray), dot3(local[2], ray));
  let scale = quotient(pair(1.0), root(dot3(d, d)));
  let across = quotient(scale, focal);
  d = times3(d, scale);
  let dx = times3(Pairs3(dot3(local[0], right), dot3(local[1], right), dot3(local[2], right)), across);
  let dy = times3(Pairs3(dot3(local[0], down), dot3(local[1], down), dot3(local[2], down)), across);
  let wx = cross3(o, dx);
  let wy = cross3(o, dy);
  let w = cross3(o, d);
  let long = root(dot3(wx, wx));
  let e = times3(wx, quotient(pair(1.0), long));
  let g = cross3(times3(o, quotient(pair(1.0), root(dot3(o, o)))), e);
  let ku = mul({{.C.Exponent}}, unit);
  let u = mul(ku, dot3(w, e));
  let ux = mul(ku, long);
  let uy = mul(ku, dot3(wy, e));
  let v = mul(ku, dot3(w, g));
  let vy = mul(ku, dot3(wy, g));
  let d1 = 2.0 * dot3(d, dx);
  let d2 = 2.0 * dot3(d, dy);
  let dxx = dot3(dx, dx);
  let dxy = 2.0 * dot3(dx, dy);
  let dyy = dot3(dy, dy);
  var values = array<f32, 16>(x, y, u.x, ux.x, uy.x, v.x, vy.x, d1.x, d2.x, dxx.x, dxy.x, dyy.x,
      -mul(unit, dot3(d, o)).x, -mul(unit, dot3(dx, o)).x, -mul(unit, dot3(dy, o)).x, limit);
  var fits = true;
  for (var k = 0u; k < 16u; k = k + 1u) {
    fits = fits && is_finite(values[k]);
  }
  if (!fits) {
    return false;
  }

  // The region where the exponent is at most the limit; see splat.Conic.
  let bound = add(mul(pair(limit), {{.C.Wider}}), {{.C.Millionth}});
  var c: Conic;
  c.at = vec2<f32>(x, y);
  c.a = less(mul(ux, ux), mul(bound, dxx));
  c.b = less(2.0 * mul(ux, uy), mul(bound, dxy));
  let cc = less(add(mul(uy, uy), mul(vy, vy)), mul(bound, dyy));
  c.d = less(2.0 * mul(u, ux), mul(bound, d1));
  let ce = less(2.0 * add(mul(u, uy), mul(v, vy)), mul(bound, d2));
  let cf = less(add(mul(u, u), mul(v, v)), bound);
  let ac = mul(c.a, cc);
  let det = less(ac, 0.25 * mul(c.b, c.b));
  var ellipse = c.a.x > 0.0 && cc.x > 0.0 && below(mul({{.C.Billionth}}, ac), det);
  var rows = vec2<f32>(0.0, f32(P.height));
  var cols = vec2<f32>(0.0, f32(P.width));
  if (ellipse) {
    let cx = quotient(less(0.25 * mul(c.b, ce), 0.5 * mul(cc, c.d)), det);
    c.cy = quotient(less(0.25 * mul(c.b, c.d), 0.5 * mul(c.a, ce)), det);
    let height = most(-add(cf, 0.5 * add(mul(c.d, cx), mul(ce, c.cy))), pair(0.0));
    c.hx = root(quotient(mul(height, cc), det));
    c.hy = root(quotient(mul(height, c.a), det));
    c.tilt = -quotient(mul(c.b, c.hx), 2.0 * cc);
    c.w = less(pair(1.0), quotient(mul(c.b, c.b), 4.0 * ac));
    ellipse = is_finite(c.hx.x) && is_finite(cx.x + c.cy.x + c.hy.x + c.tilt.x);
  }
  if (ellipse) {
    let middle = add(pair(y), c.cy);
    rows = clip(less(middle, c.hy), add(middle, c.hy), f32(P.height));
    cols = columns(c, rows.x, rows.y);
  }
  if (rows.x >= rows.y || cols.x >= cols.y) {
    return false;
  }
{{- if .C.Conics}}
  if (ellipse) { // the rows of a tile may reach beyond those of the ellipse, and find it wider
    cols = columns(c, 0.0, f32(P.height));
  }
{{- end}}
  for (var k = 0u; k < 16u; k = k + 1u) {
    form_put(P.forms + 16u * i + k, bitcast<u32>(values[k]));
  }
  let rgb = shown(i, vec3<f32>(rel.x.x, rel.y.x, rel.z.x));
  color_put(P.colors + 4u * i, bitcast<u32>(rgb.x));
  color_put(P.colors + 4u * i + 1u, bitcast<u32>(rgb.y));
  color_put(P.colors + 4u * i + 2u, bitcast<u32>(rgb.z));
  color_put(P.colors + 4u * i + 3u, bitcast<u32>(opacity));
  set_word(P.rects + 2u * i, u32(cols.x) | (u32(cols.y) << 16u));
  set_word(P.rects + 2u * i + 1u, u32(rows.x) | (u32(rows.y) << 16u));
  // The key is the square of the distance with 40 bits.
  let square = dot3(rel, rel);
  let ulp = max(bitcast<f32>(bitcast<u32>(square.x) & 0x7f800000u) * 1.1920929e-7, 1.0e-37);
  set_word(P.high + i, bitcast<u32>(square.x));
  set_word(P.low + i, u32(clamp(round(square.y / ulp * 32768.0) + 32768.0, 0.0, 65535.0)));
{{- if .C.Frames}}
  var reals = array<vec2<f32>, 15>(d.x, d.y, d.z, dx.x, dx.y, dx.z, dy.x, dy.y, dy.z, e.x, e.y, e.z, g.x, g.y, g.z);
  for (var k = 0u; k < 15u; k = k + 1u) {
    set_real(P.frames + 16u * i + k, reals[k].x);
  }
{{- end}}
{{- if .C.Conics}}
  let at = P.conics + 20u * i;
  set_real2(at, c.at);
  set_real2(at + 2u, c.cy);
  set_real2(at + 4u, c.hx);
  set_real2(at + 6u, c.hy);
  set_real2(at + 8u, c.tilt);
  set_real2(at + 10u, c.a);
  set_real2(at + 12u, c.b);
  set_real2(at + 14u, c.d);
  set_real2(at + 16u, c.w);
  set_word(at + 18u, select(0u, 1u, ellipse));
{{- end}}
  return true;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * 64u + local;
  if (i < P.n) {
{{- if .C.Limbs}}
    for (var k = 0u; k < 39u; k = k + 1u) {
      set_word(P.limbs + 39u * i + k, 0u);
    }
{{- end}}
    if (!project(i)) {
      for (var k = 0u; k < 16u; k = k + 1u) {
        form_put(P.forms + 16u * i + k, 0u);
      }
      for (var k = 0u; k < 4u; k = k + 1u) {
        color_put(P.colors + 4u * i + k, 0u);
      }
      set_word(P.rects + 2u * i, 0u);
      set_word(P.rects + 2u * i + 1u, 0u);
      set_word(P.high + i, 0xffffffffu);
      set_word(P.low + i, 0u);
    }
  }
}
{{end}}
