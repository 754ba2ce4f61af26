{{define "sums"}}
var<workgroup> partial: array<vec4<f32>, {{mul .C.Rows .C.Lanes}}>;
{{template "place" .}}
  let g = row / P.per; // a row is a channel of a batch element
  let mean = statistics(2u * g);
  let scale = statistics(2u * g + 1u);
  let weight = gamma(row % P.channels); // an infinite one makes terms of both signs, whose sum is NaN
  var s = vec4<f32>(0.0);
  for (var k = start + lane; k < end; k = k + {{.C.Lanes}}u) {
    let d = dy(base + k);
    let g = d * weight;
    let xhat = (x(base + k) - mean) * scale;
    s = s + vec4<f32>(d * xhat, d, g * xhat, g);
  }
  let mine = lane * {{.C.Rows}}u + r;
  partial[mine] = s;
  for (var half = {{div .C.Lanes 2}}u; half > 0u; half = half / 2u) {
    workgroupBarrier();
    if (lane < half) {
      partial[mine] = partial[mine] + partial[mine + half * {{.C.Rows}}u];
    }
  }
  if (lane == 0u && first + r < P.rows) {
{{- range $k := seq 4}}
    statistics_put(2u * P.sums + 4u * row + {{$k}}u, statistics_encode(partial[mine][{{$k}}]));
{{- end}}
  }
}
{{end}}

{{define "means"}}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * 64u + local;
  if (i >= P.n) {
    return;
  }
  var s = vec2<f32>(0.0);
  for (var k = 0u; k < P.per; k = k + 1u) {
    let at = 2u * P.sums + 4u * (i * P.per + k);
    s = s + vec2<f32>(statistics(at + 2u), statistics(at + 3u));
  }
  s = s / (f32(P.per) * f32(P.area));
  statistics_put(2u * (P.means + i), statistics_encode(s.x));
  statistics_put(2u * (P.means + i) + 1u, statistics_encode(s.y));
}
{{end}}

{{define "values"}}
fn value(i: u32) -> u32 {
  let row = i / P.area;
  let g = row / P.per;
  let scale = statistics(2u * g + 1u);
  let xhat = (x0(i) - statistics(2u * g)) * scale;
  let at = 2u * (P.means + g);
  return y_encode(scale * (x2(i) * x1(row % P.channels) - statistics(at + 1u) - xhat * statistics(at)));
}
{{end}}

{{define "totals"}}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let c = (group.y * groups.x + group.x) * 64u + local;
  if (c >= P.n) {
    return;
  }
  var s = vec2<f32>(0.0);
  for (var b = 0u; b < P.batch; b = b + 1u) {
    let at = 2u * P.sums + 4u * (b * P.channels + c);
    s = s + vec2<f32>(statistics(at), statistics(at + 1u));
  }
  dgamma_put(c, dgamma_encode(s.x));
  dbeta_put(c, dbeta_encode(s.y));
}
{{end}}
