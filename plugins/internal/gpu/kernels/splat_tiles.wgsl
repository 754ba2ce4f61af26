{{define "order"}}
{{template "memory" .}}
// Takes the order of splats from the pairs of a sort.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let k = (group.y * groups.x + group.x) * 256u + local;
  if (k < P.n) {
    let i = word(2u * ({{if .C.Begins}}P.n + {{end}}k) + 1u);
    set_word({{if .C.Second}}P.order + k, word(P.first + i){{else}}P.first + k, i{{end}});
  }
}
{{end}}

{{define "bins"}}
{{template "memory" .}}
var<workgroup> left: array<u32, 256>;
var<workgroup> upper: array<u32, 256>;

// Writes for each bin of tiles a bit for each splat in order that it may show. A workgroup does 256 splats.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let first = (group.y * groups.x + group.x) * 256u;
  if (first >= P.n) {
    return;
  }
  // columns and rows of bins, as ranges; an empty range of a splat that no pixel shows
  var columns = 0u;
  var rows = 0u;
  if (first + local < P.n) {
    let i = word(P.order + first + local);
    let x = word(P.rects + 2u * i);
    let y = word(P.rects + 2u * i + 1u);
    set_word(P.sorted + 2u * (first + local), x);
    set_word(P.sorted + 2u * (first + local) + 1u, y);
    columns = ((x & 0xffffu) / P.side) | ((((x >> 16u) + P.side - 1u) / P.side) << 16u);
    rows = ((y & 0xffffu) / P.side) | ((((y >> 16u) + P.side - 1u) / P.side) << 16u);
  }
  left[local] = columns;
  upper[local] = rows;
  workgroupBarrier();
  for (var e = local; e < 8u * P.bins; e = e + 256u) {
    let bin = e / 8u;
    let column = bin % P.across;
    let row = bin / P.across;
    var bits = 0u;
    for (var k = 0u; k < 32u; k = k + 1u) {
      let x = left[(e % 8u) * 32u + k];
      let y = upper[(e % 8u) * 32u + k];
      let shows = column >= (x & 0xffffu) && column < (x >> 16u) && row >= (y & 0xffffu) && row < (y >> 16u);
      bits = bits | select(0u, 1u << k, shows);
    }
    let at = first / 32u + e % 8u;
    if (at < P.words) {
      set_word(P.maps + bin * P.words + at, bits);
    }
  }
}
{{end}}

{{define "walk"}}
var<workgroup> sums: array<u32, 256>;
var<workgroup> coarse: array<u32, 16>;

fn bits_of(x: u32) -> u32 {
  let a = x - ((x >> 1u) & 0x55555555u);
  let b = (a & 0x33333333u) + ((a >> 2u) & 0x33333333u);
  return (((b + (b >> 4u)) & 0x0f0f0f0fu) * 0x01010101u) >> 24u;
}

// The sum of the counts of the invocations before this one, and of all.
fn before(count: u32, local: u32) -> vec2<u32> {
  workgroupBarrier();
  sums[local] = count;
  workgroupBarrier();
  if (local < 16u) {
    var sum = 0u;
    for (var k = 0u; k < 16u; k = k + 1u) {
      sum = sum + sums[16u * local + k];
    }
    coarse[local] = sum;
  }
  workgroupBarrier();
  var out = vec2<u32>(0u);
  for (var k = 0u; k < 16u; k = k + 1u) {
    let c = coarse[k];
    out = out + vec2<u32>(select(0u, c, k < local / 16u), c);
  }
  for (var k = local & 0xf0u; k < local; k = k + 1u) {
    out.x = out.x + sums[k];
  }
  return out;
}

// The splats of a word of a bin's map whose rectangles meet the tile at (x0, y0) to (x1, y1).
fn near(bits: u32, at: u32, x0: u32, y0: u32, x1: u32, y1: u32) -> u32 {
  var left = bits;
  var out = 0u;
  for (var k = 0u; k < 32u && left != 0u; k = k + 1u) {
    let bit = 31u - countLeadingZeros(left);
    left = left & ~(1u << bit);
    let x = word(P.sorted + 2u * (32u * at + bit));
    let y = word(P.sorted + 2u * (32u * at + bit) + 1u);
    if ((x & 0xffffu) < x1 && (x >> 16u) > x0 && (y & 0xffffu) < y1 && (y >> 16u) > y0
{{- if .C.Conics}} &&
        meets(word(P.order + 32u * at + bit), x0, y0, x1, y1){{end}}) {
      out = out | (1u << bit);
    }
  }
  return out;
}
{{end}}

