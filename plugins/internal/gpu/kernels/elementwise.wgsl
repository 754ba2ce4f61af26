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
{{- $k := .K}}
{{- range .Axes}}
{{- if .Last}}
{{- if .Moves}}
  at = at + rest * P.stride{{$k}}[{{.A}}];
{{- end}}
{{- else}}
{{- if .Moves}}
  at = at + (rest % P.dims[{{.A}}]) * P.stride{{$k}}[{{.A}}];
{{- end}}
  rest = rest / P.dims[{{.A}}];
{{- end}}
{{- end}}
  return at;
{{- end}}
}
{{end}}
fn value(i: u32) -> {{.C.T}} {
{{.C.Code}}
}
