{{- /* Parts of attention.wgsl. */ -}}
{{- define "rel"}}
{{- $c := .}}
    // Scores start as the relative position terms.{{if .RelChunkRow}} The groups of four of a chunk of keys are in one
    // row of the window.{{end}}
{{- range $j := seq .TK}}
{{- $chunk := mul (div $j 4) (mul $c.LK 4)}}
{{- if $c.RelChunkRow}}
{{- if eq (mod $j 4) 0}}
{{- range $i := seq $c.Rows}}
    let rel_h{{$i}}_{{div $j 4}} = rel4(rel_at + (k0 + {{$chunk}}u) / P.ww * {{$c.RelPitch}}u + {{mul $i $c.LQ}}u);
{{- end}}
{{- end}}
{{- if or (lt $j 4) (ne $c.RelWidth (mul $c.LK 4))}}
    let at{{$j}} = rel_at + (P.wh + {{if ne $c.RelWidth (mul $c.LK 4)}}(k0 + {{$chunk}}u) % P.ww + {{end}}tx * 4u +
        {{mod $j 4}}u) * {{$c.RelPitch}}u;
{{- range $i := seq $c.Rows}}
    let rel_w{{$i}}_{{$j}} = rel4(at{{$j}} + {{mul $i $c.LQ}}u);
{{- end}}
{{- end}}
{{- range $i := seq $c.Rows}}
    var s{{$i}}_{{$j}} = rel_h{{$i}}_{{div $j 4}} +
        rel_w{{$i}}_{{if eq $c.RelWidth (mul $c.LK 4)}}{{mod $j 4}}{{else}}{{$j}}{{end}};
{{- end}}
{{- else}}
    let rel_k{{$j}} = min(k0 + {{$c.KeyAt $j}}, P.sk - 1u);
    let at_h{{$j}} = rel_at + rel_k{{$j}} / P.ww * {{$c.RelPitch}}u;
    let at_w{{$j}} = rel_at + (P.wh + rel_k{{$j}} % P.ww) * {{$c.RelPitch}}u;
{{- range $i := seq $c.Rows}}
    var s{{$i}}_{{$j}} = rel4(at_h{{$j}} + {{mul $i $c.LQ}}u) + rel4(at_w{{$j}} + {{mul $i $c.LQ}}u);
{{- end}}
{{- end}}
{{- end}}
{{- end}}
{{- define "weigh"}}
{{- $c := .}}
{{- if gt $c.Span 1}}
      for (var block = 0u; block < {{$c.Span}}u; block = block + 1u) {
{{- end}}
{{- range $k := seq $c.LK}}
      {
{{- range $i := seq $c.Rows}}
        let p{{$i}} = {{$c.PRow $k}}[ty + {{mul $i $c.LQ}}u];
{{- end}}
{{- range $j := seq $c.VecCols}}
        let b{{$j}} = {{$c.VRow $k}}[tx + {{add (mul $j $c.LK) ($c.VAt $k)}}u];
{{- end}}
{{- range $j := seq $c.SingleCols}}
        let e{{$j}} = {{$c.VRow $k}}[tx / 4u + {{add ($c.SingleCol $j) ($c.VAt $k)}}u][tx % 4u];
{{- end}}
{{- range $j := seq $c.Cols}}{{range $i := seq $c.Rows}}
        o{{$i}}_{{$j}} = fma(p{{$i}}, vec4<f32>({{$c.Col $j}}), o{{$i}}_{{$j}});
{{- end}}{{end}}
      }
{{- end}}
{{- if gt $c.Span 1}}
      }
{{- end}}
{{- end}}
