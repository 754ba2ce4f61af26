{{define "alpha"}}
var<workgroup> queue: array<u32, {{.C.Batch}}>;
var<workgroup> forms: array<vec4<f32>, {{mul .C.Forms5 5}}>;

// What splat j of the batch covers of a pixel. All products that are added are in calls of fma, so that each shader
// rounds them in the same way.
fn alpha_of(j: u32, at: vec2<f32>) -> f32 {
  let a = forms[5u * j];
  let b = forms[5u * j + 1u];
  let c = forms[5u * j + 2u];
  let d = forms[5u * j + 3u];
  let dx = at.x - a.x;
  let dy = at.y - a.y;
  let u = fma(a.w, dx, fma(b.x, dy, a.z));
  let v = fma(b.z, dy, b.y);
  let den = fma(dx, fma(c.y, dx, fma(c.z, dy, b.w)), fma(dy, fma(c.w, dy, c.x), 1.0));
  let z = fma(u, u, v * v) / den;
  if (!(z >= 0.0 && z <= d.w) || !(fma(d.y, dx, fma(d.z, dy, d.x)) > 0.0)) {
    return 0.0;
  }
  return forms[5u * j + 4u].w * exp2(-z);
}
{{end}}

{{define "pixel"}}
{{template "alpha" .}}
var<workgroup> taking: atomic<u32>;

struct Pixel {
  at: vec2<f32>,
  color: vec3<f32>,
  t: f32, // transmittance
  left: u32, // how many more splats it takes
{{- if .C.Pixels}}
  last: u32, // the place in the order after that of its last splat
  ones: u32, // how many splats have an alpha of 1
  // The transmittance without these is scaled*2^(-40*steps), so that it does not underflow.
  scaled: f32,
  steps: u32,
{{- end}}
}

fn begin(at: vec2<f32>, inside: bool) -> Pixel {
  var left = 0u;
  if (inside) {
    left = 0xffffffffu;
    if (cam(20u) >= 1.0) {
      left = u32(min(cam(20u), 2147483520.0));
    }
  }
  return Pixel(at, vec3<f32>(0.0), 1.0, left{{if .C.Pixels}}, 0u, 0u, 1.0, 0u{{end}});
}

fn after(p: Pixel, alpha: f32, j: u32) -> Pixel {
  let t = p.t * (1.0 - alpha);
{{- if .C.Pixels}}
  let s = p.scaled * select(1.0 - alpha, 1.0, alpha == 1.0);
  let small = s < 0x1p-40;
{{- end}}
  return Pixel(p.at, fma(vec3<f32>(p.t * alpha), forms[5u * j + 4u].xyz, p.color), t,
      select(p.left - 1u, 0u, t < cam(21u))
{{- if .C.Pixels}}, queue[j] + 1u, select(p.ones, p.ones + 1u, alpha == 1.0),
      select(s, s * 0x1p40, small), select(p.steps, p.steps + 1u, small){{end}});
}

// Loads {{.C.Batch}} splats, or as many as there are.
fn load(count: u32, local: u32) {
  workgroupBarrier();
  for (var e = local; e < 5u * count; e = e + 256u) {
    let i = queue[e / 5u];
    let k = e % 5u;
    if (k < 4u) {
      forms[e] = form4(i, k);
    } else {
      forms[e] = color4(i);
    }
  }
  workgroupBarrier();
}

// Adds the splats of the queue to a pixel.
fn draw(was: Pixel, count: u32, local: u32) -> Pixel {
  load(count, local);
  var p = was;
  for (var j = 0u; j < count && p.left > 0u; j = j + 1u) {
    let alpha = alpha_of(j, p.at);
    if (alpha != 0.0) {
      p = after(p, alpha, j);
    }
  }
  return p;
}

