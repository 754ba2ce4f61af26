{{define "key"}}
// A number for element i of x0, in the order of the elements: NaN gives 0, the least, and both zeros the same.
fn key(i: u32) -> u32 {
{{- if .C.Float}}
  let bits = x0_bits(i) << {{.C.Shift}}u;
  let magnitude = bits & 0x7fffffffu;
  if (magnitude > {{.C.Infinity}}u) {
    return 0u;
  }
  if (magnitude == 0u) {
    return 0x80000000u;
  }
  return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
{{- else if .C.Signed}}
  return x0_bits(i) ^ 0x80000000u;
{{- else}}
  return x0_bits(i);
{{- end}}
}
{{end}}
