{{define "brightest"}}
{{template "memory" .}}
var<workgroup> sums: array<f32, 256>;

// The largest size of a colour of {{.C.Block}} splats.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let block = group.y * groups.x + group.x;
  if (block * {{.C.Block}}u >= P.n) {
    return;
  }
  var largest = 0.0;
  for (var k = 0u; k < {{div .C.Block 256}}u; k = k + 1u) {
    let i = block * {{.C.Block}}u + 256u * k + local;
    if (i < P.n) {
      let at = P.colors + 4u * i;
      largest = max(largest, abs(real(at)) + abs(real(at + 1u)) + abs(real(at + 2u)));
    }
  }
  sums[local] = largest;
  for (var s = 128u; s > 0u; s = s / 2u) {
    workgroupBarrier();
    if (local < s) {
      sums[local] = max(sums[local], sums[local + s]);
    }
  }
  if (local == 0u) {
    set_real(P.blocks + block, sums[0]);
  }
}
{{end}}

{{define "bound"}}
{{template "memory" .}}{{template "log2" .}}
var<workgroup> sums: array<vec2<f32>, 256>;

// A power of two that no sum over the pixels of a tile exceeds; see splat.Sums. One workgroup does all.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  if (group.x + group.y > 0u) {
    return;
  }
  var largest = vec2<f32>(0.0);
  for (var k = local; k < (P.n + {{sub .C.Block 1}}u) / {{.C.Block}}u; k = k + 256u) {
    largest.x = max(largest.x, real(P.blocks + k));
  }
  for (var k = local; k < P.tiles; k = k + 256u) {
    largest.y = max(largest.y, real(P.steepest + k));
  }
  sums[local] = largest;
  for (var s = 128u; s > 0u; s = s / 2u) {
    workgroupBarrier();
    if (local < s) {
      sums[local] = max(sums[local], sums[local + s]);
    }
  }
  if (local == 0u) {
    // |g.color - the same of what lies behind| is at most largest.y times the sum of both colours' sizes, and a point
    // lies within sqrt(-log2(cutoff)/6.5) of the centre.
    let color = sums[0].x + max(sums[0].x, abs(cam(12u)) + abs(cam(13u)) + abs(cam(14u)));
    let point = max(1.0, log2_of(1.0 / min(cam(19u), 1.0)) / 6.4);
    let most = 256.0 * sums[0].y * max(1.0, color) * point;
    let e = clamp(((bitcast<u32>(most) >> 23u) & 255u) + 1u, 28u, 226u);
    set_word(P.view + 27u, e << 23u);
    set_word(P.view + 28u, (254u - e) << 23u);
  }
}
{{end}}

{{define "backward"}}
{{template "memory" .}}{{template "walk" .}}{{template "alpha" .}}{{template "of_order" .}}
var<workgroup> frames: array<vec4<f32>, {{mul .C.Forms5 4}}>;
var<workgroup> gradients: array<vec4<f32>, 256>;
// The products h and the weights of each splat in each pixel, then the sums of each invocation.
var<workgroup> parts: array<f32, {{mul .C.Forms5 512}}>;

struct Pixel {
  at: vec2<f32>,
  color: vec3<f32>, // the gradient of the linear colour
  scaled: f32, // of the transmittance behind the splats that are not done
  to_t: f32, // its gradient
  last: u32,
  ones: u32,
  steps: u32,
}

// Adds to sum c of a splat, in multiples of three powers of two, so that the order does not matter.
fn put_sum(i: u32, c: u32, value: f32) {
  if (value != 0.0) {
    let x = value * real(P.view + 28u) * {{.C.Limb}}.0;
    let a = round(x);
    let y = (x - a) * {{.C.Limb}}.0;
    let b = round(y);
    let to = P.limbs + 39u * i + 3u * c;
    limbs_add(to, bitcast<u32>(i32(a)));
    limbs_add(to + 1u, bitcast<u32>(i32(b)));
    limbs_add(to + 2u, bitcast<u32>(i32(round((y - b) * {{.C.Limb}}.0))));
  }
}

