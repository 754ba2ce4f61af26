
// Computes the elements that are not finite again.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
  for (var i = id * 256u + local; i < P.n; i = i + P.groups * 256u) {
    if ((y_word(i) & 0x7f800000u) == 0x7f800000u) {
      y_put(i, value(i));
    }
  }
}
