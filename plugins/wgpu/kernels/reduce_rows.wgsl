var<workgroup> partial: array<{{.C.Type}}, {{mul .C.Rows .C.Lanes}}>;
{{template "place" .}}
  var acc = {{.C.Zero}};
  for (var k = lane; k < P.n; k = k + {{.C.Lanes}}u) {
    let v = x0(base + k * step);
    acc = {{.C.Fold}};
  }
  partial[lane * {{.C.Rows}}u + r] = acc;
  for (var s = {{div .C.Lanes 2}}u; s > 0u; s = s / 2u) {
    workgroupBarrier();
    if (lane < s) {
      let v = partial[(lane + s) * {{.C.Rows}}u + r];
      acc = {{.C.Fold}};
      partial[lane * {{.C.Rows}}u + r] = acc;
    }
  }
  workgroupBarrier();
  if (local >= {{div .C.Rows .C.Per}}u || first + local * {{.C.Per}}u >= P.rows) {
    return;
  }
  var bits = 0u;
  for (var e = 0u; e < {{.C.Per}}u; e = e + 1u) {
    acc = partial[local * {{.C.Per}}u + e];
{{- if .C.Mean}}
    if (P.n == 0u) {
      acc = not_a_number();
    }
    acc = acc / f32(P.n);
{{- end}}
    bits = bits | (y_encode(acc) << (e * {{div 32 .C.Per}}u));
  }
  y_put(first / {{.C.Per}}u + local, bits);
}
