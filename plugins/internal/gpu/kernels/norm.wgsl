// A workgroup normalises {{.C.Rows}} rows with {{.C.Lanes}} invocations each. If a row divides among them, it is read
// once and stays in registers. Statistics take two passes: the variance is the mean of squared deviations, never
// E[x^2] - mean^2, which loses precision. The mean is rounded, which matters where it is much larger than the
// deviations. Their own mean is what rounding has taken away.
{{- template "across" .}}

fn row(i: u32) -> {{.C.T}} {
  return x{{.C.V}}(i){{if .C.Residual}} + r{{.C.V}}(i){{end}};
}

{{- if .C.Sum}}

fn put_sum(i: u32, v: {{.C.T}}) {
  {{if .C.V}}s4_put(i, v){{else}}s_put(i, bitcast<u32>(v)){{end}};
}
{{- end}}
{{- if not .C.Statistics}}

fn put(base: u32, k: u32, d: {{.C.T}}) {
  let v = d * gamma{{.C.V}}(k) + beta{{.C.V}}(k);
{{- if not .C.Only}}
  {{if .C.V}}y4_put(base + k, v){{else}}y_put(base + k, bitcast<u32>(v)){{end}};
{{- end}}
{{- if .C.Rounded}}
  z4_put(base + k, v);
{{- end}}
}
{{- end}}

@compute @workgroup_size({{mul .C.Rows .C.Lanes}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let lane = local % {{.C.Lanes}}u;
  let index = (group.y * groups.x + group.x) * {{.C.Rows}}u + local / {{.C.Lanes}}u;
  let live = index < P.rows;
  // an invocation without a row repeats row 0, because all must reach the barriers
  let base = select(0u, index, live) * {{.C.Units}}u;
  var acc = {{.C.T}}(0.0);
  var mean = {{.C.T}}(0.0);
{{- if .C.Center}}
  var rest = {{.C.T}}(0.0);
{{- end}}
{{- if .C.Kept}}
{{- range seq .C.Kept}}
  let x{{.}} = row(base + lane + {{mul . $.C.Lanes}}u);
{{- end}}
{{- if .C.Sum}}
  if (live) {
{{- range seq .C.Kept}}
    put_sum(base + lane + {{mul . $.C.Lanes}}u, x{{.}});
{{- end}}
  }
{{- end}}
{{- if .C.Center}}
{{- range seq .C.Kept}}
  acc = acc + x{{.}};
{{- end}}
  mean = {{.C.T}}(across(local, acc) / P.count);
  acc = {{.C.T}}(0.0);
{{- end}}
{{- range seq .C.Kept}}
  let d{{.}} = x{{.}} - mean;
  acc = acc + d{{.}} * d{{.}};
{{- if $.C.Center}}
  rest = rest + d{{.}};
{{- end}}
{{- end}}
{{- else}}
{{- if .C.Center}}
  for (var k = lane; k < {{.C.Units}}u; k = k + {{.C.Lanes}}u) {
    acc = acc + row(base + k);
  }
  mean = {{.C.T}}(across(local, acc) / P.count);
  acc = {{.C.T}}(0.0);
{{- end}}
  for (var k = lane; k < {{.C.Units}}u; k = k + {{.C.Lanes}}u) {
    let x = row(base + k);
    let d = x - mean;
    acc = acc + d * d;
{{- if .C.Center}}
    rest = rest + d;
{{- end}}
  }
{{- end}}
{{- if .C.Center}}
  let shift = across(local, rest) / P.count;
  let scale = 1.0 / sqrt(max(across(local, acc) / P.count - shift * shift, 0.0) + P.eps);
{{- else}}
  let scale = 1.0 / sqrt(across(local, acc) / P.count + P.eps);
{{- end}}
  if (!live) {
    return;
  }
{{- if .C.Statistics}}
  if (lane == 0u) {
    statistics_put(2u * index, statistics_encode(mean{{if .C.Center}} + shift{{end}}));
    statistics_put(2u * index + 1u, statistics_encode(scale));
  }
{{- else}}
{{- if .C.Kept}}
{{- range seq .C.Kept}}
  put(base, lane + {{mul . $.C.Lanes}}u, (d{{.}}{{if $.C.Center}} - shift{{end}}) * scale);
{{- end}}
{{- else}}
  for (var k = lane; k < {{.C.Units}}u; k = k + {{.C.Lanes}}u) {
    let x = row(base + k);
{{- if .C.Sum}}
    put_sum(base + k, x); // not before, since it may overwrite an operand
{{- end}}
    put(base, k, (x - mean{{if .C.Center}} - shift{{end}}) * scale);
  }
{{- end}}
{{- end}}
}
