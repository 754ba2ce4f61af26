// Each element goes over its row by itself: for results of 16 bits, two of which share a word.
fn value(i: u32) -> u32 {
  let row = i / (P.count * P.inner) * P.count * P.inner + i % P.inner;
  var most = -infinity();
  for (var k = 0u; k < P.count; k = k + 1u) {
    most = op_max(most, x0(row + k * P.inner));
  }
  var sum = 0.0;
  for (var k = 0u; k < P.count; k = k + 1u) {
    sum = sum + op_exp(x0(row + k * P.inner) - most);
  }
  return y_encode(op_exp(x0(i) - most) / sum);
}
