{{- /* The gradients of attention. Scores are computed again from q and k, and are not stored. A workgroup holds a tile
of outer rows: queries, or keys in the part "keys". It passes over tiles of inner rows: keys, or queries. Invocation
(to, ti) has the scores of four outer rows with four inner rows, s0 to s3, each for one inner row. d0 to d3 are the
products of rows of dy and v. */ -}}
{{- define "row"}}
fn row_{{.Name}}(b: u32, h: u32, row: u32) -> u32 {
  return b * P.{{.Stride}}_b + min(row, P.{{.Size}} - 1u) * P.{{.Stride}}_s + {{if .KV -}}
      (h * P.kv_heads) / P.heads{{else}}h{{end}} * P.{{.Stride}}_h;
}
{{- end}}
{{- define "common"}}
// The outer rows of q and dy, or of k and v, and the inner ones: [d][row / 4], 16 values of the head dim at a time.
var<workgroup> outer_a: array<array<vec4<f32>, {{add .C.OW 1}}>, 16>;
var<workgroup> outer_b: array<array<vec4<f32>, {{add .C.OW 1}}>, 16>;
var<workgroup> inner_a: array<array<vec4<f32>, {{add .C.IW 1}}>, 16>;
var<workgroup> inner_b: array<array<vec4<f32>, {{add .C.IW 1}}>, 16>;
{{- if not .C.Rolled}}
var<workgroup> odd: atomic<u32>; // set if a value of an operand is NaN or infinite
{{- end}}
const nothing = 0x80000000u; // the bits of -0: marks pairs whose weight is 0

