{{- define "angles"}}
{{- if ne .Angles "tables"}}
// Angles are fractions of a turn with 64 bits, (high, low). Whole turns overflow and disappear, so an angle is as exact
// at a large position as at a small one.

// The product of two words as (high, low).
fn wide_mul(a: u32, b: u32) -> vec2<u32> {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let low = al * bl;
  let m = ah * bl + (low >> 16u);
  let n = al * bh + (m & 0xffffu);
  return vec2<u32>(ah * bh + (m >> 16u) + (n >> 16u), (n << 16u) | (low & 0xffffu));
}
fn wide_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.y + b.y;
  return vec2<u32>(a.x + b.x + select(0u, 1u, low < b.y), low);
}
// The fraction f of a turn, times n.
fn times(f: vec2<u32>, n: u32) -> vec2<u32> {
  let p = wide_mul(f.y, n);
  return vec2<u32>(p.x + f.x * n, p.y);
}
// Cosine and sine of the fraction f of a turn.
fn turn(f: vec2<u32>) -> vec2<f32> {
  let quarter = (f.x + 0x20000000u) >> 30u;
  let rest = bitcast<i32>(f.x - (quarter << 30u)); // at most an eighth of a turn
  var v = trig((f32(rest) * 2.3283064365386963e-10 + f32(f.y) * 5.421010862427522e-20) * 6.283185307179586);
  if ((quarter & 1u) == 1u) {
    v = vec2<f32>(-v.y, v.x);
  }
  if (quarter >= 2u) {
    v = -v;
  }
  return v;
}
{{- if eq .Angles "frequencies"}}
// The binary digits of 1/(2*pi) after the point.
var<private> inverse: array<u32, 8> = array<u32, 8>(0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u,
    0x4f10e410u, 0x7f9458eau, 0xf7aef158u);

// Word k of the binary digits of 2^e/(2*pi) after the point.
fn inverse_word(k: i32, e: i32) -> u32 {
  let at = e + 32 * k + 512; // positive
  let i = (at >> 5u) - 16;
  let shift = u32(at) & 31u;
  var high = 0u;
  var low = 0u;
  if (i >= 0 && i < 8) {
    high = inverse[i];
  }
  if (i >= -1 && i < 7) {
    low = inverse[i + 1];
  }
  if (shift == 0u) {
    return high;
  }
  return (high << shift) | (low >> (32u - shift));
}
// Converts radians to a fraction of a turn.
fn fraction(radians: f32) -> vec2<u32> {
  let b = bitcast<u32>(radians);
  let e = i32((b >> 23u) & 0xffu);
  let m = (b & 0x7fffffu) | select(0u, 0x800000u, e > 0);
  let at = max(e, 1) - 150; // radians are m * 2^at
  let low = wide_mul(inverse_word(2, at), m);
  let mid = wide_add(wide_mul(inverse_word(1, at), m), vec2<u32>(0u, low.x));
  let f = vec2<u32>(inverse_word(0, at) * m + mid.x, mid.y);
  if (b >> 31u == 1u) {
    return wide_add(~f, vec2<u32>(0u, 1u));
  }
  return f;
}
{{- end}}
{{- end}}

{{- end}}
{{- define "rope"}}{{$value := "u32"}}{{if .Vec}}{{$value = "vec4<f32>"}}{{end}}
{{- if eq .Angles "tables"}}
// Cosine and sine of a pair's angle, from a row of the tables.
fn {{.N}}turned(pair: u32, row: u32) -> vec2<f32> {
  let at = row * P.{{.N}}width + pair;
  return vec2<f32>({{.N}}x1(at), {{if .Back}}-{{end}}{{.N}}x2(at));
}
{{- else}}
// Cosine and sine of a pair's angle at position pos + more.
fn {{.N}}turned(pair: u32, pos: i32, more: u32) -> vec2<f32> {
{{- if eq .Angles "frequencies"}}
  let radians = {{.N}}x3(pair);
  let f = fraction(radians);
{{- else}}
  let f = vec2<u32>(P.{{.N}}turns[2u * pair], P.{{.N}}turns[2u * pair + 1u]);
{{- end}}
  var angle = wide_add(times(f, u32(pos)), times(f, more));
  if (pos < 0) {
    angle.x = angle.x - f.y; // u32(pos) is too large by 2^32
  }
  var cs = turn(angle);
{{- if eq .Angles "frequencies"}}
  if ((bitcast<u32>(radians) & 0x7fffffffu) >= 0x7f800000u) {
    cs = vec2<f32>(not_a_number());
  }
{{- end}}
  return P.{{.N}}factor * {{if .Back}}vec2<f32>(cs.x, -cs.y){{else}}cs{{end}};
}
{{- end}}
{{- $turned := "pos, more"}}{{if eq .Angles "tables"}}{{$turned = "row"}}{{end}}

