{{define "read"}}
{{- if eq .C.From "complex"}}
  return vec2<f32>(x0(row * {{mul 2 .C.N}}u + i), x0(row * {{mul 2 .C.N}}u + {{.C.N}}u + i)){{if .C.Inverse}}.yx{{end}};
{{- else if eq .C.From "real"}}
  return vec2<f32>(x0(row * {{.C.N}}u + i), 0.0);
{{- else if eq .C.From "half"}}
  // A half spectrum lacks the conjugates of its first half. The inverse transform swaps real and imaginary parts.
  let k = min(i, {{.C.N}}u - i);
  var im = x0(row * {{mul 2 .C.Bins}}u + {{.C.Bins}}u + k);
  if ((2u * i) % {{.C.N}}u == 0u) {
    im = 0.0;
  }
  return vec2<f32>(select(im, -im, i > k), x0(row * {{mul 2 .C.Bins}}u + k));
{{- end}}
{{- end}}
{{define "write"}}
{{- if eq .C.To "complex"}}
  y_put(row * {{mul 2 .C.N}}u + {{if .C.Inverse}}{{.C.N}}u + {{end}}i, y_encode(v.x * P.scale));
  y_put(row * {{mul 2 .C.N}}u + {{if not .C.Inverse}}{{.C.N}}u + {{end}}i, y_encode(v.y * P.scale));
{{- else if eq .C.To "half"}}
  if (i < {{.C.Bins}}u) {
    y_put(row * {{mul 2 .C.Bins}}u + i, y_encode(v.x * P.scale));
    y_put(row * {{mul 2 .C.Bins}}u + {{.C.Bins}}u + i, y_encode(v.y * P.scale));
  }
{{- else if eq .C.To "real"}}
  y_put(row * {{.C.N}}u + i, y_encode(v.y * P.scale));
{{- end}}
{{- end}}

