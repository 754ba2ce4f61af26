{{- /* Readers of packed weights: NAME4(i) returns values 4i to 4i+3. All block sizes are even, but many are not multiples of 4 bytes. */ -}}
{{define "common"}}
fn {{.N}}_aligned(b: u32) -> u32 { return {{.N}}_word((b + {{.Skip}}u) >> 2u); } // b must be a multiple of 4
fn {{.N}}_half(b: u32) -> f32 {
  let k = b + {{.Skip}}u;
  return unpack2x16float({{.N}}_word(k >> 2u) >> ((k & 2u) * 8u)).x;
}
// {{.N}}_even returns four bytes from an even address. It may also read a word past the end of the buffer, which it
// then does not use.
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
  return {{.N}}_half(b) * bytes(q | fifth_bits({{.N}}_aligned(b + 4u) >> (i % 8u * 4u))) +
      vec4<f32>({{.N}}_half(b + 2u));
}
{{end}}

{{define "scales"}}
// {{.N}}_scale_min returns scale and minimum of group g of eight in a block, six bits each.
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

{{define "q2_k"}}
fn {{.N}}4(i: u32) -> vec4<f32> {
  let b = i / 64u * 84u;
  let g = i % 64u / 4u;
  let s = {{.N}}_bits(b + g);
  let q = ({{.N}}_aligned(b + 16u + g / 8u * 32u + g % 2u * 16u + i % 4u * 4u) >> (g % 8u / 2u * 2u)) & 0x03030303u;
  return {{.N}}_half(b + 80u) * f32(s & 15u) * bytes(q) - vec4<f32>({{.N}}_half(b + 82u) * f32(s >> 4u));
}
{{end}}

{{define "q3_k"}}
fn {{.N}}4(i: u32) -> vec4<f32> {
  let b = i / 64u * 110u;
  let g = i % 64u / 4u;
  let l = g % 2u * 16u + i % 4u * 4u;
  let low = ({{.N}}_even(b + 32u + g / 8u * 32u + l) >> (g % 8u / 2u * 2u)) & 0x03030303u;
  let high = ({{.N}}_even(b + l) >> (g / 2u)) & 0x01010101u;
  let s = (({{.N}}_bits(b + 96u + g % 8u) >> (g / 8u * 4u)) & 15u) |
      ((({{.N}}_bits(b + 104u + g % 4u) >> (g / 4u * 2u)) & 3u) << 4u);
  return ({{.N}}_half(b + 108u) * (f32(s) - 32.0)) * (bytes(low | (high << 2u)) - vec4<f32>(4.0));
}
{{end}}

{{define "q8_k"}}
fn {{.N}}4(i: u32) -> vec4<f32> {
  let b = i / 64u * 292u;
  return bitcast<f32>({{.N}}_aligned(b)) * signed_bytes({{.N}}_aligned(b + 4u + i % 64u * 4u));
}
{{end}}

{{define "iq4"}}
// {{.N}}_iq4 returns the values that the low halves of four bytes select.
fn {{.N}}_iq4(q: u32) -> vec4<f32> {
  return looked_up(q, vec4<u32>(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u));
}
{{end}}

{{define "iq4_nl"}}{{template "iq4" .}}
fn {{.N}}4(i: u32) -> vec4<f32> {
  let b = i / 8u * 18u;
  return {{.N}}_half(b) * {{.N}}_iq4({{.N}}_even(b + 2u + i % 4u * 4u) >> (i % 8u / 4u * 4u));
}
{{end}}

{{define "iq4_xs"}}{{template "iq4" .}}
fn {{.N}}4(i: u32) -> vec4<f32> {
  let b = i / 64u * 136u;
  let g = i % 64u / 8u;
  let s = (({{.N}}_bits(b + 4u + g / 2u) >> (g % 2u * 4u)) & 15u) |
      ((({{.N}}_aligned(b) >> (16u + 2u * g)) & 3u) << 4u);
  return ({{.N}}_half(b) * (f32(s) - 32.0)) *
      {{.N}}_iq4({{.N}}_aligned(b + 8u + 16u * g + i % 4u * 4u) >> (i % 8u / 4u * 4u));
}
{{end}}

