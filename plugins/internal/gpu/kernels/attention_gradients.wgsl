{{- /* The shaders that compute the gradients of attention from the statistics of attention_backward.wgsl. */ -}}
{{- define "rows"}}
{{- if .C.Rolled}}
  var rows: array<vec4<f32>, 4>;
  for (var r = 0u; r < 4u; r = r + 1u) {
    rows[r] = row_of(b, h, o0 + to * 4u + r);
  }
{{- else}}
{{- range $r := seq 4}}
  let rows{{$r}} = row_of(b, h, o0 + to * 4u + {{$r}}u);
{{- end}}
{{- end}}
{{- end}}
{{- define "queries"}}
{{- $c := .C}}
{{- template "common" .}}
{{- template "products" .}}
@compute @workgroup_size({{.C.Threads}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
{{- template "places" .}}
  let tiles = (P.sq + {{sub .C.Outer 1}}u) / {{.C.Outer}}u;
  let o0 = id % tiles * {{.C.Outer}}u;
  let c0 = id / tiles % {{.C.Blocks}}u * {{.C.Columns}}u;
  let h = id / (tiles * {{.C.Blocks}}u) % P.heads;
  let b = id / (tiles * {{.C.Blocks}}u * P.heads);
  set_span(b);
  let seen = visible(o0, min(o0 + {{.C.Outer}}u, P.sq));
{{- template "rows" .}}
{{- range $v := seq .C.ColumnVecs}}{{range $j := seq 4}}
  var sum{{$v}}_{{$j}} = vec4<f32>(0.0);
{{- end}}{{end}}
  for (var i0 = seen.x; i0 < seen.y; i0 = i0 + {{.C.Inner}}u) {
{{- template "pairs" .}}
{{- range $i := .C.Each "i" 4}}
    {{$c.Loop "i" 4}}
{{- range $r := $c.Each "r" 4}}
      {{$c.Loop "r" 4}}
        {{$c.At "s" $i}}[{{$r}}] = weighed(b, h, o0 + to * 4u + {{$r}}, i0 + ti * 4u + {{$i}},
            {{$c.At "s" $i}}[{{$r}}], {{$c.At "d" $i}}[{{$r}}], {{$c.At "rows" $r}}).y;
      }
{{- end}}
      pairs[ti * 4u + {{$i}}][to] = {{$c.At "s" $i}};
    }
{{- end}}
{{- template "multiply" (.C.Into 2 "sum" "")}}
  }
{{- template "write" (.C.Into 0 "sum" "dq")}}
}
{{- end}}

{{- define "keys"}}
{{- $c := .C}}
{{- template "common" .}}
{{- template "products" .}}
// Returns a range of queries, from .x to .y - 1, that includes all that see any key from k0 to k1 - 1.
fn seeing(k0: u32, k1: u32) -> vec2<u32> {
{{- if or (eq .C.Mask "causal") (eq .C.Mask "sliding")}}
  let first = u32(clamp(i32(k0) - offset, 0, i32(P.sq)));
{{- if eq .C.Mask "sliding"}}
  return vec2<u32>(first, u32(clamp(i32(k1) - offset + i32(P.window), 0, i32(P.sq))));
{{- else}}
  return vec2<u32>(first, P.sq);
{{- end}}
{{- else}}
  return vec2<u32>(0u, P.sq);
{{- end}}
}

