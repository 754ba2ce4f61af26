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
{{- if .C.Four}}
fn key(v: {{if .C.Float}}f32{{else}}u32{{end}}) -> u32 {
{{- else}}
fn key(i: u32) -> u32 {
{{- end}}
{{- if .C.Float}}
{{- if not .C.Four}}
  let v = x0(i);
{{- end}}
  if (is_nan(v)) {
    return none;
  }
  let k = bitcast<u32>(order(v)) ^ 0x80000000u;
{{- else}}
  let k = {{if .C.Four}}v{{else}}x0_bits(i){{end}}{{if .C.Signed}} ^ 0x80000000u{{end}};
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
  // Eight reads are in flight at a time. Those past the end read the last unit, and drop it.
{{- if .C.Four}}
  var keys4 = vec4<u32>(0u);
  var best4 = vec4<u32>(none); // units
  for (var k = start + lane; k < end; k = k + {{mul 8 .C.Lanes}}u) {
{{- range seq 8}}
    let k{{.}} = k + {{mul . $.C.Lanes}}u;
    let v{{.}} = x04(base + min(k{{.}}, end - 1u));
{{- end}}
{{- range seq 8}}
    if (k{{.}} < end) {
      let c = vec4<u32>(key(v{{.}}.x), key(v{{.}}.y), key(v{{.}}.z), key(v{{.}}.w));
      let better = (c > keys4) | (best4 == vec4<u32>(none));
      keys4 = select(keys4, c, better);
      best4 = select(best4, vec4<u32>(k{{.}}), better);
    }
{{- end}}
  }
{{- range $e := seq 4}}
  if (best4[{{$e}}] != none) {
    let at = best4[{{$e}}] * 4u + {{$e}}u;
    if (best == none || keys4[{{$e}}] > best_key || (keys4[{{$e}}] == best_key && at < best)) {
      best_key = keys4[{{$e}}];
      best = at;
    }
  }
{{- end}}
{{- else}}
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
{{- end}}
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