// Takes splats first to first + count of the queue, the nearest last. An invocation does a pixel for all splats, and
// then a splat for {{.C.Forms5}} pixels.
fn gather(was: Pixel, first: u32, count: u32, local: u32) -> Pixel {
  workgroupBarrier();
  for (var e = local; e < 9u * count; e = e + 256u) {
    let place = queue[first + e / 9u];
    let k = e % 9u;
    if (k < 4u) {
      forms[5u * (e / 9u) + k] = form4(place, k);
    } else if (k == 4u) {
      forms[5u * (e / 9u) + 4u] = color4(place);
    } else {
      let at = P.frames + 16u * word(P.order + place) + 4u * (k - 5u);
      frames[4u * (e / 9u) + k - 5u] = vec4<f32>(real(at), real(at + 1u), real(at + 2u), real(at + 3u));
    }
  }
  workgroupBarrier();
  var p = was;
  for (var j = 0u; j < {{.C.Forms5}}u; j = j + 1u) {
    var h = 0.0;
    var w = 0.0;
    if (j < count) {
      if (queue[first + j] < p.last) {
        let alpha = alpha_of(j, p.at);
        if (alpha != 0.0) {
          let rest = 1.0 - alpha;
          if (rest != 0.0) {
            p.scaled = p.scaled / rest;
            if (p.scaled > 1.5 && p.steps > 0u) {
              p.scaled = p.scaled * 0x1p-40;
              p.steps = p.steps - 1u;
            }
          } else {
            p.ones = p.ones - 1u;
          }
          var t = 0.0; // in front of the splat
          if (p.ones == 0u && p.steps < 3u) {
            t = p.scaled * select(select(0x1p-80, 0x1p-40, p.steps == 1u), 1.0, p.steps == 0u);
          }
          let shade = dot(p.color, forms[5u * j + 4u].xyz);
          w = alpha * t;
          h = w * (shade - p.to_t);
          p.to_t = rest * p.to_t + alpha * shade;
        }
      }
    }
    parts[256u * j + local] = h;
    parts[256u * ({{.C.Forms5}}u + j) + local] = w;
  }
  workgroupBarrier();
  let j = local / {{.C.Lanes}}u;
  let lane = local % {{.C.Lanes}}u;
{{- range seq 13}}
  var sum{{.}} = 0.0;
{{- end}}
  if (j < count) {
    let a = forms[5u * j];
    let b = forms[5u * j + 1u];
    let f0 = frames[4u * j];
    let f1 = frames[4u * j + 1u];
    let f2 = frames[4u * j + 2u];
    let f3 = frames[4u * j + 3u];
    let d0 = f0.xyz;
    let d1 = vec3<f32>(f0.w, f1.xy);
    let d2 = vec3<f32>(f1.zw, f2.x);
    let e0 = f2.yzw;
    let e1 = f3.xyz;
    let origin = was.at - vec2<f32>(f32(local % 16u), f32(local / 16u));
    for (var k = 0u; k < {{.C.Forms5}}u; k = k + 1u) {
      let q = {{.C.Lanes}}u * k + lane;
      let h = parts[256u * j + q];
      let w = parts[256u * ({{.C.Forms5}}u + j) + q];
      if (h != 0.0 || w != 0.0) {
        let g = gradients[q];
        let dx = origin.x + f32(q % 16u) - a.x;
        let dy = origin.y + f32(q / 16u) - a.y;
        let u = a.z + a.w * dx + b.x * dy;
        let v = b.y + b.z * dy;
        let d = d0 + d1 * dx + d2 * dy;
        let m = u * e0 + v * e1;
        let c = vec3<f32>(d.y * m.z - d.z * m.y, d.z * m.x - d.x * m.z, d.x * m.y - d.y * m.x) *
            ({{.C.Unit}} / dot(d, d));
        let x = h * c;
        sum0 = sum0 + h;
        sum1 = sum1 + x.x;
        sum2 = sum2 + x.y;
        sum3 = sum3 + x.z;
        sum4 = sum4 + x.x * c.x;
        sum5 = sum5 + x.x * c.y;
        sum6 = sum6 + x.x * c.z;
        sum7 = sum7 + x.y * c.y;
        sum8 = sum8 + x.y * c.z;
        sum9 = sum9 + x.z * c.z;
        sum10 = sum10 + w * g.x;
        sum11 = sum11 + w * g.y;
        sum12 = sum12 + w * g.z;
      }
    }
  }
{{- $c := .C}}
{{- range $k := .C.Turns}}
  workgroupBarrier();
{{- range $i, $sum := $k}}
  parts[{{mul 256 $i}}u + local] = sum{{$sum}};
{{- end}}
  workgroupBarrier();
  for (var e = local; e < {{len $k}}u * count; e = e + 256u) {
    let at = 256u * (e / count) + {{$c.Lanes}}u * (e % count);
    var total = 0.0;
    for (var k = 0u; k < {{$c.Lanes}}u; k = k + 1u) {
      total = total + parts[at + (k + e) % {{$c.Lanes}}u];
    }
    put_sum(word(P.order + queue[first + e % count]), {{index $k 0}}u + e / count, total);
  }
{{- end}}
  return p;
}

