{{- define "offset"}}{{if .C.Position}}clamp(x3(0u), -1073741824, 1073741824){{else}}i32(P.offset){{end}}{{end}}
{{- define "mask"}}
{{- if .C.Softcap}}
    s = P.softcap * op_tanh(s / P.softcap);
{{- end}}
{{- if eq .C.Mask "causal"}}
    if (i32(k) > i32(q) + {{template "offset" .}}) {
      s = -infinity();
    }
{{- else if eq .C.Mask "sliding"}}
    if (i32(k) > i32(q) + {{template "offset" .}} || i32(k) < i32(q) + {{template "offset" .}} - i32(P.window)) {
      s = -infinity();
    }
{{- else if eq .C.Mask "custom"}}
    if ({{if .C.BoolMask}}!{{end}}x3(b * P.mask_b + h * P.mask_h + q * P.mask_q + k * P.mask_k){{if not .C.BoolMask}} < 0.5{{end}}) {
      s = -infinity();
    }
{{- else if eq .C.Mask "bias"}}
    s = s + x3(b * P.mask_b + h * P.mask_h + q * P.mask_q + k * P.mask_k);
{{- end}}
{{- end}}
