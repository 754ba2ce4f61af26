fn value(i: u32) -> {{.C.T}} {
  var rest = i;
  var base = 0u;
  for (var a = 7i; a >= 0i; a = a - 1i) {
    base = base + (rest % P.kept[a]) * P.stride[a];
    rest = rest / P.kept[a];
  }
  var acc = {{.C.Zero}};
  for (var r = 0u; r < P.count; r = r + 1u) {
    rest = r;
    var at = base;
    for (var a = 7i; a >= 0i && rest > 0u; a = a - 1i) {
      at = at + (rest % P.cut[a]) * P.stride[a];
      rest = rest / P.cut[a];
    }
    let v = {{.C.Load}};
    acc = {{.C.Fold}};
  }
{{- if .C.Mean}}
  if (P.count == 0u) {
    acc = not_a_number();
  }
  acc = acc / f32(P.count);
{{- end}}
  return {{.C.Result}};
}
