{{define "tiles"}}
{{- if .C.Indices}}{{template "index" .}}{{else if .C.Words}}{{template "words" .}}{{else}}{{template "key" .}}{{end}}
const none = 0xffffffffu;
var<workgroup> keys: array<u32, {{.C.Slots}}>;
{{- if .C.Pairs}}
var<workgroup> places: array<u32, {{.C.Slots}}>;
{{- end}}
{{- if .C.Radix}}
var<workgroup> counts: array<u32, {{mul .C.Stride 8}}>;
var<workgroup> sums: array<u32, {{.C.Group}}>;
var<workgroup> coarse: array<u32, 16>;
{{- end}}

{{- if .C.Radix}}

// The place of element e. After every 32 elements there is a word of padding, so that neighbours use different banks.
fn slot(e: u32) -> u32 {
  return e + e / 32u;
}

// The place of invocation i's counts of digits d and d + 8.
fn counted(d: u32, i: u32) -> u32 {
  return d * {{.C.Stride}}u + i + i / 32u;
}
{{- end}}

// Sorts {{.C.Lines}} tiles of {{.C.Tile}} elements. Places past the end of a line sort last.
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
{{- if .C.Radix}}
  let begins = (first_line / P.inner) * P.size * P.inner + first_line % P.inner;
  for (var e = local; e < {{.C.Tile}}u; e = e + {{mul 4 .C.Group}}u) {
{{- range seq 4}}
    let e{{.}} = e + {{mul . $.C.Group}}u;
    let k{{.}} = key(begins + min(start + e{{.}}, P.size - 1u) * P.inner);
{{- end}}
{{- range seq 4}}
    let w{{.}} = select(none, {{if $.C.Descending}}~{{end}}k{{.}}, start + e{{.}} < P.size);
{{- if $.C.Pairs}}
    keys[slot(e{{.}})] = w{{.}};
    places[slot(e{{.}})] = e{{.}};
{{- else}}
    keys[slot(e{{.}})] = (w{{.}} {{if $.C.Narrow}}<< 12u{{else}}& 0xfffff000u{{end}}) | e{{.}};
{{- end}}
{{- end}}
  }
{{- template "radix" .}}
  for (var e = local; e < {{.C.Tile}}u; e = e + {{mul 4 .C.Group}}u) {
{{- range seq 4}}
    let to{{.}} = start + e + {{mul . $.C.Group}}u;
    let p{{.}} = start + (keys[slot(e + {{mul . $.C.Group}}u)] & 0xfffu);
    let from{{.}} = begins + min(p{{.}}, P.size - 1u) * P.inner;
{{- end}}
{{- if .C.Last}}
{{- if .C.Values}}
{{- range seq 4}}
    let v{{.}} = x0_bits(from{{.}});
{{- end}}
{{- end}}
{{- range seq 4}}
    if (to{{.}} < P.size) {
      index_put(begins + to{{.}} * P.inner, index_encode({{$.C.Index}}(p{{.}})));
{{- if $.C.Values}}
      y_put(begins + to{{.}} * P.inner, v{{.}});
{{- end}}
    }
{{- end}}
{{- else}}
{{- range seq 4}}
    let k{{.}} = key(from{{.}}); // read again, because indices have replaced the low bits
{{- end}}
{{- range seq 4}}
    if (to{{.}} < P.size) {
      pairs_put(2u * (first_line * P.size + to{{.}}), {{if $.C.Descending}}~{{end}}k{{.}});
      pairs_put(2u * (first_line * P.size + to{{.}}) + 1u, p{{.}});
    }
{{- end}}
{{- end}}
  }
}
{{- else}}
  for (var e = local; e < {{mul .C.Tile .C.Lines}}u; e = e + {{.C.Group}}u) {
    let line = first_line + e / {{.C.Tile}}u;
    let place = start + e % {{.C.Tile}}u;
    var k = none;
    if (line < P.lines && place < P.size) {
      k = {{if .C.Descending}}~{{end}}key(((line / P.inner) * P.size + place) * P.inner + line % P.inner);
    }
    keys[e] = k;
    places[e] = place;
  }
{{- template "bitonic" .}}
  for (var e = local; e < {{mul .C.Tile .C.Lines}}u; e = e + {{.C.Group}}u) {
    let line = first_line + e / {{.C.Tile}}u;
    let to = start + e % {{.C.Tile}}u;
    if (line < P.lines && to < P.size) {
{{- if .C.Last}}
      let begins = (line / P.inner) * P.size * P.inner + line % P.inner;
      index_put(begins + to * P.inner, index_encode({{.C.Index}}(places[e])));
{{- if .C.Values}}
      y_put(begins + to * P.inner, x0_bits(begins + places[e] * P.inner));
{{- end}}
{{- else}}
      pairs_put(2u * (line * P.size + to), keys[e]);
      pairs_put(2u * (line * P.size + to) + 1u, places[e]);
{{- end}}
    }
  }
}
{{- end}}
{{end}}

