// Rounds an operand of a product to 16 bits, in rows along K that are padded with zeros. An invocation writes four
// values. With several terms, 64 values of the first are followed by those of the second, and those by the third: see
// terms_text.go.
{{- if gt .C.Terms 1}}

// bf16 returns the nearest value with 8 bits, or the next one towards 0 if that is infinite.
fn bf16(x: f32) -> f32 {
  let u = bitcast<u32>(x);
  let near = (u + 0x7fffu + ((u >> 16u) & 1u)) & 0xffff0000u;
  if ((u & 0x7f800000u) == 0x7f800000u) {
    return x;
  }
  if ((near & 0x7f800000u) == 0x7f800000u) {
    return bitcast<f32>(u & 0xffff0000u);
  }
  return bitcast<f32>(near);
}

// rest returns what x has beyond its first term, times 2^8: 0 for NaN and infinities, which are a term of their own.
fn rest(x: f32) -> f32 {
  if ((bitcast<u32>(x) & 0x7f800000u) == 0x7f800000u) {
    return 0.0;
  }
  return (x - bf16(x)) * 256.0;
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
{{- if eq .C.Terms 1}}
  y4_put(P.begin + row * P.quads + quad, v);
{{- else}}
  let to = P.begin + (row * P.quads + quad / 16u * 16u) * {{.C.Terms}}u + quad % 16u;
  y4_put(to, vec4<f32>(bf16(v.x), bf16(v.y), bf16(v.z), bf16(v.w)));
{{- range $i := seq .C.Terms}}{{if $i}}
  v = vec4<f32>(rest(v.x), rest(v.y), rest(v.z), rest(v.w));
  y4_put(to + {{mul 16 $i}}u, vec4<f32>(bf16(v.x), bf16(v.y), bf16(v.z), bf16(v.w)));
{{- end}}{{end}}
{{- end}}
}
