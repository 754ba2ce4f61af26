{{define "sample"}}
{{template "key" .}}

fn value_of(k: u32) -> f32 {
  let b = select(~k, k ^ 0x80000000u, k >= 0x80000000u) >> {{.C.Shift}}u;
{{- if eq .C.DType "f16"}}
  return f32_from_f16(b);
{{- else if eq .C.DType "bf16"}}
  return from_bits(b << 16u);
{{- else}}
  return from_bits(b);
{{- end}}
}

// threefry2x32-20: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (2011).
fn rotated(x: vec2<u32>, by: u32) -> vec2<u32> {
  let s = x.x + x.y;
  return vec2<u32>(s, ((x.y << by) | (x.y >> (32u - by))) ^ s);
}
fn even_rounds(x: vec2<u32>) -> vec2<u32> {
  return rotated(rotated(rotated(rotated(x, 13u), 15u), 26u), 6u);
}
fn odd_rounds(x: vec2<u32>) -> vec2<u32> {
  return rotated(rotated(rotated(rotated(x, 17u), 29u), 16u), 24u);
}
fn threefry(counter: vec2<u32>, k: vec2<u32>) -> vec2<u32> {
  let k2 = 0x1bd11bdau ^ k.x ^ k.y;
  var x = even_rounds(counter + k) + vec2<u32>(k.y, k2 + 1u);
  x = odd_rounds(x) + vec2<u32>(k2, k.x + 2u);
  x = even_rounds(x) + vec2<u32>(k.x, k.y + 3u);
  x = odd_rounds(x) + vec2<u32>(k.y, k2 + 4u);
  return even_rounds(x) + vec2<u32>(k2, k.x + 5u);
}

// ln((1+s)/(1-s)) for small s. A device's log may be off by 2^-21 near 1, exactly where the winning values are.
fn log_ratio(s: f32) -> f32 {
  let q = s * s;
  return 2.0 * s * (1.0 + q * (0.333333333 + q * (0.2 + q * (0.142857143 + q * (0.111111111 + q * 0.090909091)))));
}
fn log_near(x: f32) -> f32 {
  // x = m * 2^e with m from sqrt(1/2) to sqrt(2). x must be positive and normal.
  let b = bitcast<u32>(x);
  var e = i32(b >> 23u) - 127;
  var m = from_bits((b & 0x7fffffu) | 0x3f800000u);
  if (m > 1.41421356) {
    m = m * 0.5;
    e = e + 1;
  }
  return log_ratio((m - 1.0) / (m + 1.0)) + f32(e) * 0.693147181;
}
// -ln(-ln u) for u in (0,1), given by the upper 24 bits of a word.
fn gumbel(word: u32) -> f32 {
  let k = word >> 8u;
  if (k == 0u) {
    return -4.23532643; // for u = 1e-30
  }
  var e = 0.0; // -ln u
  if (k > 0x800000u) {
    let t = f32(0x1000000u - k) * 5.9604644775390625e-8; // 1-u, exact
    e = log_ratio(t / (2.0 - t));
  } else {
    e = -log_near(f32(k) * 5.9604644775390625e-8);
  }
  return -log_near(e);
}
// e^x for x <= 0.
fn exp_near(x: f32) -> f32 {
  if (!(x > -60.0)) {
    return 0.0;
  }
  let n = round(x * 1.44269504);
  let r = fma(n, 2.12194440e-4, fma(n, -0.693359375, x)); // ln 2 in two parts
  let p = 1.0 +
      r * (1.0 + r * (0.5 + r * (0.166666667 + r * (0.0416666667 + r * (0.00833333333 + r * 0.00138888889)))));
  return p * from_bits(u32(i32(n) + 127) << 23u);
}

