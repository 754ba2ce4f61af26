// A product with few rows: C = act(A . B + bias) + residual in f32, with A [M,K] and B [N,K]. {{.C.Lanes}} invocations
// together compute eight rows of one column: each sums a share of K, and the partial sums are added in workgroup
// memory.
var<workgroup> shares: array<f32, 2048>; // [row][invocation]
var<workgroup> parts: array<f32, 256>;   // [row][invocation / 8]

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
  let n_size = P.n_size;
  let tiles_n = (n_size + {{.C.Columns}}u - 1u) / {{.C.Columns}}u;
  let n0 = id % tiles_n * {{.C.Columns}}u;
  let m0 = id / tiles_n * 8u;
  let quads = P.k_size / 4u;
  // Past the end, the last columns and rows are computed again but not written.
  let column = min(n0 + local / {{.C.Lanes}}u, n_size - 1u) * quads;
{{- range $i := seq 8}}
  let row{{$i}} = min(m0 + {{$i}}u, P.m_size - 1u) * quads;
  var s{{$i}} = vec4<f32>(0.0);
{{- end}}
  for (var k = local % {{.C.Lanes}}u; k < quads; k = k + {{.C.Lanes}}u) {
    let w = b4(column + k);
{{- range $i := seq 8}}
    s{{$i}} = fma(a4(row{{$i}} + k), w, s{{$i}});
{{- end}}
  }
{{- range $i := seq 8}}
  shares[{{mul $i 256}}u + local] = (s{{$i}}.x + s{{$i}}.y) + (s{{$i}}.z + s{{$i}}.w);
{{- end}}
  workgroupBarrier();
  var part = 0.0;
{{- range $j := seq 8}}
  part = part + shares[local * 8u + {{$j}}u];
{{- end}}
  parts[local] = part;
  workgroupBarrier();
  let row = m0 + local / {{.C.Columns}}u;
  let col = n0 + local % {{.C.Columns}}u;
  if (local >= {{mul .C.Columns 8}}u || row >= P.m_size || col >= n_size) {
    return;
  }
  var v = 0.0;
  for (var j = 0u; j < {{div .C.Lanes 8}}u; j = j + 1u) {
    v = v + parts[local * {{div .C.Lanes 8}}u + j];
  }
{{- if .C.Bias}}
  v = v + bias(col);
{{- end}}
{{- if .C.Act}}
  v = {{scalar .C.Act "v"}};
{{- end}}
  let at = row * n_size + col;
{{- if .C.Residual}}
  v = v + residual(at);
{{- end}}
  y_put(at, bitcast<u32>(v));
}
