// C = act(A . B + bias) + residual in f32. A workgroup computes a tile of the result. An invocation holds TM x TN sums
// in registers, in groups of four rows and four columns. Parts of A and B with Depth values of K are staged in
// workgroup memory with K outermost; the next part is fetched from the buffers while the present one is used.
//
// Sums in odd rows hold their columns in reverse order. Then two consecutive products always share an operand, also
// where one row ends and the next begins. A GPU that reads two registers per instruction would lose a cycle if all
// three operands were new.
//
// Inner loops use only indices that are constant or do not change in the loop. The device clamps all others to the
// array's bounds, which costs one more instruction per read.
//
// On devices with matrices, the 32 invocations of a block hold its sums together, in matrices of 8x8. They pass through
// workgroup memory before the epilogue.
{{- range .C.Operands}}
{{- if $c.Matrices}}

// A line of rows for each value of K.
var<workgroup> tile_{{.Name}}: array<vec4<f32>, {{.Size}}>;
{{- else}}

// Four values of K for the rows of {{.Name}}{{if .Pad}}. The padding makes neighbouring invocations store to different
// banks{{end}}.
struct Four_{{.Name}} {
  k: array<array<vec4<f32>, {{.Fours}}>, 4>,
{{- if .Pad}}
  padding: array<vec4<f32>, {{.Pad}}>,
{{- end}}
}
var<workgroup> tile_{{.Name}}: array<Four_{{.Name}}, {{.Quads}}>;
{{- end}}
{{- end}}
{{- define "channel"}}{{index .In 0}} * {{index .In 1}} * {{index .In 2}}{{end}}
{{- define "tap_offset"}}
// Offset of a tap from the first tap: depth, line, column.
fn tap_offset(tap: u32) -> vec3<u32> {
  return vec3<u32>(tap / {{mul (index .Kernel 1) (index .Kernel 2)}}u * {{index .Dilation 0}}u,
      tap / {{index .Kernel 2}}u % {{index .Kernel 1}}u * {{index .Dilation 1}}u, tap % {{index .Kernel 2}}u *
          {{index .Dilation 2}}u);
}
{{end}}
{{- define "first_tap"}}
  let pixel = base + min(row * 4u + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(P.{{.Rows}} - 1u));
  let lines = pixel / {{index .Patch.Made 2}};
  let planes = lines / {{index .Patch.Made 1}};
  let z = planes % {{index .Patch.Made 0}} * {{index .Patch.Stride 0}}u - {{index .Patch.Padding 0}}u;
  let y = lines % {{index .Patch.Made 1}} * {{index .Patch.Stride 1}}u - {{index .Patch.Padding 1}}u;
  let x = pixel % {{index .Patch.Made 2}} * {{index .Patch.Stride 2}}u - {{index .Patch.Padding 2}}u;
{{- end}}
{{- define "operand"}}
fn place_{{.Name}}(unit: u32) -> vec2<u32> {
{{- if .Across}}
  return vec2<u32>(unit % {{.Fours}}u, unit / {{.Fours}}u);
{{- else}}
  return vec2<u32>(unit / {{.Quads}}u, unit % {{.Quads}}u);
{{- end}}
}
{{- if .Patch}}{{$p := .Patch}}
{{template "tap_offset" $p}}
{{- if $p.Copied}}
// Rows are the pixels of the result. K runs over the patch of each pixel in the copy of x: {{$p.Block}} channels (the
// depth of a tile) of one tap, the same channels of the next tap, and so on, then the next channels.
fn begin_{{.Name}}(base: u32, row: u32, quad: u32) -> vec4<u32> {
  let pixel = base + min(row * 4u + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(P.{{.Rows}} - 1u));
  let line = pixel / {{index $p.Made 2}};
  let plane = line / {{index $p.Made 1}};
  let z = plane / {{index $p.Made 0}} * {{$p.Blocks}}u * {{index $p.Bordered 0}} +
      plane % {{index $p.Made 0}} * {{index $p.Stride 0}}u;
  let y = z * {{index $p.Bordered 1}} + line % {{index $p.Made 1}} * {{index $p.Stride 1}}u;
  return {{$p.Image}}u + (y * {{index $p.Bordered 2}} + pixel % {{index $p.Made 2}} * {{index $p.Stride 2}}u) * 4u +
      quad;
}

