// Weights stored [out, channels, taps] in the order of the patches: {{.C.Block}} channels under one tap, then the next tap, and so on to the next channels.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * 256u + local;
  if (i >= P.n) {
    return;
  }
  let k = i % {{mul .C.CIn .C.Taps}}u;
  let channel = k / {{mul .C.Block .C.Taps}}u * {{.C.Block}}u + k % {{.C.Block}}u;
  arranged_put(i, arranged_encode(w(i - k + channel * {{.C.Taps}}u + k / {{.C.Block}}u % {{.C.Taps}}u)));
}
