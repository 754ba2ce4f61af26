fn value(i: u32) -> u32 {
  let k = i % {{.C.Width}}u;
  let row = i / {{.C.Width}}u;
  let x = x0(i){{if .C.Residual}} + x1(i){{end}};
  return y_encode((x - statistics(2u * row)) * statistics(2u * row + 1u) * {{.C.Gamma}}(k) + {{.C.Beta}}(k));
}