// 64-bit integers, low word first.
fn add64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let lo = a.x + b.x;
  return vec2<u32>(lo, a.y + b.y + select(0u, 1u, lo < a.x));
}
fn sub64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}
fn less64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.y < b.y || (a.y == b.y && a.x < b.x);
}
fn f32_of64(a: vec2<u32>) -> f32 {
  return f32(a.y) * 4294967296.0 + f32(a.x);
}
// x * 2^scale as an integer, rounded down, or up if up is set.
fn fixed(x: f32, scale: i32, up: bool) -> vec2<u32> {
  let b = bitcast<u32>(x);
  let m = (b & 0x7fffffu) | 0x800000u;
  let s = i32(b >> 23u) - 150 + scale;
  if (b < 0x00800000u || s <= -24) {
    return vec2<u32>(select(0u, 1u, up && b != 0u), 0u);
  }
  if (s < 0) {
    let rest = m & ((1u << u32(-s)) - 1u);
    return vec2<u32>((m >> u32(-s)) + select(0u, 1u, up && rest != 0u), 0u);
  }
  if (s >= 32) {
    return vec2<u32>(0u, m << u32(s - 32));
  }
  if (s == 0) {
    return vec2<u32>(m, 0u);
  }
  return vec2<u32>(m << u32(s), m >> u32(32 - s));
}

var<workgroup> low: array<atomic<u32>, 256>;
var<workgroup> high: array<atomic<u32>, 256>;
var<workgroup> counts: array<atomic<u32>, 256>;
var<workgroup> words: array<u32, {{.C.Group}}>;
var<workgroup> places: array<u32, {{.C.Group}}>;
var<workgroup> sums: array<f32, {{.C.Group}}>;
var<workgroup> groups_of_sums: array<vec2<u32>, 16>;
var<workgroup> total: vec2<u32>;
var<workgroup> above: vec2<u32>;
var<workgroup> goal: vec2<u32>;
var<workgroup> prefix: u32;
var<workgroup> least: u32; // survivors have a larger key, or this key and an index up to last
var<workgroup> last: u32;
var<workgroup> equal: u32; // number of survivors with the least key

const none = 0xffffffffu;

struct Row {
  base: u32,
  top_key: u32,
  top: f32,
  t: f32,
}

// The distance of element i from the largest, divided by the temperature (negative or 0).
fn below(row: Row, k: u32) -> f32 {
  if (k == row.top_key) {
    return 0.0;
  }
  if (bitcast<u32>(row.t) < 0x00800000u) {
    return -infinity();
  }
  return (value_of(k) - row.top) / row.t;
}