{{- if not .C.Rolled}}
fn any_not_finite(v: vec4<f32>) -> bool {
  return any((bitcast<vec4<u32>>(v) & vec4<u32>(0x7f800000u)) == vec4<u32>(0x7f800000u));
}
{{- end}}
{{- range $x := .C.Rows}}
{{- template "row" .}}
fn fetch_{{.Name}}(row: u32, d4: u32) -> vec4<f32> {
{{- if $.C.Four}}
{{- if .Whole}}
  return {{.Name}}4(row / 4u + d4);
{{- else}}
  return select(vec4<f32>(0.0), {{.Name}}4(row / 4u + min(d4, {{sub (div .Dim 4) 1}}u)), d4 < {{div .Dim 4}}u);
{{- end}}
{{- else}}
  let d = vec4<u32>(d4 * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
  let at = vec4<u32>(row) + min(d, vec4<u32>({{sub .Dim 1}}u));
  return select(vec4<f32>(0.0), vec4<f32>({{.Name}}(at.x), {{.Name}}(at.y), {{.Name}}(at.z), {{.Name}}(at.w)),
      d < vec4<u32>({{.Dim}}u));
{{- end}}
}
{{- end}}

// Returns the score of a key, which is -Inf if it takes no part, and its derivative by the product of q and k.
fn score(b: u32, h: u32, q: u32, k: u32, product: f32) -> vec2<f32> {
  var s = P.scale * product;
  var slope = P.scale;
{{- if .C.Softcap}}
  let t = op_tanh(s / P.softcap);
  s = P.softcap * t;
  slope = slope * (1.0 - t * t);
{{- end}}
{{- template "limits" .}}
  return vec2<f32>(select(s, -infinity(), k >= keys || q >= P.sq), slope);
}
// Returns the exponential of a number that is not above 0, or NaN.
fn exponential(x: f32) -> f32 {
  return select(exp(max(x, -110.0)), x, is_nan(x));
}
{{- if .C.Weighs}}

// Of a query: the maximum of its scores, the factor of their exponentials, and the sum of weights times dp.
fn row_of(b: u32, h: u32, q: u32) -> vec4<f32> {
  return statistics4((b * P.heads + h) * P.sq + min(q, P.sq - 1u));
}
// Returns the weight of a key and the gradient of the product of q and k, or of the score for the bias.
fn weighed(b: u32, h: u32, q: u32, k: u32, product: f32, dp: f32, row: vec4<f32>) -> vec2<f32> {
  let s = score(b, h, q, k, product);
  let some = is_nan(s.x) || s.x > -infinity();
  let e = select(0.0, exponential(s.x - row.x), some);
  let p = e * row.y;
  let ds = p * (dp - row.z){{if not .C.Bias}} * s.y{{end}};
  return select(vec2<f32>(p, select(ds, 0.0, ds == 0.0)), vec2<f32>(from_bits(nothing)), vec2<bool>(e == 0.0));
}
{{- end}}
{{- end}}

{{- define "places"}}
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
  let to = local % {{.C.OW}}u;
  let ti = local / {{.C.OW}}u;
{{- end}}

{{- define "pairs"}}
{{- $c := .C}}
{{- $o1 := index .C.Rows 0}}{{$o2 := index .C.Rows 1}}{{$i1 := index .C.Rows 2}}{{$i2 := index .C.Rows 3}}
{{- if .C.Rolled}}
    var s: array<vec4<f32>, 4>;
    var d: array<vec4<f32>, 4>;
    for (var i = 0u; i < 4u; i = i + 1u) {
      s[i] = vec4<f32>(0.0);
      d[i] = vec4<f32>(0.0);
    }
{{- else}}
{{- range seq 4}}
    var s{{.}} = vec4<f32>(0.0);
    var d{{.}} = vec4<f32>(0.0);
{{- end}}
{{- end}}
    for (var part = 0u; part < {{.C.Parts}}u; part = part + 1u) {
      workgroupBarrier();
{{- range $u := .C.Each "u" (div 16 .C.IW)}}
      {{$c.Loop "u" (div 16 $c.IW)}}
        let row = (local + {{$u}} * {{$c.Threads}}u) / 4u;
        let d4 = local % 4u;
        let x = fetch_{{$o1.Name}}(row_{{$o1.Name}}(b, h, o0 + row), part * 4u + d4);
        let y = fetch_{{$o2.Name}}(row_{{$o2.Name}}(b, h, o0 + row), part * 4u + d4);
{{- if not $c.Rolled}}
        if (any_not_finite(x) || any_not_finite(y)) {
          atomicStore(&odd, 1u);
        }
{{- end}}
{{- range $j := seq 4}}
        outer_a[d4 * 4u + {{$j}}u][row / 4u][row % 4u] = x[{{$j}}];
        outer_b[d4 * 4u + {{$j}}u][row / 4u][row % 4u] = y[{{$j}}];
{{- end}}
      }
{{- end}}
{{- range $u := .C.Each "u" (div 16 .C.OW)}}
      {{$c.Loop "u" (div 16 $c.OW)}}
        let row = (local + {{$u}} * {{$c.Threads}}u) / 4u;
        let d4 = local % 4u;
        let x = fetch_{{$i1.Name}}(row_{{$i1.Name}}(b, h, i0 + row), part * 4u + d4);
        let y = fetch_{{$i2.Name}}(row_{{$i2.Name}}(b, h, i0 + row), part * 4u + d4);
{{- if not $c.Rolled}}
        if (any_not_finite(x) || any_not_finite(y)) {
          atomicStore(&odd, 1u);
        }
{{- end}}
{{- range $j := seq 4}}
        inner_a[d4 * 4u + {{$j}}u][row / 4u][row % 4u] = x[{{$j}}];
        inner_b[d4 * 4u + {{$j}}u][row / 4u][row % 4u] = y[{{$j}}];
{{- end}}
      }
{{- end}}
      workgroupBarrier();
{{- range $e := .C.Each "e" 16}}
      {{$c.Loop "e" 16}}
        let a = outer_a[{{$e}}][to];
        let x = inner_a[{{$e}}][ti];
        let g = outer_b[{{$e}}][to];
        let y = inner_b[{{$e}}][ti];
{{- range $i := seq 4}}
        {{$c.At "s" $i}} = fma(a, vec4<f32>(x[{{$i}}]), {{$c.At "s" $i}});
        {{$c.At "d" $i}} = fma(g, vec4<f32>(y[{{$i}}]), {{$c.At "d" $i}});
{{- end}}
      }
{{- end}}
    }
{{- end}}

{{- define "statistics"}}
{{- $c := .C}}
{{- template "common" .}}
var<workgroup> partial: array<array<vec4<f32>, {{.C.OW}}>, {{mul 3 .C.IW}}>;

