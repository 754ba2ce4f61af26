fn value(i: u32) -> u32 {
  let row = i / (P.count * P.inner) * P.inner + i % P.inner;
  return y_encode(op_exp(x0(i) - statistics(2u * row)) / statistics(2u * row + 1u));
}