// Takes the queue.
fn take(was: Pixel, count: u32, local: u32) -> Pixel {
  var p = was;
  for (var first = 0u; first < count; first = first + {{.C.Forms5}}u) {
    p = gather(p, first, min(count - first, {{.C.Forms5}}u), local);
  }
  workgroupBarrier();
  return p;
}

// Adds what a tile of 16x16 pixels contributes to the sums of its splats, from back to front.
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
  var p = Pixel(vec2<f32>(f32(x), f32(y)), vec3<f32>(0.0), 1.0, 0.0, 0u, 0u, 0u);
  if (x < P.width && y < P.height) {
    let base = P.pixels + 8u * (y * P.width + x);
    p = Pixel(p.at, vec3<f32>(real(base + 1u), real(base + 2u), real(base + 3u)), real(base), real(base + 4u),
        word(base + 5u), word(base + 6u), word(base + 7u));
  }
  gradients[local] = vec4<f32>(p.color, 0.0);
  sums[local] = p.last;
  workgroupBarrier();
  var end = 0u; // the place after that of the last splat of all pixels
  for (var k = 0u; k < 256u; k = k + 1u) {
    end = max(end, sums[k]);
  }
  let map = P.maps + (y0 / P.side * P.across + x0 / P.side) * P.words;
  let words = (end + 31u) / 32u;
  var queued = 0u;
  for (var first = 0u; first < words; first = first + 256u) {
    var bits = 0u;
    let at = words - 1u - min(first + local, words - 1u);
    if (first + local < words) {
      bits = near(word(map + at), at, x0, y0, x0 + 16u, y0 + 16u);
    }
    let counts = before(bits_of(bits), local);
    var rank = counts.x;
    var done = 0u;
    for (var part = 0u; part < 65u && done < counts.y; part = part + 1u) {
      let some = min({{.C.Batch}}u - queued, counts.y - done);
      for (var k = 0u; k < 32u && bits != 0u && rank < done + some; k = k + 1u) {
        let bit = 31u - countLeadingZeros(bits);
        queue[queued + rank - done] = 32u * at + bit;
        bits = bits & ~(1u << bit);
        rank = rank + 1u;
      }
      queued = queued + some;
      done = done + some;
      if (queued == {{.C.Batch}}u) {
        p = take(p, queued, local);
        queued = 0u;
      }
    }
  }
  p = take(p, queued, local);
}
{{end}}

