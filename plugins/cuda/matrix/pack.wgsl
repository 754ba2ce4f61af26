// Rounds an operand of a product to 16 bits, in rows along K that are padded with zeros. An invocation writes four
// values. With several terms, 64 values of the first are followed by those of the second, and those by the third: see
// terms.wgsl.
{{- if .C.TF32}}

// tf32 rounds to 11 bits.
fn tf32(x: f32) -> f32 {
  let u = bitcast<u32>(x);
  if ((u & 0x7f800000u) == 0x7f800000u) {
    return bitcast<f32>(u | select(0u, 0x400000u, (u & 0x7fffffu) != 0u)); // NaN stays NaN
  }
  return bitcast<f32>((u + 0xfffu + ((u >> 13u) & 1u)) & 0xffffe000u);
}
{{- end}}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = (group.y * groups.x + group.x) * 256u + local;
  if (id >= P.rows * P.quads) {
    return;
  }
{{- if .C.Across}}
  let row = id % P.rows; // neighbours read adjacent rows
  let quad = id / P.rows;
{{- else}}
  let row = id / P.quads;
  let quad = id % P.quads;
{{- end}}
  let at = row / P.lines * P.matrix + row % P.lines * P.line;
  var v = vec4<f32>(0.0, 0.0, 0.0, 0.0);
{{- if .C.Fours}}
  if (quad * 4u < P.k_size) {
    v = x4(at / 4u + quad);
  }
{{- else}}
  let k = quad * 4u;
  if (k < P.k_size) {
    v.x = x(at + k * P.step);
  }
  if (k + 1u < P.k_size) {
    v.y = x(at + (k + 1u) * P.step);
  }
  if (k + 2u < P.k_size) {
    v.z = x(at + (k + 2u) * P.step);
  }
  if (k + 3u < P.k_size) {
    v.w = x(at + (k + 3u) * P.step);
  }
{{- end}}
{{- if .C.TF32}}
  v = vec4<f32>(tf32(v.x), tf32(v.y), tf32(v.z), tf32(v.w));
{{- end}}
{{- template "write" .}}
}