@compute @workgroup_size({{.C.Threads}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
{{- template "places" .}}
  let tiles = (P.sk + {{sub .C.Outer 1}}u) / {{.C.Outer}}u;
  let o0 = id % tiles * {{.C.Outer}}u;
  let c0 = id / tiles % {{.C.Blocks}}u * {{.C.Columns}}u;
{{- if .C.Split}}
  let h = id / (tiles * {{.C.Blocks}}u) % P.heads;
  let b = id / (tiles * {{.C.Blocks}}u * P.heads);
{{- else}}
  let share = P.heads / P.kv_heads;
  let kv = id / (tiles * {{.C.Blocks}}u) % P.kv_heads;
  let b = id / (tiles * {{.C.Blocks}}u * P.kv_heads);
{{- end}}
  set_span(b);
  let seen = seeing(o0, min(o0 + {{.C.Outer}}u, keys));
{{- range $v := seq .C.ColumnVecs}}{{range $j := seq 4}}
  var dk{{$v}}_{{$j}} = vec4<f32>(0.0);
  var dv{{$v}}_{{$j}} = vec4<f32>(0.0);
{{- end}}{{end}}
  let rounds = (max(seen.y, seen.x) - seen.x + {{sub .C.Inner 1}}u) / {{.C.Inner}}u;
  for (var round = 0u; round < {{if not .C.Split}}share * {{end}}rounds; round = round + 1u) {
{{- if not .C.Split}}
    let h = kv * share + round / rounds;
{{- end}}
    let i0 = seen.x + round % rounds * {{.C.Inner}}u;
{{- template "pairs" .}}
{{- range $i := .C.Each "i" 4}}
    {{$c.Loop "i" 4}}
      let row = row_of(b, h, i0 + ti * 4u + {{$i}});
{{- range $r := $c.Each "r" 4}}
      {{$c.Loop "r" 4}}
        let w = weighed(b, h, i0 + ti * 4u + {{$i}}, o0 + to * 4u + {{$r}}, {{$c.At "s" $i}}[{{$r}}],
            {{$c.At "d" $i}}[{{$r}}], row);
        {{$c.At "s" $i}}[{{$r}}] = w.x;
        {{$c.At "d" $i}}[{{$r}}] = w.y;
      }
{{- end}}
      pairs[ti * 4u + {{$i}}][to] = {{$c.At "s" $i}};
    }
{{- end}}
{{- template "multiply" (.C.Into 3 "dv" "")}}
    workgroupBarrier();
{{- range $i := seq 4}}
    pairs[ti * 4u + {{$i}}u][to] = {{$c.At "d" $i}};
{{- end}}
{{- template "multiply" (.C.Into 2 "dk" "")}}
  }
{{- if .C.Split}}
{{- template "keep" (.C.Into 0 "dk" "P.dk_at")}}
{{- template "keep" (.C.Into 1 "dv" "P.dv_at")}}
{{- else}}
  let h = kv * share;
{{- template "write" (.C.Into 0 "dk" "dk")}}
{{- template "write" (.C.Into 1 "dv" "dv")}}
{{- end}}
}
{{- end}}

{{- define "keep"}}{{/* writes the sums .Sum to scratch memory from vector .To on */}}
{{- $c := .Consts}}{{$x := .Row}}{{$sum := .Sum}}{{$to := .To}}
{{- range $r := $c.Each "r" 4}}
  {{$c.Loop "r" 4}}
    if (o0 + to * 4u + {{$r}} < P.sk) {
      let at = {{$to}} + ((b * P.heads + h) * P.sk + o0 + to * 4u + {{$r}}) * {{$x.Vecs}}u;
{{- range $v := seq $c.ColumnVecs}}
      if (c0 + ti + {{mul $v $c.IW}}u < {{$x.Vecs}}u) {
        statistics4_put(at + c0 + ti + {{mul $v $c.IW}}u, vec4<f32>({{$sum}}{{$v}}_0[{{$r}}], {{$sum}}{{$v}}_1[{{$r}}],
            {{$sum}}{{$v}}_2[{{$r}}], {{$sum}}{{$v}}_3[{{$r}}]));
      }
{{- end}}
    }
  }
{{- end}}
{{- end}}

{{- define "members"}}
{{- $c := .C}}
{{- template "row" (index .C.Rows 0)}}
{{- template "row" (index .C.Rows 1)}}

// Adds the gradients that the query heads of a group give.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let u = (group.y * groups.x + group.x) * 64u + local;
  let share = P.heads / P.kv_heads;
  let row = u / {{add (index .C.Rows 0).Vecs (index .C.Rows 1).Vecs}}u; // of k and v: [b][kv head][key]
  let column = u % {{add (index .C.Rows 0).Vecs (index .C.Rows 1).Vecs}}u;
  if (row >= P.batch * P.kv_heads * P.sk) {
    return;
  }
  let k = row % P.sk;
  let h = row / P.sk % P.kv_heads * share;
  let b = row / (P.sk * P.kv_heads);
{{- range $n, $x := .C.Pair}}
  {{if $n}}else {{end}}if (column {{if $n}}>={{else}}<{{end}} {{(index $c.Rows 0).Vecs}}u) {
    let vec = column{{if $n}} - {{(index $c.Rows 0).Vecs}}u{{end}};
    var sum = vec4<f32>(0.0);
    for (var m = 0u; m < share; m = m + 1u) {
      sum = sum + statistics4(P.{{.Sum}}_at + ((b * P.heads + h + m) * P.sk + k) * {{.Row.Vecs}}u + vec);
    }
    let at = row_{{.Row.Name}}(b, h, k) + vec * 4u;
{{- if $c.Four}}
    {{.Sum}}4_put(at / 4u, sum);
{{- else}}
    for (var j = 0u; j < min({{.Row.Dim}}u - vec * 4u, 4u); j = j + 1u) {
      {{$x.Sum}}_put(at + j, {{$x.Sum}}_encode(sum[j]));
    }
{{- end}}
  }
{{- end}}
}
{{- end}}