{{define "chain"}}
{{template "memory" .}}{{template "harmonics" .}}
fn total(i: u32, c: u32) -> f32 {
  let at = P.limbs + 39u * i + 3u * c;
  let part = 1.0 / {{.C.Limb}}.0;
  let sum = f32(bitcast<i32>(word(at))) + part *
      (f32(bitcast<i32>(word(at + 1u))) + part * f32(bitcast<i32>(word(at + 2u))));
  return sum * part * real(P.view + 27u);
}

// The sum over the harmonics of their derivatives by the direction times w.
fn slopes(x: f32, y: f32, z: f32, weights: array<f32, 16>) -> vec3<f32> {
  var w = weights;
  var out = vec3<f32>(0.0);
{{- if ge .C.Count 4}}
  out = 0.48860251 * vec3<f32>(-w[3], -w[1], w[2]);
{{- end}}
{{- if ge .C.Count 9}}
  out = out + 1.0925484305920792 * (w[4] * vec3<f32>(y, x, 0.0) - w[5] * vec3<f32>(0.0, z, y) -
      w[7] * vec3<f32>(z, 0.0, x) + w[8] * vec3<f32>(x, -y, 0.0));
  out = out + 0.63078313050504 * w[6] * vec3<f32>(-x, -y, 2.0 * z);
{{- end}}
{{- if ge .C.Count 16}}
  let xx = x * x;
  let yy = y * y;
  let zz = z * z;
  out = out + w[9] * -0.5900435899266435 * vec3<f32>(6.0 * x * y, 3.0 * (xx - yy), 0.0);
  out = out + w[10] * 2.890611442640554 * vec3<f32>(y * z, x * z, x * y);
  out = out + w[11] * 0.4570457994644658 * vec3<f32>(2.0 * x * y, -(4.0 * zz - xx - 3.0 * yy), -8.0 * y * z);
  out = out + w[12] * 0.3731763325901154 * vec3<f32>(-6.0 * x * z, -6.0 * y * z, 6.0 * zz - 3.0 * xx - 3.0 * yy);
  out = out + w[13] * 0.4570457994644658 * vec3<f32>(-(4.0 * zz - 3.0 * xx - yy), 2.0 * x * y, -8.0 * x * z);
  out = out + w[14] * 1.445305721320277 * vec3<f32>(2.0 * x * z, -2.0 * y * z, xx - yy);
  out = out + w[15] * -0.5900435899266435 * vec3<f32>(3.0 * (xx - yy), -6.0 * x * y, 0.0);
{{- end}}
  return out;
}