fn sum_of(x: vec4<f32>, by: vec4<f32>) -> vec4<f32> {
  return select(x * by, vec4<f32>(0.0), by == vec4<f32>(0.0)); // infinities have no part if the weight is 0
}
fn nan_of(x: vec4<f32>) -> vec4<bool> {
  return (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}
fn larger(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  return select(select(max(a, b), b, nan_of(b)), a, nan_of(a));
}
fn exp_of(x: vec4<f32>) -> vec4<f32> {
  return vec4<f32>(exponential(x.x), exponential(x.y), exponential(x.z), exponential(x.w));
}
// Four numbers for each query: those of Row, and what the sink loses.
@compute @workgroup_size({{.C.Threads}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
{{- template "places" .}}
  let tiles = (P.sq + {{sub .C.Outer 1}}u) / {{.C.Outer}}u;
  let o0 = id % tiles * {{.C.Outer}}u;
  let h = id / tiles % P.heads;
  let b = id / (tiles * P.heads);
  set_span(b);
  let seen = visible(o0, min(o0 + {{.C.Outer}}u, P.sq));
  var most = vec4<f32>(-3.0e38); // finite, so that -Inf minus it stays -Inf
  var sum = vec4<f32>(0.0);
  var mean = vec4<f32>(0.0);
  for (var i0 = seen.x; i0 < seen.y; i0 = i0 + {{.C.Inner}}u) {
{{- template "pairs" .}}
{{- range $i := .C.Each "i" 4}}
    {{$c.Loop "i" 4}}
{{- range $r := $c.Each "r" 4}}
      {{$c.Loop "r" 4}}
        {{$c.At "s" $i}}[{{$r}}] = score(b, h, o0 + to * 4u + {{$r}}, i0 + ti * 4u + {{$i}},
            {{$c.At "s" $i}}[{{$r}}]).x;
      }
{{- end}}
    }
{{- end}}
    let top = larger(larger(larger({{.C.At "s" 0}}, {{.C.At "s" 1}}), larger({{.C.At "s" 2}}, {{.C.At "s" 3}})), most);
    let keep = exp_of(most - top);
    sum = sum * keep;
    mean = sum_of(mean, keep);
    most = top;
{{- range $i := .C.Each "i" 4}}
    {{$c.Loop "i" 4}}
      let e = exp_of({{$c.At "s" $i}} - most);
      sum = sum + e;
      mean = mean + sum_of({{$c.At "d" $i}}, e);
    }
{{- end}}
  }
  partial[ti][to] = most;
  partial[ti + {{.C.IW}}u][to] = sum;
  partial[ti + {{mul 2 .C.IW}}u][to] = mean;
  workgroupBarrier();
  if (ti != 0u) {
    return;
  }
  for (var t = 1u; t < {{.C.IW}}u; t = t + 1u) {
    most = larger(most, partial[t][to]);
  }
  sum = vec4<f32>(0.0);
  mean = vec4<f32>(0.0);
  for (var t = 0u; t < {{.C.IW}}u; t = t + 1u) {
    let keep = exp_of(partial[t][to] - most);
    sum = sum + partial[t + {{.C.IW}}u][to] * keep;
    mean = mean + sum_of(partial[t + {{mul 2 .C.IW}}u][to], keep);
  }
  for (var r = 0u; r < 4u; r = r + 1u) {
    let q = o0 + to * 4u + r;
    if (q < P.sq) {
{{- if .C.Sinks}}
      let sink = x{{.C.Sinks}}(h);
      let top = op_max(most[r], sink);
      let keep = exponential(most[r] - top);
      let total = sum[r] * keep;
      let own = exponential(sink - top);
      let none = total == 0.0;
      let average = select(mean[r] * keep / (total + own), 0.0, none);
{{- else}}
      let top = most[r];
      let total = sum[r];
      let own = 0.0;
      let none = total == 0.0;
      let average = select(mean[r] / total, 0.0, none);
{{- end}}
      let all = total + own;
      statistics4_put((b * P.heads + h) * P.sq + q,
          vec4<f32>(top, select(1.0 / all, 0.0, none), average, select(own / all * average, 0.0, none)));
    }
  }
}
{{- end}}

