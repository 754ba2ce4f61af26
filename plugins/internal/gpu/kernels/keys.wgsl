{{define "key"}}
// The key of element i of x0: an integer in the order of the elements. NaN gives 0, the least; both zeros have the same
// key.
fn key(i: u32) -> u32 { return key_of(x0_bits(i)); }
fn key_of(x: u32) -> u32 {
{{- if .C.Float}}
  let bits = x << {{.C.Shift}}u;
  let magnitude = bits & 0x7fffffffu;
  let k = select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
  return select(select(k, 0x80000000u, magnitude == 0u), 0u, magnitude > {{.C.Infinity}}u);
{{- else if .C.Signed}}
  return x ^ 0x80000000u;
{{- else}}
  return x;
{{- end}}
}
{{end}}

{{define "bitonic"}}
  // A bitonic sort of {{.C.Lines}} runs of {{.C.Tile}} keys: by key and, if keys are equal, by index.
  for (var run = 1u; (1u << run) <= {{.C.Tile}}u; run = run + 1u) {
    for (var bit = run; bit > 0u; bit = bit - 1u) {
      let apart = 1u << (bit - 1u);
      workgroupBarrier();
      for (var p = local; p < {{div (mul .C.Tile .C.Lines) 2}}u; p = p + {{.C.Group}}u) {
        let a = ((p >> (bit - 1u)) << bit) | (p & (apart - 1u));
        let b = a + apart;
        let ka = keys[a];
        let kb = keys[b];
        let pa = places[a];
        let pb = places[b];
        let falls = ka > kb || (ka == kb && pa > pb);
        if (falls == (((a >> run) & 1u) == 0u || (1u << run) == {{.C.Tile}}u)) {
          keys[a] = kb;
          keys[b] = ka;
          places[a] = pb;
          places[b] = pa;
        }
      }
    }
  }
  workgroupBarrier();
{{- end}}
