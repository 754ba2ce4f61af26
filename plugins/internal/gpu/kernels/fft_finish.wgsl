var<workgroup> bad: atomic<u32>;

fn finite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u; }

// A workgroup handles one row. If a number of the operand is NaN or infinite, the sum of all numbers, which is the
// first number of the result, is not finite. Then the whole row of the result becomes NaN.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let row = group.y * groups.x + group.x;
  if (row >= P.rows) {
    return;
  }
  if (lane == 0u) {
    atomicStore(&bad, 0u);
  }
  workgroupBarrier();
  if (finite(y(row * {{.C.To}}u)) && finite(y(row * {{.C.To}}u + {{.C.Second}}u))) {
    return;
  }
  for (var i = lane; i < {{.C.From}}u; i = i + 64u) {
{{- if .C.Half}}
    let unused = i >= {{div .C.From 2}}u && (2u * (i - {{div .C.From 2}}u)) % {{.C.To}}u == 0u;
{{- else}}
    let unused = false;
{{- end}}
    if (!unused && !finite(x0(row * {{.C.From}}u + i))) {
      atomicStore(&bad, 1u);
    }
  }
  workgroupBarrier();
  if (atomicLoad(&bad) == 0u) {
    return;
  }
  for (var i = lane; i < {{.C.To}}u; i = i + 64u) {
    y_put(row * {{.C.To}}u + i, 0x7fc00000u);
  }
}