{{- define "bias"}}
{{- $c := .C}}
{{- template "common" .}}
var<workgroup> pairs: array<array<vec4<f32>, {{add .C.OW 1}}>, {{.C.Inner}}>;

// A workgroup has a tile of the bias, or all of it along the axes on which it is repeated.
@compute @workgroup_size({{.C.Threads}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
{{- template "places" .}}
  let first_k = id % P.tiles_k;
  let first_q = id / P.tiles_k % P.tiles_q;
  let first_h = id / (P.tiles_k * P.tiles_q) % P.tiles_h;
  let first_b = id / (P.tiles_k * P.tiles_q * P.tiles_h);
{{- if .C.Rolled}}
  var sum: array<vec4<f32>, 4>;
{{- else}}
{{- range seq 4}}
  var sum{{.}} = vec4<f32>(0.0);
{{- end}}
{{- end}}
  let all = P.count_b * P.count_h * P.count_q * P.count_k;
  for (var one = 0u; one < all; one = one + 1u) {
    let tile_k = first_k + one % P.count_k;
    let tile_q = first_q + one / P.count_k % P.count_q;
    let h = first_h + one / (P.count_k * P.count_q) % P.count_h;
    let b = first_b + one / (P.count_k * P.count_q * P.count_h);
    set_span(b);
    let o0 = tile_q * {{.C.Outer}}u;
    let i0 = tile_k * {{.C.Inner}}u;
{{- template "pairs" .}}
{{- template "rows" .}}
{{- range $i := .C.Each "i" 4}}
    {{$c.Loop "i" 4}}
{{- range $r := $c.Each "r" 4}}
      {{$c.Loop "r" 4}}
        {{$c.At "sum" $i}}[{{$r}}] = {{$c.At "sum" $i}}[{{$r}}] + weighed(b, h, o0 + to * 4u + {{$r}},
            i0 + ti * 4u + {{$i}}, {{$c.At "s" $i}}[{{$r}}], {{$c.At "d" $i}}[{{$r}}], {{$c.At "rows" $r}}).y;
      }
{{- end}}
    }
{{- end}}
  }
{{- range $i := seq 4}}
  pairs[ti * 4u + {{$i}}u][to] = {{$c.At "sum" $i}};
{{- end}}
  workgroupBarrier();
  // Along an axis that is repeated, one invocation adds all of the tile.
  let wide = select({{.C.Inner}}u, 1u, P.mask_k == 0u);
  let high = select({{.C.Outer}}u, 1u, P.mask_q == 0u);
  for (var u = local; u < wide * high; u = u + {{.C.Threads}}u) {
    let q = first_q * {{.C.Outer}}u + u / wide;
    let k = first_k * {{.C.Inner}}u + u % wide;
    var total = 0.0;
    for (var i = u % wide; i < {{.C.Inner}}u; i = i + wide) {
      for (var r = u / wide; r < {{.C.Outer}}u; r = r + high) {
        total = total + pairs[i][r / 4u][r % 4u];
      }
    }
    if (q < P.sq && k < P.sk) {
      dbias_put(first_b * P.mask_b + first_h * P.mask_h + q * P.mask_q + k * P.mask_k, dbias_encode(total));
    }
  }
}
{{- end}}

{{- define "sinks"}}
var<workgroup> partial: array<f32, 64>;

// A workgroup adds what the sink of one head loses.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let h = group.y * groups.x + group.x;
  if (h >= P.heads) {
    return;
  }
  var sum = 0.0;
  for (var r = local; r < P.batch * P.sq; r = r + 64u) {
    sum = sum + statistics4(((r / P.sq) * P.heads + h) * P.sq + r % P.sq).w;
  }
  partial[local] = sum;
  workgroupBarrier();
  if (local == 0u) {
    for (var k = 1u; k < 64u; k = k + 1u) {
      sum = sum + partial[k];
    }
    dsinks_put(h, dsinks_encode(-sum));
  }
}
{{- end}}
