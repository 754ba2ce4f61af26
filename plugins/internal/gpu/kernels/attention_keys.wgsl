{{- /* Where keys and values are. */ -}}
{{- define "keys"}}
// Returns the distance of key k of a batch element, or of its value, from the first of all. batch and seq are the
// distances from one batch element{{if .C.Pages}} of k, a page,{{end}} to the next and from one key to the next.
fn key_at(element: u32, k: u32, batch: u32, seq: u32) -> u32 {
{{- if .C.Pages}}
  let page = min(u32(x{{.C.Pages}}(element * P.pages + k / {{.C.PageRows}})), P.elements - 1u);
  return page * batch + k % {{.C.PageRows}} * seq;
{{- else}}
  return element * batch + k * seq;
{{- end}}
}
{{- if .C.Pages}}

// Reports page numbers of batch element b that are out of range. Invocation first of step checks every step-th of them.
fn check_pages(b: u32, first: u32, step: u32) {
  for (var i = first; i < P.pages; i = i + step) {
    if (u32(x{{.C.Pages}}(b * P.pages + i)) >= P.elements) { // a negative number becomes large
      status_put(0u, 1u);
    }
  }
}
{{- end}}
{{- end}}
