// rel[token of head][j] = q . rh[qy, j] for j below wh, and q . rw[qx, j - wh] after.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * 64u + local;
  if (i >= P.count) {
    return;
  }
  let j = i % (P.wh + P.ww);
  let row = i / (P.wh + P.ww);
  let n = P.gh * P.gw;
  let t = row % n;
  let h = (row / n) % P.heads;
  let b = row / (n * P.heads);
  let q = (((b * n + t) * 3u * P.heads + h) * P.dim) / 4u;
  var acc = vec4<f32>(0.0);
  if (j < P.wh) {
    let r = ((((t / P.gw) % P.wh) * P.wh + j) * P.dim) / 4u;
    for (var d = 0u; d < P.dim / 4u; d = d + 1u) {
      acc = fma(x04(q + d), rh4(r + d), acc);
    }
  } else {
    let r = ((((t % P.gw) % P.ww) * P.ww + j - P.wh) * P.dim) / 4u;
    for (var d = 0u; d < P.dim / 4u; d = d + 1u) {
      acc = fma(x04(q + d), rw4(r + d), acc);
    }
  }
  rel_put(i, bitcast<u32>(acc.x + acc.y + acc.z + acc.w));
}
