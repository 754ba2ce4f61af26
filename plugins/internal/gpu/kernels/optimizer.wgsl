{{define "main"}}
fn root(v: {{.C.T}}) -> {{.C.T}} {
{{- if .C.Four}}
  return vec4<f32>(op_sqrt(v.x), op_sqrt(v.y), op_sqrt(v.z), op_sqrt(v.w));
{{- else}}
  return op_sqrt(v);
{{- end}}
}

@compute @workgroup_size({{.C.Group}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * {{.C.Group}}u + local;
  if (i >= P.n) {
    return;
  }
  let h = g{{.C.V}}(i) * n(0u);
  let old = p{{.C.V}}(i);
{{- end}}

{{define "put"}}{{if .C.Four}}4_put(i, {{else}}_put(i, bitcast<u32>({{end}}{{end}}
{{define "end"}}){{if not .C.Four}}){{end}};{{end}}

{{define "adamw"}}
{{- template "main" .}}
  let mean = m{{.C.V}}(i) * n(4u) + h * n(5u);
  let square = v{{.C.V}}(i) * n(6u) + h * h * n(7u);
  m{{template "put" .}}mean{{template "end" .}}
  v{{template "put" .}}square{{template "end" .}}
  p{{template "put" .}}(old - old * n(2u)) - mean * n(1u) / (root(square * n(8u)) + n(3u)){{template "end" .}}
}
{{end}}

{{define "sgd"}}
{{- template "main" .}}
  let velocity = m{{.C.V}}(i) * n(3u) + h;
  m{{template "put" .}}velocity{{template "end" .}}
  p{{template "put" .}}(old - old * n(2u)) - velocity * n(1u){{template "end" .}}
}
{{end}}
