{{- $c := .C}}{{$fold := "fold"}}{{if .C.Four}}{{$fold = "fold4"}}{{end}}{{$join := "fold"}}{{if ne .C.Type .C.Joined}}{{$join = "fold4"}}{{end -}}
var<workgroup> partial: array<{{.C.Joined}}, {{mul .C.Rows .C.Lanes}}>;

fn fold(acc: {{.C.Type}}, v: {{.C.Type}}) -> {{.C.Type}} {
  return {{.C.Fold}};
}
{{- if .C.Four}}

fn fold4(acc: {{.C.Unit}}, v: {{.C.Unit}}) -> {{.C.Unit}} {
  return {{.C.Unit}}(fold(acc.x, v.x), fold(acc.y, v.y), fold(acc.z, v.z), fold(acc.w, v.w));
}
{{- end}}

fn fetch(i: u32) -> {{.C.Unit}} {
  let v = {{.C.Read}}(i);
  return {{.C.Load}};
}

// The place of lane j's result for row r: the index of its invocation.
fn share(r: u32, j: u32) -> u32 {
  return {{if .C.Inner}}j * {{.C.Rows}}u + r{{else}}r * {{.C.Lanes}}u + j{{end}};
}
{{template "place" .}}
  // Unrolled so that eight reads are in flight. Reads past the end repeat the last unit and are ignored.
{{- range seq 4}}
  var a{{.}} = {{$c.Unit}}({{$c.Zero}});
{{- end}}
  for (var k = start + lane; k < end; k = k + {{mul 8 .C.Lanes}}u) {
{{- range seq 8}}
    let k{{.}} = k + {{mul . $c.Lanes}}u;
    let v{{.}} = fetch(base + min(k{{.}}, end - 1u) * step);
{{- end}}
{{- range seq 8}}
    if (k{{.}} < end) {
      a{{mod . 4}} = {{$fold}}(a{{mod . 4}}, v{{.}});
    }
{{- end}}
  }
  let all = {{$fold}}({{$fold}}(a0, a1), {{$fold}}(a2, a3));
  var acc = {{if and .C.Four (eq .C.Type .C.Joined)}}fold(fold(all.x, all.y), fold(all.z, all.w)){{else}}all{{end}};
  partial[local] = acc;
  workgroupBarrier();
{{- if gt .C.Lanes 16}}
  if (lane < 16u) {
{{- range seq (sub (div .C.Lanes 16) 1)}}
    acc = {{$join}}(acc, partial[share(r, lane + {{add (mul . 16) 16}}u)]);
{{- end}}
    partial[local] = acc;
  }
  workgroupBarrier();
{{- end}}
  if (local >= {{div .C.Rows .C.Per}}u || first + local * {{.C.Per}}u >= P.rows) {
    return;
  }
{{- if gt .C.Per 1}}
  var bits = 0u;
{{- end}}
{{- range $e := seq .C.Per}}
  acc = partial[share(local * {{$c.Per}}u + {{$e}}u, 0u)];
{{- range seq (sub $c.Final 1)}}
  acc = {{$join}}(acc, partial[share(local * {{$c.Per}}u + {{$e}}u, {{add . 1}}u)]);
{{- end}}
{{- if $c.Split}}
  {{$c.Write}}((first + local) * P.parts + part, bitcast<{{$c.Words}}>(acc));
{{- else}}
{{- if $c.Mean}}
  acc = acc / f32(P.count);
  if (P.count == 0u) {
    acc = {{$c.Joined}}(not_a_number());
  }
{{- end}}
{{- if gt $c.Per 1}}
  bits = bits | (y_encode({{$c.Done}}) << {{mul $e (div 32 $c.Per)}}u);
{{- else}}
  {{$c.Write}}(first + local, {{$c.Done}});
{{- end}}
{{- end}}
{{- end}}
{{- if gt .C.Per 1}}
  y_put(first / {{.C.Per}}u + local, bits);
{{- end}}
}