{{define "index"}}
// The row that index i names.
fn key(i: u32) -> u32 {
  let row = u32(x1(i)); // a negative index becomes large
  if (row >= P.rows) {
    status_put(0u, 1u);
  }
  return row;
}
{{end}}

{{define "words"}}
// A word of memory that the pairs do not use; the index of the word may be in memory, too.
fn key(i: u32) -> u32 {
  return pairs_word({{.C.Words}}u + {{if .C.Through}}pairs_word({{.C.Through}}u + i){{else}}i{{end}});
}
{{end}}

{{define "radix"}}{{$c := .C}}
  // A stable radix sort, four bits per round. In a round each invocation has {{.C.Each}} consecutive elements and
  // counts the digits among them; the counts of digits d and d + 8 are the halves of a word. The prefix sum of the
  // counts, ordered by digit and then by invocation, gives the places of its elements. As soon as {{if .C.Pairs}}the
  // low 12 bits of the keys are sorted{{else}}a key is read{{end}}, its low 12 bits hold the index of the element.
  for (var shift = {{.C.From}}u; shift < {{.C.To}}u; shift = shift + 4u) {
    workgroupBarrier();
{{- range seq 8}}
    counts[counted({{.}}u, local)] = 0u;
{{- end}}
{{- range seq .C.Each}}
    let key{{.}} = keys[slot({{$c.Each}}u * local + {{.}}u)];
{{- end}}
{{- if .C.Pairs}}
{{- range seq .C.Each}}
    var place{{.}} = 0u;
{{- end}}
    if (shift < 12u) {
{{- range seq .C.Each}}
      place{{.}} = places[slot({{$c.Each}}u * local + {{.}}u)];
{{- end}}
    }
{{- end}}
    var rank0 = 0u; // rank of each element among the invocation's elements with the same digit, four bits each
    var rank1 = 0u;
{{- range seq .C.Each}}
    {
      let digit = key{{.}} >> shift;
      let at = counted(digit & 7u, local);
      let upper = (digit & 8u) * 2u;
      let count = counts[at];
      counts[at] = count + (1u << upper);
      rank{{div . 8}} = rank{{div . 8}} | (((count >> upper) & 15u) << {{mul (mod . 8) 4}}u);
    }
{{- end}}
    workgroupBarrier();
    // digits whose counts this invocation turns into prefix sums, eight at a time
    let digits = local / {{div .C.Group 8}}u;
    let others = local % {{div .C.Group 8}}u * 8u;
    var sum = 0u;
{{- range seq 8}}
    let count{{.}} = counts[counted(digits, others + {{.}}u)];
    sum = sum + count{{.}};
{{- end}}
    sums[local] = sum;
    workgroupBarrier();
    if (local < 16u) {
      sum = 0u;
{{- range seq (div .C.Group 16)}}
      sum = sum + sums[local * {{div $c.Group 16}}u + {{.}}u];
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
    before = before + select(0u, sums[part * {{div $c.Group 16}}u + {{.}}u],
        part * {{div $c.Group 16}}u + {{.}}u < local);
{{- end}}
    before = before + (total << 16u); // digits 8 to 15 come after digits 0 to 7
{{- range seq 8}}
    counts[counted(digits, others + {{.}}u)] = before;
    before = before + count{{.}};
{{- end}}
    workgroupBarrier();
{{- range seq .C.Each}}
    {
      let digit = key{{.}} >> shift;
      let count = counts[counted(digit & 7u, local)] >> ((digit & 8u) * 2u);
      let to = slot((count & 0xffffu) + ((rank{{div . 8}} >> {{mul (mod . 8) 4}}u) & 15u));
{{- if $c.Pairs}}
      keys[to] = select(key{{.}}, (key{{.}} & 0xfffff000u) | place{{.}}, shift == 8u);
      if (shift < 8u) {
        places[to] = place{{.}};
      }
{{- else}}
      keys[to] = key{{.}};
{{- end}}
    }
{{- end}}
  }
  workgroupBarrier();
{{- end}}

{{define "merge"}}
// Merges pairs of runs of {{.C.Width}} elements. An invocation makes {{.C.Each}} elements of the result: it searches
// for the places in both runs where they begin (Merge Path: Green, McColl and Bader, 2012). On equal keys the first run
// goes first, because its indices are smaller.
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
  // Finds the number of elements of the first run among the first offset elements of the result.
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
