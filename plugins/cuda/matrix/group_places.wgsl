// Sorts rows by group. A group has whole tiles of {{.C.Rows}} places. For each tile, list has its group, and for each
// place its row. {{.C.None}} stands for no group and for no row. An invocation has every 256th group.
{{- $each := seq .C.Each}}
var<workgroup> part: array<u32, 256>;  // groups of rows
var<workgroup> tiles: array<u32, {{.C.Groups}}>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  if (group.x > 0u) {
    return;
  }
{{- range $each}}
  let mine{{.}} = local + {{mul 256 .}}u;
  var count{{.}} = 0u;
{{- end}}
  for (var first = 0u; first < P.rows; first = first + 256u) {
    var g = {{.C.None}};
    if (first + local < P.rows) {
      g = u32(x2(first + local));
      if (g >= {{.C.Groups}}u) {
        status_put(0u, 1u);
        g = {{.C.None}};
      }
    }
    workgroupBarrier();
    part[local] = g;
    workgroupBarrier();
    for (var k = 0u; k < 256u; k = k + 1u) {
      let of = part[k];
{{- range $each}}
      count{{.}} = count{{.}} + select(0u, 1u, of == mine{{.}});
{{- end}}
    }
  }
{{- range $each}}
  if (mine{{.}} < {{$.C.Groups}}u) {
    tiles[mine{{.}}] = (count{{.}} + {{sub $.C.Rows 1}}u) / {{$.C.Rows}}u;
  }
  var begin{{.}} = 0u;
{{- end}}
  workgroupBarrier();
  var all = 0u;
  for (var k = 0u; k < {{.C.Groups}}u; k = k + 1u) {
    let n = tiles[k];
    all = all + n;
{{- range $each}}
    begin{{.}} = begin{{.}} + select(0u, n, k < mine{{.}});
{{- end}}
  }
{{- range $each}}
  var end{{.}} = begin{{.}};
  if (mine{{.}} < {{$.C.Groups}}u) {
    end{{.}} = begin{{.}} + tiles[mine{{.}}];
  }
  for (var t = begin{{.}}; t < end{{.}}; t = t + 1u) {
    list_put(P.begin + t, mine{{.}});
  }
  var next{{.}} = begin{{.}} * {{$.C.Rows}}u;
{{- end}}
  for (var t = all + local; t < P.tiles; t = t + 256u) {
    list_put(P.begin + t, {{.C.None}});
  }
  let places = P.begin + P.tiles;
  for (var first = 0u; first < P.rows; first = first + 256u) {
    var g = {{.C.None}};
    if (first + local < P.rows) {
      g = u32(x2(first + local));
    }
    workgroupBarrier();
    part[local] = g;
    workgroupBarrier();
    for (var k = 0u; k < 256u; k = k + 1u) {
      let of = part[k];
{{- range $each}}
      if (of == mine{{.}} && of < {{$.C.Groups}}u) {
        list_put(places + next{{.}}, first + k);
        next{{.}} = next{{.}} + 1u;
      }
{{- end}}
    }
  }
{{- range $each}}
  for (; next{{.}} < end{{.}} * {{$.C.Rows}}u; next{{.}} = next{{.}} + 1u) {
    list_put(places + next{{.}}, {{$.C.None}});
  }
{{- end}}
}
