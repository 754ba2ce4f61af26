{{define "product"}}
var<workgroup> shares: array<f32, 256>;

// A workgroup computes 8 columns of a row. 32 invocations compute a column, each from a share of k.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.tiles) {
    return;
  }
  let across = (P.n_size + 7u) / 8u;
  let column = id % across * 8u + local / 32u;
  let row = id / across;
  var row_of_w = min(column, P.n_size - 1u);
{{- if .C.Grouped}}
  let e = u32(idx(row));
  let known = e < P.matrices;
  if (!known) {
    status_put(0u, 1u);
  }
  row_of_w = row_of_w + select(0u, e, known) * P.n_size;
{{- end}}
  let start = row_of_w * (P.k_size / 4u);
  let at = row * P.k_size;
  var sum = 0.0;
  for (var k = local % 32u * 4u; k < P.k_size; k = k + 128u) {
    let w = w4(start + k / 4u);
    sum = sum + dot(vec4<f32>(x(at + k), x(at + k + 1u), x(at + k + 2u), x(at + k + 3u)), w);
  }
  shares[local] = sum;
  workgroupBarrier();
  if (local % 32u == 0u && column < P.n_size) {
    var total = 0.0;
    for (var i = 0u; i < 32u; i = i + 1u) {
      total = total + shares[local + i];
    }
    y_put(row * P.n_size + column, bitcast<u32>(total));
  }
}
{{end}}

{{define "rows"}}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = ((group.y * groups.x + group.x) * 64u + local) * 4u;
  if (i >= P.n) {
    return;
  }
  let row = u32(idx(i / P.k_size));
  let k = i % P.k_size;
  if (row >= P.rows) {
    status_put(0u, 1u);
    return;
  }
  let v = w4((row * P.k_size + k) / 4u);
  for (var j = 0u; j < 4u; j = j + 1u) {
    y_put(i + j, bitcast<u32>(v[j]));
  }
}
{{end}}
