// The result of a row from those of its splits: o, then the reference of the weights and their sum.
fn value(i: u32) -> u32 {
  let d = i % P.dim;
{{- if eq .C.Layout "bhsd"}}
  let row = i / P.dim;
{{- else}}
  let h = (i / P.dim) % P.heads;
  let q = (i / (P.dim * P.heads)) % P.sq;
  let row = (i / (P.dim * P.heads * P.sq) * P.heads + h) * P.sq + q;
{{- end}}
  let step = P.dim + 2u;
  let first = row * P.splits * step;
  var most = part(first + P.dim);
  for (var s = 1u; s < P.splits; s = s + 1u) {
    most = max(most, part(first + s * step + P.dim));
  }
  var sum = 0.0;
  var acc = 0.0;
  for (var s = 0u; s < P.splits; s = s + 1u) {
    let at = first + s * step;
    let lower = part(at + P.dim) - most;
    if (!(lower < -1075.0)) { // as in attention.wgsl where the reference changes
      let keep = max(exp2(lower), 1.2e-38);
      sum = sum + part(at + P.dim + 1u) * keep;
      acc = acc + part(at + d) * keep;
    }
  }
  return bitcast<u32>(select(acc / sum, 0.0, sum == 0.0));
}
