// Functions that compute with 64-bit integers, for which WGSL has no type. A value is its two words, the low one first.
fn i64_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}
fn i64_sub(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}
fn i64_neg(a: vec2<u32>) -> vec2<u32> {
  return i64_sub(vec2<u32>(0u, 0u), a);
}
fn i64_mul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  // The high word of a.x * b.x, by halves of 16 bits.
  let low = (a.x & 0xffffu) * (b.x & 0xffffu);
  let left = (a.x & 0xffffu) * (b.x >> 16u);
  let right = (a.x >> 16u) * (b.x & 0xffffu);
  let middle = (low >> 16u) + (left & 0xffffu) + (right & 0xffffu);
  let high = (a.x >> 16u) * (b.x >> 16u) + (left >> 16u) + (right >> 16u) + (middle >> 16u);
  return vec2<u32>(a.x * b.x, high + a.x * b.y + a.y * b.x);
}
fn i64_eq(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.x == b.x && a.y == b.y;
}
fn i64_lt(a: vec2<u32>, b: vec2<u32>) -> bool {
  return bitcast<i32>(a.y) < bitcast<i32>(b.y) || (a.y == b.y && a.x < b.x);
}
fn i64_negative(a: vec2<u32>) -> bool {
  return a.y > 0x7fffffffu;
}
fn i64_abs(a: vec2<u32>) -> vec2<u32> {
  if (i64_negative(a)) {
    return i64_neg(a);
  }
  return a;
}
fn i64_sign(a: vec2<u32>) -> vec2<u32> {
  if (i64_negative(a)) {
    return vec2<u32>(0xffffffffu, 0xffffffffu);
  }
  return vec2<u32>(select(0u, 1u, (a.x | a.y) != 0u), 0u);
}
fn i64_max(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if (i64_lt(a, b)) {
    return b;
  }
  return a;
}
fn i64_min(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if (i64_lt(b, a)) {
    return b;
  }
  return a;
}
fn i64_to_f32(v: vec2<u32>) -> f32 {
  let a = i64_abs(v);
  let sign = select(1.0, -1.0, i64_negative(v));
  if (a.y == 0u) {
    return sign * f32(a.x);
  }
  // The 32 leading bits, with a bit for the others at the end, round as all of them do.
  let k = 32u - countLeadingZeros(a.y);
  if (k == 32u) {
    return sign * f32(a.y | select(0u, 1u, a.x != 0u)) * 4294967296.0;
  }
  let top = (a.y << (32u - k)) | (a.x >> k);
  let rest = a.x << (32u - k);
  return sign * f32(top | select(0u, 1u, rest != 0u)) * from_bits((127u + k) << 23u);
}
// Truncates toward zero, and saturates. NaN gives 0.
fn i64_from_f32(v: f32) -> vec2<u32> {
  let bits = bitcast<u32>(v);
  let e = (bits >> 23u) & 255u;
  if (is_nan(v) || e < 127u) {
    return vec2<u32>(0u, 0u);
  }
  let negative = bits > 0x7fffffffu;
  if (e >= 190u) {
    return select(vec2<u32>(0xffffffffu, 0x7fffffffu), vec2<u32>(0u, 0x80000000u), vec2<bool>(negative, negative));
  }
  let m = (bits & 0x7fffffu) | 0x800000u;
  var a = vec2<u32>(0u, 0u);
  if (e <= 150u) {
    a.x = m >> (150u - e);
  } else if (e < 182u) {
    a.x = m << (e - 150u);
    a.y = m >> (182u - e);
  } else {
    a.y = m << (e - 182u);
  }
  if (negative) {
    return i64_neg(a);
  }
  return a;
}
