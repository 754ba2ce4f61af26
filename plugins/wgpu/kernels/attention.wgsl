// Attention with online softmax: a workgroup runs 64 queries of one head and walks the keys in tiles of 32. Scores live in
// registers and, as weights, in workgroup memory for the product with v; nothing is written to memory but the result.
// Invocation (tx, ty) has the queries 4ty to 4ty+3, the keys tx and tx+16, and the columns tx, tx+16, ... of the result.
var<workgroup> tile_q: array<vec4<f32>, {{mul .C.DP 16}}>; // [d][query / 4]
var<workgroup> tile_kv: array<f32, {{mul .C.DP 32}}>;      // k as [d][key], then v as [key][d]
var<workgroup> weights: array<vec4<f32>, 512>;             // [key][query / 4]; before that, maxima [tx][query / 4]

{{- if .C.Grid}}
fn fetch(b: u32, r: u32, h: u32, which: u32, d4: u32) -> vec4<f32> {
  if (r >= P.sk || d4 * 4u >= P.dim) {
    return vec4<f32>(0.0);
  }
  let t = token(b, r);
  let at = ((which * P.heads + h) * P.dim) / 4u + d4;
  if (t.inside) {
    return x04((t.at * 3u * P.heads * P.dim) / 4u + at);
  }
  return x14(at);
}
{{- else}}
fn fetch_q(b: u32, r: u32, h: u32, d4: u32) -> vec4<f32> {
  if (r >= P.sq || d4 * 4u >= P.dim) {
    return vec4<f32>(0.0);
  }
  return x04((b * P.q_b + r * P.q_s + h * P.q_h) / 4u + d4);
}
fn kv_at(b: u32, r: u32, h: u32, d4: u32) -> u32 {
  return (b * P.k_b + r * P.k_s + ((h * P.kv_heads) / P.heads) * P.k_h) / 4u + d4;
}
{{- end}}

fn score(b: u32, h: u32, q: u32, k: u32, dot: f32{{if .C.Rel}}, rel: u32{{end}}) -> f32 {
  if (k >= P.sk) {
    return -infinity();
  }
  var s = dot * P.scale;
{{- if .C.Rel}}
  s = s + rel_f(rel + k / P.ww) + rel_f(rel + P.wh + k % P.ww);
{{- end}}
{{- if not .C.Grid}}{{template "mask" .}}{{end}}
  return s;
}
{{- if .C.Rel}}
fn rel_f(i: u32) -> f32 {
  return rel(i);
}
{{- end}}

