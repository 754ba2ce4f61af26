{{define "strided"}}
fn value(i: u32) -> {{.C.T}} {
  var rest = i;
  var at = P.offset;
{{- range .C.Axes}}
  at = at + (rest % P.dims[{{.}}]) * P.stride[{{.}}];
  rest = rest / P.dims[{{.}}];
{{- end}}
  return x0{{.C.Read}}(at + rest * P.stride[0]);
}
{{end}}

{{define "pad"}}
fn value(i: u32) -> {{.C.T}} {
  var rest = i;
  var at = 0u;
  var k = 0u;
{{- range .C.Axes}}
  k = {{if .}}rest % P.dims[{{.}}]{{else}}rest{{end}} - P.before[{{.}}];
  if (k >= P.inner[{{.}}]) {
    return {{$.C.T}}({{$.C.Bits}}u);
  }
  at = at + k * P.stride[{{.}}];
{{- if .}}
  rest = rest / P.dims[{{.}}];
{{- end}}
{{- end}}
  return x0{{.C.Read}}(at);
}
{{end}}

{{define "concat"}}
fn value(i: u32) -> {{.C.T}} {
  let outer = i / P.row;
  var k = i % P.row;
{{- range .C.Operands}}
  if (k < P.len{{.}}) {
    return x{{.}}{{$.C.Read}}(outer * P.len{{.}} + k);
  }
  k = k - P.len{{.}};
{{- end}}
  return {{.C.T}}(0u);
}
{{end}}

{{define "gather"}}
fn value(i: u32) -> {{.C.T}} {
  let inner = i % P.inner;
  let row = u32(x1((i / P.inner) % P.count));
  if (row >= P.size) {
    status_put(0u, 1u);
    return {{.C.T}}(0u);
  }
  return x0{{.C.Read}}(((i / (P.inner * P.count)) * P.size + row) * P.inner + inner);
}
{{end}}

{{define "iota"}}
{{- if eq .C.Type "vec2<u32>"}}
fn value(i: u32) -> vec2<u32> {
  return vec2<u32>((i / P.inner) % P.size, 0u);
}
{{- else}}
fn value(i: u32) -> u32 {
  return y_encode({{.C.Type}}((i / P.inner) % P.size));
}
{{- end}}
{{end}}

{{define "const"}}
fn value(i: u32) -> {{.C.T}} {
  return {{.C.Bits}};
}
{{end}}

{{define "fours"}}
@compute @workgroup_size({{.C.Group}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let first = (group.y * groups.x + group.x) * {{mul .C.Group .C.Each}}u + local;
{{- range seq .C.Each}}
  let v{{.}} = x4(min(first + {{mul . $.C.Group}}u, P.n - 1u));
{{- end}}
{{- range seq .C.Each}}
  if (first + {{mul . $.C.Group}}u < P.n) {
    y4_put(first + {{mul . $.C.Group}}u, v{{.}});
  }
{{- end}}
}
{{end}}

{{define "cast"}}
fn value(i: u32) -> u32 {
  let v = x0(i);
{{- if eq .C.From .C.To}}
  return y_encode(v);
{{- else if and (eq .C.From "f32") (eq .C.To "bool")}}
  return y_encode((bitcast<u32>(v) & 0x7fffffffu) != 0u);
{{- else if and (eq .C.From "f32") (eq .C.To "i32")}}
  if (is_nan(v)) {
    return 0u;
  }
  if (v >= 2147483648.0) {
    return 0x7fffffffu;
  }
  if (v <= -2147483648.0) {
    return 0x80000000u;
  }
  return y_encode(i32(v));
{{- else if and (eq .C.From "f32") (eq .C.To "u32")}}
  if (is_nan(v) || v <= 0.0) {
    return 0u;
  }
  if (v >= 4294967296.0) {
    return 0xffffffffu;
  }
  return y_encode(u32(v));
{{- else if eq .C.From "bool"}}
  return y_encode({{.C.To}}(select(0u, 1u, v)));
{{- else if eq .C.To "bool"}}
  return y_encode(x0_bits(i) != 0u);
{{- else}}
  return y_encode({{.C.To}}(v));
{{- end}}
}
{{end}}
