
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let w = (group.y * groups.x + group.x) * 64u + local;
  if (w >= (P.n + PER_WORD - 1u) / PER_WORD) {
    return;
  }
  y_put(w, WORD);
}
