{{define "select"}}
{{template "key" .}}
const none = 0xffffffffu;
var<workgroup> keys: array<u32, {{mul .C.Rows .C.Lanes}}>;
var<workgroup> places: array<u32, {{mul .C.Rows .C.Lanes}}>;

// A workgroup handles {{.C.Rows}} rows with {{.C.Lanes}} invocations each. They find the best element of their row,
// then the best of those that come after it, and so on.
@compute @workgroup_size({{mul .C.Rows .C.Lanes}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let first = (group.y * groups.x + group.x) * {{.C.Rows}}u;
  if (first >= P.rows) {
    return;
  }
  let r = local / {{.C.Lanes}}u;
  let lane = local % {{.C.Lanes}}u;
  let row = min(first + r, P.rows - 1u);
  var last_key = 0u;
  var last = none;
  for (var j = 0u; j < P.k; j = j + 1u) {
    var best_key = 0u;
    var best = none;
    for (var i = lane; i < P.size; i = i + {{.C.Lanes}}u) {
      let k = key(row * P.size + i);
      let after = last == none || k < last_key || (k == last_key && i > last);
      if (after && (best == none || k > best_key)) {
        best_key = k;
        best = i;
      }
    }
    keys[local] = best_key;
    places[local] = best;
    for (var s = {{div .C.Lanes 2}}u; s > 0u; s = s / 2u) {
      workgroupBarrier();
      if (lane < s) {
        let k = keys[local + s];
        let i = places[local + s];
        if (i != none && (best == none || k > best_key || (k == best_key && i < best))) {
          best_key = k;
          best = i;
          keys[local] = k;
          places[local] = i;
        }
      }
    }
    workgroupBarrier();
    last_key = keys[r * {{.C.Lanes}}u];
    last = places[r * {{.C.Lanes}}u];
    workgroupBarrier(); // wait before the next round overwrites the result
    if (lane == 0u && first + r < P.rows) {
      index_put(row * P.k + j, index_encode({{.C.Index}}(last)));
    }
  }
}
{{end}}

{{define "radix"}}
{{template "key" .}}
const none = 0xffffffffu;
var<workgroup> bins: array<atomic<u32>, 2048>;
var<workgroup> sums: array<u32, 256>;
var<workgroup> coarse: array<u32, 16>;
var<workgroup> prefix: u32; // upper bits of the least key in the result
var<workgroup> above: u32; // number of larger keys
var<workgroup> equal: u32; // number of keys with these upper bits
var<workgroup> last: u32; // of the elements with the least key, those up to this index are in the result
var<workgroup> taken: atomic<u32>;
var<workgroup> keys: array<u32, {{.C.Tile}}>;
var<workgroup> places: array<u32, {{.C.Tile}}>;

// A workgroup handles one row. It finds the least key of the result digit by digit (11, 11 and 10 bits, upper bits
// first) by counting keys. Then it gathers the elements of the result and sorts them.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let row = group.y * groups.x + group.x;
  if (row >= P.rows) {
    return;
  }
  let base = row * P.size;
  var shift = 32u;
  for (var level = 0u; level < 3u; level = level + 1u) {
    let bits = select(11u, 10u, level == 2u);
    let outer = shift;
    shift = shift - bits;
    for (var d = local; d < 2048u; d = d + 256u) {
      atomicStore(&bins[d], 0u);
    }
    workgroupBarrier();
    let wanted = prefix;
    let mask = (1u << bits) - 1u;
    // eight reads are in flight; one by one, each would wait for the last
    for (var i = local; i < P.size; i = i + 2048u) {
{{- range $j := seq 8}}
      let x{{$j}} = x0_bits(base + min(i + {{mul $j 256}}u, P.size - 1u));
{{- end}}
{{- range $j := seq 8}}
      let key{{$j}} = key_of(x{{$j}});
      if (i + {{mul $j 256}}u < P.size && (level == 0u || key{{$j}} >> outer == wanted)) {
        atomicAdd(&bins[(key{{$j}} >> shift) & mask], 1u);
      }
{{- end}}
    }
    workgroupBarrier();
    var sum = 0u;
{{- range $j := seq 8}}
    sum = sum + atomicLoad(&bins[local * 8u + {{$j}}u]);
{{- end}}
    sums[local] = sum;
    workgroupBarrier();
    if (local < 16u) {
      sum = 0u;
      for (var j = 0u; j < 16u; j = j + 1u) {
        sum = sum + sums[16u * local + j];
      }
      coarse[local] = sum;
    }
    workgroupBarrier();
    if (local == 0u) {
      var count = above;
      if (level == 0u) {
        count = 0u;
      }
      var g = 15u;
      while (g > 0u && count + coarse[g] < P.k) {
        count = count + coarse[g];
        g = g - 1u;
      }
      var s = 16u * g + 15u;
      while (s > 16u * g && count + sums[s] < P.k) {
        count = count + sums[s];
        s = s - 1u;
      }
      var d = 8u * s + 7u;
      while (d > 8u * s && count + atomicLoad(&bins[d]) < P.k) {
        count = count + atomicLoad(&bins[d]);
        d = d - 1u;
      }
      above = count;
      equal = atomicLoad(&bins[d]);
      prefix = select((wanted << bits) | d, d, level == 0u);
      last = none;
      atomicStore(&taken, 0u);
    }
    workgroupBarrier();
  }
  let least = prefix;
  let missing = P.k - above;
  // Of equal keys the first are taken. Each invocation counts in a contiguous piece of the row.
  let each = (P.size + 255u) / 256u;
  let end = min(P.size, (local + 1u) * each);
  var n = 0u;
  if (equal > missing) {
    for (var i = local * each; i < end; i = i + 1u) {
      n = n + select(0u, 1u, key(base + i) == least);
    }
  }
  sums[local] = n;
  for (var j = local; j < {{.C.Tile}}u; j = j + 256u) {
    keys[j] = none;
    places[j] = none;
  }
  workgroupBarrier();
  if (n > 0u) {
    var before = 0u;
    for (var l = 0u; l < local; l = l + 1u) {
      before = before + sums[l];
    }
    if (before < missing && before + n >= missing) {
      for (var i = local * each; i < end; i = i + 1u) {
        before = before + select(0u, 1u, key(base + i) == least);
        if (before == missing) {
          last = i;
          break;
        }
      }
    }
  }
  workgroupBarrier();
  let stop = last;
  for (var i = local; i < P.size; i = i + 2048u) {
{{- range $j := seq 8}}
    let x{{$j}} = x0_bits(base + min(i + {{mul $j 256}}u, P.size - 1u));
{{- end}}
{{- range $j := seq 8}}
    let key{{$j}} = key_of(x{{$j}});
    let place{{$j}} = i + {{mul $j 256}}u;
    if (place{{$j}} < P.size && (key{{$j}} > least || (key{{$j}} == least && place{{$j}} <= stop))) {
      let slot = atomicAdd(&taken, 1u);
      keys[slot] = ~key{{$j}}; // largest first
      places[slot] = place{{$j}};
    }
{{- end}}
  }
{{- template "bitonic" .}}
  for (var j = local; j < P.k; j = j + 256u) {
    index_put(row * P.k + j, index_encode({{.C.Index}}(places[j])));
  }
}
{{end}}

{{define "values"}}
fn value(i: u32) -> u32 {
  return x0_bits((i / P.k) * P.size + u32(index(i)));
}
{{end}}