// {{if .Vec}}Elements 4i to 4i+3{{else}}The bits of element i{{end}} of the result.
fn {{.N}}value(i: u32) -> {{$value}} {
  let e = {{if .Vec}}4u * {{end}}i;
  let d = e % P.{{.N}}dim;
{{- if eq .Layout "bhsd"}}
  let s = (e / P.{{.N}}dim) % P.{{.N}}seq;
  let h = (e / (P.{{.N}}dim * P.{{.N}}seq)) % P.{{.N}}heads;
{{- else}}
  let h = (e / P.{{.N}}dim) % P.{{.N}}heads;
  let s = (e / (P.{{.N}}dim * P.{{.N}}heads)) % P.{{.N}}seq;
{{- end}}
  let b = e / (P.{{.N}}dim * P.{{.N}}heads * P.{{.N}}seq);
  let at = P.{{.N}}start + b * P.{{.N}}x_b + s * P.{{.N}}x_s + h * P.{{.N}}x_h + d;
  let x = {{.N}}{{if .Vec}}x04(at / 4u){{else}}x0(at){{end}};
  // The position is pos + more.
  var more = s;
{{- if eq .Rank 0}}
  let pos = {{.N}}x4(0u);
{{- else if eq .Rank 1}}
  let pos = {{.N}}x4(b);
{{- else if eq .Rank 2}}
  let pos = {{.N}}x4(b * P.{{.N}}seq + s);
  more = 0u;
{{- else}}
  let pos = 0;
{{- end}}
{{- if eq .Angles "tables"}}
  let row = u32(pos) + more;
  if (pos < 0 || row >= P.{{.N}}rows) {
    status_put(0u, 1u);
    return {{$value}}();
  }
{{- end}}
  if (d >= 2u * P.{{.N}}half) {
    return {{if .Vec}}x{{else}}{{.N}}x0_bits(at){{end}};
  }
{{- if eq .Style "gptj"}}
{{- if .Vec}}
  let cs = vec4<f32>({{.N}}turned(d / 2u, {{$turned}}), {{.N}}turned(d / 2u + 1u, {{$turned}}));
  return x * cs.xxzz + x.yxwz * cs.yyww * vec4<f32>(-1.0, 1.0, -1.0, 1.0);
{{- else}}
  let first = d % 2u == 0u;
  let other = {{.N}}x0(select(at - 1u, at + 1u, first));
  let cs = {{.N}}turned(d / 2u, {{$turned}});
{{- end}}
{{- else}}
  let first = d < P.{{.N}}half;
  let pair = d % P.{{.N}}half;
  let partner = select(at - P.{{.N}}half, at + P.{{.N}}half, first);
{{- if .Vec}}
  let other = {{.N}}x04(partner / 4u);
{{- range $k := seq 4}}
  let cs{{$k}} = {{$.N}}turned(pair + {{$k}}u, {{$turned}});
{{- end}}
  let turned = other * vec4<f32>(cs0.y, cs1.y, cs2.y, cs3.y);
  return x * vec4<f32>(cs0.x, cs1.x, cs2.x, cs3.x) + select(turned, -turned, first);
{{- else}}
  let other = {{.N}}x0(partner);
  let cs = {{.N}}turned(pair, {{$turned}});
{{- end}}
{{- end}}
{{- if not .Vec}}
  return {{.Encode}}(select(x * cs.x + other * cs.y, x * cs.x - other * cs.y, first));
{{- end}}
}
{{- end}}
