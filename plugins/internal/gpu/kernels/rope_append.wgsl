{{- range $i, $r := .C.Ropes}}
{{- if not $i}}{{template "angles" $r}}{{end}}
{{template "rope" $r}}
{{- end}}

{{- $put := "y_put"}}{{if .C.Vec}}{{$put = "y4_put"}}{{end}}

// An invocation computes {{if .C.Vec}}four elements{{else}}one element{{end}} of one of the results. The results are
// numbered one after another.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  var i = (group.y * groups.x + group.x) * 256u + local;
{{- range .C.Parts}}
  if (i < P.{{.N}}n) {
{{- if .Append}}
    for (var k = 0u; k < P.{{.N}}places; k = k + 1u) {
      if (u32({{.N}}x2(k)) > P.{{.N}}last) { // a negative index becomes large
        status_put(0u, 1u);
        return;
      }
    }
    let run = i / P.{{.N}}rows;
    {{.N}}{{$put}}(run * P.{{.N}}state + u32({{.N}}x2(run / P.{{.N}}alike)) * P.{{.N}}inner + i % P.{{.N}}rows,
        {{.Value}}(i));
{{- else}}
    {{.N}}{{$put}}(i, {{.Value}}(i));
{{- end}}
    return;
  }
  i = i - P.{{.N}}n;
{{- end}}
}
