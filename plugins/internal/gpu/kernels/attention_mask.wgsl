{{- /* The range of keys that a query can see, and the mask. */ -}}
{{- define "span"}}
// For the current batch element: the number of keys, the position of query 0 among them, and the batch element of k and
// v.
var<private> keys: u32;
var<private> offset: i32;
var<private> element: u32;

fn set_span(b: u32) {
  keys = P.sk;
  element = b;
{{- if .C.KVLen}}
  let n = x{{.C.KVLen}}({{if .C.KVLenEach}}b{{else}}0u{{end}});
  keys = u32(n);
  if (n < 0 || keys > P.sk) {
    status_put(0u, 1u);
    keys = 0u;
  }
{{- end}}
{{- if .C.Position}}
  offset = clamp(x{{.C.Position}}({{if .C.PositionEach}}b{{else}}0u{{end}}), -1073741824, 1073741824);
{{- else if and .C.KVLen (not .C.FixedOffset)}}
  offset = i32(keys) - i32(P.sq);
{{- else}}
  offset = i32(P.offset);
{{- end}}
{{- if .C.Sequence}}
  element = u32(x{{.C.Sequence}}(b)); // a negative number becomes large
  if (element >= P.elements) {
    status_put(0u, 1u);
    element = 0u;
    keys = 0u;
  }
{{- end}}
{{- if .C.Pages}}
  if (P.elements == 0u) {
    keys = 0u; // check_pages reports the pages
  }
{{- end}}
}
// Returns a range of keys, from .x to .y - 1, that includes all keys visible to any query from q0 to q1 - 1.
fn visible(q0: u32, q1: u32) -> vec2<u32> {
{{- if eq .C.Mask "causal"}}
  return vec2<u32>(0u, u32(clamp(i32(q1) + offset, 0, i32(keys))));
{{- else if eq .C.Mask "sliding"}}
  return vec2<u32>(u32(max(i32(q0) + offset - i32(P.window), 0)), u32(clamp(i32(q1) + offset, 0, i32(keys))));
{{- else}}
  return vec2<u32>(0u, keys);
{{- end}}
}
{{- end}}
{{- define "mask"}}
{{- if .C.Softcap}}
    s = P.softcap * op_tanh(s / P.softcap);
{{- end}}
{{- template "limits" .}}
{{- end}}
{{- define "limits"}}
{{- if eq .C.Mask "causal"}}
    if (i32(k) > i32(q) + offset) {
      s = -infinity();
    }
{{- else if eq .C.Mask "sliding"}}
    if (i32(k) > i32(q) + offset || i32(k) < i32(q) + offset - i32(P.window)) {
      s = -infinity();
    }
{{- else if eq .C.Mask "custom"}}
    if ({{if .C.BoolMask}}!{{end}}x3(b * P.mask_b + h * P.mask_h + q * P.mask_q +
        k * P.mask_k){{if not .C.BoolMask}} < 0.5{{end}}) {
      s = -infinity();
    }
{{- else if eq .C.Mask "bias"}}
    // A finite bias stays finite when it is multiplied by log2(e): if all keys have the least, a query sees all alike.
    let bias = x3(b * P.mask_b + h * P.mask_h + q * P.mask_q + k * P.mask_k);
    s = s + select(bias, max(bias, -2.0e38), is_finite(bias));
{{- end}}
{{- end}}
