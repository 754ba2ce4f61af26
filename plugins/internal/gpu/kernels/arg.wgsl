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

{{- if .C.Four}}

// Maps an element to an integer that is larger for a better element: 0 for the worst value, 0xff000000 for the best
// infinity, more for NaN.
fn rank(v: {{if .C.Float}}f32{{else}}u32{{end}}) -> u32 {
{{- if .C.Float}}
  let b = bitcast<u32>(v);
  let sign = 0u - (b >> 31u);
  let k = ((b & 0x7fffffffu) ^ sign) - sign; // increases with the float; both zeros give 0
  return {{if .C.Least}}0x7f800000u - k{{else}}k + 0x7f800000u{{end}};
{{- else}}
  let k = v{{if .C.Signed}} ^ 0x80000000u{{end}};
  return {{if .C.Least}}~k{{else}}k{{end}};
{{- end}}
}
{{- else}}

// The rank of element i: larger is better, and NaN is best.
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
{{- end}}
{{template "place" .}}
  var best_key = 0u;
  var best = none;
  // Unrolled so that eight reads are in flight. Reads past the end repeat the last unit and are ignored.
{{- if .C.Four}}
  if (start + lane < end) {
    best = (start + lane) * 4u; // result if no element is better
  }
  for (var k = start + lane; k < end; k = k + {{mul 8 .C.Lanes}}u) {
{{- range seq 8}}
    let k{{.}} = k + {{mul . $.C.Lanes}}u;
    let v{{.}} = x04(base + min(k{{.}}, end - 1u));
{{- end}}
{{- range $i := seq 8}}
    // Few vectors contain a better element, so checking the four elements one by one costs little.
    let r{{$i}} = vec4<u32>(rank(v{{$i}}.x), rank(v{{$i}}.y), rank(v{{$i}}.z), rank(v{{$i}}.w));
    if (k{{$i}} < end && any(r{{$i}} > vec4<u32>(best_key))) {
{{- range $e := seq 4}}
      let c{{$e}} = {{if $.C.Float}}select(r{{$i}}[{{$e}}], none,
          r{{$i}}[{{$e}}] > 0xff000000u){{else}}r{{$i}}[{{$e}}]{{end}};
      if (c{{$e}} > best_key) {
        best_key = c{{$e}};
        best = k{{$i}} * 4u + {{$e}}u;
      }
{{- end}}
    }
{{- end}}
  }
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
