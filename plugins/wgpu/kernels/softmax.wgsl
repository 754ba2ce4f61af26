var<workgroup> partial: array<f32, {{mul .C.Rows .C.Lanes}}>;

// across folds v over the lanes of a row: the largest, or the sum.
fn across(r: u32, lane: u32, v: f32, largest: bool) -> f32 {
  partial[lane * {{.C.Rows}}u + r] = v;
  for (var s = {{div .C.Lanes 2}}u; s > 0u; s = s / 2u) {
    workgroupBarrier();
    if (lane < s) {
      let a = partial[lane * {{.C.Rows}}u + r];
      let b = partial[(lane + s) * {{.C.Rows}}u + r];
      partial[lane * {{.C.Rows}}u + r] = select(a + b, op_max(a, b), largest);
    }
  }
  workgroupBarrier();
  let t = partial[r];
  workgroupBarrier();
  return t;
}
{{template "place" .}}
  var most = -infinity();
  for (var k = lane; k < P.n; k = k + {{.C.Lanes}}u) {
    most = op_max(most, x0(base + k * step));
  }
  most = across(r, lane, most, true);
  var sum = 0.0;
  for (var k = lane; k < P.n; k = k + {{.C.Lanes}}u) {
    sum = sum + op_exp(x0(base + k * step) - most);
  }
  sum = across(r, lane, sum, false);
  if (first + r >= P.rows) {
    return;
  }
{{- if .C.Statistics}}
  if (lane == 0u) {
    statistics_put(2u * (first + r), statistics_encode(most));
    statistics_put(2u * (first + r) + 1u, statistics_encode(sum));
  }
{{- else}}
  for (var k = lane; k < P.n; k = k + {{.C.Lanes}}u) {
    y_put(base + k * step, y_encode(op_exp(x0(base + k * step) - most) / sum));
  }
{{- end}}
}
