// For any shape and element type: each element of the result is one sum over K.
fn value(i: u32) -> u32 {
  let n = i % P.n_size;
  let m = (i / P.n_size) % P.m_size;
  var rest = i / (P.n_size * P.m_size);
  var a = m * P.a_m;
  var b = n * P.b_n;
  for (var d = 7i; d >= 0i && rest > 0u; d = d - 1i) {
    let k = rest % P.batch[d];
    a = a + k * P.a_batch[d];
    b = b + k * P.b_batch[d];
    rest = rest / P.batch[d];
  }
  var acc = 0.0;
  for (var k = 0u; k < P.k_size; k = k + 1u) {
    acc = fma(x0(a), x1(b), acc);
    a = a + P.a_k;
    b = b + P.b_k;
  }
{{- if ge .C.Bias 0}}
  acc = acc + x{{.C.Bias}}(n);
{{- end}}
{{- if .C.Act}}
  acc = {{scalar .C.Act "acc"}};
{{- end}}
{{- if ge .C.Residual 0}}
  acc = acc + x{{.C.Residual}}(i);
{{- end}}
  return y_encode(acc);
}