fn fetch_{{.Name}}(at: vec4<u32>, k0: u32, quad: u32) -> mat4x4<f32> {
  let block = k0 / {{$p.Block}}u;
  let under = tap_offset(block % {{$p.Taps}}u);
  let plane = block / {{$p.Taps}}u * {{index $p.Bordered 0}} + under.x;
  let i = at + ((plane * {{index $p.Bordered 1}} + under.y) * {{index $p.Bordered 2}} + under.z) * 4u;
  return transpose(mat4x4<f32>({{.Name}}4(i.x), {{.Name}}4(i.y), {{.Name}}4(i.z), {{.Name}}4(i.w)));
}
{{- else}}
// Rows are the pixels of the result, of one image after another. K runs over the patch of each pixel in x
// {{if $p.Last}}[batch, depth, height, width, channels]{{else}}[batch, channels, depth, height, width]{{end}}:
// {{$p.Block}} channels of one tap, the same channels of the next tap, and so on, then the next channels.
{{- if $p.Guarded}}
//
// begin returns the offset in x of the first tap of each pixel. It wraps around in the padding. taps says which planes,
// lines and columns of the taps are inside of x: a bit for each. So a fetch only adds offsets and compares bits, and
// reads without a condition.
{{- end}}
{{- if $p.Many}}
fn begin_{{.Name}}(base: u32, row: u32, quad: u32) -> vec4<u32> {
  return base + min(row * 4u + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(P.{{.Rows}} - 1u));
}
{{- else}}
fn begin_{{.Name}}(base: u32, row: u32, quad: u32) -> vec4<u32> {
{{- template "first_tap" .}}
  return (planes / {{index $p.Made 0}} * {{if $p.Last}}{{index $p.In 0}} + z){{else}}{{$p.CIn}}u * {{index $p.In 0}} +
      z){{end}} * {{index $p.In 1}} * {{index $p.In 2}} + y * {{index $p.In 2}} + x;
}
{{- end}}
{{- if $p.Guarded}}

fn taps_{{.Name}}(base: u32, row: u32) -> vec4<u32> {
{{- template "first_tap" .}}
  var inside = vec4<u32>(0u);
{{- range $g := $p.Guards}}{{range $t := seq $g.Kernel}}
  inside = inside | select(vec4<u32>(0u), vec4<u32>({{$g.Bit $t}}u),
      {{$g.Var}} + {{mul $t $g.Dilation}}u < vec4<u32>({{$g.Size}}));
{{- end}}{{end}}
  return inside;
}
{{- end}}

fn fetch_{{.Name}}(at: vec4<u32>, {{if $p.Guarded}}taps: vec4<u32>, {{end}}k0: u32, quad: u32) -> mat4x4<f32> {
  let k = k0 + quad * 4u;
  let tap = k / {{$p.Block}}u % {{$p.Taps}}u;
  let under = tap_offset(tap);
  let c = k / {{mul $p.Block $p.Taps}}u * {{$p.Block}}u + k % {{$p.Block}}u;
{{- if $p.Many}}
  let lines = at / {{index $p.Made 2}};
  let planes = lines / {{index $p.Made 1}};
  let z = planes % {{index $p.Made 0}} * {{index $p.Stride 0}}u + under.x - {{index $p.Padding 0}}u;
  let y = lines % {{index $p.Made 1}} * {{index $p.Stride 1}}u + under.y - {{index $p.Padding 1}}u;
  let x = at % {{index $p.Made 2}} * {{index $p.Stride 2}}u + under.z - {{index $p.Padding 2}}u;
  let inside = (z < vec4<u32>({{index $p.In 0}})) & (y < vec4<u32>({{index $p.In 1}})) &
      (x < vec4<u32>({{index $p.In 2}})) & vec4<bool>(c < {{$p.CIn}}u);
  let first = (planes / {{index $p.Made 0}} * {{if $p.Last}}{{index $p.In 0}} + z){{else}}{{$p.CIn}}u *
      {{index $p.In 0}} + z){{end}} * {{index $p.In 1}} * {{index $p.In 2}} + y * {{index $p.In 2}} + x;
{{- else}}
{{- if $p.Guarded}}
  let bits = {{range $i, $g := $p.Guards}}{{if $i}} |
      {{end}}({{$g.Bit 0}}u << ({{$g.Tap}})){{end}};
  let inside = ((taps & vec4<u32>(bits)) == vec4<u32>(bits)){{if not .WholeK}} & vec4<bool>(c < {{$p.CIn}}u){{end}};
{{- else if not .WholeK}}
  let inside = vec4<bool>(c < {{$p.CIn}}u);
{{- end}}
  let first = at + (under.x * {{index $p.In 1}} + under.y) * {{index $p.In 2}} + under.z;
{{- end}}
{{- $select := or $p.Many $p.Guarded (not .WholeK)}}
{{- $name := .Name}}
{{- if $p.Last}}
  let i = {{if $select}}select(vec4<u32>(0u), {{end}}first * {{div $p.CIn 4}}u + c / 4u
      {{- if $select}}, inside){{end}};
  return transpose(mat4x4<f32>(
{{- range $j, $v := fields}}{{if $j}},{{end}}
    {{if $select}}select(vec4<f32>(0.0), {{$name}}4(i.{{$v}}), inside.{{$v}}){{else}}{{$name}}4(i.{{$v}}){{end}}
{{- end}}));
{{- else}}
  let channel = {{template "channel" $p}};
  let i = {{if $select}}select(vec4<u32>(0u), {{end}}first + c * channel{{if $select}}, inside){{end}};
  return mat4x4<f32>(
{{- range $j := seq 4}}{{if $j}},{{end}}
    {{if $select}}select(vec4<f32>(0.0), {{end}}vec4<f32>(
{{- range $k, $v := fields}}{{if $k}}, {{end}}{{$name}}(i.{{$v}} + {{$j}}u * channel){{end}})
{{- if $select}}, inside){{end}}
{{- end}});
{{- end}}
}
{{- end}}
{{- else if .Filter}}{{$p := .Filter}}{{$name := .Name}}
// Stored as [{{.Rows}}, channels, taps] and read in the order of the patches.
fn begin_{{.Name}}(base: u32, row: u32, quad: u32) -> vec4<u32> {
  return min(row * 4u + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(P.{{.Rows}} - 1u)) * {{mul $p.CIn $p.Taps}}u;
}

