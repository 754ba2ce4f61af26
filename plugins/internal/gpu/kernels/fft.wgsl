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
{{- if eq .C.High 0}}
  return P.low[k];
{{- else}}
  return cmul(P.high[k / {{.C.Low}}u], P.low[k % {{.C.Low}}u]);
{{- end}}
}

// Number i of a row of the operand, or of the result of the previous pass.
fn read(row: u32, i: u32) -> vec2<f32> {
{{- if eq .C.From "scratch"}}
  let at = {{.C.Source}}u * P.rows * {{mul 2 .C.M}}u + row * {{mul 2 .C.M}}u + i;
  return vec2<f32>(work(at), work(at + {{.C.M}}u)){{if .C.Turn}}.yx{{end}};
{{- else if .C.Chirp}}
  if (i >= {{.C.N}}u) {
    return vec2<f32>(0.0, 0.0);
  }
  return cmul(number(row, i), P.chirp[i]);
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
  v = cmul(v, P.filters[i]);
{{- end}}
  let at = {{.C.Target}}u * P.rows * {{mul 2 .C.M}}u + row * {{mul 2 .C.M}}u + i;
  work_put(at, work_encode(v.x));
  work_put(at + {{.C.M}}u, work_encode(v.y));
{{- else}}
{{- if .C.Chirp}}
  if (i >= {{.C.N}}u) {
    return;
  }
  v = cmul(v.yx, P.chirp[i]); // inverse transform
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
{{- range .C.Tiles}}
var<workgroup> tile{{.}}: array<vec2<f32>, {{$.C.TileSize}}>;
{{- end}}
{{- if .C.Tiles}}

// The place of number q of transform c in a tile.
fn place(q: u32, c: u32) -> u32 {
{{- if .C.Whole}}
  let i = c * size + q;
  return i{{if .C.Padded}} + i / 8u{{end}};
{{- else}}
  return q * columns + c;
{{- end}}
}
{{- end}}

// Number q of transform g of the pass.
fn input(g: u32, q: u32) -> vec2<f32> {
  let j = g % {{div .C.M .C.R}}u;
{{- if gt .C.Done 1}}
  return cmul(read(g / {{div .C.M .C.R}}u, j + q * {{div .C.M .C.R}}u),
      root((j % {{.C.Done}}u) * q * {{div .C.M (mul .C.Done .C.R)}}u));
{{- else}}
  return read(g / {{div .C.M .C.R}}u, j + q * {{div .C.M .C.R}}u);
{{- end}}
}

fn output(g: u32, q: u32, v: vec2<f32>) {
  let j = g % {{div .C.M .C.R}}u;
  write(g / {{div .C.M .C.R}}u, (j / {{.C.Done}}u) * {{mul .C.Done .C.R}}u + j % {{.C.Done}}u + q * {{.C.Done}}u, v);
}

// A pass of Stockham's algorithm with radix {{.C.R}}: number q of transform j is number j + q {{div .C.M .C.R}} of the
// row. A workgroup does {{.C.Columns}} transforms in stages of small radices. The first stage reads the numbers from
// device memory.
{{- if .C.Direct}} The last one writes its results there.{{end}}
@compute @workgroup_size({{.C.Lanes}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let first = (group.y * groups.x + group.x) * columns;
  let count = P.rows * {{div .C.M .C.R}}u;
  if (first >= count) {
    return;
  }
{{- range .C.Stages}}
{{- $s := .}}
  for (var t = lane; t < columns * {{div $.C.R .Radix}}u; t = t + {{$.C.Lanes}}u) {
{{- if $.C.Whole}}
    let at = t % {{div $.C.R .Radix}}u; // adjacent invocations have adjacent numbers of a row
    let c = t / {{div $.C.R .Radix}}u;
{{- else}}
    let c = t % columns; // adjacent invocations have adjacent transforms
    let at = t / columns;
{{- end}}
    let p = at / {{.Done}}u;
{{- if .First}}
    let g = min(first + c, count - 1u);
{{- end}}
    var a: array<vec2<f32>, {{.Radix}}>;
{{- range seq .Radix}}
{{- if $s.First}}
    a[{{.}}] = input(g, at + {{mul . $s.Left}}u);
{{- else}}
    a[{{.}}] = tile{{$s.In}}[place(at + {{mul . (mul $s.Left $s.Done)}}u, c)];
{{- end}}
{{- end}}
    let b = dft{{.Radix}}(a);
    let to = {{.Radix}}u * p * {{.Done}}u + at % {{.Done}}u;
{{- if and .Last $.C.Direct}}
    if (first + c < count) {
{{- range seq .Radix}}
      output(first + c, to + {{mul . $s.Done}}u, b[{{.}}]);
{{- end}}
    }
  }
{{- else}}
{{- range seq .Radix}}
{{- if or (eq . 0) (eq $s.Left 1)}}
    tile{{$s.Out}}[place(to + {{mul . $s.Done}}u, c)] = b[{{.}}];
{{- else}}
    tile{{$s.Out}}[place(to + {{mul . $s.Done}}u, c)] = cmul(b[{{.}}],
        root(p * {{mul . (mul $s.Done (div $.C.M $.C.R))}}u));
{{- end}}
{{- end}}
  }
  workgroupBarrier();
{{- end}}
{{- end}}
{{- if not .C.Direct}}
  for (var t = lane; t < columns * size; t = t + {{.C.Lanes}}u) {
    let q = t % size; // adjacent invocations write adjacent results
    let c = t / size;
    if (first + c < count) {
      output(first + c, q, tile{{.C.Result}}[place(q, c)]);
    }
  }
{{- end}}
}
