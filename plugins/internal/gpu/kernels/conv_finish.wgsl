
var<workgroup> not_finite: atomic<u32>;

// The tiled product multiplies weights by the zeros of the padding. If a weight is not finite, that gives NaN, so the
// whole result is computed again without the padding.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
  if (local == 0u) {
    atomicStore(&not_finite, 0u);
  }
  workgroupBarrier();
  if (local < {{.C.Parts}}u && made({{.C.Flags}}u + local) != 0.0) {
    atomicStore(&not_finite, 1u);
  }
  workgroupBarrier();
  if (atomicLoad(&not_finite) == 0u) {
    return;
  }
  for (var i = id * 256u + local; i < P.n; i = i + P.groups * 256u) {
    y_put(i, value(i));
  }
}
