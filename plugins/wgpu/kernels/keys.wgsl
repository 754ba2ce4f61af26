{{define "key"}}
// A number for element i of x0, in the order of the elements: NaN gives 0, the least, and both zeros the same.
fn key(i: u32) -> u32 { return key_of(x0_bits(i)); }
fn key_of(x: u32) -> u32 {
{{- if .C.Float}}
  let bits = x << {{.C.Shift}}u;
  let magnitude = bits & 0x7fffffffu;
  if (magnitude > {{.C.Infinity}}u) {
    return 0u;
  }
  if (magnitude == 0u) {
    return 0x80000000u;
  }
  return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
{{- else if .C.Signed}}
  return x ^ 0x80000000u;
{{- else}}
  return x;
{{- end}}
}
{{end}}
