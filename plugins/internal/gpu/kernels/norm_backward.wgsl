{{define "rows"}}
// A workgroup computes dx of {{.C.Rows}} rows with {{.C.Lanes}} invocations each. Short rows are read once and stay in
// registers. The mean is rounded; the mean of the deviations is what rounding has taken away.
{{- template "across" .}}

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
  var shift = 0.0;
{{- if .C.Kept}}
{{- range seq .C.Kept}}
  let k{{.}} = lane + {{mul . $.C.Lanes}}u;
{{- if $.C.Full}}
  let x{{.}} = x{{$.C.V}}(base + k{{.}});
  let g{{.}} = dy{{$.C.V}}(base + k{{.}}) * gamma{{$.C.V}}(k{{.}});
{{- else}}
  let in{{.}} = k{{.}} < {{$.C.Units}}u;
  let at{{.}} = min(k{{.}}, {{sub $.C.Units 1}}u);
  let x{{.}} = select({{$.C.T}}(0.0), x{{$.C.V}}(base + at{{.}}), in{{.}});
  let g{{.}} = select({{$.C.T}}(0.0), dy{{$.C.V}}(base + at{{.}}) * gamma{{$.C.V}}(at{{.}}), in{{.}});
{{- end}}
{{- end}}
{{- if .C.Center}}
{{- range seq .C.Kept}}
  acc = acc + x{{.}};
{{- end}}
  mean = {{.C.T}}(across(local, acc) / P.count);
  acc = {{.C.T}}(0.0);
{{- end}}
{{- range seq .C.Kept}}
  var d{{.}} = {{if $.C.Full}}x{{.}} - mean{{else}}select({{$.C.T}}(0.0), x{{.}} - mean, in{{.}}){{end}};
{{- if $.C.Center}}
  acc = acc + d{{.}};
{{- end}}
{{- end}}
{{- if .C.Center}}
  shift = across(local, acc) / P.count;
  acc = {{.C.T}}(0.0);
{{- range seq .C.Kept}}
  d{{.}} = {{if $.C.Full}}d{{.}} - shift{{else}}select({{$.C.T}}(0.0), d{{.}} - shift, in{{.}}){{end}};
{{- end}}
{{- end}}
{{- range seq .C.Kept}}
  acc = acc + d{{.}} * d{{.}};
{{- end}}
  let scale = 1.0 / sqrt(across(local, acc) / P.count + P.eps);
  acc = {{.C.T}}(0.0);
{{- range seq .C.Kept}}
  acc = acc + g{{.}} * (d{{.}} * scale);
{{- end}}
  let slope = across(local, acc) / P.count;
  var level = 0.0;
{{- if .C.Center}}
  acc = {{.C.T}}(0.0);
{{- range seq .C.Kept}}
  acc = acc + g{{.}};
{{- end}}
  level = across(local, acc) / P.count;
{{- end}}
{{- else}}
{{- if .C.Center}}
  for (var k = lane; k < {{.C.Units}}u; k = k + {{.C.Lanes}}u) {
    acc = acc + x{{.C.V}}(base + k);
  }
  mean = {{.C.T}}(across(local, acc) / P.count);
  acc = {{.C.T}}(0.0);
  for (var k = lane; k < {{.C.Units}}u; k = k + {{.C.Lanes}}u) {
    acc = acc + (x{{.C.V}}(base + k) - mean);
  }
  shift = across(local, acc) / P.count;
  acc = {{.C.T}}(0.0);
{{- end}}
  for (var k = lane; k < {{.C.Units}}u; k = k + {{.C.Lanes}}u) {
    let d = x{{.C.V}}(base + k) - mean - shift;
    acc = acc + d * d;
  }
  let scale = 1.0 / sqrt(across(local, acc) / P.count + P.eps);
  acc = {{.C.T}}(0.0);
  var sum = {{.C.T}}(0.0);
  for (var k = lane; k < {{.C.Units}}u; k = k + {{.C.Lanes}}u) {
    let g = dy{{.C.V}}(base + k) * gamma{{.C.V}}(k);
    acc = acc + g * ((x{{.C.V}}(base + k) - mean - shift) * scale);
    sum = sum + g;
  }
  let slope = across(local, acc) / P.count;
  let level = {{if .C.Center}}across(local, sum) / P.count{{else}}0.0{{end}};
{{- end}}
  if (!live) {
    return;
  }
{{- if .C.Kept}}
{{- range seq .C.Kept}}
{{- if not $.C.Full}}
  if (in{{.}}) {
{{- end}}
  let y{{.}} = scale * (g{{.}} - level - d{{.}} * scale * slope);
  {{if $.C.V}}dx4_put(base + k{{.}}, y{{.}}){{else}}dx_put(base + k{{.}}, dx_encode(y{{.}})){{end}};
{{- if not $.C.Full}}
  }
{{- end}}
{{- end}}
{{- else}}
  for (var k = lane; k < {{.C.Units}}u; k = k + {{.C.Lanes}}u) {
    let g = dy{{.C.V}}(base + k) * gamma{{.C.V}}(k);
    let y = scale * (g - level - (x{{.C.V}}(base + k) - mean - shift) * scale * slope);
    {{if .C.V}}dx4_put(base + k, y){{else}}dx_put(base + k, dx_encode(y)){{end}};
  }
{{- end}}
  if (lane == 0u) {
    statistics_put(2u * index, statistics_encode({{if .C.V}}mean.x{{else}}mean{{end}} + shift));
    statistics_put(2u * index + 1u, statistics_encode(scale));
  }
}
{{end}}

{{define "sums"}}
var<workgroup> partial: array<vec2<f32>, {{mul .C.Columns .C.Lanes}}>;

// A workgroup sums dy*xhat and dy over a range of rows for {{.C.Columns}} columns, with {{.C.Lanes}} invocations each.
@compute @workgroup_size({{mul .C.Columns .C.Lanes}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let index = group.y * groups.x + group.x;
  let part = index % P.parts;
  let column = index / P.parts * {{.C.Columns}}u + local % {{.C.Columns}}u;
  let lane = local / {{.C.Columns}}u;
  var s = vec2<f32>(0.0);
  if (column < P.width) {
    let end = min((part + 1u) * P.span, P.rows);
    for (var r = part * P.span + lane; r < end; r = r + {{.C.Lanes}}u) {
      let g = dy(r * P.width + column);
      let d = x(r * P.width + column) - statistics(2u * r);
      s = s + vec2<f32>(g * (d * statistics(2u * r + 1u)), g);
    }
  }
  partial[local] = s;
  workgroupBarrier();
  if (lane == 0u && column < P.width) {
{{- range seq (sub .C.Lanes 1)}}
    s = s + partial[local + {{mul (add . 1) $.C.Columns}}u];
{{- end}}
    let at = 2u * (P.rows + part * P.width + column);
    statistics_put(at, statistics_encode(s.x));
    statistics_put(at + 1u, statistics_encode(s.y));
  }
}
{{end}}

{{define "total"}}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let column = (group.y * groups.x + group.x) * 64u + local;
  if (column >= P.width) {
    return;
  }
  var s = vec2<f32>(0.0);
  if (P.rows > 0u) {
    for (var part = 0u; part < P.parts; part = part + 1u) {
      let at = 2u * (P.rows + part * P.width + column);
      s = s + vec2<f32>(statistics(at), statistics(at + 1u));
    }
  }
  dgamma_put(column, dgamma_encode(s.x));
  dbeta_put(column, dbeta_encode(s.y));
}
{{end}}
