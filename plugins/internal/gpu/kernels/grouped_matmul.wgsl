{{define "elements"}}
fn value(i: u32) -> u32 {
  let row = i / P.n_size;
  let group = u32(x2(row));
  if (group >= P.groups) {
    status_put(0u, 1u);
    return 0u;
  }
  var at = group * P.k_size * P.n_size + (i % P.n_size) * P.by_n;
  var sum = 0.0;
  for (var k = 0u; k < P.k_size; k = k + 1u) {
    sum = fma(x0(row * P.k_size + k), x1(at), sum);
    at = at + P.by_k;
  }
  return y_encode(sum);
}
{{end}}

{{define "columns"}}
var<workgroup> shares: array<f32, {{mul .C.Lanes .C.Columns}}>;

// {{.C.Lanes}} invocations compute element i of the result, each from a share of k.
@compute @workgroup_size({{mul .C.Lanes .C.Columns}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let first = (group.y * groups.x + group.x) * {{.C.Columns}}u;
  if (first >= P.n) {
    return;
  }
  let i = first + local / {{.C.Lanes}}u;
  let row = min(i, P.n - 1u) / P.n_size;
  let e = u32(x2(row));
  let known = e < P.groups;
  if (!known) {
    status_put(0u, 1u);
  }
  let matrix = (select(0u, e, known) * P.n_size + min(i, P.n - 1u) % P.n_size) * P.k_size;
  var sum = 0.0;
  for (var k = local % {{.C.Lanes}}u; k < P.k_size; k = k + {{.C.Lanes}}u) {
    sum = fma(x0(row * P.k_size + k), x1(matrix + k), sum);
  }
  shares[local] = sum;
  workgroupBarrier();
  if (local % {{.C.Lanes}}u == 0u && i < P.n) {
    var total = 0.0;
    for (var k = 0u; k < {{.C.Lanes}}u; k = k + 1u) {
      total = total + shares[local + k];
    }
    y_put(i, bitcast<u32>(total));
  }
}
{{end}}
