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
  let start = u32(x1(0u)); // a negative one is large
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

{{define "scatter_add"}}
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

{{define "place"}}
// Where element i of an axis lies, as op.Along has it: the element before it, and the numerator of the share of the way to the next.
fn place(i: u32, step: u32, first: u32, den: u32, size: u32) -> vec2<u32> {
  let p = u32(max(bitcast<i32>(step * i + first), 0));
  let k = p / den;
  return select(vec2<u32>(k, p % den), vec2<u32>(size - 1u, 0u), k + 1u >= size);
}
{{end}}

{{define "nearest"}}
{{- template "place" .}}
fn value(i: u32) -> u32 {
  let r = place((i / P.to_w) % P.to_h, P.rows_step, P.rows_first, P.rows_den, P.h).x;
  let c = place(i % P.to_w, P.cols_step, P.cols_first, P.cols_den, P.w).x;
  return x0_bits(((i / P.to_w / P.to_h) * P.h + r) * P.w + c);
}
{{end}}

{{define "linear"}}
{{- template "place" .}}
fn between(a: f32, b: f32, share: u32, den: u32) -> f32 {
  let t = f32(share) / f32(den);
  return select(a * (1.0 - t) + b * t, a, share == 0u);
}

fn value(i: u32) -> u32 {
  let r = place((i / P.to_w) % P.to_h, P.rows_step, P.rows_first, P.rows_den, P.h);
  let c = place(i % P.to_w, P.cols_step, P.cols_first, P.cols_den, P.w);
  let top = ((i / P.to_w / P.to_h) * P.h + r.x) * P.w + c.x;
  let right = select(1u, 0u, c.y == 0u); // a neighbour without a share may not exist
  let bottom = top + select(P.w, 0u, r.y == 0u);
  let upper = between(x0(top), x0(top + right), c.y, P.cols_den);
  let lower = between(x0(bottom), x0(bottom + right), c.y, P.cols_den);
  return y_encode(between(upper, lower, r.y, P.rows_den));
}
{{end}}