// Raises least to the largest key for which the survivors' total weight reaches a goal: k elements or, with weigh, the
// share p of their probability.
fn choose(local: u32, row: Row, wanted: bool, weigh: bool, k: u32, p: f32) {
  for (var level = 0u; level < 4u; level = level + 1u) {
    workgroupBarrier();
    atomicStore(&low[local], 0u);
    atomicStore(&high[local], 0u);
    atomicStore(&counts[local], 0u);
    workgroupBarrier();
    if (wanted) {
      let shift = 24u - 8u * level;
      for (var i = local; i < P.size; i = i + {{.C.Group}}u) {
        let key_i = key(row.base + i);
        let survives = key_i > least || (key_i == least && i <= last);
        if (survives && (level == 0u || key_i >> (shift + 8u) == prefix)) {
          let d = (key_i >> shift) & 255u;
          var w = vec2<u32>(1u, 0u);
          if (weigh) {
            w = fixed(exp_near(below(row, key_i)), {{.C.Scale}}, false);
          }
          let was = atomicAdd(&low[d], w.x);
          let carry = select(0u, 1u, was + w.x < was);
          if (w.y + carry != 0u) {
            atomicAdd(&high[d], w.y + carry);
          }
          atomicAdd(&counts[d], 1u);
        }
      }
    }
    workgroupBarrier();
    if (wanted && local < 16u) {
      var s = vec2<u32>(0u);
      for (var d = 16u * local; d < 16u * local + 16u; d = d + 1u) {
        s = add64(s, vec2<u32>(atomicLoad(&low[d]), atomicLoad(&high[d])));
      }
      groups_of_sums[local] = s;
    }
    workgroupBarrier();
    if (wanted && local == 0u) {
      if (level == 0u) {
        var all = vec2<u32>(0u);
        for (var g = 0u; g < 16u; g = g + 1u) {
          all = add64(all, groups_of_sums[g]);
        }
        var want = vec2<u32>(k, 0u);
        if (weigh) {
          want = fixed(f32_of64(all) * p, 0, true);
        }
        if (less64(all, want)) {
          want = all;
        }
        goal = vec2<u32>(want.x | select(0u, 1u, (want.x | want.y) == 0u), want.y);
        above = vec2<u32>(0u);
        prefix = 0u;
      }
      var g = 15u;
      while (g > 0u && less64(add64(above, groups_of_sums[g]), goal)) {
        above = add64(above, groups_of_sums[g]);
        g = g - 1u;
      }
      var d = 16u * g + 15u;
      while (d > 16u * g && less64(add64(above, vec2<u32>(atomicLoad(&low[d]), atomicLoad(&high[d]))), goal)) {
        above = add64(above, vec2<u32>(atomicLoad(&low[d]), atomicLoad(&high[d])));
        d = d - 1u;
      }
      prefix = (prefix << 8u) | d;
      if (level == 3u) {
        let n = atomicLoad(&counts[d]);
        let all = vec2<u32>(atomicLoad(&low[d]), atomicLoad(&high[d]));
        let missing = sub64(goal, above);
        least = prefix;
        if (!weigh) {
          equal = missing.x;
        } else {
          // of n equal weights, the fewest that reach what is missing
          let r = f32_of64(missing) / max(f32_of64(all), 1.0) * f32(n);
          equal = clamp(u32(ceil(r - 1.0e-6 * f32(n))), 1u, max(n, 1u));
        }
      }
    }
  }
  // Finds the last survivor with the least key. Each invocation counts in a contiguous piece of the row.
  workgroupBarrier();
  let each = (P.size + {{sub .C.Group 1}}u) / {{.C.Group}}u;
  let end = min(P.size, (local + 1u) * each);
  var n = 0u;
  if (wanted) {
    for (var i = local * each; i < end; i = i + 1u) {
      n = n + select(0u, 1u, key(row.base + i) == least);
    }
  }
  words[local] = n;
  workgroupBarrier();
  if (wanted) {
    var before = 0u;
    for (var l = 0u; l < local; l = l + 1u) {
      before = before + words[l];
    }
    if (before < equal && before + n >= equal) {
      for (var i = local * each; i < end; i = i + 1u) {
        if (key(row.base + i) == least) {
          before = before + 1u;
          if (before == equal) {
            last = i;
          }
        }
      }
    }
  }
  workgroupBarrier();
}

// The element with the largest sum of its distance and its noise, and that sum.
struct Drawn {
  sum: f32,
  token: u32,
}

// Compares the element with a key with the best so far. counter is that of its noise; its second word is its index.
fn draw(best: Drawn, row: Row, key_i: u32, floor: f32, counter: vec2<u32>, run_key: vec2<u32>) -> Drawn {
  if (key_i > least || (key_i == least && counter.y <= last)) {
    let d = below(row, key_i);
    if (d >= floor && d + 16.7 >= best.sum) {
      let v = d + gumbel(threefry(counter, run_key).x);
      if (best.token == none || v > best.sum) {
        return Drawn(v, counter.y);
      }
    }
  }
  return best;
}

