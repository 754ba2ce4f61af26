// Rounds an operand of attention to 16 bits: [batch][head][token][dim]. An invocation writes four values. If they are
// divided into terms, a row has all values of the first term, then those of the second, then those of the third.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = (group.y * groups.x + group.x) * 256u + local;
  if (id >= P.units) {
    return;
  }
{{- $quads := div .C.D 4}}
  let d = id % {{$quads}}u;
  let token = id / {{$quads}}u % P.tokens;
  let row = id / {{$quads}}u / P.tokens;
  let head = row % P.heads;
  let batch = row / P.heads;
{{- if .C.Position}}
  // no query sees the rest, which may be most of a cache
  let position = clamp(position({{if .C.Each}}batch{{else}}0u{{end}}), -1073741824, 1073741824);
  if (i32(token) >= position + i32(P.queries)) {
    return;
  }
{{- end}}
  var v = x4((P.at + batch * P.stride_b + token * P.stride_s + head * P.stride_h) / 4u + d);
{{- template "row" .}}
}
