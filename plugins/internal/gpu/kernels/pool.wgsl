// Each element of the result folds the elements of x in its window, without padding.
fn value(i: u32) -> u32 {
  // The position of the element in the result: batch and channel, depth, height, width; the channel comes last if the
  // layout says so.
  var rest = i;
{{- if .C.Last}}
  let inner = rest % P.inner;
  rest = rest / P.inner;
{{- end}}
{{- range .C.Spatial}}
  let {{.Var}} = rest % P.{{.Size}}_out;
  rest = rest / P.{{.Size}}_out;
{{- if $.C.Adaptive}}
  let {{.Var}}_whole = P.{{.Size}}_in / P.{{.Size}}_out;
  let {{.Var}}_more = P.{{.Size}}_in % P.{{.Size}}_out;
  let {{.Var}}_first = {{.Var}} * {{.Var}}_whole + {{.Var}} * {{.Var}}_more / P.{{.Size}}_out;
  let {{.Var}}_end = ({{.Var}} + 1u) * {{.Var}}_whole + (({{.Var}} + 1u) * {{.Var}}_more + P.{{.Size}}_out - 1u) /
      P.{{.Size}}_out;
{{- else}}
  let {{.Var}}_first = max({{.Var}} * {{.Stride}}u, {{.Pad}}u) - {{.Pad}}u;
  let {{.Var}}_end = max(min({{.Var}} * {{.Stride}}u + {{.Kernel}}u, P.{{.Size}}_in + {{.Pad}}u), {{.Pad}}u) -
      {{.Pad}}u;
{{- end}}
{{- end}}
  var acc = {{.C.Zero}};
  for (var iz = z_first; iz < z_end; iz = iz + 1u) {
    for (var iy = y_first; iy < y_end; iy = iy + 1u) {
      let line = ((rest * P.d_in + iz) * P.h_in + iy) * P.w_in;
      for (var ix = x_first; ix < x_end; ix = ix + 1u) {
        let v = x0({{if .C.Last}}(line + ix) * P.inner + inner{{else}}line + ix{{end}});
        acc = {{.C.Fold}};
      }
    }
  }
{{- if .C.Adaptive}}
  acc = acc / f32((z_end - z_first) * (y_end - y_first) * (x_end - x_first));
{{- else if .C.Mean}}
  acc = acc / {{.C.Divisor}};
{{- end}}
  return y_encode(acc);
}
