{{define "scatter"}}
fn value(i: u32) -> u32 {
  let row = i / P.inner;
  let col = i % P.inner;
  let begins = {{if .C.Begins}}P.count{{else}}0u{{end}};
  var p = 0u;
  var end = P.count;
  while (p < end) {
    let k = (p + end) / 2u;
    if (pairs(2u * (begins + k)) {{if .C.Last}}<={{else}}<{{end}} row) {
      p = k + 1u;
    } else {
      end = k;
    }
  }
{{- if .C.Last}}
  // p is the end of the row's indices
  if (p == 0u || pairs(2u * (begins + max(p, 1u) - 1u)) != row) {
    return x0_bits(i);
  }
  return x2_bits(pairs(2u * (begins + p - 1u) + 1u) * P.inner + col);
{{- else}}
  if (p == P.count || pairs(2u * (begins + p)) != row) {
    return x0_bits(i);
  }
  var v = x0(i);
  for (; p < P.count && pairs(2u * (begins + p)) == row; p = p + 1u) {
    let u = x2(pairs(2u * (begins + p) + 1u) * P.inner + col);
    v = {{.C.Combine}};
  }
  return y_encode(v);
{{- end}}
}
{{end}}
