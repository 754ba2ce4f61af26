{{range .C.Operands}}
fn at{{.K}}(i: u32) -> u32 {
{{- if eq .How "same"}}
  return i;
{{- else if eq .How "one"}}
  return 0u;
{{- else if eq .How "suffix"}}
  return i % P.mod{{.K}};
{{- else}}
  var rest = i;
  var at = 0u;
  for (var a = 7i; a >= 0i; a = a - 1i) {
    at = at + (rest % P.dims[a]) * P.stride{{.K}}[a];
    rest = rest / P.dims[a];
  }
  return at;
{{- end}}
}
{{end}}
fn value(i: u32) -> u32 {
{{.C.Code}}
}
