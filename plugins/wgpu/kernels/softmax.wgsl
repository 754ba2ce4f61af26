// One workgroup runs one row: the elements base + k * stride.
var<workgroup> partial: array<f32, {{.C.Size}}>;

fn fold(local: u32, v: f32, largest: bool) -> f32 {
  partial[local] = v;
  workgroupBarrier();
  for (var s = {{div .C.Size 2}}u; s > 0u; s = s / 2u) {
    if (local < s) {
      let a = partial[local];
      let b = partial[local + s];
      partial[local] = select(a + b, op_max(a, b), largest);
    }
    workgroupBarrier();
  }
  let t = partial[0];
  workgroupBarrier();
  return t;
}

@compute @workgroup_size({{.C.Size}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let row = group.y * groups.x + group.x;
  if (row >= P.rows) {
    return;
  }
  let base = (row / P.inner) * P.n * P.inner + row % P.inner;
  var most = -infinity();
  for (var k = local; k < P.n; k = k + {{.C.Size}}u) {
    most = op_max(most, x0(base + k * P.inner));
  }
  most = fold(local, most, true);
  var sum = 0.0;
  for (var k = local; k < P.n; k = k + {{.C.Size}}u) {
    sum = sum + op_exp(x0(base + k * P.inner) - most);
  }
  sum = fold(local, sum, false);
  for (var k = local; k < P.n; k = k + {{.C.Size}}u) {
    y_put(base + k * P.inner, y_encode(op_exp(x0(base + k * P.inner) - most) / sum));
  }
}
