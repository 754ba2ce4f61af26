// Computes the relative position terms in units of log2(e), rel[block and head][j][query]: q . rh[qy, j] for j < wh,
// then q . rw[qx, j - wh]. The queries of a line (those of all blocks and heads with the same qy, or the same qx) are
// multiplied by the same matrix. A workgroup computes 64 queries of a line x {{.C.RelTile}} values of j at a time, an
// invocation 4 x 4.
{{- $c := .C}}
var<workgroup> tile_q: array<array<vec4<f32>, 17>, 16>;              // [d][query / 4]
var<workgroup> tile_r: array<array<vec4<f32>, {{add (div .C.RelTile 4) 1}}>, 16>; // [d][j / 4]

struct Query {
  exists: bool,
  row: u32, // offset in x0
  at: u32,  // offset of its terms
}
fn query_of(line: u32, along: bool, member: u32) -> Query {
  let others = select(P.ww, P.wh, along);
  let other = member % others;
  let h = (member / others) % P.heads;
  let b = member / (others * P.heads);
  let at = select(vec2<u32>(line, other), vec2<u32>(other, line - P.wh), along);
{{- if .C.Padded}}
  let size = inside(b);
{{- else}}
  let size = vec2<u32>(P.wh, P.ww);
{{- end}}
  let r = at.x * size.y + at.y;
  return Query(member < {{.C.RelMembers}}u * others && at.x < size.x && at.y < size.y, query_row(b, h, r),
      (b * P.heads + h) * {{mul .C.RelRows (mul .C.RelPitch 4)}}u + r);
}
fn fetch_table(along: bool, i: u32) -> vec4<f32> {
  if (along) {
    return rw4(i);
  }
  return rh4(i);
}

@compute @workgroup_size({{mul .C.RelTile 4}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
  let line = id % (P.wh + P.ww);
  let along = line >= P.wh;
  let m0 = id / (P.wh + P.ww) * 64u;
  let side = select(P.wh, P.ww, along);
  let table = select(line, line - P.wh, along) * side;
  let tx = local % {{div .C.RelTile 4}}u;
  let ty = local / {{div .C.RelTile 4}}u;
  for (var j0 = 0u; j0 < side; j0 = j0 + {{.C.RelTile}}u) {
{{- range $j := seq 4}}
    var s{{$j}} = vec4<f32>(0.0);
{{- end}}
    for (var d0 = 0u; d0 < P.dim / 4u; d0 = d0 + 4u) {
      workgroupBarrier();
      for (var u = local; u < {{add 64 .C.RelTile}}u; u = u + {{mul .C.RelTile 4}}u) {
        // Four values of the head dim of four queries, or of four rows of the table.
        let d = u % 4u;
        let at = min(d0 + d, P.dim / 4u - 1u);
        let keep = d0 + d < P.dim / 4u;
        var m: mat4x4<f32>;
        if (u < 64u) {
{{- range $i := seq 4}}
          m[{{$i}}] = select(vec4<f32>(0.0),
              x04(query_of(line, along, m0 + u / 4u * 4u + {{$i}}u).row + at) * {{$c.Log2E}}, keep);
{{- end}}
          m = transpose(m);
{{- range $i := seq 4}}
          tile_q[d * 4u + {{$i}}u][u / 4u] = m[{{$i}}];
{{- end}}
        } else {
{{- range $i := seq 4}}
          m[{{$i}}] = select(vec4<f32>(0.0),
              fetch_table(along, (table + min(j0 + (u - 64u) / 4u * 4u + {{$i}}u, side - 1u)) * (P.dim / 4u) +
                  at), keep);
{{- end}}
          m = transpose(m);
{{- range $i := seq 4}}
          tile_r[d * 4u + {{$i}}u][(u - 64u) / 4u] = m[{{$i}}];
{{- end}}
        }
      }
      workgroupBarrier();
{{- range $d := seq 16}}
      {
        let a = tile_q[{{$d}}][ty];
        let b = tile_r[{{$d}}][tx];
{{- range $j := seq 4}}
        s{{$j}} = fma(a, vec4<f32>(b[{{$j}}]), s{{$j}});
{{- end}}
      }
{{- end}}
    }
{{- range $i := seq 4}}
    {
      let q = query_of(line, along, m0 + ty * 4u + {{$i}}u);
{{- range $j := seq 4}}
      if (q.exists && j0 + tx * 4u + {{$j}}u < side) {
        rel_put(q.at + (select(0u, P.wh, along) + j0 + tx * 4u + {{$j}}u) * {{mul $c.RelPitch 4}}u,
            bitcast<u32>(s{{$j}}[{{$i}}]));
      }
{{- end}}
    }
{{- end}}
  }
}
