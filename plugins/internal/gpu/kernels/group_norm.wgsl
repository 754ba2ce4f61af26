{{define "statistics"}}
var<workgroup> partial: array<f32, {{mul .C.Rows .C.Lanes}}>;

// across sums v over the lanes of a row.
fn across(r: u32, lane: u32, v: f32) -> f32 {
  workgroupBarrier(); // the results of the last call have been read
  partial[lane * {{.C.Rows}}u + r] = v;
  for (var s = {{div .C.Lanes 2}}u; s > 0u; s = s / 2u) {
    workgroupBarrier();
    if (lane < s) {
      partial[lane * {{.C.Rows}}u + r] = partial[lane * {{.C.Rows}}u + r] + partial[(lane + s) * {{.C.Rows}}u + r];
    }
  }
  workgroupBarrier();
  return partial[r];
}

fn put(i: u32, a: f32, b: f32) {
  statistics_put(2u * i, statistics_encode(a));
  statistics_put(2u * i + 1u, statistics_encode(b));
}

{{- if .C.Combine}}

fn at(row: u32, k: u32) -> u32 {
  return 2u * (P.rows + row * P.n + k);
}

// count returns the number of elements of part k. Only the last part may be shorter.
fn count(k: u32) -> f32 {
  return f32(min(P.width - k * P.each, P.each));
}
{{- end}}
{{template "place" .}}
  // The variance is the mean of squared deviations from the mean, never E[x^2] - mean^2, which loses precision. Each
  // part of a row has its own mean. The squares around it and the distance between the means give the squares around
  // the mean of the row (Chan et al. 1979).
  var acc = 0.0;
  for (var k = start + lane; k < end; k = k + {{.C.Lanes}}u) {
    acc = acc + {{if .C.Combine}}statistics(at(row, k)) * count(k){{else}}x0(base + k){{end}};
  }
  let mean = across(r, lane, acc) / {{if .C.Combine}}f32(P.width){{else}}f32(end - start){{end}};
  acc = 0.0;
  for (var k = start + lane; k < end; k = k + {{.C.Lanes}}u) {
{{- if .C.Combine}}
    let d = statistics(at(row, k)) - mean;
    acc = acc + statistics(at(row, k) + 1u) + d * d * count(k);
{{- else}}
    let d = x0(base + k) - mean;
    acc = acc + d * d;
{{- end}}
  }
  let squares = across(r, lane, acc);
  if (lane == 0u && first + r < P.rows) {
{{- if .C.Split}}
    put(P.rows + row * P.parts + part, mean, squares);
{{- else}}
    put(row, mean, 1.0 / sqrt(squares / f32(P.width) + P.eps));
{{- end}}
  }
}
{{end}}

{{define "values"}}
fn value(i: u32) -> u32 {
  let row = i / P.width;
  let k = i / P.area % P.channels;
  return y_encode((x0(i) - statistics(2u * row)) * statistics(2u * row + 1u) * x1(k) + x2(k));
}
{{end}}
