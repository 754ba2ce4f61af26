const none = 0xffffffffu;

var<workgroup> keys: array<u32, {{mul .C.Rows .C.Lanes}}>;
var<workgroup> places: array<u32, {{mul .C.Rows .C.Lanes}}>;

{{- if .C.Combine}}

fn key(i: u32) -> u32 {
  return parts(2u * i);
}
fn place_of(i: u32, k: u32) -> u32 {
  return parts(2u * i + 1u);
}
{{- else}}

// A number for element i, the larger the better; NaN gives the largest.
fn key(i: u32) -> u32 {
{{- if .C.Float}}
  let v = x0(i);
  if (is_nan(v)) {
    return none;
  }
  let k = bitcast<u32>(order(v)) ^ 0x80000000u;
{{- else}}
  let k = x0_bits(i){{if .C.Signed}} ^ 0x80000000u{{end}};
{{- end}}
  return {{if .C.Least}}~k{{else}}k{{end}};
}
fn place_of(i: u32, k: u32) -> u32 {
  return k;
}
{{- end}}
{{template "place" .}}
  var best_key = 0u;
  var best = none;
  // Eight reads are in flight at a time. Those past the end read the last element, and drop it.
  for (var k = start + lane; k < end; k = k + {{mul 8 .C.Lanes}}u) {
{{- range seq 8}}
    let k{{.}} = k + {{mul . $.C.Lanes}}u;
    let i{{.}} = base + min(k{{.}}, end - 1u) * step;
    let c{{.}} = key(i{{.}});
{{- end}}
{{- range seq 8}}
    if (k{{.}} < end && (c{{.}} > best_key || best == none)) {
      best_key = c{{.}};
      best = place_of(i{{.}}, k{{.}});
    }
{{- end}}
  }
  let mine = lane * {{.C.Rows}}u + r;
  keys[mine] = best_key;
  places[mine] = best;
  for (var s = {{div .C.Lanes 2}}u; s > 0u; s = s / 2u) {
    workgroupBarrier();
    if (lane < s) {
      let k = keys[mine + s * {{.C.Rows}}u];
      let i = places[mine + s * {{.C.Rows}}u];
      if (k > best_key || (k == best_key && i < best)) {
        best_key = k;
        best = i;
        keys[mine] = k;
        places[mine] = i;
      }
    }
  }
  if (lane == 0u && first + r < P.rows) {
{{- if .C.Split}}
    parts_put(2u * (row * P.parts + part), best_key);
    parts_put(2u * (row * P.parts + part) + 1u, best);
{{- else}}
    y_put(row, y_encode({{.C.Index}}(best)));
{{- end}}
  }
}
