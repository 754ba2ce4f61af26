// Partial sums of a channel's lanes for the results of {{.C.Tokens}} tokens.
var<workgroup> sums: array<f32, {{mul .C.Tokens (mul .C.Columns .C.Lanes)}}>;

// A workgroup computes {{.C.Columns}} channels. Register i of a lane has row i*{{.C.Lanes}}+lane of a channel's state.
@compute @workgroup_size({{mul .C.Columns .C.Lanes}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let strips = (P.channels + {{sub .C.Columns 1}}u) / {{.C.Columns}}u;
  let g = group.y * groups.x + group.x;
  let batch = g / strips;
  if (batch >= P.batch) {
    return;
  }
  let column = local % {{.C.Columns}}u;
  let lane = local / {{.C.Columns}}u;
  let c = (g % strips) * {{.C.Columns}}u + column;
  let inside = c < P.channels;
  let at_c = min(c, P.channels - 1u);
{{- range $i := seq .C.Rows}}
  let row{{$i}} = {{mul $i $.C.Lanes}}u + lane;
  let in{{$i}} = row{{$i}} < P.rows;
  var s{{$i}} = 0.0;
  var a{{$i}} = 0.0;
  if (in{{$i}}) {
    a{{$i}} = x2(at_c * P.rows + row{{$i}});
{{- if $.C.State}}
    s{{$i}} = x5((batch * P.channels + at_c) * P.rows + row{{$i}});
{{- end}}
  }
{{- end}}
  for (var first = 0u; first < P.tokens; first = first + {{.C.Tokens}}u) {
    let many = min({{.C.Tokens}}u, P.tokens - first);
    for (var t = 0u; t < many; t = t + 1u) {
      let token = batch * P.tokens + first + t;
      let delta = x1(token * P.channels + at_c);
      let dx = delta * x0(token * P.channels + at_c);
      var sum = 0.0;
{{- range $i := seq .C.Rows}}
      if (in{{$i}}) {
        s{{$i}} = op_exp(delta * a{{$i}}) * s{{$i}} + dx * x3(token * P.rows + row{{$i}});
        sum = sum + s{{$i}} * x4(token * P.rows + row{{$i}});
      }
{{- end}}
      sums[t * {{mul .C.Columns .C.Lanes}}u + local] = sum;
    }
    workgroupBarrier();
    // The lanes of a channel combine the sums of different tokens.
    for (var t = lane; t < many; t = t + {{.C.Lanes}}u) {
      var sum = 0.0;
      for (var l = 0u; l < {{.C.Lanes}}u; l = l + 1u) {
        sum = sum + sums[t * {{mul .C.Columns .C.Lanes}}u + l * {{.C.Columns}}u + column];
      }
      if (inside) {
        y_put((batch * P.tokens + first + t) * P.channels + c, y_encode(sum));
      }
    }
    workgroupBarrier();
  }
{{- range $i := seq .C.Rows}}
  if (in{{$i}} && inside) {
    z_put((batch * P.channels + c) * P.rows + row{{$i}}, z_encode(s{{$i}}));
  }
{{- end}}
}