{{define "mxfp4"}}
fn {{.N}}4(i: u32) -> vec4<f32> {
  let b = i / 8u * 17u;
  let at = b + 1u + i % 4u * 4u + {{.Skip}}u; // may be any address
  let s = (at & 3u) * 8u;
  let q = ({{.N}}_word(at >> 2u) >> s) | (({{.N}}_word((at >> 2u) + 1u) << 1u) << (31u - s));
  // Twice the values times 2^(e-128), in two factors: the smallest scales are denormals, which a device may treat as 0.
  let e = {{.N}}_bits(b);
  let v = looked_up(q >> (i % 8u / 4u * 4u), vec4<u32>(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu));
  return v * bitcast<f32>((63u + e / 2u) << 23u) * bitcast<f32>((63u + e - e / 2u) << 23u);
}
{{end}}

{{- /* Readers of eight packed weights. NAME__words(u) returns two words of four bytes, NAME__scales(u) the scale of each word and what is subtracted, and NAME__values the values of a word. The last says how: scale * (byte - zero) - least. */ -}}
{{define "pair_zero"}}
fn {{.N}}_values(q: u32, scale: f32, least: f32) -> vec4<f32> {
  // 2^23 + byte, minus 2^23 + zero: one subtraction in place of a conversion and a subtraction
  let v = vec4<u32>((q & 255u) | 0x4b000000u, ((q >> 8u) & 255u) | 0x4b000000u, ((q >> 16u) & 255u) | 0x4b000000u,
      (q >> 24u) | 0x4b000000u);
  return scale * (bitcast<vec4<f32>>(v) - vec4<f32>({{.Zero}}));
}
{{end}}

{{define "pair_least"}}
fn {{.N}}_values(q: u32, scale: f32, least: f32) -> vec4<f32> { return scale * bytes(q) - vec4<f32>(least); }
{{end}}

{{define "pair_q4_0"}}{{template "pair_zero" .}}
fn {{.N}}_words(u: u32) -> vec2<u32> {
  let q = {{.N}}_even(u / 4u * 18u + 2u + u % 4u * 4u);
  return vec2<u32>(q & 0x0f0f0f0fu, (q >> 4u) & 0x0f0f0f0fu);
}
fn {{.N}}_scales(u: u32) -> vec4<f32> { return vec4<f32>({{.N}}_half(u / 4u * 18u)); }
{{end}}

{{define "pair_q4_1"}}{{template "pair_least" .}}
fn {{.N}}_words(u: u32) -> vec2<u32> {
  let q = {{.N}}_aligned(u / 4u * 20u + 4u + u % 4u * 4u);
  return vec2<u32>(q & 0x0f0f0f0fu, (q >> 4u) & 0x0f0f0f0fu);
}
fn {{.N}}_scales(u: u32) -> vec4<f32> {
  let d = unpack2x16float({{.N}}_aligned(u / 4u * 20u));
  return vec4<f32>(d.x, d.x, -d.y, -d.y);
}
{{end}}

{{define "pair_q5_0"}}{{template "pair_zero" .}}
fn {{.N}}_words(u: u32) -> vec2<u32> {
  let b = u / 4u * 22u;
  let q = {{.N}}_even(b + 6u + u % 4u * 4u);
  let high = {{.N}}_even(b + 2u) >> (u % 4u * 4u);
  return vec2<u32>((q & 0x0f0f0f0fu) | fifth_bits(high), ((q >> 4u) & 0x0f0f0f0fu) | fifth_bits(high >> 16u));
}
fn {{.N}}_scales(u: u32) -> vec4<f32> { return vec4<f32>({{.N}}_half(u / 4u * 22u)); }
{{end}}

