{{- if .C.Padded}}
var<workgroup> not_finite: atomic<u32>;
{{end}}
{{- if .C.Across}}
// Copies weights from [out, channels, taps] to [channels, taps, out].
{{- else if .C.Arrange}}
// Copies weights from [out, channels, taps] to patch order: {{.C.Block}} channels for one tap, for the next tap, ...,
// then the next channels.
{{- end}}
{{- if .C.Padded}}
// From word {{.C.Flags}} on there is a word per workgroup: 1.0 if one of the weights that it has checked is not finite.
{{- end}}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
{{- if .C.Padded}}
  var finite = true;
{{- end}}
  for (var i = id * 256u + local; i < P.n; i = i + P.groups * 256u) {
{{- if .C.Across}}
    let v = w(i % {{.C.COut}}u * {{mul .C.PerIn .C.Taps}}u + i / {{.C.COut}}u);
    made_put(i, made_encode(v));
{{- else if .C.Arrange}}
    let k = i % {{mul .C.CIn .C.Taps}}u;
    let channel = k / {{mul .C.Block .C.Taps}}u * {{.C.Block}}u + k % {{.C.Block}}u;
    let v = w(i - k + channel * {{.C.Taps}}u + k / {{.C.Block}}u % {{.C.Taps}}u);
    made_put(i, made_encode(v));
{{- else}}
    let v = w(i);
{{- end}}
{{- if .C.Padded}}
    finite = finite && is_finite(v);
{{- end}}
  }
{{- if .C.Padded}}
  if (local == 0u) {
    atomicStore(&not_finite, 0u);
  }
  workgroupBarrier();
  if (!finite) {
    atomicStore(&not_finite, 1u);
  }
  workgroupBarrier();
  if (local == 0u) {
    made_put({{.C.Flags}}u + id, made_encode(f32(atomicLoad(&not_finite))));
  }
{{- end}}
}
