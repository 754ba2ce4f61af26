{{- /* Attention of few queries to many keys (decoding). Reading the keys and values takes most of the time. */ -}}
{{define "few"}}
// A workgroup computes up to {{.C.FewRows}} queries of the heads that share keys, over one share of the keys. It reads
// each key and value once; {{.C.Lanes}} neighbouring invocations read a key together. For each query it writes the
// weighted sum of values, the sum of weights, and the reference point of the exponentials in units of log2(e). The next
// shader combines the shares.
{{- $c := .C}}
{{template "span" .}}
{{- template "keys" .}}
var<workgroup> query: array<vec4<f32>, {{mul .C.FewRows .C.D4}}>;
// of four queries each: scores, then weights
var<workgroup> weights: array<array<vec4<f32>, {{.C.RowVecs4}}>, {{.C.MostShare}}>;
var<workgroup> rest: array<array<vec4<f32>, {{.C.FewThreads}}>, {{.C.RowVecs4}}>; // partial sums
const no_weight = -1075.0; // see attention.wgsl
const least_weight = 1.2e-38;

fn weighed(p: vec4<f32>, v: f32) -> vec4<f32> {
  let some = select(p, vec4<f32>(least_weight), p == vec4<f32>(0.0));
  return select(some * v, vec4<f32>(0.0), bitcast<vec4<u32>>(p) == vec4<u32>(0x80000000u));
}
fn any_not_finite(v: vec4<f32>) -> bool {
  return any((bitcast<vec4<u32>>(v) & vec4<u32>(0x7f800000u)) == vec4<u32>(0x7f800000u));
}
fn score(b: u32, h: u32, q: u32, k: u32, product: f32) -> f32 {
  var s = product * P.scale;
{{- template "mask" .}}
  return s * {{.C.Log2E}};
}