// Complex product.
fn cmul(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  return vec2<f32>(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// e^(-2 pi i k/{{.C.M}}) for k < {{.C.M}}. If one table would be long, it is the product of entries of two.
fn root(k: u32) -> vec2<f32> {
  let l = 2u * (k % {{.C.Low}}u);
  let low = vec2<f32>(bitcast<f32>(P.low[l]), bitcast<f32>(P.low[l + 1u]));
{{- if eq .C.High 0}}
  return low;
{{- else}}
  let h = 2u * (k / {{.C.Low}}u);
  return cmul(vec2<f32>(bitcast<f32>(P.high[h]), bitcast<f32>(P.high[h + 1u])), low);
{{- end}}
}

{{- if .C.Chirp}}
fn chirp(i: u32) -> vec2<f32> {
  return vec2<f32>(bitcast<f32>(P.chirp[2u * i]), bitcast<f32>(P.chirp[2u * i + 1u]));
}
{{- end}}
{{- if .C.Filter}}
fn filter_at(i: u32) -> vec2<f32> {
  return vec2<f32>(bitcast<f32>(P.filters[2u * i]), bitcast<f32>(P.filters[2u * i + 1u]));
}
{{- end}}

// Number i of a row of the operand, or of the result of the previous pass.
fn read(row: u32, i: u32) -> vec2<f32> {
{{- if eq .C.From "scratch"}}
  let at = {{.C.Source}}u * P.rows * {{mul 2 .C.M}}u + row * {{mul 2 .C.M}}u + i;
  return vec2<f32>(work(at), work(at + {{.C.M}}u)){{if .C.Turn}}.yx{{end}};
{{- else if .C.Chirp}}
  if (i >= {{.C.N}}u) {
    return vec2<f32>(0.0, 0.0);
  }
  return cmul(number(row, i), chirp(i));
{{- else}}
{{- template "read" .}}
{{- end}}
}

{{- if and .C.Chirp (ne .C.From "scratch")}}
fn number(row: u32, i: u32) -> vec2<f32> {
{{- template "read" .}}
}
{{- end}}

fn write(row: u32, i: u32, value: vec2<f32>) {
  var v = value;
{{- if eq .C.To "scratch"}}
{{- if .C.Filter}}
  v = cmul(v, filter_at(i));
{{- end}}
  let at = {{.C.Target}}u * P.rows * {{mul 2 .C.M}}u + row * {{mul 2 .C.M}}u + i;
  work_put(at, work_encode(v.x));
  work_put(at + {{.C.M}}u, work_encode(v.y));
{{- else}}
{{- if .C.Chirp}}
  if (i >= {{.C.N}}u) {
    return;
  }
  v = cmul(v.yx, chirp(i)); // inverse transform
{{- end}}
{{- template "write" .}}
{{- end}}
}

{{range .C.Radices}}
fn dft{{.R}}(a: array<vec2<f32>, {{.R}}>) -> array<vec2<f32>, {{.R}}> {
{{.Body}}}
{{end}}

const columns = {{.C.Columns}}u;
const size = {{.C.R}}u;
var<workgroup> tile0: array<vec2<f32>, {{mul .C.Columns .C.R}}>;
var<workgroup> tile1: array<vec2<f32>, {{mul .C.Columns .C.R}}>;

// A pass of Stockham's algorithm with radix {{.C.R}}: number q of transform j is number j + q {{div .C.M .C.R}} of the row. A workgroup does
// {{.C.Columns}} transforms in stages of small radices.
@compute @workgroup_size({{.C.Lanes}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let first = (group.y * groups.x + group.x) * columns;
  let count = P.rows * {{div .C.M .C.R}}u;
  if (first >= count) {
    return;
  }
  for (var t = lane; t < columns * size; t = t + {{.C.Lanes}}u) {
{{- if eq .C.R .C.M}}
    let q = t % size; // adjacent invocations read adjacent numbers of a row
    let c = t / size;
{{- else}}
    let c = t % columns; // adjacent invocations read adjacent transforms
    let q = t / columns;
{{- end}}
    let g = min(first + c, count - 1u);
    let j = g % {{div .C.M .C.R}}u;
    var v = read(g / {{div .C.M .C.R}}u, j + q * {{div .C.M .C.R}}u);
{{- if gt .C.Done 1}}
    v = cmul(v, root((j % {{.C.Done}}u) * q * {{div .C.M (mul .C.Done .C.R)}}u));
{{- end}}
    tile0[q * columns + c] = v;
  }
  workgroupBarrier();
{{- range .C.Stages}}
  for (var t = lane; t < columns * {{div $.C.R .Radix}}u; t = t + {{$.C.Lanes}}u) {
    let c = t % columns;
    let at = t / columns;
    let p = at / {{.Done}}u;
    var a: array<vec2<f32>, {{.Radix}}>;
{{- $s := .}}
{{- range seq .Radix}}
    a[{{.}}] = tile{{$s.In}}[(at + {{mul . (mul $s.Left $s.Done)}}u) * columns + c];
{{- end}}
    let b = dft{{.Radix}}(a);
    let to = ({{.Radix}}u * p * {{.Done}}u + at % {{.Done}}u) * columns + c;
{{- range seq .Radix}}
{{- if or (eq . 0) (eq $s.Left 1)}}
    tile{{$s.Out}}[to + {{mul . $s.Done}}u * columns] = b[{{.}}];
{{- else}}
    tile{{$s.Out}}[to + {{mul . $s.Done}}u * columns] = cmul(b[{{.}}], root(p * {{mul . (mul $s.Done (div $.C.M $.C.R))}}u));
{{- end}}
{{- end}}
  }
  workgroupBarrier();
{{- end}}
  for (var t = lane; t < columns * size; t = t + {{.C.Lanes}}u) {
{{- if eq .C.Done 1}}
    let q = t % size;
    let c = t / size;
{{- else}}
    let c = t % columns;
    let q = t / columns;
{{- end}}
    let g = first + c;
    if (g < count) {
      let j = g % {{div .C.M .C.R}}u;
      write(g / {{div .C.M .C.R}}u, (j / {{.C.Done}}u) * {{mul .C.Done .C.R}}u + j % {{.C.Done}}u + q * {{.C.Done}}u, tile{{.C.Result}}[q * columns + c]);
    }
  }
}
