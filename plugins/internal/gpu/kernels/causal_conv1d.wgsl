{{define "token"}}
// Channel c of token i of the pad followed by x.
fn token(b: u32, i: u32, c: u32) -> f32 {
  if (i >= {{sub .C.K 1}}u) {
    return x0((b * P.tokens + i - {{sub .C.K 1}}u) * P.channels + c);
  }
{{- if .C.Pad}}
  return x3((b * {{sub .C.K 1}}u + i) * P.channels + c);
{{- else}}
  return 0.0;
{{- end}}
}
{{end}}

{{define "values"}}
{{template "token" .}}
fn value(e: u32) -> u32 {
  let c = e % P.channels;
  let t = e / P.channels % P.tokens;
  let b = e / (P.channels * P.tokens);
{{- if .C.Bias}}
  var sum = x2(c);
{{- else}}
  var sum = 0.0;
{{- end}}
  for (var i = 0u; i < {{.C.K}}u; i = i + 1u) {
    sum = sum + token(b, t + i, c) * x1(c * {{.C.K}}u + i);
  }
{{- if .C.Silu}}
  sum = op_silu(sum);
{{- end}}
  return y_encode(sum);
}
{{end}}

{{define "next"}}
{{template "token" .}}
@compute @workgroup_size({{.C.Group}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let e = (group.y * groups.x + group.x) * {{.C.Group}}u + local;
  if (e >= P.n) {
    return;
  }
  let c = e % P.channels;
  let i = e / P.channels % {{sub .C.K 1}}u;
  let b = e / (P.channels * {{sub .C.K 1}}u);
  z_put(e, z_encode(token(b, P.tokens + i, c)));
}
{{end}}
