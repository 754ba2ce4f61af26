var<workgroup> partial: array<f32, {{mul .C.Rows .C.Lanes}}>;

// across combines v over the lanes of a row: the maximum if largest is set, else the sum.
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

{{- if .C.Statistics}}

// put writes the largest element and the sum of exponentials of row i.
fn put(i: u32, most: f32, sum: f32) {
  statistics_put(2u * i, statistics_encode(most));
  statistics_put(2u * i + 1u, statistics_encode(sum));
}
{{- end}}

{{- if .C.Combine}}

// The index of the statistics of part k of a row. They follow those of all rows.
fn at(row: u32, k: u32) -> u32 {
  return 2u * (P.rows + row * P.n + k);
}
{{- end}}
{{template "place" .}}
  // Unrolled so that four reads are in flight.
  var most = -infinity();
  var k = start + lane;
  for (; k + {{mul 3 .C.Lanes}}u < end; k = k + {{mul 4 .C.Lanes}}u) {
{{- range seq 4}}
    let v{{.}} = {{if $.C.Combine}}statistics(at(row, k + {{mul . $.C.Lanes}}u)){{else}}x0(base +
        (k + {{mul . $.C.Lanes}}u) * step){{end}};
{{- end}}
    most = op_max(most, op_max(op_max(v0, v1), op_max(v2, v3)));
  }
  for (; k < end; k = k + {{.C.Lanes}}u) {
    most = op_max(most, {{if .C.Combine}}statistics(at(row, k)){{else}}x0(base + k * step){{end}});
  }
  most = across(r, lane, most, true);
{{- if .C.Split}}
  let lowest = -infinity();
  let origin = select(most, 0.0, order(most) == order(lowest)); // a part with only -Inf must add nothing to its row
{{- else}}
  let origin = most;
{{- end}}
  var sum = 0.0;
  k = start + lane;
{{- if not .C.Combine}}
  for (; k + {{mul 3 .C.Lanes}}u < end; k = k + {{mul 4 .C.Lanes}}u) {
{{- range seq 4}}
    let v{{.}} = x0(base + (k + {{mul . $.C.Lanes}}u) * step);
{{- end}}
    sum = sum + ((op_exp(v0 - origin) + op_exp(v1 - origin)) + (op_exp(v2 - origin) + op_exp(v3 - origin)));
  }
{{- end}}
  for (; k < end; k = k + {{.C.Lanes}}u) {
    sum = sum + {{if .C.Combine}}statistics(at(row, k) + 1u) *
        op_exp(statistics(at(row, k)) - origin){{else}}op_exp(x0(base + k * step) - origin){{end}};
  }
  sum = across(r, lane, sum, false);
  if (first + r >= P.rows) {
    return;
  }
{{- if .C.Statistics}}
  if (lane == 0u) {
    put({{if .C.Split}}P.rows + row * P.parts + part{{else}}row{{end}}, most, sum);
  }
{{- else}}
{{- if .C.Log}}
  let log_sum = op_log(sum);
{{- end}}
  k = lane;
  for (; k + {{mul 3 .C.Lanes}}u < P.n; k = k + {{mul 4 .C.Lanes}}u) {
{{- range seq 4}}
    let v{{.}} = x0(base + (k + {{mul . $.C.Lanes}}u) * step) - most;
{{- end}}
{{- range seq 4}}
    y_put(base + (k + {{mul . $.C.Lanes}}u) * step,
        y_encode({{if $.C.Log}}v{{.}} - log_sum{{else}}op_exp(v{{.}}) / sum{{end}}));
{{- end}}
  }
  for (; k < P.n; k = k + {{.C.Lanes}}u) {
    let d = x0(base + k * step) - most;
    y_put(base + k * step, y_encode({{if .C.Log}}d - log_sum{{else}}op_exp(d) / sum{{end}}));
  }
{{- end}}
}