{{define "meets"}}
// Whether splat i is listed for a tile: its ellipse meets the tile's columns in the rows of the tile.
fn meets(i: u32, x0: u32, y0: u32, x1: u32, y1: u32) -> bool {
  let at = P.conics + 20u * i;
  if (word(at + 18u) == 0u) {
    return true;
  }
  let c = Conic(real2(at), real2(at + 2u), real2(at + 4u), real2(at + 6u), real2(at + 8u), real2(at + 10u),
      real2(at + 12u), real2(at + 14u), real2(at + 16u));
  let range = columns(c, f32(y0), f32(y1));
  return range.x < f32(x0 + P.tile) && range.y > f32(x0);
}
{{end}}

{{define "lists"}}
{{template "memory" .}}{{template "pairs" .}}{{template "view_pairs" .}}{{template "clip" .}}
{{- template "meets" .}}{{template "walk" .}}

// {{if .C.Write}}Writes the list of a tile{{else}}Counts the splats of a tile{{end}}.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let tile = group.y * groups.x + group.x;
  if (tile >= P.tiles) {
    return;
  }
  let x0 = tile % P.columns * P.tile;
  let y0 = tile / P.columns * P.tile;
  let x1 = min(x0 + P.tile, P.width);
  let y1 = min(y0 + P.tile, P.height);
  let map = P.maps + (y0 / P.side * P.across + x0 / P.side) * P.words;
  var done = 0u;
{{- if .C.Write}}
  let begin = u32(ranges(2u * tile));
{{- end}}
  for (var first = 0u; first < P.words; first = first + 256u) {
    var bits = 0u;
    if (first + local < P.words) {
      bits = near(word(map + first + local), first + local, x0, y0, x1, y1);
    }
    let counts = before(bits_of(bits), local);
{{- if .C.Write}}
    var to = begin + done + counts.x;
    for (var k = 0u; k < 32u; k = k + 1u) {
      if (((bits >> k) & 1u) == 1u) {
        if (to < P.list) {
          list_put(to, word(P.order + 32u * (first + local) + k));
        }
        to = to + 1u;
      }
    }
{{- end}}
    done = done + counts.y;
  }
{{- if not .C.Write}}
  if (local == 0u) {
    ranges_put(2u * tile + 1u, done);
  }
{{- end}}
}
{{end}}

{{define "ranges"}}
var<workgroup> sums: array<u32, 256>;

// Sums that stop at 2^31 - 1.
fn plus(a: u32, b: u32) -> u32 { return min(a + b, 0x7fffffffu); }

// Turns the counts of tiles into the ranges of the list. One workgroup does all.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  if (group.x + group.y > 0u) {
    return;
  }
  var carry = 0u;
  for (var first = 0u; first < P.tiles; first = first + 256u) {
    let tile = first + local;
    var sum = 0u;
    if (tile < P.tiles) {
      sum = u32(ranges(2u * tile + 1u));
    }
    sums[local] = sum;
    for (var s = 1u; s < 256u; s = s * 2u) {
      workgroupBarrier();
      if (local >= s) {
        sum = plus(sum, sums[local - s]);
      }
      workgroupBarrier();
      sums[local] = sum;
    }
    workgroupBarrier();
    var start = carry;
    if (local > 0u) {
      start = plus(carry, sums[local - 1u]);
    }
    carry = plus(carry, sums[255]);
    if (tile < P.tiles) {
      ranges_put(2u * tile, start);
      ranges_put(2u * tile + 1u, plus(start, sum - select(0u, sums[max(local, 1u) - 1u], local > 0u)));
    }
    workgroupBarrier();
  }
  if (local == 0u && carry > P.list) {
    status_put(0u, 1u);
  }
}
{{end}}

{{define "rest"}}
// Sets the end of the list that no tile has to -1.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let k = (group.y * groups.x + group.x) * 256u + local;
  if (k < P.list && k >= u32(ranges(2u * P.tiles - 1u))) {
    list_put(k, 0xffffffffu);
  }
}
{{end}}

{{define "check_lists"}}
{{- template "valid" .}}
// Checks the list, and the ranges: an entry per invocation, then a tile per invocation.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let k = (group.y * groups.x + group.x) * 256u + local;
  if (k == 0u && !valid()) {
    status_put(0u, 1u);
  }
  if (k < P.list) {
    let i = list(k);
    if (i < -1 || i >= i32(P.n)) {
      status_put(0u, 1u);
    }
  } else if (k - P.list < P.tiles) {
    let lo = ranges(2u * (k - P.list));
    let hi = ranges(2u * (k - P.list) + 1u);
    if (lo < 0 || lo > hi || hi > i32(P.list)) {
      status_put(0u, 1u);
    }
  }
}
{{end}}