@compute @workgroup_size({{.C.Group}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let r = group.y * groups.x + group.x;
  if (r >= P.rows) {
    return;
  }
  var row: Row;
  row.base = r * P.size;
  row.t = x1(r * P.one_t);
  let k = x2(r * P.one_k);
  let p = x3(r * P.one_p);
  let t_bits = bitcast<u32>(row.t);
  let p_bits = bitcast<u32>(p);
{{- if .C.MinP}}
  let min_p = x6(r * P.one_min);
{{- else}}
  let min_p = 0.0;
{{- end}}
  let min_bits = bitcast<u32>(min_p);

  var best = 0u;
  var place = none;
  var at = local;
  // eight reads are in flight; one by one, each would wait for the last
  for (; at + {{mul 7 .C.Group}}u < P.size; at = at + {{mul 8 .C.Group}}u) {
{{- range $j := seq 8}}
    let x{{$j}} = x0_bits(row.base + at + {{mul $j $.C.Group}}u);
{{- end}}
{{- range $j := seq 8}}
    let key{{$j}} = key_of(x{{$j}});
    if (key{{$j}} > best) {
      best = key{{$j}};
      place = at + {{mul $j $.C.Group}}u;
    }
{{- end}}
  }
  for (; at < P.size; at = at + {{.C.Group}}u) {
    let key_i = key(row.base + at);
    if (key_i > best) {
      best = key_i;
      place = at;
    }
  }
  words[local] = best;
  places[local] = place;
  workgroupBarrier();
  for (var s = {{div .C.Group 2}}u; s > 0u; s = s / 2u) {
    if (local < s) {
      let a = words[local + s];
      let b = places[local + s];
      if (a > words[local] || (a == words[local] && b < places[local])) {
        words[local] = a;
        places[local] = b;
      }
    }
    workgroupBarrier();
  }
  row.top_key = words[0];
  row.top = value_of(row.top_key);
  let top_place = places[0];
  workgroupBarrier();
  let bad = (t_bits & 0x7fffffffu) >= 0x7f800000u || k < 0 || u32(k) > P.size ||
      (p_bits > 0x3f800000u && p_bits != 0x80000000u) || (min_bits > 0x3f800000u && min_bits != 0x80000000u) ||
      row.top_key == 0u;
  if (local == 0u) {
    least = 1u;
    last = none;
    if (bad) {
      status_put(0u, 1u);
    }
  }
  let greedy = t_bits == 0u || t_bits >= 0x80000000u;
  choose(local, row, !bad && !greedy && k > 0 && u32(k) < P.size, false, u32(k), 0.0);
  choose(local, row, !bad && !greedy && p < 1.0, true, 0u, max(p, 0.0));

  var floor = -infinity();
  if (min_bits != 0u && min_bits <= 0x3f800000u) {
    floor = select(log_near(min_p), 0.0, min_p == 1.0);
  }
  var drawn = Drawn(-infinity(), none);
  if (!bad && !greedy) {
    let seed = 2u * r * P.one_seed;
    let step = 2u * r * P.one_step;
    let run_key = threefry(vec2<u32>(x5(step), x5(step + 1u)), vec2<u32>(x4(seed), x4(seed + 1u)));
    let counter = {{if .C.Alone}}0u{{else}}r{{end}};
    var i = local;
    for (; i + {{mul 7 .C.Group}}u < P.size; i = i + {{mul 8 .C.Group}}u) { // see above
{{- range $j := seq 8}}
      let x{{$j}} = x0_bits(row.base + i + {{mul $j $.C.Group}}u);
{{- end}}
{{- range $j := seq 8}}
      drawn = draw(drawn, row, key_of(x{{$j}}), floor, vec2<u32>(counter, i + {{mul $j $.C.Group}}u), run_key);
{{- end}}
    }
    for (; i < P.size; i = i + {{.C.Group}}u) {
      drawn = draw(drawn, row, key(row.base + i), floor, vec2<u32>(counter, i), run_key);
    }
  }
  sums[local] = drawn.sum;
  places[local] = drawn.token;
  workgroupBarrier();
  for (var s = {{div .C.Group 2}}u; s > 0u; s = s / 2u) {
    if (local < s) {
      let v = sums[local + s];
      let i = places[local + s];
      if (i != none && (places[local] == none || v > sums[local] || (v == sums[local] && i < places[local]))) {
        sums[local] = v;
        places[local] = i;
      }
    }
    workgroupBarrier();
  }
  if (local == 0u) {
    y_put(r, select(places[0], top_place, greedy));
  }
}
{{end}}