fn fetch_{{.Name}}(at: vec4<u32>, k0: u32, quad: u32) -> mat4x4<f32> {
  let k = k0 + quad * 4u;
  let c = k / {{mul $p.Block $p.Taps}}u * {{$p.Block}}u + k % {{$p.Block}}u;
{{- if not .WholeK}}
  if (c >= {{$p.CIn}}u) {
    return mat4x4<f32>();
  }
{{- end}}
  let i = at + c * {{$p.Taps}}u + k / {{$p.Block}}u % {{$p.Taps}}u;
  return mat4x4<f32>(
{{- range $j := seq 4}}{{if $j}},{{end}}{{$step := mul $j $p.Taps}}
    vec4<f32>({{$name}}(i.x + {{$step}}u), {{$name}}(i.y + {{$step}}u), {{$name}}(i.z + {{$step}}u),
        {{$name}}(i.w + {{$step}}u))
{{- end}});
}
{{- else if .Across}}
// Stored as [K, {{.Rows}}]: the vectors of a unit are four rows at one k.
fn begin_{{.Name}}(base: u32, row: u32, quad: u32) -> {{.At}} {
  let step = P.{{.Rows}} / 4u;
  return {{.At}}(base / 4u + quad * 4u * step + {{if .Whole}}row{{else}}min(row, step - 1u){{end}});
}

fn fetch_{{.Name}}(at: {{.At}}, k0: u32, quad: u32) -> mat4x4<f32> {
  let i = vec4<u32>(at + k0 / 4u * P.{{.Rows}}) + P.{{.Rows}} / 4u * vec4<u32>(0u, 1u, 2u, 3u);
  var m = mat4x4<f32>({{.Name}}4(i.x), {{.Name}}4(i.y), {{.Name}}4(i.z), {{.Name}}4(i.w));
{{- if not .WholeK}}
  let left = P.k_size - min(k0 + quad * 4u, P.k_size);
{{- range $j := seq 4}}
  if (left <= {{$j}}u) { m[{{$j}}] = vec4<f32>(0.0); }
{{- end}}
{{- end}}
  return m;
}
{{- else}}
// Stored as [{{.Rows}}, K]: the vectors of a unit are four values of K in one row.
{{- if eq .At "u32"}}
fn begin_{{.Name}}(base: u32, row: u32, quad: u32) -> u32 {
  return (base + row * 4u * P.k_size) / 4u + quad;
}
{{- else}}
fn begin_{{.Name}}(base: u32, row: u32, quad: u32) -> vec4<u32> {
  return (base + min(row * 4u + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(P.{{.Rows}} - 1u)) * P.k_size) / 4u + quad;
}
{{- end}}

