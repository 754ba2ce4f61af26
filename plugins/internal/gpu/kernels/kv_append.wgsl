{{define "checked"}}
// Whether an index is refused, and whether a later element may write to places of one that the workgroup moves.
var<workgroup> found: array<atomic<u32>, 2>;
{{end}}

{{define "places"}}  // Invocations divide the indices among them: one by one, these take longer than the rows.
  if (local < 2u) {
    atomicStore(&found[local], 0u);
  }
  workgroupBarrier();
  for (var k = local; k < P.places; k = k + {{.C.Group}}u) {
    if (u32(x2(k)) > P.last) { // a negative index becomes large
      atomicStore(&found[0], 1u);
    }
  }
{{- end}}

{{define "refused"}}
  workgroupBarrier();
  if (atomicLoad(&found[0]) != 0u) {
    if (i == 0u) {
      status_put(0u, 1u);
    }
    return;
  }
{{- end}}

{{define "rows"}}
{{template "checked" .}}
// Invocation i moves unit i of the new rows: {{.C.Words}} words.
@compute @workgroup_size({{.C.Group}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * {{.C.Group}}u + local;
{{template "places" .}}
{{- if .C.Sequence}}
  if (P.n > 0u) {
    for (var k = local; k < P.sequences; k = k + {{.C.Group}}u) {
      if (u32(x3(k)) >= P.room) {
        atomicStore(&found[0], 1u);
      }
    }
    let first = i - local;
    let end = min(first + {{sub .C.Group 1}}u, P.n - 1u) / P.rows / P.blocks;
    for (var e = first / P.rows / P.blocks; e <= end; e = e + 1u) {
      let row = u32(x2((e * P.blocks) / P.alike));
      for (var k = e + 1u + local; k < P.sequences; k = k + {{.C.Group}}u) {
        let other = u32(x2((k * P.blocks) / P.alike));
        if (x3(k) == x3(e) && max(row, other) - min(row, other) < P.rows / P.inner) {
          atomicStore(&found[1], 1u);
        }
      }
    }
  }
{{- end}}
{{- template "refused" .}}
  if (i >= P.n) {
    return;
  }
  let run = i / P.rows;
{{- if .C.Sequence}}
  let b = run / P.blocks;
  if (atomicLoad(&found[1]) != 0u) {
    let at = u32(x2(run / P.alike)) + (i % P.rows) / P.inner;
    for (var k = b + 1u; k < P.sequences; k = k + 1u) {
      let first = u32(x2((k * P.blocks) / P.alike));
      if (x3(k) == x3(b) && at >= first && at - first < P.rows / P.inner) {
        return; // a later element writes there
      }
    }
  }
  let to = (u32(x3(b)) * P.blocks + run % P.blocks) * P.state + u32(x2(run / P.alike)) * P.inner + i % P.rows;
{{- else}}
  let to = run * P.state + u32(x2(run / P.alike)) * P.inner + i % P.rows;
{{- end}}
{{- if eq .C.Words 4}}
  y4_put(to, x14(i));
{{- else}}
  y_put(to, x1(i));
{{- end}}
}
{{end}}

{{define "elements"}}
{{template "checked" .}}
// Rows need not begin and end at words, so invocation i combines new and old elements in word i of the state.
@compute @workgroup_size({{.C.Group}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * {{.C.Group}}u + local;
{{template "places" .}}
{{- template "refused" .}}
  if (i * {{.C.PerWord}}u >= P.n) {
    return;
  }
  var word = y_word(i);
  for (var k = 0u; k < {{.C.PerWord}}u; k = k + 1u) {
    let e = i * {{.C.PerWord}}u + k;
    let run = min(e, P.n - 1u) / P.state;
    let at = e % P.state - u32(x2(run / P.alike)) * P.inner; // wraps if e is before the new rows
    if (e < P.n && at < P.rows) {
      let shift = k * {{.C.Bits}}u;
      word = (word & ~({{.C.Mask}}u << shift)) | (x1_bits(run * P.rows + at) << shift);
    }
  }
  y_put(i, word);
}
{{end}}