@compute @workgroup_size({{.C.FewThreads}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
  let share = id % P.shares;
  let tile = (id / P.shares) % P.row_tiles;
  let kv = (id / (P.shares * P.row_tiles)) % P.kv_heads;
  let b = id / (P.shares * P.row_tiles * P.kv_heads);
  set_span(b);
{{- if .C.Pages}}
  if (share == 0u && tile == 0u && kv == 0u) {
    check_pages(b, local, {{.C.FewThreads}}u);
  }
{{- end}}
  let seen = visible(0u, P.sq);
  let k_first = max(seen.x, share * P.share_keys);
  let k_end = min(seen.y, (share + 1u) * P.share_keys);
  let n = select(0u, k_end - k_first, k_end > k_first);
  let heads = P.heads / P.kv_heads;
  let row0 = tile * {{.C.FewRows}}u;
  let rows = heads * P.sq;

  for (var i = local; i < {{mul .C.FewRows .C.D4}}u; i = i + {{.C.FewThreads}}u) {
    let r = min(row0 + i / {{.C.D4}}u, rows - 1u);
    query[i] = x04((P.q_at + b * P.q_b + (r % P.sq) * P.q_s + (kv * heads + r / P.sq) * P.q_h) / 4u + i % {{.C.D4}}u);
  }
  workgroupBarrier();

  // Scores of all keys of the share.
  let lane = local % {{.C.Lanes}}u;
  let k_at = P.k_at + kv * P.k_h;
  for (var k0 = 0u; k0 < P.share_keys; k0 = k0 + {{.C.PassKeys}}u) {
    if (k0 < n) {
    let k = k_first + min(k0 + local / {{.C.Lanes}}u, n - 1u);
    let at = (k_at + key_at(element, k, P.k_b, P.k_s)) / 4u + lane;
{{- range $r := seq .C.FewRows}}
    var s{{$r}} = vec4<f32>(0.0);
{{- end}}
{{- range $i := seq .C.LaneVecs}}
    {{if $c.LastLane $i}}if (lane + {{mul $i $c.Lanes}}u < {{$c.D4}}u) {{end}}{
      let x = x14(at + {{mul $i $c.Lanes}}u);
{{- range $r := seq $c.FewRows}}
      s{{$r}} = fma(x, query[{{add (mul $r $c.D4) (mul $i $c.Lanes)}}u + lane], s{{$r}});
{{- end}}
    }
{{- end}}
{{- range $v := seq .C.RowVecs4}}
    rest[{{$v}}][local] = vec4<f32>({{range $j := seq 4}}{{if $j}},
        {{end}}dot(s{{add (mul $v 4) $j}}, vec4<f32>(1.0)){{end}});
{{- end}}
    }
    workgroupBarrier();
    for (var i = local; i < {{mul .C.PassKeys .C.RowVecs4}}u; i = i + {{.C.FewThreads}}u) {
      let key = i % {{.C.PassKeys}}u;
      let v = i / {{.C.PassKeys}}u;
      if (k0 + key < n) {
        var sum = vec4<f32>(0.0);
{{- range $l := seq .C.Lanes}}
        sum = sum + rest[v][key * {{$c.Lanes}}u + {{$l}}u];
{{- end}}
        for (var j = 0u; j < 4u; j = j + 1u) {
          let r = min(row0 + v * 4u + j, rows - 1u);
          sum[j] = score(b, kv * heads + r / P.sq, r % P.sq, k_first + k0 + key, sum[j]);
        }
        weights[k0 + key][v] = sum;
      }
    }
    workgroupBarrier();
  }

  // The largest score of each query, then the weights and their sums.
{{- range $v := seq .C.RowVecs4}}
  var most{{$v}} = vec4<f32>(-3.0e38); // finite, so that -Inf minus it stays -Inf
  for (var k = local; k < n; k = k + {{$c.FewThreads}}u) {
    most{{$v}} = max(most{{$v}}, weights[k][{{$v}}]);
  }
  rest[{{$v}}][local] = most{{$v}};
{{- end}}
  workgroupBarrier();
  for (var step = {{div .C.FewThreads 2}}u; step > 0u; step = step / 2u) {
    if (local < step) {
{{- range $v := seq .C.RowVecs4}}
      rest[{{$v}}][local] = max(rest[{{$v}}][local], rest[{{$v}}][local + step]);
{{- end}}
    }
    workgroupBarrier();
  }
{{- range $v := seq .C.RowVecs4}}
  most{{$v}} = rest[{{$v}}][0];
{{- end}}
  workgroupBarrier();
{{- range $v := seq .C.RowVecs4}}
  var sum{{$v}} = vec4<f32>(0.0);
  for (var k = local; k < n; k = k + {{$c.FewThreads}}u) {
    let x = weights[k][{{$v}}] - most{{$v}};
    let p = select(exp2(x), vec4<f32>(from_bits(0x80000000u)), x < vec4<f32>(no_weight));
    weights[k][{{$v}}] = p;
    sum{{$v}} = sum{{$v}} + p;
  }
  rest[{{$v}}][local] = sum{{$v}};
{{- end}}
  workgroupBarrier();
  for (var step = {{div .C.FewThreads 2}}u; step > 0u; step = step / 2u) {
    if (local < step) {
{{- range $v := seq .C.RowVecs4}}
      rest[{{$v}}][local] = rest[{{$v}}][local] + rest[{{$v}}][local + step];
{{- end}}
    }
    workgroupBarrier();
  }
  let part_row = (b * P.kv_heads + kv) * rows;
  if (local < {{.C.FewRows}}u && row0 + local < rows) {
    let at = ((part_row + row0 + local) * P.shares + share) * {{add .C.DV4 1}}u + {{.C.DV4}}u;
{{- range $v := seq .C.RowVecs4}}
    if (local / 4u == {{$v}}u) {
      part4_put(at, vec4<f32>(most{{$v}}[local % 4u], rest[{{$v}}][0][local % 4u], 0.0, 0.0));
    }
{{- end}}
  }
  workgroupBarrier();

  // Weighted values. Neighbouring invocations read neighbouring vectors of a value; each group of them reads every
  // {{.C.ValueGroups}}th value.
  let column = local % {{.C.DV4}}u;
  let first = local / {{.C.DV4}}u;
  let v_at = P.v_at + kv * P.v_h;
{{- range $r := seq .C.FewRows}}
  var o{{$r}} = vec4<f32>(0.0);
{{- end}}
  if (first < {{.C.ValueGroups}}u) {
    for (var k0 = first; k0 < n; k0 = k0 + {{mul .C.ValueGroups 4}}u) {
{{- range $u := seq 4}}
      let key{{$u}} = k_first + min(k0 + {{mul $u $c.ValueGroups}}u, n - 1u);
      let v{{$u}} = x24((v_at + key_at(element, key{{$u}}, P.v_b, P.v_s)) / 4u + column);
{{- end}}
{{- range $u := seq 4}}
      if (k0 + {{mul $u $c.ValueGroups}}u < n) {
        let k = k0 + {{mul $u $c.ValueGroups}}u;
{{- range $v := seq $c.RowVecs4}}
        let p{{$v}} = weights[k][{{$v}}];
{{- end}}
        if (any_not_finite(v{{$u}})) {
{{- range $v := seq $c.RowVecs4}}
{{- range $e := seq 4}}
          let t{{$v}}_{{$e}} = weighed(p{{$v}}, v{{$u}}[{{$e}}]);
{{- end}}
{{- range $j := seq 4}}
          o{{add (mul $v 4) $j}} = o{{add (mul $v 4) $j}} + vec4<f32>({{range $e := seq 4}}{{if $e}},
              {{end}}t{{$v}}_{{$e}}[{{$j}}]{{end}});
{{- end}}
{{- end}}
        } else {
{{- range $v := seq $c.RowVecs4}}{{range $j := seq 4}}
          o{{add (mul $v 4) $j}} = fma(vec4<f32>(p{{$v}}[{{$j}}]), v{{$u}}, o{{add (mul $v 4) $j}});
{{- end}}{{end}}
        }
      }
{{- end}}
    }
  }
{{- range $v := seq .C.RowVecs4}}
{{- range $j := seq 4}}
{{- $r := add (mul $v 4) $j}}
  rest[{{mod $r $c.RowVecs4}}][local] = o{{$r}};
{{- if or (eq (mod (add $r 1) $c.RowVecs4) 0) (eq (add $r 1) $c.FewRows)}}
  workgroupBarrier();
{{- range $s := seq $c.RowVecs4}}
{{- $row := add (sub $r (mod $r $c.RowVecs4)) $s}}
  if (local < {{$c.DV4}}u && row0 + {{$row}}u < rows) {
    var sum = rest[{{$s}}][local];
    for (var g = 1u; g < {{$c.ValueGroups}}u; g = g + 1u) {
      sum = sum + rest[{{$s}}][local + g * {{$c.DV4}}u];
    }
    part4_put(((part_row + row0 + {{$row}}u) * P.shares + share) * {{add $c.DV4 1}}u + local, sum);
  }
{{- end}}
  workgroupBarrier();
{{- end}}
{{- end}}
{{- end}}
}
{{end}}

{{define "combine"}}
// A workgroup combines the shares of one query.
{{- $c := .C}}
{{template "span" .}}
var<workgroup> references: array<f32, {{.C.MostShares}}>;
var<workgroup> sums: array<f32, {{.C.MostShares}}>;
var<workgroup> rest: array<vec4<f32>, {{.C.FewThreads}}>;
const least_weight = 1.2e-38;

@compute @workgroup_size({{.C.FewThreads}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let row = group.y * groups.x + group.x; // [b, kv head, head of those that share it, query]
  let rows = P.heads * P.sq;
  if (row >= P.batch * rows) {
    return;
  }
  let b = row / rows;
  let h = (row % rows) / P.sq;
  let q = row % P.sq;
  set_span(b);
  let seen = visible(0u, P.sq);
  let first = seen.x / P.share_keys;
  let end = max(first, (seen.y + P.share_keys - 1u) / P.share_keys);
  let at = row * P.shares * {{add .C.DV4 1}}u;
  for (var s = first + local; s < end; s = s + {{.C.FewThreads}}u) {
    let m = part4(at + s * {{add .C.DV4 1}}u + {{.C.DV4}}u);
    references[s] = m.x;
    sums[s] = m.y;
  }
  workgroupBarrier();
  var most = -3.0e38;
  for (var s = first; s < end; s = s + 1u) {
    most = max(most, references[s]);
  }
  workgroupBarrier();
  for (var s = first + local; s < end; s = s + {{.C.FewThreads}}u) {
    let lower = references[s] - most;
    references[s] = select(max(exp2(lower), least_weight), 0.0, lower < -1075.0 || sums[s] == 0.0);
  }
  workgroupBarrier();
  var total = 0.0;
  for (var s = first; s < end; s = s + 1u) {
    total = total + references[s] * sums[s];
  }
{{- if .C.Sinks}}
  if (total != 0.0) {
    total = total + exp2(x{{.C.Sinks}}(h) * {{.C.Log2E}} - most);
  }
{{- end}}
  let column = local % {{.C.DV4}}u;
  let from_s = first + local / {{.C.DV4}}u;
  var o = vec4<f32>(0.0);
  if (local < {{mul .C.ValueGroups .C.DV4}}u) {
    for (var s = from_s; s < end; s = s + {{mul .C.ValueGroups 4}}u) {
{{- range $u := seq 4}}
      let s{{$u}} = s + {{mul $u $c.ValueGroups}}u;
      let x{{$u}} = part4(at + min(s{{$u}}, end - 1u) * {{add $c.DV4 1}}u + column);
{{- end}}
{{- range $u := seq 4}}
      if (s{{$u}} < end) {
        if (references[s{{$u}}] != 0.0) {
          o = o + references[s{{$u}}] * x{{$u}};
        }
      }
{{- end}}
    }
  }
  rest[local] = o;
  workgroupBarrier();
  if (local < {{.C.DV4}}u) {
    for (var g = 1u; g < {{.C.ValueGroups}}u; g = g + 1u) {
      o = o + rest[local + g * {{.C.DV4}}u];
    }
    y4_put((b * P.o_b + q * P.o_s + h * P.o_h) / 4u + local, select(o / total, vec4<f32>(0.0), total == 0.0));
  }
}
{{end}}
