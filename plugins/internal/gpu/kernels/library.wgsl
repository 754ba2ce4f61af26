// Functions that shaders share. A shader includes only the functions that it uses. They are found by name, so each must
// start at the beginning of a line. WGSL does not specify the accuracy of sin, cos, tan and atan, nor what min, max and
// comparisons do with NaN; they are therefore implemented here.

fn op_erf(x: f32) -> f32 {
  // Abramowitz and Stegun 7.1.26; near 0 the Taylor series.
  let a = abs(x);
  if (a < 0.5) {
    let s = x * x;
    return x *
        (1.1283791671 +
            s * (-0.3761263890 + s * (0.1128379167 + s * (-0.0268661706 + s * (0.0052239776 - s * 0.0008548327)))));
  }
  let t = 1.0 / (1.0 + 0.3275911 * a);
  let p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  let y = 1.0 - p * exp(-min(a * a, 100.0));
  return select(select(y, -y, x < 0.0), x, is_nan(x));
}
fn op_gelu(x: f32) -> f32 {
  let y = 0.5 * x * (1.0 + op_erf(x * 0.70710678118654752));
  return select(y, x, is_nan(x)); // -Inf gives NaN, as -Inf * 0 does
}
fn op_gelu_tanh(x: f32) -> f32 {
  let c = clamp(x, -20.0, 20.0);
  let y = 0.5 * x * (1.0 + op_tanh(0.7978845608 * (c + 0.044715 * c * c * c)));
  return select(y, x, is_nan(x)); // -Inf gives NaN, as -Inf * 0 does
}
fn op_sigmoid(x: f32) -> f32 {
  if (x < 0.0) {
    let e = op_exp(x);
    return e / (1.0 + e);
  }
  return 1.0 / (1.0 + op_exp(-x));
}
fn op_silu(x: f32) -> f32 {
  let y = x * op_sigmoid(x);
  return select(y, x, is_nan(x)); // -Inf gives NaN, as -Inf * 0 does
}
fn op_tanh(x: f32) -> f32 {
  let a = abs(x);
  if (a < 0.1) {
    let s = x * x;
    return x * (1.0 + s * (-0.3333333333 + s * (0.1333333333 - s * 0.0539682540)));
  }
  if (is_nan(x)) {
    return x;
  }
  let y = 1.0 - 2.0 / (exp(2.0 * min(a, 20.0)) + 1.0);
  return select(y, -y, x < 0.0);
}
fn op_exp(x: f32) -> f32 {
  if (is_nan(x)) {
    return x;
  }
  if (x > 88.8) {
    return infinity();
  }
  return exp(max(x, -110.0));
}
fn op_log(x: f32) -> f32 {
  if (is_nan(x) || bitcast<u32>(x) == 0x7f800000u) {
    return x;
  }
  let b = bitcast<u32>(x);
  if ((b & 0x7fffffffu) == 0u) {
    return -infinity();
  }
  if (b > 0x7fffffffu) {
    return not_a_number();
  }
  if (b < 0x00800000u) {
    return log(f32(b)) - 103.27892990343185;
  }
  return log(x);
}
fn op_sqrt(x: f32) -> f32 {
  let b = bitcast<u32>(x);
  if (is_nan(x) || (b & 0x7fffffffu) == 0u || b == 0x7f800000u) {
    return x;
  }
  if (b > 0x80000000u) {
    return not_a_number();
  }
  return sqrt(x);
}
fn op_rsqrt(x: f32) -> f32 {
  let b = bitcast<u32>(x);
  if (is_nan(x)) {
    return x;
  }
  if ((b & 0x7fffffffu) == 0u) {
    return bitcast<f32>(0x7f800000u | (b & 0x80000000u));
  }
  if (b > 0x7fffffffu) {
    return not_a_number();
  }
  if (b == 0x7f800000u) {
    return 0.0;
  }
  if (b < 0x00800000u) {
    return 2.6713738906281536e22 / sqrt(f32(b));
  }
  return 1.0 / sqrt(x);
}
fn op_neg(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ 0x80000000u);
}
fn op_abs(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) & 0x7fffffffu);
}
fn op_round(x: f32) -> f32 {
  if (!(abs(x) < 8388608.0)) {
    return x;
  }
  let r = round(x);
  return bitcast<f32>((bitcast<u32>(r) & 0x7fffffffu) | (bitcast<u32>(x) & 0x80000000u));
}
fn op_floor(x: f32) -> f32 {
  let b = bitcast<u32>(x);
  if (!(abs(x) < 8388608.0)) {
    return x;
  }
  if (b > 0x80000000u && b < 0xbf800000u) {
    return -1.0; // a device may treat a denormal as 0
  }
  return bitcast<f32>((bitcast<u32>(floor(x)) & 0x7fffffffu) | (b & 0x80000000u));
}
fn op_ceil(x: f32) -> f32 {
  return op_neg(op_floor(op_neg(x)));
}
fn op_relu(x: f32) -> f32 {
  let b = bitcast<u32>(x);
  return bitcast<f32>(select(b, 0u, b > 0x7fffffffu && !is_nan(x)));
}
fn trig(x: f32) -> vec2<f32> {
  // Cosine and sine: x is reduced by multiples of pi/2 in three parts (Cody and Waite), followed by Taylor series.
  let k = round(x * 0.63661977236758134);
  var r = fma(k, -1.5703125, x);
  r = fma(k, -4.8351287841796875e-4, r);
  r = fma(k, -3.1385571987e-7, r);
  let s = r * r;
  let sine = r * (1.0 + s * (-0.16666666667 + s * (8.3333333333e-3 + s * (-1.9841269841e-4 + s * 2.7557319224e-6))));
  let cosine = 1.0 +
      s * (-0.5 + s * (4.1666666667e-2 + s * (-1.3888888889e-3 + s * (2.4801587302e-5 - s * 2.7557319224e-7))));
  let q = u32(i32(clamp(k, -1.0e9, 1.0e9))) & 3u;
  var v = vec2<f32>(cosine, sine);
  if ((q & 1u) == 1u) {
    v = vec2<f32>(-sine, cosine);
  }
  if (q >= 2u) {
    v = -v;
  }
  if ((bitcast<u32>(x) & 0x7fffffffu) >= 0x7f800000u) {
    v = vec2<f32>(not_a_number());
  }
  return v;
}
fn op_sin(x: f32) -> f32 {
  if (abs(x) < 1.0e-4) {
    return x;
  }
  return trig(x).y;
}
fn op_cos(x: f32) -> f32 {
  return trig(x).x;
}
fn op_tan(x: f32) -> f32 {
  if (abs(x) < 1.0e-4) {
    return x;
  }
  let t = trig(x);
  return t.y / t.x;
}
fn op_atan(x: f32) -> f32 {
  // Three ranges keep the argument of the series below tan(pi/8).
  if (is_nan(x)) {
    return x;
  }
  var a = abs(x);
  var base = 0.0;
  if (a > 2.414213562) {
    base = 1.5707963268;
    a = select(-1.0 / a, 0.0, a > 1.0e30);
  } else if (a > 0.4142135624) {
    base = 0.7853981634;
    a = (a - 1.0) / (a + 1.0);
  }
  let s = a * a;
  let y = base +
      a * (1.0 +
          s * (-0.3333333333 +
              s * (0.2 + s * (-0.1428571429 + s * (0.1111111111 + s * (-0.0909090909 + s * 0.0769230769))))));
  return bitcast<f32>(bitcast<u32>(y) | (bitcast<u32>(x) & 0x80000000u));
}
fn op_max(a: f32, b: f32) -> f32 {
  if (is_nan(a)) {
    return a;
  }
  return select(b, a, order(a) > order(b) && !is_nan(b));
}
fn op_min(a: f32, b: f32) -> f32 {
  if (is_nan(a)) {
    return a;
  }
  return select(b, a, order(a) < order(b) && !is_nan(b));
}
fn op_pow(a: f32, b: f32) -> f32 {
  // A device may take a denormal for 0 in one instruction and not in the next, so signs and zeros are read from the
  // bits.
  let b_size = bitcast<u32>(b) & 0x7fffffffu;
  let a_negative = bitcast<u32>(a) > 0x7fffffffu;
  let b_positive = bitcast<u32>(b) <= 0x7fffffffu;
  let integral = b_size >= 0x00800000u && (abs(b) >= 8388608.0 || floor(b) == b);
  let odd = integral && abs(b) < 16777216.0 && (i32(b) & 1) == 1;
  if (b_size == 0u || bitcast<u32>(a) == 0x3f800000u) {
    return 1.0;
  }
  if (is_nan(a) || is_nan(b)) {
    return not_a_number();
  }
  let m = abs(a);
  let a_zero = (bitcast<u32>(a) & 0x7fffffffu) == 0u;
  if (abs(b) > 3.0e38) {
    if (m == 1.0) {
      return 1.0;
    }
    return select(0.0, infinity(), (m > 1.0) == b_positive);
  }
  if (a_negative && !integral && !a_zero && !is_infinite(a)) {
    return not_a_number();
  }
  var y = 0.0;
  if (a_zero || is_infinite(a)) {
    y = select(0.0, infinity(), a_zero != b_positive);
  } else if (b_size < 0x00800000u) {
    y = 1.0;
  } else if (integral && abs(b) <= 64.0) {
    var n = u32(abs(b));
    var p = m;
    y = 1.0;
    while (n > 0u) {
      if ((n & 1u) == 1u) {
        y = y * p;
      }
      p = p * p;
      n = n >> 1u;
    }
    if (!b_positive) {
      y = 1.0 / y;
    }
  } else {
    y = op_exp(b * op_log(m));
  }
  return select(y, -y, odd && a_negative);
}
fn nan_either(a: f32, b: f32) -> bool {
  return is_nan(a) || is_nan(b);
}
fn op_sign(x: f32) -> f32 {
  let b = bitcast<u32>(x);
  if (is_nan(x) || !not_zero(x)) {
    return x;
  }
  return bitcast<f32>(0x3f800000u | (b & 0x80000000u));
}
fn op_square(x: f32) -> f32 {
  return x * x;
}
fn op_reciprocal(x: f32) -> f32 {
  // Denormals are handled through their bits, because a device may treat them as 0.
  let b = bitcast<u32>(x);
  let m = b & 0x7fffffffu;
  if (m > 0x7f800000u) {
    return x;
  }
  if (m == 0x7f800000u) {
    return bitcast<f32>(b & 0x80000000u);
  }
  if (m <= 0x00200000u) {
    return bitcast<f32>(0x7f800000u | (b & 0x80000000u));
  }
  if (m < 0x00800000u) {
    let y = 0x1p127 / (f32(m) * 0x1p-22);
    return select(y, -y, b > 0x7fffffffu);
  }
  return 1.0 / x;
}
fn op_exp2(x: f32) -> f32 {
  if (is_nan(x)) {
    return x;
  }
  if (x >= 128.0) {
    return infinity();
  }
  return exp2(max(x, -160.0));
}
fn op_expm1(x: f32) -> f32 {
  if (abs(x) < 0.35) {
    return x *
        (1.0 + x *
            (0.5 + x *
                (0.16666666667 +
                    x * (0.041666666667 + x * (0.0083333333333 + x * (0.0013888888889 + x * 0.0001984126984))))));
  }
  return op_exp(x) - 1.0;
}
fn op_log2(x: f32) -> f32 {
  return op_log(x) * 1.4426950408889634;
}
fn op_log1p(x: f32) -> f32 {
  if (abs(x) < 0.4) {
    // 2 atanh(x / (2 + x))
    let t = x / (2.0 + x);
    let s = t * t;
    return 2.0 * t *
        (1.0 + s * (0.33333333333 + s * (0.2 + s * (0.14285714286 + s * (0.11111111111 + s * 0.090909090909)))));
  }
  return op_log(1.0 + x);
}
fn op_mish(x: f32) -> f32 {
  if (is_nan(x)) {
    return x;
  }
  // tanh(ln(1 + e)) = n/(n + 2), n = e*(e + 2); beyond 20 it is 1.
  let e = op_exp(min(x, 20.0));
  let n = e * (e + 2.0);
  return select(x * (n / (n + 2.0)), not_a_number(), bitcast<u32>(x) == 0xff800000u); // -Inf * 0
}
fn op_leaky_relu(x: f32, slope: f32) -> f32 {
  return select(op_product(slope, x), x, above_zero(x));
}
fn op_product(a: f32, b: f32) -> f32 {
  // Infinity times 0 is NaN. It is tested explicitly, because a compiler may simplify the product to 0.
  if (is_nan(a) || is_nan(b) || (is_infinite(a) && !not_zero(b)) || (is_infinite(b) && !not_zero(a))) {
    return not_a_number();
  }
  return a * b;
}
fn op_elu(x: f32, alpha: f32) -> f32 {
  return select(op_product(alpha, op_expm1(x)), x, above_zero(x));
}
fn op_celu(x: f32, alpha: f32) -> f32 {
  return select(op_product(alpha, op_expm1(x / alpha)), x, above_zero(x));
}
fn op_selu(x: f32) -> f32 {
  return 1.0507009873554805 * op_elu(x, 1.6732632423543772);
}
fn op_clamp(x: f32, max: f32, min: f32) -> f32 {
  return op_min(op_max(x, min), max);
}
fn op_hardsigmoid(x: f32, alpha: f32, beta: f32) -> f32 {
  return op_clamp(op_product(alpha, x) + beta, 1.0, 0.0);
}
fn op_hardswish(x: f32) -> f32 {
  return op_product(x, op_clamp(x * 0.16666666667 + 0.5, 1.0, 0.0));
}
fn op_softplus(x: f32, beta: f32, threshold: f32) -> f32 {
  let t = beta * x;
  if (is_nan(x) || (t > threshold && !is_nan(threshold))) {
    return x;
  }
  return (max(t, 0.0) + op_log1p(op_exp(-abs(t)))) / beta;
}
fn op_remainder(a: f32, b: f32) -> f32 {
  // Exact, by long division of the mantissas.
  if (is_nan(a) || is_nan(b) || is_infinite(a) || !not_zero(b)) {
    return not_a_number();
  }
  let sign = bitcast<u32>(a) & 0x80000000u;
  let ma = bitcast<u32>(a) & 0x7fffffffu;
  let mb = bitcast<u32>(b) & 0x7fffffffu;
  if (ma < mb) {
    return a;
  }
  var e = max(ma >> 23u, 1u); // exponent of the remainder
  let eb = max(mb >> 23u, 1u);
  var r = (ma & 0x7fffffu) | select(0u, 0x800000u, ma > 0x7fffffu);
  let d = (mb & 0x7fffffu) | select(0u, 0x800000u, mb > 0x7fffffu);
  if (d == 0u) {
    return not_a_number();
  }
  r = r % d;
  loop {
    if (e == eb || r == 0u) {
      break;
    }
    let k = min(e - eb, countLeadingZeros(r)); // r < d < 2^24, so at least 8
    r = (r << k) % d;
    e = e - k;
  }
  if (r == 0u) {
    return bitcast<f32>(sign);
  }
  // r * 2^(eb - 150)
  let up = min(countLeadingZeros(r) - 8u, eb - 1u);
  r = r << up;
  let exponent = eb - up;
  return bitcast<f32>(sign | select(r, (r & 0x7fffffu) | (exponent << 23u), r > 0x7fffffu));
}
fn op_mod(a: f32, b: f32) -> f32 {
  let r = op_remainder(a, b);
  if (is_nan(r) || !not_zero(r) || (bitcast<u32>(r) ^ bitcast<u32>(b)) < 0x80000000u) {
    return r;
  }
  return r + b;
}
// The bytes of a word, lowest first.
fn bytes(q: u32) -> vec4<f32> {
  return vec4<f32>(f32(q & 255u), f32((q >> 8u) & 255u), f32((q >> 16u) & 255u), f32(q >> 24u));
}
fn signed_bytes(q: u32) -> vec4<f32> {
  let s = bitcast<i32>(q);
  return vec4<f32>(f32((s << 24u) >> 24u), f32((s << 16u) >> 24u), f32((s << 8u) >> 24u), f32(s >> 24u));
}
// fifth_bits moves each of four bits to bit 4 of one byte of a word.
fn fifth_bits(x: u32) -> u32 {
  return ((x & 1u) << 4u) | ((x & 2u) << 11u) | ((x & 4u) << 18u) | ((x & 8u) << 25u);
}
fn looked_up(q: u32, table: vec4<u32>) -> vec4<f32> {
  // The low half of each byte selects one of 16 signed values.
  let n = vec4<u32>(q, q >> 8u, q >> 16u, q >> 24u);
  let odd = (n & vec4<u32>(4u)) != vec4<u32>(0u);
  let low = select(vec4<u32>(table.x), vec4<u32>(table.y), odd);
  let high = select(vec4<u32>(table.z), vec4<u32>(table.w), odd);
  let four = select(low, high, (n & vec4<u32>(8u)) != vec4<u32>(0u));
  return vec4<f32>(bitcast<vec4<i32>>(four << ((vec4<u32>(3u) - (n & vec4<u32>(3u))) * 8u)) >> vec4<u32>(24u));
}
