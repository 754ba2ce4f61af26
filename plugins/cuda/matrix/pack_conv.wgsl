// Rounds an operand of a convolution, or divides it into terms. An invocation writes four values.
{{- $c := .C}}
{{- if eq .C.What "image"}}
// Rows are the pixels of x with padding, which is zeros, and consist of channels.
{{- else if eq .C.What "patches"}}
// Rows are the patches of x: channel, then tap.
{{- else if eq .C.What "taps"}}
// Rows are the taps of a transposed convolution, then filters, and consist of channels of x.
{{- else}}
// Rows are the filters: {{if .C.Columns}}channel, then tap{{else}}tap, then channel{{end}}.
{{- end}}
{{- $w := or (eq .C.What "filters") (eq .C.What "taps")}}
{{- if not $w}}

// pixel returns a channel of a pixel of x, or 0 outside.
fn pixel(b: u32, z: u32, y: u32, x: u32, c: u32) -> f32 {
  if (z >= P.d_in || y >= P.h_in || x >= P.w_in || c >= {{.C.CIn}}u) {
    return 0.0;
  }
{{- if .C.Last}}
  return x0((((b * P.d_in + z) * P.h_in + y) * P.w_in + x) * {{.C.CIn}}u + c);
{{- else}}
  return x0((((b * {{.C.CIn}}u + c) * P.d_in + z) * P.h_in + y) * P.w_in + x);
{{- end}}
}
{{- end}}
{{- if eq .C.What "patches"}}

// element returns element k of the patch at a pixel of the result.
fn element(b: u32, z: u32, y: u32, x: u32, k: u32) -> f32 {
  let tap = k % {{.C.Taps}}u;
  return pixel(b, z * {{index .C.Stride 0}}u + tap / {{mul (index .C.Kernel 1) (index .C.Kernel 2)}}u *
      {{index .C.Dilation 0}}u - {{index .C.Padding 0}}u,
      y * {{index .C.Stride 1}}u + tap / {{index .C.Kernel 2}}u % {{index .C.Kernel 1}}u * {{index .C.Dilation 1}}u -
      {{index .C.Padding 1}}u,
      x * {{index .C.Stride 2}}u + tap % {{index .C.Kernel 2}}u * {{index .C.Dilation 2}}u - {{index .C.Padding 2}}u,
      k / {{.C.Taps}}u);
}
{{- else if eq .C.What "taps"}}

fn element(row: u32, k: u32) -> f32 {
  if (k >= {{.C.CIn}}u) {
    return 0.0;
  }
  return x0((k * {{.C.COut}}u + row % {{.C.COut}}u) * {{.C.Taps}}u + row / {{.C.COut}}u);
}
{{- else if eq .C.What "filters"}}

fn element(row: u32, k: u32) -> f32 {
{{- if .C.Columns}}
  if (k >= {{mul .C.CIn .C.Taps}}u) {
    return 0.0;
  }
  return x0(row * {{mul .C.CIn .C.Taps}}u + k);
{{- else}}
  let c = k % {{.C.Channels}}u;
  if (c >= {{.C.CIn}}u) {
    return 0.0;
  }
  return x0((row * {{.C.CIn}}u + c) * {{.C.Taps}}u + k / {{.C.Channels}}u);
{{- end}}
}
{{- end}}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = (group.y * groups.x + group.x) * 256u + local;
  if (id >= P.rows * P.quads) {
    return;
  }
{{- if or .C.Last $w}}
  let row = id / P.quads;
  let quad = id % P.quads;
{{- else}}
  let row = id % P.rows; // neighbours read adjacent pixels
  let quad = id / P.rows;
{{- end}}
{{- if $w}}
  var v = vec4<f32>({{range $e := seq 4}}{{if $e}}, {{end}}element(row, quad * 4u + {{$e}}u){{end}});
{{- else}}
  let x = row % P.w_rows;
  let y = row / P.w_rows % P.h_rows;
  let z = row / (P.w_rows * P.h_rows) % P.d_rows;
  let b = row / (P.w_rows * P.h_rows * P.d_rows);
{{- if eq .C.What "patches"}}
  var v = vec4<f32>({{range $e := seq 4}}{{if $e}}, {{end}}element(b, z, y, x, quad * 4u + {{$e}}u){{end}});
{{- else}}
  let iz = z - {{index .C.Padding 0}}u;
  let iy = y - {{index .C.Padding 1}}u;
  let ix = x - {{index .C.Padding 2}}u;
{{- if .C.Fours}}
  var v = vec4<f32>(0.0, 0.0, 0.0, 0.0);
  if (iz < P.d_in && iy < P.h_in && ix < P.w_in && quad < {{div .C.CIn 4}}u) {
    v = x04((((b * P.d_in + iz) * P.h_in + iy) * P.w_in + ix) * {{div .C.CIn 4}}u + quad);
  }
{{- else}}
  var v = vec4<f32>({{range $e := seq 4}}{{if $e}}, {{end}}pixel(b, iz, iy, ix, quad * 4u + {{$e}}u){{end}});
{{- end}}
{{- end}}
{{- end}}
{{- template "write" .}}
}
