// Adds the sums over parts of K, four columns per invocation, and applies what follows the product.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * 256u + local;
  if (i >= P.quads) {
    return;
  }
  var v = part4(P.begin + i);
{{- range $s := seq .C.Splits}}{{if $s}}
  v = v + part4(P.begin + i + {{$s}}u * P.quads);
{{- end}}{{end}}
{{- if .C.Bias}}
  v = v + bias4(i % P.columns);
{{- end}}
{{- if .C.Act}}
  v = vec4<f32>({{scalar .C.Act "v.x"}}, {{scalar .C.Act "v.y"}}, {{scalar .C.Act "v.z"}}, {{scalar .C.Act "v.w"}});
{{- end}}
{{- if .C.Residual}}
  v = v + residual4(i);
{{- end}}
{{- if not .C.Only}}
  y4_put(i, v);
{{- end}}
{{- if .C.Rounded}}
  z4_put(i, v);
{{- end}}
}