{{- define "products"}}
// Weights or gradients of pairs, [inner row][outer row / 4], and rows of what they are multiplied with.
var<workgroup> pairs: array<array<vec4<f32>, {{add .C.OW 1}}>, {{.C.Inner}}>;
var<workgroup> values: array<array<vec4<f32>, {{.C.Columns}}>, 16>;

fn added(sum: vec4<f32>, w: vec4<f32>, x: f32) -> vec4<f32> {
  return sum + select(w * x, vec4<f32>(0.0), bitcast<vec4<u32>>(w) == vec4<u32>(nothing));
}
{{- end}}

{{- define "multiply"}}{{/* adds the products of pairs and rows of an operand to the sums .Sum */}}
{{- $c := .Consts}}{{$x := .Row}}{{$sum := .Sum}}
    for (var chunk = 0u; chunk < {{div $c.Inner 16}}u; chunk = chunk + 1u) {
      workgroupBarrier();
{{- range $u := $c.Each "u" (div (mul 16 $c.ColumnVecs) $c.OW)}}
      {{$c.Loop "u" (div (mul 16 $c.ColumnVecs) $c.OW)}}
        let unit = local + {{$u}} * {{$c.Threads}}u;
        values[unit / {{$c.Columns}}u][unit % {{$c.Columns}}u] = fetch_{{$x.Name}}(
            row_{{$x.Name}}(b, h, i0 + chunk * 16u + unit / {{$c.Columns}}u), c0 + unit % {{$c.Columns}}u);
      }
{{- end}}
      workgroupBarrier();
      {{if not $c.Rolled}}if (atomicLoad(&odd) != 0u) {{end}}{
        for (var k = 0u; k < 16u; k = k + 1u) {
          let w = pairs[chunk * 16u + k][to];
{{- range $v := seq $c.ColumnVecs}}
          let x{{$v}} = values[k][ti + {{mul $v $c.IW}}u];
{{- range $j := seq 4}}
          {{$sum}}{{$v}}_{{$j}} = added({{$sum}}{{$v}}_{{$j}}, w, x{{$v}}[{{$j}}]);
{{- end}}{{end}}
        }
      }
{{- if not $c.Rolled}} else {
{{- range $k := seq 16}}
        {
          let w = pairs[chunk * 16u + {{$k}}u][to];
{{- range $v := seq $c.ColumnVecs}}
          let x{{$v}} = values[{{$k}}][ti + {{mul $v $c.IW}}u];
{{- range $j := seq 4}}
          {{$sum}}{{$v}}_{{$j}} = fma(w, vec4<f32>(x{{$v}}[{{$j}}]), {{$sum}}{{$v}}_{{$j}});
{{- end}}{{end}}
        }
{{- end}}
      }
{{- end}}
    }
{{- end}}

{{- define "write"}}{{/* writes the sums .Sum to result .To in rows as those of .Row */}}
{{- $c := .Consts}}{{$x := .Row}}{{$sum := .Sum}}{{$to := .To}}
{{- range $r := $c.Each "r" 4}}
  {{$c.Loop "r" 4}}
    if (o0 + to * 4u + {{$r}} < P.{{$x.Size}}) {
      let at = row_{{$x.Name}}(b, h, o0 + to * 4u + {{$r}});
{{- range $v := seq $c.ColumnVecs}}
{{- if $c.Four}}
      if (c0 + ti + {{mul $v $c.IW}}u < {{div $x.Dim 4}}u) {
        {{$to}}4_put(at / 4u + c0 + ti + {{mul $v $c.IW}}u,
            vec4<f32>({{$sum}}{{$v}}_0[{{$r}}], {{$sum}}{{$v}}_1[{{$r}}], {{$sum}}{{$v}}_2[{{$r}}],
                {{$sum}}{{$v}}_3[{{$r}}]));
      }
{{- else}}
{{- range $j := seq 4}}
      if ((c0 + ti + {{mul $v $c.IW}}u) * 4u + {{$j}}u < {{$x.Dim}}u) {
        {{$to}}_put(at + (c0 + ti + {{mul $v $c.IW}}u) * 4u + {{$j}}u, {{$to}}_encode({{$sum}}{{$v}}_{{$j}}[{{$r}}]));
      }
{{- end}}
{{- end}}
{{- end}}
    }
  }
{{- end}}
{{- end}}
