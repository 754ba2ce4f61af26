{{define "tiles"}}
{{template "key" .}}

const none = 0xffffffffu;
var<workgroup> keys: array<u32, {{mul .C.Tile .C.Lines}}>;
var<workgroup> places: array<u32, {{mul .C.Tile .C.Lines}}>;

// A bitonic sort of {{.C.Lines}} tiles of {{.C.Tile}} elements: by key, and by place where keys are equal, which makes it stable. Places
// past the end of a line come last.
@compute @workgroup_size({{.C.Group}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let g = group.y * groups.x + group.x;
{{- if .C.Last}}
  let first_line = g * {{.C.Lines}}u;
  let start = 0u;
{{- else}}
  let tiles = (P.size + {{sub .C.Tile 1}}u) / {{.C.Tile}}u;
  let first_line = g / tiles;
  let start = (g % tiles) * {{.C.Tile}}u;
{{- end}}
  if (first_line >= P.lines) {
    return;
  }
  for (var e = local; e < {{mul .C.Tile .C.Lines}}u; e = e + {{.C.Group}}u) {
    let line = first_line + e / {{.C.Tile}}u;
    let place = start + e % {{.C.Tile}}u;
    keys[e] = none;
    places[e] = none;
    if (line < P.lines && place < P.size) {
      let k = key(((line / P.inner) * P.size + place) * P.inner + line % P.inner);
{{- if .C.Descending}}
      keys[e] = ~k;
{{- else}}
      keys[e] = k;
{{- end}}
      places[e] = place;
    }
  }
  for (var run = 2u; run <= {{.C.Tile}}u; run = run * 2u) {
    for (var apart = run / 2u; apart > 0u; apart = apart / 2u) {
      workgroupBarrier();
      for (var p = local; p < {{div (mul .C.Tile .C.Lines) 2}}u; p = p + {{.C.Group}}u) {
        let a = (p / apart) * 2u * apart + p % apart;
        let b = a + apart;
        let ka = keys[a];
        let kb = keys[b];
        let pa = places[a];
        let pb = places[b];
        let falls = ka > kb || (ka == kb && pa > pb);
        if (falls == ((a & run) == 0u || run == {{.C.Tile}}u)) {
          keys[a] = kb;
          keys[b] = ka;
          places[a] = pb;
          places[b] = pa;
        }
      }
    }
  }
  workgroupBarrier();
  for (var e = local; e < {{mul .C.Tile .C.Lines}}u; e = e + {{.C.Group}}u) {
    let line = first_line + e / {{.C.Tile}}u;
    let to = start + e % {{.C.Tile}}u;
    if (line < P.lines && to < P.size) {
{{- if .C.Last}}
      index_put(((line / P.inner) * P.size + to) * P.inner + line % P.inner, index_encode({{.C.Index}}(places[e])));
{{- else}}
      pairs_put(2u * (line * P.size + to), keys[e]);
      pairs_put(2u * (line * P.size + to) + 1u, places[e]);
{{- end}}
    }
  }
}
{{end}}

{{define "merge"}}
// Runs of {{.C.Width}} become runs of twice that. An invocation makes {{.C.Each}} elements of the result: it searches the places in both
// runs where they begin (Merge Path: Green, McColl and Bader, 2012). A run holds smaller places than the next, so that equal keys of the first come first.
fn key_at(begins: u32, i: u32) -> u32 {
  return pairs_word(2u * (begins + i));
}

@compute @workgroup_size({{.C.Group}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let parts = (P.size + {{sub (mul .C.Group .C.Each) 1}}u) / {{mul .C.Group .C.Each}}u;
  let g = group.y * groups.x + group.x;
  let line = g / parts;
  let start = ((g % parts) * {{.C.Group}}u + local) * {{.C.Each}}u;
  if (line >= P.lines || start >= P.size) {
    return;
  }
  let half = P.lines * P.size;
{{- if .C.Odd}}
  let begins = half + line * P.size;
  let to = line * P.size;
{{- else}}
  let begins = line * P.size;
  let to = half + line * P.size;
{{- end}}
  let a = start / {{mul .C.Width 2}}u * {{mul .C.Width 2}}u;
  let b = min(a + {{.C.Width}}u, P.size);
  let end = min(b + {{.C.Width}}u, P.size);
  let offset = start - a;
  // i elements of the first run are among the first offset of the result.
  var lo = select(0u, offset - (end - b), offset > end - b);
  var hi = min(offset, b - a);
  while (lo < hi) {
    let i = (lo + hi) / 2u;
    if (key_at(begins, a + i) <= key_at(begins, b + offset - 1u - i)) {
      lo = i + 1u;
    } else {
      hi = i;
    }
  }
  var i = a + lo;
  var j = b + offset - lo;
  for (var e = 0u; e < {{.C.Each}}u && start + e < P.size; e = e + 1u) {
    let first = i < b && (j >= end || key_at(begins, i) <= key_at(begins, j));
    let at = select(j, i, first);
    i = i + select(0u, 1u, first);
    j = j + select(1u, 0u, first);
    let place = pairs_word(2u * (begins + at) + 1u);
{{- if .C.Last}}
    index_put(((line / P.inner) * P.size + start + e) * P.inner + line % P.inner, index_encode({{.C.Index}}(place)));
{{- else}}
    pairs_put(2u * (to + start + e), key_at(begins, at));
    pairs_put(2u * (to + start + e) + 1u, place);
{{- end}}
  }
}
{{end}}

{{define "values"}}
fn value(i: u32) -> u32 {
  let line = (i / (P.size * P.inner)) * P.size * P.inner + i % P.inner;
  return x0_bits(line + u32(index(i)) * P.inner);
}
{{end}}