// The gradient of splat i from its sums; see splat.Chain.
fn chain(i: u32) {
  let view = P.view;
  let square = vec3<f32>(-9.0 * total(i, 4u), -9.0 * total(i, 7u), -9.0 * total(i, 9u));
  let across = vec3<f32>(-9.0 * total(i, 5u), -9.0 * total(i, 6u), -9.0 * total(i, 8u)); // xy, xz, yz
  let bright = vec3<f32>(total(i, 10u), total(i, 11u), total(i, 12u));

  let raw = opacities(i);
  if (raw >= 0.0 && raw <= 1.0) {
    d_opacities_put(i, bitcast<u32>(total(i, 0u) / raw));
  }

  // the colour, and the position through the direction
  let rel = vec3<f32>(positions(3u * i) - real(view), positions(3u * i + 1u) - real(view + 1u),
      positions(3u * i + 2u) - real(view + 2u));
  let distance = sqrt(dot(rel, rel));
  let direction = -rel / distance;
  var b = harmonics(direction.x, direction.y, direction.z);
  var weights: array<f32, 16>;
  let from_colors = word(view + 3u) == 0u;
  for (var k = 0u; k < {{.C.Count}}u; k = k + 1u) {
    let at = 3u * (P.terms * i + k);
    if (k == 0u && from_colors) {
      for (var j = 0u; j < 3u; j = j + 1u) {
        let c = colors(3u * i + j);
        if (c >= 0.0 && c <= 1.0) {
          d_colors_put(3u * i + j, bitcast<u32>(total(i, 10u + j)));
        }
      }
    } else {
      d_sh_put(at, bitcast<u32>(b[k] * bright.x));
      d_sh_put(at + 1u, bitcast<u32>(b[k] * bright.y));
      d_sh_put(at + 2u, bitcast<u32>(b[k] * bright.z));
      weights[k] = dot(bright, vec3<f32>(sh(at), sh(at + 1u), sh(at + 2u)));
    }
  }
  let turned = slopes(direction.x, direction.y, direction.z, weights);
  var position = (dot(turned, direction) * direction - turned) / distance;

  let given = vec4<f32>(rotations(4u * i), rotations(4u * i + 1u), rotations(4u * i + 2u), rotations(4u * i + 3u));
  let large = max(max(abs(given.x), abs(given.y)), max(abs(given.z), abs(given.w)));
  let f = bitcast<f32>(clamp(254u - ((bitcast<u32>(large) >> 23u) & 255u), 1u, 254u) << 23u);
  let size = sqrt(dot(given * f, given * f));
  let q = given * f / size;
  let w = q.x;
  let x = q.y;
  let y = q.z;
  let z = q.w;
  let a0 = vec3<f32>(1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y));
  let a1 = vec3<f32>(2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x));
  let a2 = vec3<f32>(2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y));
  // logarithms of the semi-axes
  let l0 = real(view + 24u);
  let given_size = vec3<f32>(scales(3u * i), scales(3u * i + 1u), scales(3u * i + 2u)) * 1.4426950409 + l0;
  let l = max(given_size, vec3<f32>(-19.931568569));
  position = position + 9.0 * (total(i, 1u) * exp2(-l.x) * a0 + total(i, 2u) * exp2(-l.y) * a1 +
      total(i, 3u) * exp2(-l.z) * a2);
  for (var k = 0u; k < 3u; k = k + 1u) {
    d_positions_put(3u * i + k, bitcast<u32>(position[k]));
    if (given_size[k] > -19.931568569) {
      d_scales_put(3u * i + k, bitcast<u32>(-square[k]));
    }
  }

  // the axes, and the quaternion
  let m0 = square.x * a0 + across.x * exp2(l.y - l.x) * a1 + across.y * exp2(l.z - l.x) * a2;
  let m1 = across.x * exp2(l.x - l.y) * a0 + square.y * a1 + across.z * exp2(l.z - l.y) * a2;
  let m2 = across.y * exp2(l.x - l.z) * a0 + across.z * exp2(l.y - l.z) * a1 + square.z * a2;
  let d = 2.0 * vec4<f32>(
      z * (m0.y - m1.x) + y * (m2.x - m0.z) + x * (m1.z - m2.y),
      y * (m0.y + m1.x) + z * (m0.z + m2.x) + w * (m1.z - m2.y) - 2.0 * x * (m1.y + m2.z),
      x * (m0.y + m1.x) + z * (m1.z + m2.y) + w * (m2.x - m0.z) - 2.0 * y * (m0.x + m2.z),
      x * (m0.z + m2.x) + y * (m1.z + m2.y) + w * (m0.y - m1.x) - 2.0 * z * (m0.x + m1.y));
  let r = (d - dot(d, q) * q) * (f / size);
  for (var k = 0u; k < 4u; k = k + 1u) {
    d_rotations_put(4u * i + k, bitcast<u32>(r[k]));
  }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * 64u + local;
  if (i < P.n) {
    for (var k = 0u; k < 3u; k = k + 1u) {
      d_positions_put(3u * i + k, 0u);
      d_scales_put(3u * i + k, 0u);
      d_colors_put(3u * i + k, 0u);
    }
    for (var k = 0u; k < 4u; k = k + 1u) {
      d_rotations_put(4u * i + k, 0u);
    }
    d_opacities_put(i, 0u);
    for (var k = 0u; k < 3u * P.terms; k = k + 1u) {
      d_sh_put(3u * P.terms * i + k, 0u);
    }
    if (word(P.high + i) != 0xffffffffu) {
      chain(i);
    }
  }
}
{{end}}
