// Any sizes and element types: each element of the result is one sum over its taps.
fn value(i: u32) -> u32 {
  // Axes of x and of the result: batch, then channels, height and width in the order of the layout.
{{- if .C.Last}}
  let c = i % P.c_out;
  let x = (i / P.c_out) % P.w_out;
  let y = (i / (P.c_out * P.w_out)) % P.h_out;
  let b = i / (P.c_out * P.w_out * P.h_out);
{{- else}}
  let x = i % P.w_out;
  let y = (i / P.w_out) % P.h_out;
  let c = (i / (P.w_out * P.h_out)) % P.c_out;
  let b = i / (P.w_out * P.h_out * P.c_out);
{{- end}}
  let per_in = P.c_in / P.groups;
  let per_out = P.c_out / P.groups;
  let g = c / per_out;
  var acc = 0.0;
  for (var ky = 0u; ky < P.kh; ky = ky + 1u) {
{{- if .C.Transposed}}
    let ty = y + P.pad_h - ky * P.dil_h;
    let iy = ty / P.stride_h;
    if (ty % P.stride_h != 0u || iy >= P.h_in) {
{{- else}}
    let iy = y * P.stride_h + ky * P.dil_h - P.pad_h;
    if (iy >= P.h_in) {
{{- end}}
      continue;
    }
    for (var kx = 0u; kx < P.kw; kx = kx + 1u) {
{{- if .C.Transposed}}
      let tx = x + P.pad_w - kx * P.dil_w;
      let ix = tx / P.stride_w;
      if (tx % P.stride_w != 0u || ix >= P.w_in) {
{{- else}}
      let ix = x * P.stride_w + kx * P.dil_w - P.pad_w;
      if (ix >= P.w_in) {
{{- end}}
        continue;
      }
      for (var k = 0u; k < per_in; k = k + 1u) {
        let ci = g * per_in + k;
{{- if .C.Last}}
        let v = x0(((b * P.h_in + iy) * P.w_in + ix) * P.c_in + ci);
{{- else}}
        let v = x0(((b * P.c_in + ci) * P.h_in + iy) * P.w_in + ix);
{{- end}}
{{- if .C.Transposed}}
        acc = fma(v, x1(((ci * per_out + c % per_out) * P.kh + ky) * P.kw + kx), acc);
{{- else}}
        acc = fma(v, x1(((c * per_in + k) * P.kh + ky) * P.kw + kx), acc);
{{- end}}
      }
    }
  }
{{- if .C.Bias}}
  acc = acc + x2(c);
{{- end}}
  return y_encode(acc);
}
