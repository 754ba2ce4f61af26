var<workgroup> partial: array<{{.C.Type}}, {{mul .C.Rows .C.Lanes}}>;

fn fold(acc: {{.C.Type}}, v: {{.C.Type}}) -> {{.C.Type}} {
  return {{.C.Fold}};
}
{{define "folds"}}
{{- $c := .}}
{{- range seq 8}}
{{- $a := print "a" (mod . 4)}}
{{- if $c.Four}}
    {{$a}} = fold(fold(fold(fold({{$a}}, v{{.}}.x), v{{.}}.y), v{{.}}.z), v{{.}}.w);
{{- else}}
    {{$a}} = fold({{$a}}, v{{.}});
{{- end}}
{{- end}}
{{- end}}
{{- template "place" .}}
  // Eight reads are in flight at a time.
{{- range seq 4}}
  var a{{.}} = {{$.C.Zero}};
{{- end}}
  var k = start + lane;
  for (; k + {{mul 7 .C.Lanes}}u < end; k = k + {{mul 8 .C.Lanes}}u) {
{{- range seq 8}}
    let v{{.}} = {{$.C.Read}}(base + (k + {{mul . $.C.Lanes}}u) * step);
{{- end}}
{{- template "folds" .C}}
  }
  for (; k < end; k = k + {{.C.Lanes}}u) {
    let v = {{.C.Read}}(base + k * step);
{{- if .C.Four}}
    a0 = fold(fold(fold(fold(a0, v.x), v.y), v.z), v.w);
{{- else}}
    a0 = fold(a0, v);
{{- end}}
  }
  var acc = fold(fold(a0, a1), fold(a2, a3));
  partial[lane * {{.C.Rows}}u + r] = acc;
  for (var s = {{div .C.Lanes 2}}u; s > 0u; s = s / 2u) {
    workgroupBarrier();
    if (lane < s) {
      acc = fold(acc, partial[(lane + s) * {{.C.Rows}}u + r]);
      partial[lane * {{.C.Rows}}u + r] = acc;
    }
  }
{{- if .C.Split}}
  if (lane == 0u && first + r < P.rows) {
    parts_put(row * P.parts + part, bitcast<u32>(acc));
  }
}
{{- else}}
  workgroupBarrier();
  if (local >= {{div .C.Rows .C.Per}}u || first + local * {{.C.Per}}u >= P.rows) {
    return;
  }
  var bits = 0u;
  for (var e = 0u; e < {{.C.Per}}u; e = e + 1u) {
    acc = partial[local * {{.C.Per}}u + e];
{{- if .C.Mean}}
    if (P.count == 0u) {
      acc = not_a_number();
    }
    acc = acc / f32(P.count);
{{- end}}
    bits = bits | (y_encode(acc{{if .C.Bool}} != 0u{{end}}) << (e * {{div 32 .C.Per}}u));
  }
  y_put(first / {{.C.Per}}u + local, bits);
}
{{- end}}
