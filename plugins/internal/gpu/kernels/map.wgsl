
@compute @workgroup_size(GROUPu)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let first = (group.y * groups.x + group.x) * SPANu + local;
  let count = (P.n + PER_UNITu - 1u) / PER_UNITu;
  if (first >= count) {
    return;
  }
UNITS}