fn fetch_{{.Name}}(at: {{.At}}, k0: u32, quad: u32) -> mat4x4<f32> {
  let i = vec4<u32>(at + k0 / 4u){{if eq .At "u32"}} + P.k_size / 4u * vec4<u32>(0u, 1u, 2u, 3u){{end}};
  let m = mat4x4<f32>({{.Name}}4(i.x), {{.Name}}4(i.y), {{.Name}}4(i.z), {{.Name}}4(i.w));
{{- if not .WholeK}}
  if (k0 + quad * 4u >= P.k_size) {
    return mat4x4<f32>();
  }
{{- end}}
  return transpose(m);
}
{{- end}}
{{end}}
// A unit is four rows by four values of K. place returns its row and its K divided by four; neighbouring invocations
// fetch adjacent data. begin returns the offsets of its four vectors; past the end it repeats the last rows, whose sums
// are not written. fetch returns the unit k0 further along K as one vector of four rows per k; past the end it is 0.
{{- template "operand" .C.A}}
{{- template "operand" .C.B}}
{{range .C.Passes}}
fn fetch_{{.Index}}(unit: u32, at: {{$c.At}}, {{if $c.Guarded}}taps: vec4<u32>, {{end}}k0: u32, quad: u32) ->
    mat4x4<f32> {
{{- if and .A .B}}
  if (unit < {{.UnitsA}}u) {
    return fetch_a(at, {{if $c.A.Guarded}}taps, {{end}}k0, quad);
  }
{{- end}}
{{- if not .All}}
  if (unit >= {{.Units}}u) {
    return mat4x4<f32>();
  }
{{- end}}
  return fetch_{{if .B}}b(at, {{if $c.B.Guarded}}taps, {{end}}{{else}}a(at, {{if $c.A.Guarded}}taps, {{end}}{{end -}}
      k0, quad);
}

fn store_{{.Index}}(unit: u32, place: vec2<u32>, m: mat4x4<f32>) {
{{- if .A}}
  {{if .B}}if (unit < {{.UnitsA}}u) {{else if not .All}}if (unit < {{.Units}}u) {{end}}{
{{- range $j := seq 4}}
    tile_a{{if $c.Matrices}}[(place.y * 4u + {{$j}}u) * {{$c.A.Line}}u +
        place.x]{{else}}[place.y].k[{{$j}}][place.x]{{end}} = m[{{$j}}];
{{- end}}
  }
{{- end}}
{{- if .B}}
  {{if .A}}else {{end}}{{if not .All}}if (unit < {{.Units}}u) {{end}}{
{{- range $j := seq 4}}
    tile_b{{if $c.Matrices}}[(place.y * 4u + {{$j}}u) * {{$c.B.Line}}u +
        place.x]{{else}}[place.y].k[{{$j}}][place.x]{{end}} = m[{{$j}}];
{{- end}}
  }
{{- end}}
}
{{end}}
{{- define "store"}}
{{- range .Passes}}
    store_{{.Index}}(unit{{.Index}}, place{{.Index}}, next{{.Index}});
{{- end}}
{{- end}}
{{- define "load"}}{{$s := .}}
{{- range $i := seq .MV}}
      {{$s.Assign}}a{{$i}} = tile_a[{{div $s.K 4}}].k[{{mod $s.K 4}}][lane_a + {{mul $i $s.LanesM}}u];
{{- end}}
{{- range $j := seq .NV}}
      {{$s.Assign}}b{{$j}} = tile_b[{{div $s.K 4}}].k[{{mod $s.K 4}}][lane_b + {{mul $j $s.LanesN}}u];
{{- end}}
{{- end}}
{{- define "add"}}{{$s := .}}
{{- range $i := seq .TM}}{{range $j := $s.Walk $i}}
      c{{$i}}_{{$j}} = fma(vec4<f32>({{$s.Held}}a{{div $i 4}}[{{mod $i 4}}]), {{$s.Held}}b{{$j}}{{$s.Turned $i}},
          c{{$i}}_{{$j}});
{{- end}}{{end}}
{{- end}}

{{- define "sum_matrices"}}{{$c := .}}
{{- range $i := seq .MatricesM}}{{range $j := seq $c.MatricesN}}
  var c{{$i}}_{{$j}}: rlx_matrix8x8;
{{- end}}{{end}}
{{- range $i := seq .MatricesM}}
  var a{{$i}}: rlx_matrix8x8;
{{- end}}
{{- range $j := seq .MatricesN}}
  var b{{$j}}: rlx_matrix8x8;
{{- end}}
{{- template "store" .}}
  workgroupBarrier();
  for (var k0 = 0u; k0 < k_size; k0 = k0 + {{.Depth}}u) {
{{- range .Passes}}
    next{{.Index}} = fetch_{{.Index}}(unit{{.Index}}, at{{.Index}}, {{$c.Taps .Index}}
        {{- $c.First}}k0 + {{$c.Depth}}u, place{{.Index}}.y);
{{- end}}
{{- range $k := seq (div .Depth 8)}}
{{- range $i := seq $c.MatricesM}}
    rlx_matrix_load(&a{{$i}}, &tile_a, {{add (mul $k (mul 32 $c.A.Line)) (mul $i 8)}}u + block_m, {{mul 4 $c.A.Line}}u,
        true);
{{- end}}
{{- range $j := seq $c.MatricesN}}
    rlx_matrix_load(&b{{$j}}, &tile_b, {{add (mul $k (mul 32 $c.B.Line)) (mul $j 8)}}u + block_n, {{mul 4 $c.B.Line}}u,
        false);
{{- end}}
{{- range $i := seq $c.MatricesM}}{{range $j := seq $c.MatricesN}}
    rlx_matrix_multiply_add(&c{{$i}}_{{$j}}, &a{{$i}}, &b{{$j}});
{{- end}}{{end}}
{{- end}}
    workgroupBarrier();
{{- template "store" .}}
    workgroupBarrier();
  }
  // A row of matrices at a time, in a part of tile_a of the block's own. The epilogue is compiled once, as below.
  let sums = local / 32u * {{mul 2 .BlockN}}u;
  for (var i = 0u; i < P.rows; i = i + 1u) {
    switch (i) {
{{- range $i := seq .MatricesM}}
      case {{$i}}u: {
{{- range $j := seq $c.MatricesN}}
        rlx_matrix_store(&c{{$i}}_{{$j}}, &tile_a, sums * 4u + {{mul $j 8}}u, {{$c.BlockN}}u);
{{- end}}
      }
{{- end}}
      default: {}
    }
    workgroupBarrier();
    for (var v = local % 32u; v < {{mul 2 .BlockN}}u; v = v + 32u) {
      finish(at.x + block_m + i * 8u + v / {{div .BlockN 4}}u, at.y + block_n + v % {{div .BlockN 4}}u * 4u,
          at.z * P.m_size * P.n_size, tile_a[sums + v]);
    }
    workgroupBarrier();
  }
{{- end}}

@compute @workgroup_size({{.C.Threads}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
  let at = corner(id);
{{- if .C.Sliced}}
  // A matrix has as many parts as K has, one after another.
  let k_first = at.z % {{.C.Splits}}u * P.part;
  let k_size = min(P.part, P.k_size - min(k_first, P.k_size));
  var rest = at.z / {{.C.Splits}}u;
{{- else}}
  let k_size = {{if gt .C.Splits 1}}min(P.part, P.k_size - min(at.z * P.part, P.k_size)){{else}}P.k_size{{end}};
  var rest = at.z;
{{- end}}
  var a_base = 0u;
  var b_base = 0u;
  for (var d = 7i; d >= 0i && rest > 0u; d = d - 1i) {
    let k = rest % P.batch[d];
    a_base = a_base + k * P.a_batch[d];
    b_base = b_base + k * P.b_batch[d];
    rest = rest / P.batch[d];
  }
{{- if .C.Matrices}}
  // The first row and the first column of the block in the tile.
  let block_m = local / 32u % {{.C.BlocksM}}u * {{.C.BlockM}}u;
  let block_n = local / {{mul 32 .C.BlocksM}}u * {{.C.BlockN}}u;
{{- else}}
  let lane = lanes(local);
  let lane_a = lane.x;
  let lane_b = lane.y;
{{- end}}
  // The units that the invocation fetches.
{{- range .C.Passes}}
  let unit{{.Index}} = local + {{.First}}u;
{{- if and .A .B}}
  var place{{.Index}} = place_b(unit{{.Index}} - {{.UnitsA}}u);
  var at{{.Index}} = begin_b(b_base, at.y / 4u + place{{.Index}}.x, place{{.Index}}.y);
{{- if $c.Guarded}}
  var taps{{.Index}} = {{if $c.B.Guarded}}taps_b(b_base, at.y / 4u + place{{.Index}}.x){{else}}vec4<u32>(0u){{end}};
{{- end}}
  if (unit{{.Index}} < {{.UnitsA}}u) {
    place{{.Index}} = place_a(unit{{.Index}});
    at{{.Index}} = begin_a(a_base, at.x / 4u + place{{.Index}}.x, place{{.Index}}.y);
{{- if $c.A.Guarded}}
    taps{{.Index}} = taps_a(a_base, at.x / 4u + place{{.Index}}.x);
{{- end}}
  }
{{- else if .A}}
  let place{{.Index}} = place_a(unit{{.Index}});
  let at{{.Index}} = begin_a(a_base, at.x / 4u + place{{.Index}}.x, place{{.Index}}.y);
{{- if $c.Guarded}}
  let taps{{.Index}} = {{if $c.A.Guarded}}taps_a(a_base, at.x / 4u + place{{.Index}}.x){{else}}vec4<u32>(0u){{end}};
{{- end}}
{{- else}}
  let place{{.Index}} = place_b(unit{{.Index}} - {{.UnitsA}}u);
  let at{{.Index}} = begin_b(b_base, at.y / 4u + place{{.Index}}.x, place{{.Index}}.y);
{{- if $c.Guarded}}
  let taps{{.Index}} = {{if $c.B.Guarded}}taps_b(b_base, at.y / 4u + place{{.Index}}.x){{else}}vec4<u32>(0u){{end}};
{{- end}}
{{- end}}
  var next{{.Index}} = fetch_{{.Index}}(unit{{.Index}}, at{{.Index}}, {{$c.Taps .Index}}
        {{- $c.First}}0u, place{{.Index}}.y);
{{- end}}
{{- if .C.Matrices}}
{{- template "sum_matrices" .C}}
{{- else}}
{{- range $i := seq .C.TM}}{{range $j := seq $c.NV}}
  var c{{$i}}_{{$j}} = vec4<f32>(0.0);
{{- end}}{{end}}
  // The last two values of K of a part stay in registers while the next part is stored: the sums of one are computed
  // between the barriers and those of the other after them, so that there is work while workgroup memory is refilled.
{{- range $i := seq .C.MV}}
  var last_a{{$i}} = vec4<f32>(0.0);
{{- end}}
{{- range $j := seq .C.NV}}
  var last_b{{$j}} = vec4<f32>(0.0);
{{- end}}
{{- template "store" .C}}
  workgroupBarrier();
  for (var k0 = 0u; k0 < k_size; k0 = k0 + {{.C.Depth}}u) {
{{- range .C.Passes}}
    next{{.Index}} = fetch_{{.Index}}(unit{{.Index}}, at{{.Index}}, {{$c.Taps .Index}}
        {{- $c.First}}k0 + {{$c.Depth}}u, place{{.Index}}.y);
{{- end}}
{{- range $n, $step := .C.Steps}}
    {
{{- template "load" $step}}
{{- if not $n}}
{{- template "add" $c.Last}}
{{- end}}
{{- template "add" $step}}
    }
{{- end}}
{{- template "load" .C.Late}}
{{- template "load" .C.Last}}
    workgroupBarrier();
{{- template "store" .C}}
{{- template "add" .C.Late}}
    workgroupBarrier();
  }
{{- template "add" .C.Last}}
  // Compilers do not unroll a loop with a parameter as its bound, so the epilogue is compiled only once and not per
  // row.
  for (var i = 0u; i < P.rows; i = i + 1u) {
{{- range $j := seq .C.NV}}
    var v{{$j}} = vec4<f32>();
{{- end}}
    switch (i) {
{{- range $i := seq .C.TM}}
      case {{$i}}u: {
{{- range $j := seq $c.NV}}
        v{{$j}} = c{{$i}}_{{$j}}{{$c.Turned $i}};
{{- end}}
      }
{{- end}}
      default: {}
    }
    let row = at.x + (lane_a + i / 4u * {{.C.LanesM}}u) * 4u + i % 4u;
{{- range $j := seq .C.NV}}
    finish(row, at.y + (lane_b + {{mul $j $c.LanesN}}u) * 4u, at.z * P.m_size * P.n_size, v{{$j}});
{{- end}}
  }
{{- end}}
}
