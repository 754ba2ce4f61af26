// One workgroup runs one row. Statistics are taken in two passes: the variance from deviations, never from squares.
var<workgroup> partial: array<f32, {{.C.Size}}>;

fn total(local: u32, v: f32) -> f32 {
  partial[local] = v;
  workgroupBarrier();
  for (var s = {{div .C.Size 2}}u; s > 0u; s = s / 2u) {
    if (local < s) {
      partial[local] = partial[local] + partial[local + s];
    }
    workgroupBarrier();
  }
  let t = partial[0];
  workgroupBarrier();
  return t;
}

fn row(i: u32) -> {{.C.T}} {
{{- if .C.Residual}}
  return x{{.C.V}}(i) + r{{.C.V}}(i);
{{- else}}
  return x{{.C.V}}(i);
{{- end}}
}

fn across(v: {{.C.T}}) -> f32 {
{{- if .C.V}}
  return v.x + v.y + v.z + v.w;
{{- else}}
  return v;
{{- end}}
}

@compute @workgroup_size({{.C.Size}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let index = group.y * groups.x + group.x;
  if (index >= P.rows) {
    return;
  }
  let base = index * P.n;
  var mean = 0.0;
  var acc = {{.C.T}}(0.0);
{{- if .C.Center}}
  for (var k = local; k < P.n; k = k + {{.C.Size}}u) {
    acc = acc + row(base + k);
  }
  mean = total(local, across(acc)) / P.count;
  acc = {{.C.T}}(0.0);
{{- end}}
  for (var k = local; k < P.n; k = k + {{.C.Size}}u) {
    let d = row(base + k) - {{.C.T}}(mean);
    acc = acc + d * d;
  }
  let scale = 1.0 / sqrt(total(local, across(acc)) / P.count + P.eps);
  for (var k = local; k < P.n; k = k + {{.C.Size}}u) {
    let v = (row(base + k) - {{.C.T}}(mean)) * scale * gamma{{.C.V}}(k) + beta{{.C.V}}(k);
{{- if .C.V}}
    y4_put(base + k, v);
{{- else}}
    y_put(base + k, bitcast<u32>(v));
{{- end}}
  }
}