fn weight(s: f32, most: f32) -> f32 {
  return select(exp(s - most), 0.0, s == -infinity());
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
  let tiles = (P.sq + 63u) / 64u;
  let q0 = (id % tiles) * 64u;
  let h = (id / tiles) % P.heads;
  let b = id / (tiles * P.heads);
  let tx = local % 16u;
  let ty = local / 16u;

  for (var u = local; u < {{mul .C.DP 4}}u; u = u + 256u) {
    let d4 = u % {{div .C.DP 4}}u;
    let r = (u / {{div .C.DP 4}}u) * 4u;
    var m = mat4x4<f32>();
{{- range $j := seq 4}}
{{- if $.C.Grid}}
    m[{{$j}}] = fetch(b, q0 + r + {{$j}}u, h, 0u, d4);
{{- else}}
    m[{{$j}}] = fetch_q(b, q0 + r + {{$j}}u, h, d4);
{{- end}}
{{- end}}
    m = transpose(m);
{{- range $j := seq 4}}
    tile_q[(d4 * 4u + {{$j}}u) * 16u + r / 4u] = m[{{$j}}];
{{- end}}
  }

  var most = vec4<f32>(-infinity());
  var sum = vec4<f32>(0.0);
{{- range $j := seq .C.TD}}
  var o{{$j}} = vec4<f32>(0.0);
{{- end}}
{{- if .C.Rel}}
  var rel_at = vec4<u32>(0u);
{{- range $j := seq 4}}
  {
    let t = token(b, q0 + ty * 4u + {{$j}}u);
    let n = P.gh * P.gw;
    if (t.inside && q0 + ty * 4u + {{$j}}u < P.sk) {
      rel_at[{{$j}}] = (((t.at / n) * P.heads + h) * n + t.at % n) * (P.wh + P.ww);
    }
  }
{{- end}}
{{- end}}

  for (var k0 = 0u; k0 < P.sk; k0 = k0 + 32u) {
    for (var u = local; u < {{mul .C.DP 8}}u; u = u + 256u) {
      let r = u % 32u;
      let d4 = u / 32u;
{{- if .C.Grid}}
      let v = fetch(b, k0 + r, h, 1u, d4);
{{- else}}
      var v = vec4<f32>(0.0);
      if (k0 + r < P.sk && d4 * 4u < P.dim) {
        v = x14(kv_at(b, k0 + r, h, d4));
      }
{{- end}}
{{- range $j := seq 4}}
      tile_kv[(d4 * 4u + {{$j}}u) * 32u + r] = v[{{$j}}];
{{- end}}
    }
    workgroupBarrier();
    var s0 = vec4<f32>(0.0);
    var s1 = vec4<f32>(0.0);
    for (var d = 0u; d < {{.C.DP}}u; d = d + 4u) {
{{- range $j := seq 4}}
      {
        let q = tile_q[(d + {{$j}}u) * 16u + ty];
        s0 = fma(q, vec4<f32>(tile_kv[(d + {{$j}}u) * 32u + tx]), s0);
        s1 = fma(q, vec4<f32>(tile_kv[(d + {{$j}}u) * 32u + tx + 16u]), s1);
      }
{{- end}}
    }
{{- range $j := seq 4}}
    s0[{{$j}}] = score(b, h, q0 + ty * 4u + {{$j}}u, k0 + tx, s0[{{$j}}]{{if $.C.Rel}}, rel_at[{{$j}}]{{end}});
    s1[{{$j}}] = score(b, h, q0 + ty * 4u + {{$j}}u, k0 + tx + 16u, s1[{{$j}}]{{if $.C.Rel}}, rel_at[{{$j}}]{{end}});
{{- end}}
    weights[tx * 16u + ty] = max(s0, s1);
    workgroupBarrier();
    var next = most;
    for (var t = 0u; t < 16u; t = t + 1u) {
      next = max(next, weights[t * 16u + ty]);
    }
    for (var u = local; u < {{mul .C.DP 8}}u; u = u + 256u) {
      let d4 = u % {{div .C.DP 4}}u;
      let r = u / {{div .C.DP 4}}u;
{{- if .C.Grid}}
      let v = fetch(b, k0 + r, h, 2u, d4);
{{- else}}
      var v = vec4<f32>(0.0);
      if (k0 + r < P.sk && d4 * 4u < P.dim) {
        v = x24(kv_at(b, k0 + r, h, d4));
      }
{{- end}}
{{- range $j := seq 4}}
      tile_kv[r * {{$.C.DP}}u + d4 * 4u + {{$j}}u] = v[{{$j}}];
{{- end}}
    }
    workgroupBarrier();
    var keep = vec4<f32>(0.0);
    var p0 = vec4<f32>(0.0);
    var p1 = vec4<f32>(0.0);
{{- range $j := seq 4}}
    keep[{{$j}}] = weight(most[{{$j}}], next[{{$j}}]);
    p0[{{$j}}] = weight(s0[{{$j}}], next[{{$j}}]);
    p1[{{$j}}] = weight(s1[{{$j}}], next[{{$j}}]);
{{- end}}
    most = next;
    sum = sum * keep + p0 + p1;
    weights[tx * 16u + ty] = p0;
    weights[(tx + 16u) * 16u + ty] = p1;
{{- range $j := seq .C.TD}}
    o{{$j}} = o{{$j}} * keep;
{{- end}}
    workgroupBarrier();
    for (var k = 0u; k < 32u; k = k + 2u) {
{{- range $i := seq 2}}
      {
        let p = weights[(k + {{$i}}u) * 16u + ty];
{{- range $j := seq $.C.TD}}
        o{{$j}} = fma(p, vec4<f32>(tile_kv[(k + {{$i}}u) * {{$.C.DP}}u + tx + {{mul $j 16}}u]), o{{$j}});
{{- end}}
      }
{{- end}}
    }
    workgroupBarrier();
  }

  // Each invocation summed its own keys only.
  weights[tx * 16u + ty] = sum;
  workgroupBarrier();
  var total = vec4<f32>(0.0);
  for (var t = 0u; t < 16u; t = t + 1u) {
    total = total + weights[t * 16u + ty];
  }
{{- range $i := seq 4}}
  {
    let q = q0 + ty * 4u + {{$i}}u;
    let scale = select(1.0 / total[{{$i}}], 0.0, total[{{$i}}] == 0.0);
{{- if $.C.Grid}}
    let t = token(b, q);
    let at = (t.at * P.heads + h) * P.dim;
    if (q < P.sq && t.inside) {
{{- else}}
    let at = b * P.q_b + q * P.q_s + h * P.q_h;
    if (q < P.sq) {
{{- end}}
{{- range $j := seq $.C.TD}}
      if (tx + {{mul $j 16}}u < P.dim) {
        y_put(at + tx + {{mul $j 16}}u, bitcast<u32>(o{{$j}}[{{$i}}] * scale));
      }
{{- end}}
    }
  }
{{- end}}
}
