// Each element takes the statistics of its row by itself. For rows of 16-bit elements that do not begin at a 32-bit word: two
// of them share a word, and a word must be written by one invocation.
fn row(i: u32) -> f32 {
  return x0(i){{if .C.Residual}} + x1(i){{end}};
}

fn value(i: u32) -> u32 {
  let k = i % {{.C.Width}}u;
  let base = i - k;
  var mean = 0.0;
{{- if .C.Center}}
  for (var j = 0u; j < {{.C.Width}}u; j = j + 1u) {
    mean = mean + row(base + j);
  }
  mean = mean / P.count;
{{- end}}
  var squares = 0.0;
  for (var j = 0u; j < {{.C.Width}}u; j = j + 1u) {
    let d = row(base + j) - mean;
    squares = squares + d * d;
  }
  let scale = 1.0 / sqrt(squares / P.count + P.eps);
  return y_encode((row(i) - mean) * scale * {{.C.Gamma}}(k) + {{.C.Beta}}(k));
}
