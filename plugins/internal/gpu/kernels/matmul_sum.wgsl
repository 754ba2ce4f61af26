
// Adds the {{.C.Splits}} partial sums, four columns per invocation, and applies the epilogue.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * 256u + local;
  let quads = P.m_size * P.n_size / 4u;
  if (i >= quads) {
    return;
  }
{{- range $s := seq .C.Splits}}
  let v{{$s}} = part4(i + {{$s}}u * quads);
{{- end}}
  var sum = v0;
{{- range $s := seq .C.Splits}}{{if $s}}
  sum = sum + v{{$s}};
{{- end}}{{end}}
  finish(i * 4u / P.n_size, i * 4u % P.n_size, 0u, sum);
}