// Whether a pixel of the workgroup takes another splat.
fn unfinished(p: Pixel, local: u32) -> bool {
  if (local == 0u) {
    atomicStore(&taking, 0u);
  }
  workgroupBarrier();
  if (p.left > 0u) {
    atomicStore(&taking, 1u);
  }
  workgroupBarrier();
  return atomicLoad(&taking) == 1u;
}

// max(0, x)^2.2 = x^2 * 2^(log2(x)/5)
fn encode(x: f32) -> f32 {
  if (!is_finite(x) && !(bitcast<u32>(x) == 0xff800000u)) {
    return x;
  }
  if (x < 1.0e-30) {
    return 0.0;
  }
  return x * x * exp2(log2_of(x) * 0.2);
}

fn background() -> vec3<f32> { return vec3<f32>(cam(12u), cam(13u), cam(14u)); }
{{- if .C.Pixels}}

// The derivative of encode.
fn slope(x: f32) -> f32 {
  if (!(x > 1.0e-30)) {
    return 0.0;
  }
  return 2.2 * x * exp2(log2_of(x) * 0.2);
}

// Keeps what the gradient needs of a pixel: the scaled transmittance, the gradients of the linear colour and of the
// transmittance, and the members after left. The result is the largest gradient of a colour.
fn finish(p: Pixel) -> f32 {
  let c = fma(vec3<f32>(p.t), background(), p.color);
  let pixel = u32(p.at.y) * P.width + u32(p.at.x);
  let d = vec3<f32>(x7(4u * pixel), x7(4u * pixel + 1u), x7(4u * pixel + 2u));
  if (!is_finite(d.x) || !is_finite(d.y) || !is_finite(d.z)) {
    status_put(0u, 1u);
  }
  var g = vec3<f32>(slope(c.x) * d.x, slope(c.y) * d.y, slope(c.z) * d.z);
{{- if .C.Clip}}
  let norm = sqrt(dot(g, g));
  if (norm > {{.C.Clip}}) {
    g = g * ({{.C.Clip}} / norm);
  }
{{- end}}
  let to = P.pixels + 8u * pixel;
  set_real(to, p.scaled);
  set_real(to + 1u, g.x);
  set_real(to + 2u, g.y);
  set_real(to + 3u, g.z);
  set_real(to + 4u, dot(g, background()));
  set_word(to + 5u, p.last);
  set_word(to + 6u, p.ones);
  set_word(to + 7u, p.steps);
  return max(max(abs(g.x), abs(g.y)), abs(g.z));
}
{{- else}}

fn finish(p: Pixel) {
  let c = fma(vec3<f32>(p.t), background(), p.color);
  let to = 4u * (u32(p.at.y) * P.width + u32(p.at.x));
  y_put(to, bitcast<u32>(encode(c.x)));
  y_put(to + 1u, bitcast<u32>(encode(c.y)));
  y_put(to + 2u, bitcast<u32>(encode(c.z)));
  y_put(to + 3u, bitcast<u32>(1.0 - p.t));
}
{{- end}}
{{end}}

{{define "of_order"}}
// Places in the order name the splats.
fn form4(place: u32, k: u32) -> vec4<f32> {
  let at = P.forms + 16u * word(P.order + place) + 4u * k;
  return vec4<f32>(real(at), real(at + 1u), real(at + 2u), real(at + 3u));
}
fn color4(place: u32) -> vec4<f32> {
  let at = P.colors + 4u * word(P.order + place);
  return vec4<f32>(real(at), real(at + 1u), real(at + 2u), real(at + 3u));
}
{{end}}

