{{define "across"}}
var<workgroup> sums: array<vec4<f32>, {{div (mul .C.Rows .C.Lanes) 4}}>;

// across sums v over the invocations of a row.
fn across(local: u32, v: {{.C.T}}) -> f32 {
  workgroupBarrier(); // the results of the last call have been read
  sums[local / 4u][local % 4u] = {{if .C.V}}(v.x + v.y) + (v.z + v.w){{else}}v{{end}};
  workgroupBarrier();
  let first = (local - local % {{.C.Lanes}}u) / 4u;
  var s = vec4<f32>(0.0);
  for (var k = 0u; k < {{div .C.Lanes 4}}u; k = k + 1u) {
    s = s + sums[first + k];
  }
  return (s.x + s.y) + (s.z + s.w);
}
{{end}}
