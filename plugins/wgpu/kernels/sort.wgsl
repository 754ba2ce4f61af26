{{define "tiles"}}
{{- if .C.Indices}}{{template "index" .}}{{else}}{{template "key" .}}{{end}}
const none = 0xffffffffu;
var<workgroup> keys: array<u32, {{.C.Slots}}>;
var<workgroup> places: array<u32, {{.C.Slots}}>;
{{- if .C.Radix}}
var<workgroup> counts: array<u32, {{mul .C.Group 9}}>;
var<workgroup> sums: array<u32, {{.C.Group}}>;
var<workgroup> coarse: array<u32, 16>;
{{- end}}

// Where element e lies.
fn slot(e: u32) -> u32 {
  return e{{if .C.Radix}} + e / 32u{{end}};
}

// Sorts {{.C.Lines}} tiles of {{.C.Tile}} elements; places past the end of a line come last.
@compute @workgroup_size({{.C.Group}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let g = group.y * groups.x + group.x;
{{- if .C.Whole}}
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
    var k = none;
    if (line < P.lines && place < P.size) {
      k = {{if .C.Descending}}~{{end}}key(((line / P.inner) * P.size + place) * P.inner + line % P.inner);
    }
    keys[slot(e)] = k;
    places[slot(e)] = place;
  }
{{- if .C.Radix}}{{template "radix" .}}{{else}}{{template "bitonic" .}}{{end}}
  for (var e = local; e < {{mul .C.Tile .C.Lines}}u; e = e + {{.C.Group}}u) {
    let line = first_line + e / {{.C.Tile}}u;
    let to = start + e % {{.C.Tile}}u;
    let place = places[slot(e)];
    if (line < P.lines && to < P.size) {
{{- if .C.Last}}
      let begins = (line / P.inner) * P.size * P.inner + line % P.inner;
      index_put(begins + to * P.inner, index_encode({{.C.Index}}(place)));
{{- if .C.Values}}
      y_put(begins + to * P.inner, x0_bits(begins + place * P.inner));
{{- end}}
{{- else}}
      pairs_put(2u * (line * P.size + to), keys[slot(e)]);
      pairs_put(2u * (line * P.size + to) + 1u, place);
{{- end}}
    }
  }
}
{{end}}

{{define "index"}}
// The row that index i names.
fn key(i: u32) -> u32 {
  let row = u32(x1(i)); // a negative one is large
  if (row >= P.rows) {
    status_put(0u, 1u);
  }
  return row;
}
{{end}}

{{define "radix"}}
  // A radix sort, which keeps the order of equal keys: in each round, by four bits, an invocation has {{.C.Each}} elements that follow each other. It counts how
  // often it has each digit; digit d is half d / 8 of word d % 8 * {{.C.Group}} + local. The sums of what precedes, by digit and then by invocation, are
  // where its elements go. A word of padding after each 32 lets neighbours use different banks.
  for (var shift = {{.C.FirstBit}}u; shift < {{.C.LastBit}}u; shift = shift + 4u) {
    workgroupBarrier();
{{- range seq 8}}
    counts[slot({{mul . $.C.Group}}u + local)] = 0u;
{{- end}}
{{- range seq .C.Each}}
    let key{{.}} = keys[slot({{$.C.Each}}u * local + {{.}}u)];
    let place{{.}} = places[slot({{$.C.Each}}u * local + {{.}}u)];
{{- end}}
{{- range seq .C.Each}}
    {
      let digit = key{{.}} >> shift;
      let at = slot((digit & 7u) * {{$.C.Group}}u + local);
      counts[at] = counts[at] + (1u << ((digit & 8u) * 2u));
    }
{{- end}}
    workgroupBarrier();
    var sum = 0u;
{{- range seq 8}}
    let count{{.}} = counts[slot(8u * local + {{.}}u)];
    sum = sum + count{{.}};
{{- end}}
    sums[local] = sum;
    workgroupBarrier();
    if (local < 16u) {
      sum = 0u;
{{- range seq (div .C.Group 16)}}
      sum = sum + sums[local * {{div $.C.Group 16}}u + {{.}}u];
{{- end}}
      coarse[local] = sum;
    }
    workgroupBarrier();
    let part = local / {{div .C.Group 16}}u;
    var total = 0u;
    var before = 0u;
{{- range seq 16}}
    sum = coarse[{{.}}];
    total = total + sum;
    before = before + select(0u, sum, {{.}}u < part);
{{- end}}
{{- range seq (div .C.Group 16)}}
    before = before + select(0u, sums[part * {{div $.C.Group 16}}u + {{.}}u], part * {{div $.C.Group 16}}u + {{.}}u < local);
{{- end}}
    before = before + (total << 16u); // the upper digits come after all of the lower ones
{{- range seq 8}}
    counts[slot(8u * local + {{.}}u)] = before;
    before = before + count{{.}};
{{- end}}
    workgroupBarrier();
{{- range seq .C.Each}}
    {
      let digit = key{{.}} >> shift;
      let at = slot((digit & 7u) * {{$.C.Group}}u + local);
      let upper = (digit & 8u) * 2u;
      let count = counts[at];
      counts[at] = count + (1u << upper);
      let to = slot((count >> upper) & 0xffffu);
      keys[to] = key{{.}};
      places[to] = place{{.}};
    }
{{- end}}
  }
  workgroupBarrier();
{{- end}}

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
