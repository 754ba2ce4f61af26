{{- /* Readers of packed weights: NAME4(i) are values 4i to 4i+3. Block sizes are even, and many are no multiple of 4. */ -}}
{{define "common"}}
fn {{.N}}_aligned(b: u32) -> u32 { return {{.N}}_word((b + {{.Skip}}u) >> 2u); } // b is a multiple of 4
fn {{.N}}_half(b: u32) -> f32 {
  let k = b + {{.Skip}}u;
  return unpack2x16float({{.N}}_word(k >> 2u) >> ((k & 2u) * 8u)).x;
}
// {{.N}}_even are four bytes from an even address on. The last ones of a buffer may lie at its end.
fn {{.N}}_even(b: u32) -> u32 {
  let k = b + {{.Skip}}u;
  let low = {{.N}}_word(k >> 2u);
  let high = {{.N}}_word((k >> 2u) + 1u);
  return select(low, (low >> 16u) | (high << 16u), (k & 2u) != 0u);
}
{{end}}

{{define "q8_0"}}
fn {{.N}}4(i: u32) -> vec4<f32> {
  let b = i / 8u * 34u;
  return {{.N}}_half(b) * signed_bytes({{.N}}_even(b + 2u + i % 8u * 4u));
}
{{end}}

{{define "q4_0"}}
fn {{.N}}4(i: u32) -> vec4<f32> {
  let b = i / 8u * 18u;
  let q = ({{.N}}_even(b + 2u + i % 4u * 4u) >> (i % 8u / 4u * 4u)) & 0x0f0f0f0fu;
  return {{.N}}_half(b) * (bytes(q) - vec4<f32>(8.0));
}
{{end}}

{{define "q4_1"}}
fn {{.N}}4(i: u32) -> vec4<f32> {
  let b = i / 8u * 20u;
  let q = ({{.N}}_aligned(b + 4u + i % 4u * 4u) >> (i % 8u / 4u * 4u)) & 0x0f0f0f0fu;
  return {{.N}}_half(b) * bytes(q) + vec4<f32>({{.N}}_half(b + 2u));
}
{{end}}

{{define "q5_0"}}
fn {{.N}}4(i: u32) -> vec4<f32> {
  let b = i / 8u * 22u;
  let q = ({{.N}}_even(b + 6u + i % 4u * 4u) >> (i % 8u / 4u * 4u)) & 0x0f0f0f0fu;
  return {{.N}}_half(b) * (bytes(q | fifth_bits({{.N}}_even(b + 2u) >> (i % 8u * 4u))) - vec4<f32>(16.0));
}
{{end}}

{{define "q5_1"}}
fn {{.N}}4(i: u32) -> vec4<f32> {
  let b = i / 8u * 24u;
  let q = ({{.N}}_aligned(b + 8u + i % 4u * 4u) >> (i % 8u / 4u * 4u)) & 0x0f0f0f0fu;
  return {{.N}}_half(b) * bytes(q | fifth_bits({{.N}}_aligned(b + 4u) >> (i % 8u * 4u))) + vec4<f32>({{.N}}_half(b + 2u));
}
{{end}}

{{define "scales"}}
// {{.N}}_scale_min are scale and minimum g of the eight of a block, six bits each.
fn {{.N}}_scale_min(b: u32, g: u32) -> vec2<f32> {
  let s = g % 4u * 8u;
  let x = {{.N}}_aligned(b + 4u) >> s;
  let y = {{.N}}_aligned(b + 8u) >> s;
  let z = {{.N}}_aligned(b + 12u) >> s;
  let low = vec2<u32>(x & 63u, y & 63u);
  let high = vec2<u32>((z & 15u) | ((x & 0xc0u) >> 2u), ((z & 0xf0u) >> 4u) | ((y & 0xc0u) >> 2u));
  return vec2<f32>(select(low, high, g >= 4u)) * vec2<f32>({{.N}}_half(b), {{.N}}_half(b + 2u));
}
{{end}}

{{define "q4_k"}}{{template "scales" .}}
fn {{.N}}4(i: u32) -> vec4<f32> {
  let b = i / 64u * 144u;
  let g = i % 64u / 8u;
  let s = {{.N}}_scale_min(b, g);
  let q = ({{.N}}_aligned(b + 16u + g / 2u * 32u + i % 8u * 4u) >> (g % 2u * 4u)) & 0x0f0f0f0fu;
  return s.x * bytes(q) - vec4<f32>(s.y);
}
{{end}}

{{define "q5_k"}}{{template "scales" .}}
fn {{.N}}4(i: u32) -> vec4<f32> {
  let b = i / 64u * 176u;
  let g = i % 64u / 8u;
  let s = {{.N}}_scale_min(b, g);
  let low = ({{.N}}_aligned(b + 48u + g / 2u * 32u + i % 8u * 4u) >> (g % 2u * 4u)) & 0x0f0f0f0fu;
  let high = ({{.N}}_aligned(b + 16u + i % 8u * 4u) >> g) & 0x01010101u;
  return s.x * bytes(low | (high << 4u)) - vec4<f32>(s.y);
}
{{end}}

{{define "q6_k"}}
fn {{.N}}4(i: u32) -> vec4<f32> {
  let b = i / 64u * 210u;
  let h = i % 64u / 32u;
  let j = i % 32u / 8u;
  let l = i % 8u * 4u;
  let low = ({{.N}}_even(b + 64u * h + 32u * (j % 2u) + l) >> (j / 2u * 4u)) & 0x0f0f0f0fu;
  let high = ({{.N}}_even(b + 128u + 32u * h + l) >> (2u * j)) & 0x03030303u;
  let s = {{.N}}_bits(b + 192u + i % 64u / 4u);
  return ({{.N}}_half(b + 208u) * f32(bitcast<i32>(s << 24u) >> 24u)) * (bytes(low | (high << 4u)) - vec4<f32>(32.0));
}
{{end}}
