fn value(i: u32) -> u32 {
  let row = i / (P.count * P.inner) * P.inner + i % P.inner;
  let d = x0(i) - statistics(2u * row);
  return y_encode({{if .C.Log}}d - op_log(statistics(2u * row + 1u)){{else}}op_exp(d) /
      statistics(2u * row + 1u){{end}});
}
