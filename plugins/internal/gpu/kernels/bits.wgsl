// Functions of the bits of numbers: special values, and conversions of half floats. They are part of the library.

fn infinity() -> f32 {
  var bits = 0x7f800000u;
  return bitcast<f32>(bits);
}
fn not_a_number() -> f32 {
  var bits = 0x7fc00000u;
  return bitcast<f32>(bits);
}
fn is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn is_infinite(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}
fn is_finite(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) < 0x7f800000u;
}
fn not_zero(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) != 0u;
}
fn above_zero(x: f32) -> bool {
  return bitcast<i32>(x) > 0 && !is_nan(x);
}
fn from_bits(bits: u32) -> f32 {
  var b = bits;
  return bitcast<f32>(b);
}
fn order(x: f32) -> i32 {
  // Integers in the order of the floats, including denormals. Both zeros give 0.
  let b = bitcast<i32>(x);
  return select(b, -(b & 0x7fffffff), b < 0);
}
fn largest_key(x: f32) -> i32 {
  // Integers in the order of the floats. NaN gives the largest.
  let b = bitcast<i32>(x);
  return select(b ^ ((b >> 31u) & 0x7fffffff), 0x7fffffff, is_nan(x));
}
fn least_key(x: f32) -> i32 {
  // Integers in the order of the floats. NaN gives the least.
  let b = bitcast<i32>(x);
  return select(b ^ ((b >> 31u) & 0x7fffffff), -0x7fffffff - 1, is_nan(x));
}
fn from_key(k: i32) -> f32 {
  return bitcast<f32>(k ^ ((k >> 31u) & 0x7fffffff));
}
fn f32_from_f16(h: u32) -> f32 {
  let e = (h >> 10u) & 31u;
  let m = h & 0x3ffu;
  let sign = (h & 0x8000u) << 16u;
  if (e == 0u) {
    let v = f32(m) * 5.9604644775390625e-8;
    return bitcast<f32>(bitcast<u32>(v) | sign);
  }
  if (e == 31u) {
    return bitcast<f32>(sign | 0x7f800000u | (m << 13u));
  }
  return bitcast<f32>(sign | ((e + 112u) << 23u) | (m << 13u));
}
fn f16_from_f32(x: f32) -> u32 {
  let b = bitcast<u32>(x);
  let sign = (b >> 16u) & 0x8000u;
  let a = b & 0x7fffffffu;
  if (a > 0x7f800000u) {
    return sign | 0x7e00u;
  }
  if (a >= 0x477ff000u) {
    return sign | 0x7c00u;
  }
  if (a < 0x38800000u) {
    // A denormal: a multiple of 2^-24, rounded half to even.
    if (a < 0x33000000u) {
      return sign;
    }
    let shift = 126u - (a >> 23u);
    let m = (a & 0x7fffffu) | 0x800000u;
    let q = m >> shift;
    let rest = m & ((1u << shift) - 1u);
    let half = 1u << (shift - 1u);
    return sign | (q + select(0u, 1u, rest > half || (rest == half && (q & 1u) == 1u)));
  }
  return sign | ((a - 0x38000000u + 0xfffu + ((a >> 13u) & 1u)) >> 13u);
}
fn bf16_from_f32(x: f32) -> u32 {
  let b = bitcast<u32>(x);
  if ((b & 0x7fffffffu) > 0x7f800000u) {
    return (b >> 16u) | 0x40u;
  }
  return (b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u;
}