{{define "render"}}
{{template "memory" .}}{{template "log2" .}}{{template "walk" .}}{{template "pixel" .}}{{template "of_order" .}}
// Renders a tile of 16x16 pixels. It reads the map of its bin and collects the splats that meet the tile.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let tile = group.y * groups.x + group.x;
  if (tile >= P.tiles) {
    return;
  }
  let x0 = tile % P.columns * 16u;
  let y0 = tile / P.columns * 16u;
  let x = x0 + local % 16u;
  let y = y0 + local / 16u;
  var p = begin(vec2<f32>(f32(x), f32(y)), x < P.width && y < P.height);
  let map = P.maps + (y0 / P.side * P.across + x0 / P.side) * P.words;
  var queued = 0u;
  var more = true;
  for (var first = 0u; first < P.words && more; first = first + 256u) {
    var bits = 0u;
    if (first + local < P.words) {
      bits = near(word(map + first + local), first + local, x0, y0, x0 + 16u, y0 + 16u);
    }
    let counts = before(bits_of(bits), local);
    var rank = counts.x;
    var done = 0u;
    for (var part = 0u; part < 64u && done < counts.y && more; part = part + 1u) {
      let take = min({{.C.Batch}}u - queued, counts.y - done);
      for (var k = 0u; k < 32u && bits != 0u && rank < done + take; k = k + 1u) {
        let lowest = bits & (~bits + 1u);
        let bit = 31u - countLeadingZeros(lowest);
        queue[queued + rank - done] = 32u * (first + local) + bit;
        bits = bits & ~lowest;
        rank = rank + 1u;
      }
      queued = queued + take;
      done = done + take;
      if (queued == {{.C.Batch}}u) {
        p = draw(p, queued, local);
        queued = 0u;
        more = unfinished(p, local);
      }
    }
  }
  if (more) {
    p = draw(p, queued, local);
  }
{{- if .C.Pixels}}
  var largest = 0.0;
  if (x < P.width && y < P.height) {
    largest = finish(p);
  }
  workgroupBarrier();
  sums[local] = bitcast<u32>(largest);
  workgroupBarrier();
  if (local == 0u) {
    for (var k = 0u; k < 256u; k = k + 1u) {
      largest = max(largest, bitcast<f32>(sums[k]));
    }
    set_real(P.steepest + tile, largest);
  }
{{- else}}
  if (x < P.width && y < P.height) {
    finish(p);
  }
{{- end}}
}
{{end}}

{{define "rasterize"}}
{{template "log2" .}}{{template "pixel" .}}
fn form4(i: u32, k: u32) -> vec4<f32> {
  let at = 16u * i + 4u * k;
  return vec4<f32>(x1(at), x1(at + 1u), x1(at + 2u), x1(at + 3u));
}
fn color4(i: u32) -> vec4<f32> { return vec4<f32>(x0(4u * i), x0(4u * i + 1u), x0(4u * i + 2u), x0(4u * i + 3u)); }

// Renders 16x16 pixels of a tile, or as many as it has.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let g = group.y * groups.x + group.x;
  let tile = g / {{mul .C.Parts .C.Parts}}u;
  if (tile >= P.tiles) {
    return;
  }
  let part = g % {{mul .C.Parts .C.Parts}}u;
  let x = (local % 16u) + part % {{.C.Parts}}u * 16u;
  let y = (local / 16u) + part / {{.C.Parts}}u * 16u;
  let column = tile % P.columns * P.tile + x;
  let row = tile / P.columns * P.tile + y;
  let inside = x < P.tile && y < P.tile && column < P.width && row < P.height;
  var p = begin(vec2<f32>(f32(column), f32(row)), inside);
  let end = u32(clamp(ranges(2u * tile + 1u), 0, i32(P.list)));
  var more = true;
  for (var k = u32(max(ranges(2u * tile), 0)); k < end; k = k + {{.C.Batch}}u) {
    let count = min(end - k, {{.C.Batch}}u);
    workgroupBarrier();
    if (local < count) {
      let i = list(k + local);
      if (i < 0 || i >= i32(P.n)) {
        status_put(0u, 1u);
      }
      queue[local] = u32(clamp(i, 0, i32(P.n) - 1));
    }
    if (more) { // the entries are checked in any case
      p = draw(p, count, local);
      more = unfinished(p, local);
    }
  }
  if (inside) {
    finish(p);
  }
}
{{end}}