{{define "pair_q5_1"}}{{template "pair_least" .}}
fn {{.N}}_words(u: u32) -> vec2<u32> {
  let b = u / 4u * 24u;
  let q = {{.N}}_aligned(b + 8u + u % 4u * 4u);
  let high = {{.N}}_aligned(b + 4u) >> (u % 4u * 4u);
  return vec2<u32>((q & 0x0f0f0f0fu) | fifth_bits(high), ((q >> 4u) & 0x0f0f0f0fu) | fifth_bits(high >> 16u));
}
fn {{.N}}_scales(u: u32) -> vec4<f32> {
  let d = unpack2x16float({{.N}}_aligned(u / 4u * 24u));
  return vec4<f32>(d.x, d.x, -d.y, -d.y);
}
{{end}}

{{define "pair_scales"}}
fn {{.N}}_scales(u: u32) -> vec4<f32> {
  let b = u / 32u * {{.Size}}u;
  let s = u % 16u / 8u * 16u; // of the first of two groups of 32
  let d = unpack2x16float({{.N}}_aligned(b));
  let x = {{.N}}_aligned(b + 4u) >> s;
  let y = {{.N}}_aligned(b + 8u) >> s;
  let z = {{.N}}_aligned(b + 12u) >> s;
  let low = vec4<u32>(x & 63u, (x >> 8u) & 63u, y & 63u, (y >> 8u) & 63u);
  let high = vec4<u32>((z & 15u) | ((x >> 2u) & 0x30u), ((z >> 8u) & 15u) | ((x >> 10u) & 0x30u),
      ((z >> 4u) & 15u) | ((y >> 2u) & 0x30u), ((z >> 12u) & 15u) | ((y >> 10u) & 0x30u));
  return vec4<f32>(select(low, high, u % 32u >= 16u)) * vec4<f32>(d.x, d.x, d.y, d.y);
}
{{end}}

{{define "pair_q4_k"}}{{template "pair_least" .}}{{template "pair_scales" .}}
fn {{.N}}_words(u: u32) -> vec2<u32> {
  let q = {{.N}}_aligned(u / 32u * 144u + 16u + u % 32u * 4u);
  return vec2<u32>(q & 0x0f0f0f0fu, (q >> 4u) & 0x0f0f0f0fu);
}
{{end}}

{{define "pair_q5_k"}}{{template "pair_least" .}}{{template "pair_scales" .}}
fn {{.N}}_words(u: u32) -> vec2<u32> {
  let b = u / 32u * 176u;
  let q = {{.N}}_aligned(b + 48u + u % 32u * 4u);
  let high = {{.N}}_aligned(b + 16u + u % 8u * 4u) >> (u % 32u / 8u * 2u);
  return vec2<u32>((q & 0x0f0f0f0fu) | ((high & 0x01010101u) << 4u),
      ((q >> 4u) & 0x0f0f0f0fu) | (((high >> 1u) & 0x01010101u) << 4u));
}
{{end}}

{{define "pair_q6_k"}}{{template "pair_zero" .}}
fn {{.N}}_words(u: u32) -> vec2<u32> {
  let b = u / 32u * 210u;
  let q = {{.N}}_even(b + u % 32u * 4u);
  let high = {{.N}}_even(b + 128u + u % 32u / 16u * 32u + u % 8u * 4u) >> (u % 16u / 8u * 2u);
  return vec2<u32>((q & 0x0f0f0f0fu) | ((high & 0x03030303u) << 4u),
      ((q >> 4u) & 0x0f0f0f0fu) | (((high >> 4u) & 0x03030303u) << 4u));
}
fn {{.N}}_scales(u: u32) -> vec4<f32> {
  let b = u / 32u * 210u;
  let s = b + 192u + u % 32u / 16u * 8u + u % 16u / 4u; // a scale has 16 weights
  let x = bitcast<i32>({{.N}}_bits(s) << 24u) >> 24u;
  let y = bitcast<i32>({{.N}}_bits(s + 4u) << 24u) >> 24u;
  let d = {{.N}}_half(b + 208u);
  return vec4<f32>(d * f32(x), d * f32(y), 0.0, 0.0);
}
{{end}}
