{{define "cross_entropy_statistics"}}
{{- template "across" .}}
{{- template "unit" .}}
{{- template "origin" .}}
{{- template "place" .}}
  let target_class = u32(label(row));
  if (target_class >= P.n * {{.C.Per}}u) {
    status_put(0u, 1u);
  }
  var key = largest_key(-infinity());
  var sum = 0.0;
{{- template "read" .}}
{{- range seq 8}}
    var e{{.}} = exponential(x{{.}} - origin(key));
{{- if $.C.Four}}
    e{{.}} = select(e{{.}}, vec4<f32>(0.0), vec4<u32>(k{{.}} * 4u) + vec4<u32>(0u, 1u, 2u, 3u) ==
        vec4<u32>(target_class));
{{- else}}
    e{{.}} = select(e{{.}}, 0.0, k{{.}} == target_class);
{{- end}}
    sum = sum + select(0.0, total(e{{.}}), k{{.}} < end);
{{- end}}
  }
{{- template "store" .}}
{{end}}

{{define "cross_entropy_loss"}}
{{- template "unit" .}}
fn value(row: u32) -> u32 {
  let t = x0(row * P.classes + min(u32(label(row)), P.classes - 1u));
  var key = largest_key(-infinity());
  for (var p = 0u; p < P.parts; p = p + 1u) {
    key = max(key, bitcast<i32>(statistics(2u * (row * P.parts + p))));
  }
  let most = from_key(key);
  var others = 0.0;
  for (var p = 0u; p < P.parts; p = p + 1u) {
    let i = 2u * (row * P.parts + p);
    others = others + less(bitcast<f32>(statistics(i + 1u)), from_key(bitcast<i32>(statistics(i))), most);
  }
  if (t == most && is_finite(t)) {
    return y_encode(op_log1p(others)); // small losses would vanish beside 1
  }
  return y_encode((most - t) + op_log(others + exponential_of(t - most)));
}
{{end}}

{{define "cross_entropy_gradient"}}
{{- template "across" .}}
{{- template "unit" .}}
{{- template "piece" .}}
  let others = across_sum(local, sum);
  let t = min(u32(label(row)), P.n * {{.C.Per}}u - 1u);
{{- if .C.Four}}
  let four = x4(row * P.n + t / 4u);
  let of_label = exponential_of(four[t % 4u] - most);
{{- else}}
  let of_label = exponential_of(x(row * P.n + t) - most);
{{- end}}
  let all = others + of_label;
  let d = dloss(row);
{{- range seq .C.Each}}
  if (k{{.}} < P.n) {
    var e = exponential(x{{.}} - most);
{{- if $.C.Four}}
    // the probability less 1 would cancel
    e = select(e, vec4<f32>(-others), vec4<u32>(k{{.}} * 4u) + vec4<u32>(0u, 1u, 2u, 3u) == vec4<u32>(t));
    y4_put(row * P.n + k{{.}}, e / all * d);
{{- else}}
    e = select(e, -others, k{{.}} == t);
    y_put(row * P.n + k{{.}}, y_encode(e / all * d));
{{- end}}
  }
{{- end}}
}
{{end}}
