{{define "pairs"}}
// Numbers of twice the precision of f32: sums of two, as vec2<f32> (Dekker, 1971). P.one is 1, which compilers do not
// know, so that they cannot simplify the rounding errors away. Products are split by masks, because fma may round
// twice.

// The sum of a and a smaller b.
fn quick(a: f32, b: f32) -> vec2<f32> {
  let s = fma(a, P.one, b);
  return vec2<f32>(s, fma(b, P.one, -fma(s, P.one, -a)));
}
fn sum2(a: f32, b: f32) -> vec2<f32> {
  let s = fma(a, P.one, b);
  let t = fma(s, P.one, -a);
  return vec2<f32>(s, fma(a, P.one, -fma(s, P.one, -t)) + fma(b, P.one, -t));
}
fn pair(a: f32) -> vec2<f32> { return vec2<f32>(a, 0.0); }
fn add(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  let s = sum2(a.x, b.x);
  return quick(s.x, s.y + (a.y + b.y));
}
fn less(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> { return add(a, -b); }
fn top_half(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u); }
fn mul(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  let p = a.x * b.x;
  let ah = top_half(a.x);
  let al = a.x - ah;
  let bh = top_half(b.x);
  let bl = b.x - bh;
  let e = fma(al, bl, fma(al, bh, fma(ah, bl, fma(ah, bh, -p))));
  return quick(p, e + fma(a.x, b.y, a.y * b.x));
}
fn quotient(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  let q = a.x / b.x;
  let r = less(a, mul(b, pair(q)));
  let q2 = r.x / b.x;
  let r2 = less(r, mul(b, pair(q2)));
  let s = quick(q, q2);
  return add(s, pair(r2.x / b.x));
}
fn root(a: vec2<f32>) -> vec2<f32> {
  if (!(a.x > 0.0)) {
    return pair(0.0);
  }
  let y = sqrt(a.x);
  let r = less(a, mul(pair(y), pair(y)));
  let z = quick(y, r.x / (2.0 * y));
  let r2 = less(a, mul(z, z));
  return add(z, pair(r2.x / (2.0 * y)));
}
fn below(a: vec2<f32>, b: vec2<f32>) -> bool { return a.x < b.x || (a.x == b.x && a.y < b.y); }
fn least(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> { return select(a, b, below(b, a)); }
fn most(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> { return select(a, b, below(a, b)); }
fn rounded_up(a: vec2<f32>) -> f32 {
  let c = ceil(a.x);
  return select(c, c + 1.0, c == a.x && a.y > 0.0);
}
fn rounded_down(a: vec2<f32>) -> f32 { return -rounded_up(-a); }

// 2^n for n from -126 to 127; 0 below.
fn power2(n: f32) -> f32 {
  return select(bitcast<f32>(u32(i32(n) + 127) << 23u), 0.0, n < -126.0);
}
fn exp2_pair(a: vec2<f32>) -> vec2<f32> {
  let n = round(clamp(a.x, -1000.0, 127.0));
  let x = mul(quick(a.x - n, a.y), {{.C.Ln2}});
  let t = x.x;
  let rest = 1.0 / 720.0 + t * (1.0 / 5040.0 + t * (1.0 / 40320.0 + t * (1.0 / 362880.0 + t / 3628800.0)));
  var r = add({{.C.Over120}}, pair(t * rest));
  r = add({{.C.Over24}}, mul(x, r));
  r = add({{.C.Over6}}, mul(x, r));
  r = add(pair(0.5), mul(x, r));
  r = add(pair(1.0), mul(x, r));
  r = add(pair(1.0), mul(x, r));
  return r * power2(n);
}

// Vectors of three such numbers.
struct Pairs3 {
  x: vec2<f32>,
  y: vec2<f32>,
  z: vec2<f32>,
}
fn dot3(a: Pairs3, b: Pairs3) -> vec2<f32> { return add(add(mul(a.x, b.x), mul(a.y, b.y)), mul(a.z, b.z)); }
fn cross3(a: Pairs3, b: Pairs3) -> Pairs3 {
  return Pairs3(less(mul(a.y, b.z), mul(a.z, b.y)), less(mul(a.z, b.x), mul(a.x, b.z)),
      less(mul(a.x, b.y), mul(a.y, b.x)));
}
fn times3(a: Pairs3, s: vec2<f32>) -> Pairs3 { return Pairs3(mul(a.x, s), mul(a.y, s), mul(a.z, s)); }
fn add3(a: Pairs3, b: Pairs3) -> Pairs3 { return Pairs3(add(a.x, b.x), add(a.y, b.y), add(a.z, b.z)); }

// A power of two by which the largest of some numbers becomes 1 to 2.
fn to_one(most: f32) -> f32 {
  let e = (bitcast<u32>(most) >> 23u) & 255u;
  return bitcast<f32>(clamp(254u - e, 1u, 254u) << 23u);
}
{{end}}

{{define "log2"}}
// log2 of a positive number, with an error of about 1e-7: m*2^n with m of 0.7 to 1.4, and the series in t.
fn log2_of(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let n = bitcast<i32>(bits - 0x3f3504f3u) >> 23u;
  let m = bitcast<f32>(bits - (bitcast<u32>(n) << 23u));
  let t = (m - 1.0) / (m + 1.0);
  let s = t * t;
  return f32(n) + 2.885390082 * t *
      (1.0 + s * (0.3333333333 + s * (0.2 + s * (0.1428571429 + s * 0.1111111111))));
}
{{end}}
