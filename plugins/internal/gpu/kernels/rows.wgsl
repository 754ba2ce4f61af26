{{define "place"}}
@compute @workgroup_size({{mul .C.Rows .C.Lanes}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  // A workgroup handles {{.C.Rows}} rows with {{.C.Lanes}} lanes each, or one part of these rows. Unit k of a row is at
  // base + k * step; the workgroup's units are start to end.
  let index = group.y * groups.x + group.x;
{{- if .C.Split}}
  let first = (index / P.parts) * {{.C.Rows}}u;
  let part = index % P.parts;
  let start = min(part * P.span, P.n);
  let end = min(start + P.span, P.n);
{{- else}}
  let first = index * {{.C.Rows}}u;
  let start = 0u;
  let end = P.n;
{{- end}}
  if (first >= P.rows) {
    return;
  }
{{- if .C.Inner}}
  let r = local % {{.C.Rows}}u; // neighbouring invocations take neighbouring rows, whose elements are adjacent
  let lane = local / {{.C.Rows}}u;
  let row = min(first + r, P.rows - 1u);
  let base = (row / P.inner) * P.n * P.inner + row % P.inner;
  let step = P.inner;
{{- else}}
  let r = local / {{.C.Lanes}}u;
  let lane = local % {{.C.Lanes}}u;
  let row = min(first + r, P.rows - 1u);
  let base = row * P.n;
  let step = 1u;
{{- end}}
{{- end}}
