{{- range $i, $r := .C.Ropes}}
{{- if not $i}}{{template "angles" $r}}{{end}}
{{template "rope" $r}}
{{- end}}

// An invocation computes one element of one of the results, which follow each other.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  var i = (group.y * groups.x + group.x) * 256u + local;
{{- range .C.Parts}}
  if (i < P.{{.N}}n) {
{{- if .Append}}
    let pos = u32({{.N}}x2(0u)); // a negative one is large
    if (pos > P.{{.N}}last) {
      status_put(0u, 1u);
      return;
    }
    {{.N}}y_put((i / P.{{.N}}rows) * P.{{.N}}state + pos * P.{{.N}}inner + i % P.{{.N}}rows, {{.Value}}(i));
{{- else}}
    {{.N}}y_put(i, {{.Value}}(i));
{{- end}}
    return;
  }
  i = i - P.{{.N}}n;
{{- end}}
}
