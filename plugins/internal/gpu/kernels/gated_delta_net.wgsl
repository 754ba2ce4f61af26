const group_size = {{mul .C.Columns .C.Lanes}}u;
// Partial sums of the lanes of a column, alternating between the current token and the previous one.
var<workgroup> keyed: array<f32, {{mul 2 (mul .C.Columns .C.Lanes)}}>;
var<workgroup> queried: array<f32, {{mul 2 (mul .C.Columns .C.Lanes)}}>;

fn key_of(t: u32, head: u32) -> u32 {
  let h = head % P.of_batch;
  return ((head / P.of_batch * P.tokens + t) * P.groups + h * P.groups / P.of_batch) * P.rows;
}

// A workgroup computes {{.C.Columns}} columns of a head's state. Register i of a lane has row i*{{.C.Lanes}}+lane.
// There is one barrier per token: the partial sums for a token's result are combined after the barrier of the next
// token.
@compute @workgroup_size({{mul .C.Columns .C.Lanes}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let strips = (P.columns + {{sub .C.Columns 1}}u) / {{.C.Columns}}u;
  let g = group.y * groups.x + group.x;
  let head = g / strips;
  if (head >= P.heads) {
    return;
  }
  let column = local % {{.C.Columns}}u;
  let lane = local / {{.C.Columns}}u;
  let j = (g % strips) * {{.C.Columns}}u + column;
  let inside = j < P.columns;
  let at_j = min(j, P.columns - 1u);
  let scale = 1.0 / sqrt(f32(P.rows));
{{- range $i := seq .C.Rows}}
  let in{{$i}} = {{mul $i $.C.Lanes}}u + lane < P.rows;
  let row{{$i}} = min({{mul $i $.C.Lanes}}u + lane, P.rows - 1u);
  var s{{$i}} = 0.0;
{{- if $.C.State}}
  if (in{{$i}}) {
    s{{$i}} = x5((head * P.rows + row{{$i}}) * P.columns + at_j);
  }
{{- end}}
{{- end}}
  var o = 0.0;
  var token = 0u; // index of the head's token in g, beta, v and o
  for (var t = 0u; t < P.tokens; t = t + 1u) {
    let key = key_of(t, head);
    token = (head / P.of_batch * P.tokens + t) * P.of_batch + head % P.of_batch;
    let decay = op_exp(x3(token));
    let beta = x4(token);
    let value = x2(token * P.columns + at_j);
    var e = 0.0;
{{- range $i := seq .C.Rows}}
    let k{{$i}} = select(0.0, x1(key + row{{$i}}), in{{$i}});
    let q{{$i}} = select(0.0, x0(key + row{{$i}}), in{{$i}});
    e = e + s{{$i}} * k{{$i}};
{{- end}}
    let turn = (t % 2u) * group_size;
    keyed[turn + local] = e;
    queried[turn + local] = o;
    workgroupBarrier();
    e = 0.0;
    for (var l = 0u; l < {{.C.Lanes}}u; l = l + 1u) {
      e = e + keyed[turn + l * {{.C.Columns}}u + column];
    }
    if (lane == 0u && t > 0u && inside) {
      var sum = 0.0;
      for (var l = 0u; l < {{.C.Lanes}}u; l = l + 1u) {
        sum = sum + queried[turn + l * {{.C.Columns}}u + column];
      }
      y_put((token - P.of_batch) * P.columns + j, y_encode(sum * scale));
    }
    let d = beta * (value - decay * e);
    o = 0.0;
{{- range $i := seq .C.Rows}}
    s{{$i}} = decay * s{{$i}} + k{{$i}} * d;
    o = o + s{{$i}} * q{{$i}};
{{- end}}
  }
  let turn = (P.tokens % 2u) * group_size;
  queried[turn + local] = o;
  workgroupBarrier();
  if (lane == 0u && P.tokens > 0u && inside) {
    var sum = 0.0;
    for (var l = 0u; l < {{.C.Lanes}}u; l = l + 1u) {
      sum = sum + queried[turn + l * {{.C.Columns}}u + column];
    }
    y_put(token * P.columns + j, y_encode(sum * scale));
  }
{{- range $i := seq .C.Rows}}
  if (in{{$i}} && inside) {
    z_put((head * P.rows + row{{$i}}) * P.columns + j, z_encode(s{{$i}}));
  }
{{- end}}
}
