{{define "roll"}}
fn value(i: u32) -> {{.C.T}} {
  var at = i;
{{- range .C.Axes}}
  {
    let size = P.size[{{.}}];
    let k = (i / P.stride[{{.}}]) % size;
    let origin = P.origin[{{.}}];
    let moved = select(k + origin - size, k + origin, k < size - origin);
    at = at + (moved - k) * P.stride[{{.}}];
  }
{{- end}}
  return x0{{.C.Read}}(at);
}
{{end}}

{{define "slice"}}
fn value(i: u32) -> {{.C.T}} {
  let start = u32(x1(0u)); // a negative index becomes large
  if (start > P.last) {
    status_put(0u, 1u);
    return {{.C.T}}(0u);
  }
  return x0{{.C.Read}}((i / P.row) * P.from_row + start * P.inner + i % P.row);
}
{{end}}

{{define "gather_batched"}}
fn value(i: u32) -> {{.C.T}} {
  let k = i / P.inner;
  let row = u32(x1(k));
  if (row >= P.size) {
    status_put(0u, 1u);
    return {{.C.T}}(0u);
  }
  return x0{{.C.Read}}(((k / P.count) * P.size + row) * P.inner + i % P.inner);
}
{{end}}

{{define "scatter_elements"}}
fn value(i: u32) -> u32 {
  let row = i / P.inner;
  let col = i % P.inner;
  var sum = {{.C.Type}}(0);
  for (var k = 0u; k < P.count; k = k + 1u) {
    let to = u32(x1(k));
    if (to == row) {
      sum = sum + x0(k * P.inner + col);
    }
    if (to >= P.rows) {
      status_put(0u, 1u);
    }
  }
  return y_encode(sum);
}
{{end}}

{{define "scatter_sums"}}
// {{.C.Lanes}} invocations with {{.C.Each}} units each compute a row of the result, or a piece of one. They find the
// row among the sorted indices and add its rows of the operand, in the operand's order.
@compute @workgroup_size({{mul .C.Rows .C.Lanes}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  let row = id / P.blocks * {{.C.Rows}}u + local / {{.C.Lanes}}u;
  if (row >= P.rows) {
    return;
  }
  let begins = {{if .C.Begins}}P.count{{else}}0u{{end}};
  var p = 0u;
  var end = P.count;
  while (p < end) {
    let k = (p + end) / 2u;
    if (pairs(2u * (begins + k)) < row) {
      p = k + 1u;
    } else {
      end = k;
    }
  }
  let col = id % P.blocks * {{mul .C.Lanes .C.Each}}u + local % {{.C.Lanes}}u;
  // Units past the end read the last unit instead.
{{- range seq .C.Each}}
  let col{{.}} = min(col + {{mul . $.C.Lanes}}u, P.inner - 1u);
  var sum{{.}} = {{$.C.Type}}();
{{- end}}
  for (; p < P.count && pairs(2u * (begins + p)) == row; p = p + 1u) {
    let begin = pairs(2u * (begins + p) + 1u) * P.inner;
{{- range seq .C.Each}}
    let v{{.}} = {{$.C.Read}}(begin + col{{.}});
{{- end}}
{{- range seq .C.Each}}
    sum{{.}} = sum{{.}} + v{{.}};
{{- end}}
  }
{{- range seq .C.Each}}
  if (col + {{mul . $.C.Lanes}}u < P.inner) {
    {{if $.C.Four}}y4_put(row * P.inner + col{{.}}, sum{{.}}){{else}}y_put(row * P.inner + col{{.}},
        y_encode(sum{{.}})){{end}};
  }
{{- end}}
}
{{end}}

{{define "place"}}
// Locates element i of an axis as op.Along does. Returns the index of the element before it, and the numerator of its
// distance from there, over den.
fn place(i: u32, step: u32, first: u32, den: u32, size: u32) -> vec2<u32> {
  let p = u32(max(bitcast<i32>(step * i + first), 0));
  let k = p / den;
  return select(vec2<u32>(k, p - k * den), vec2<u32>(size - 1u, 0u), k + 1u >= size);
}
{{end}}

{{define "resized"}}
// value returns {{.C.Each}} consecutive elements of a line (rows of all images are numbered together).
fn value(i: u32) -> {{.C.T}} {
  let line = i * {{.C.Each}}u / P.to_w;
  let x = i * {{.C.Each}}u - line * P.to_w;
  let image = line / P.to_h;
  let r = place(line - image * P.to_h, P.rows_step, P.rows_first, P.rows_den, P.h);
  let top = (image * P.h + r.x) * P.w;
{{- if eq .C.Each 1}}
  return one(x, top, r.y);
{{- else}}
  return vec4<u32>(one(x, top, r.y), one(x + 1u, top, r.y), one(x + 2u, top, r.y), one(x + 3u, top, r.y));
{{- end}}
}
{{end}}

{{define "nearest"}}
{{- template "place" .}}
fn one(x: u32, top: u32, share: u32) -> u32 {
  return x0_bits(top + place(x, P.cols_step, P.cols_first, P.cols_den, P.w).x);
}
{{template "resized" .}}
{{end}}

{{define "linear"}}
{{- template "place" .}}
fn between(a: f32, b: f32, share: u32, den: u32) -> f32 {
  let t = f32(share) / f32(den);
  return select(a * (1.0 - t) + b * t, a, share == 0u);
}
fn one(x: u32, top: u32, share: u32) -> u32 {
  let c = place(x, P.cols_step, P.cols_first, P.cols_den, P.w);
  let right = select(1u, 0u, c.y == 0u); // with weight 0 the neighbour may not exist
  let below = select(P.w, 0u, share == 0u);
  let upper = between(x0(top + c.x), x0(top + c.x + right), c.y, P.cols_den);
  let lower = between(x0(top + below + c.x), x0(top + below + c.x + right), c.y, P.cols_den);
  return {{.C.Encode}}(between(upper, lower, share, P.rows_den));
}
{{template "resized" .}}
{{end}}
