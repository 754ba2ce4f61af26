{{define "across"}}
var<workgroup> partial: array<u32, {{mul .C.Rows .C.Lanes}}>;

// The largest key, and the sum, over the lanes of an invocation's row.
fn across_largest(local: u32, key: i32) -> i32 {
  let first = local - local % {{.C.Lanes}}u;
  var k = key;
  workgroupBarrier(); // the results of the last call have been read
  partial[local] = bitcast<u32>(k);
  workgroupBarrier();
{{- if gt .C.Lanes 16}}
  if (local - first < 16u) {
{{- range seq (sub (div .C.Lanes 16) 1)}}
    k = max(k, bitcast<i32>(partial[local + {{add (mul . 16) 16}}u]));
{{- end}}
    partial[local] = bitcast<u32>(k);
  }
  workgroupBarrier();
{{- end}}
  k = bitcast<i32>(partial[first]);
{{- range seq (sub .C.Final 1)}}
  k = max(k, bitcast<i32>(partial[first + {{add . 1}}u]));
{{- end}}
  return k;
}
fn across_sum(local: u32, v: f32) -> f32 {
  let first = local - local % {{.C.Lanes}}u;
  var s = v;
  workgroupBarrier();
  partial[local] = bitcast<u32>(s);
  workgroupBarrier();
{{- if gt .C.Lanes 16}}
  if (local - first < 16u) {
{{- range seq (sub (div .C.Lanes 16) 1)}}
    s = s + bitcast<f32>(partial[local + {{add (mul . 16) 16}}u]);
{{- end}}
    partial[local] = bitcast<u32>(s);
  }
  workgroupBarrier();
{{- end}}
  s = bitcast<f32>(partial[first]);
{{- range seq (sub .C.Final 1)}}
  s = s + bitcast<f32>(partial[first + {{add . 1}}u]);
{{- end}}
  return s;
}
{{end}}

{{define "unit"}}
fn largest(v: {{.C.Unit}}) -> i32 {
  return {{if .C.Four}}max(max(largest_key(v.x), largest_key(v.y)),
      max(largest_key(v.z), largest_key(v.w))){{else}}largest_key(v){{end}};
}

// The exponential of d <= 0; NaN stays NaN.
fn exponential_of(d: f32) -> f32 {
  return select(exp(max(d, -110.0)), d, is_nan(d));
}
fn exponential(d: {{.C.Unit}}) -> {{.C.Unit}} {
  return {{if .C.Four}}vec4<f32>(exponential_of(d.x), exponential_of(d.y), exponential_of(d.z),
      exponential_of(d.w)){{else}}exponential_of(d){{end}};
}
fn total(v: {{.C.Unit}}) -> f32 {
  return {{if .C.Four}}(v.x + v.y) + (v.z + v.w){{else}}v{{end}};
}

// Rescales a sum of exponentials relative to one to a sum relative to another, which is not smaller.
fn less(sum: f32, one: f32, another: f32) -> f32 {
  return select(sum * exponential_of(one - another), 0.0, sum == 0.0);
}
{{end}}

{{define "origin"}}
// The reference point of the exponentials. If all elements so far are -Inf, it is 0, and they add nothing.
fn origin(key: i32) -> f32 {
  return select(from_key(key), 0.0, key == largest_key(-infinity()));
}
{{- end}}

{{/* The beginning of a loop over a part of a row. Each iteration reads eight units and moves the sum's origin. */ -}}
{{define "read"}}
  for (var k = start + lane; k < end; k = k + {{mul 8 .C.Lanes}}u) {
{{- range seq 8}}
    let k{{.}} = k + {{mul . $.C.Lanes}}u;
    let x{{.}} = {{$.C.Read}}(base + min(k{{.}}, end - 1u));
{{- end}}
    let before = key;
{{- range seq 8}}
    key = max(key, largest(x{{.}}));
{{- end}}
    sum = less(sum, origin(before), origin(key));
{{- end}}

{{define "store"}}
  let most = across_largest(local, key);
  sum = across_sum(local, less(sum, origin(key), origin(most)));
  if (lane == 0u && first + r < P.rows) {
    let i = row{{if .C.Split}} * P.parts + part{{end}};
    statistics_put(2u * i, bitcast<u32>(most));
    statistics_put(2u * i + 1u, bitcast<u32>(sum));
  }
}
{{- end}}

