{{- /* Terms of f32 in bf16, see terms_text.go. */ -}}
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
{{- define "write"}}{{/* v becomes unit quad of a row, in all terms */}}
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
{{- end}}
{{- define "row"}}{{/* v is unit d of row id / quads of an attention's operand */}}
{{- if eq .C.Terms 1}}
  y4_put(P.begin + id, v);
{{- else}}
  let next = {{div .C.D 4}}u;
  let to = P.begin + id / next * {{.C.Terms}}u * next + d;
  y4_put(to, vec4<f32>(bf16(v.x), bf16(v.y), bf16(v.z), bf16(v.w)));
{{- range $i := seq .C.Terms}}{{if $i}}
  v = vec4<f32>(rest(v.x), rest(v.y), rest(v.z), rest(v.w)) * 0.00390625;
  y4_put(to + {{$i}}u * next, vec4<f32>(bf16(v.x), bf16(v.y), bf16(v.z), bf16(v.w)));
{{- end}}{{end}}
{{- end}}
{{- end}}
