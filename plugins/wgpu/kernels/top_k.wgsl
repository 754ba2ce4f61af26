{{define "select"}}
{{template "key" .}}
const none = 0xffffffffu;
var<workgroup> keys: array<u32, {{mul .C.Rows .C.Lanes}}>;
var<workgroup> places: array<u32, {{mul .C.Rows .C.Lanes}}>;

// A workgroup has {{.C.Rows}} rows, of {{.C.Lanes}} invocations each. They find the best element of their row, then the best of
// those that come after it, and so on.
@compute @workgroup_size({{mul .C.Rows .C.Lanes}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let first = (group.y * groups.x + group.x) * {{.C.Rows}}u;
  if (first >= P.rows) {
    return;
  }
  let r = local / {{.C.Lanes}}u;
  let lane = local % {{.C.Lanes}}u;
  let row = min(first + r, P.rows - 1u);
  var last_key = 0u;
  var last = none;
  for (var j = 0u; j < P.k; j = j + 1u) {
    var best_key = 0u;
    var best = none;
    for (var i = lane; i < P.size; i = i + {{.C.Lanes}}u) {
      let k = key(row * P.size + i);
      let after = last == none || k < last_key || (k == last_key && i > last);
      if (after && (best == none || k > best_key)) {
        best_key = k;
        best = i;
      }
    }
    keys[local] = best_key;
    places[local] = best;
    for (var s = {{div .C.Lanes 2}}u; s > 0u; s = s / 2u) {
      workgroupBarrier();
      if (lane < s) {
        let k = keys[local + s];
        let i = places[local + s];
        if (i != none && (best == none || k > best_key || (k == best_key && i < best))) {
          best_key = k;
          best = i;
          keys[local] = k;
          places[local] = i;
        }
      }
    }
    workgroupBarrier();
    last_key = keys[r * {{.C.Lanes}}u];
    last = places[r * {{.C.Lanes}}u];
    workgroupBarrier(); // before the next round writes there
    if (lane == 0u && first + r < P.rows) {
      index_put(row * P.k + j, index_encode({{.C.Index}}(last)));
    }
  }
}
{{end}}

{{define "values"}}
fn value(i: u32) -> u32 {
  return x0_bits((i / P.k) * P.size + u32(index(i)));
}
{{end}}