{{/* The beginning of a shader that reads rows again. It reads a piece of a row and combines the statistics of the row's
parts. */ -}}
{{define "piece"}}
@compute @workgroup_size({{.C.Lanes}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  let row = id / P.stretches;
  if (row >= P.rows) {
    return;
  }
  let first = id % P.stretches * {{mul .C.Lanes .C.Each}}u + local;
{{- range seq .C.Each}}
  let k{{.}} = first + {{mul . $.C.Lanes}}u;
  let x{{.}} = {{$.C.Read}}(row * P.n + min(k{{.}}, P.n - 1u));
{{- end}}
  var key = largest_key(-infinity());
  for (var p = local; p < P.parts; p = p + {{.C.Lanes}}u) {
    key = max(key, bitcast<i32>(statistics(2u * (row * P.parts + p))));
  }
  let most = from_key(across_largest(local, key));
  var sum = 0.0;
  for (var p = local; p < P.parts; p = p + {{.C.Lanes}}u) {
    let i = 2u * (row * P.parts + p);
    sum = sum + less(bitcast<f32>(statistics(i + 1u)), from_key(bitcast<i32>(statistics(i))), most);
  }
{{- end}}

{{define "kept"}}
{{- template "across" .}}
{{- template "unit" .}}
// A workgroup computes {{.C.Rows}} rows with {{.C.Lanes}} invocations each, which keep the rows in registers.
@compute @workgroup_size({{mul .C.Rows .C.Lanes}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let lane = local % {{.C.Lanes}}u;
  let row = (group.y * groups.x + group.x) * {{.C.Rows}}u + local / {{.C.Lanes}}u;
  let live = row < P.rows;
  // an invocation without a row repeats row 0, because all must reach the barriers
  let base = select(0u, row, live) * {{.C.Units}}u;
{{- range seq .C.Kept}}
  let k{{.}} = lane + {{mul . $.C.Lanes}}u;
  let x{{.}} = x4(base + {{if $.C.Full}}k{{.}}{{else}}min(k{{.}}, {{sub $.C.Units 1}}u){{end}});
{{- end}}
  var key = largest(x0);
{{- range seq .C.Kept}}
  key = max(key, largest(x{{.}}));
{{- end}}
  let most = from_key(across_largest(local, key));
  var sum = 0.0;
{{- range seq .C.Kept}}
  let d{{.}} = x{{.}} - most;
  let e{{.}} = exponential(d{{.}});
  sum = sum + {{if $.C.Full}}total(e{{.}}){{else}}select(0.0, total(e{{.}}), k{{.}} < {{$.C.Units}}u){{end}};
{{- end}}
  sum = across_sum(local, sum);
{{- if .C.Log}}
  let log_sum = op_log(sum);
{{- end}}
  if (!live) {
    return;
  }
{{- range seq .C.Kept}}
{{- if not $.C.Full}}
  if (k{{.}} < {{$.C.Units}}u) {
{{- end}}
  y4_put(base + k{{.}}, {{if $.C.Log}}d{{.}} - log_sum{{else}}e{{.}} / sum{{end}});
{{- if not $.C.Full}}
  }
{{- end}}
{{- end}}
}
{{end}}

{{define "statistics"}}
{{- template "across" .}}
{{- template "unit" .}}
{{- template "origin" .}}
{{- template "place" .}}
  // Online softmax: a part of a row is read once. The exponentials are relative to the largest element so far. Eight
  // reads are in flight.
  var key = largest_key(-infinity());
  var sum = 0.0;
{{- template "read" .}}
{{- range seq 8}}
    sum = sum + select(0.0, total(exponential(x{{.}} - origin(key))), k{{.}} < end);
{{- end}}
  }
{{- template "store" .}}
{{end}}

{{define "values"}}
{{- template "across" .}}
{{- template "unit" .}}
// A workgroup writes a contiguous piece of a row.
{{- template "piece" .}}
  sum = across_sum(local, sum);
{{- if .C.Log}}
  let log_sum = op_log(sum);
{{- end}}
{{- range seq .C.Each}}
  if (k{{.}} < P.n) {
    let v = {{if $.C.Log}}(x{{.}} - most) - log_sum{{else}}exponential(x{{.}} - most) / sum{{end}};
    {{if $.C.Four}}y4_put(row * P.n + k{{.}}, v){{else}}y_put(row * P.n + k{{.}}, y_encode(v)){{end}};
  }
{{- end}}
}
{{end}}
