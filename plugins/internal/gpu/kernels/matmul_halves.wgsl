// C = act(A . B + bias) + residual, all of f16, on devices with matrices. The operands stay halves in workgroup memory
// and in matrices; sums are of f32, and so is the epilogue. A workgroup computes {{.C.TileM}} x {{.C.TileN}} sums, each
// of its blocks of 32 invocations {{.C.BlockM}} x {{.C.BlockN}}.
{{- $c := .C}}
{{- range .C.Both}}

// four elements {{if .Across}}of as many rows, for each value of K{{else}}of K, for each row{{end}}
var<workgroup> tile_{{.Name}}: array<vec2<u32>, {{.Size}}>;
fn store_{{.Name}}(base: u32, first: u32, k0: u32, local: u32) {
  for (var u = local; u < {{mul .Lines .Row}}u; u = u + {{$c.Threads}}u) {
    let line = u / {{.Row}}u;
    let four = u % {{.Row}}u * 4u;
{{- if .Across}}
    let row = first + four;
    let k = k0 + line;
    let at = base + k * {{.Rows}} + row;
{{- else}}
    let row = first + line;
    let k = k0 + four;
    let at = base + row * P.k_size + k;
{{- end}}
    var bits = vec2<u32>(0u);
    if (row < {{.Rows}} && k < P.k_size) {
      bits = {{.Name}}4_bits(at / 4u);
    }
    tile_{{.Name}}[line * {{.Line}}u + u % {{.Row}}u] = bits;
  }
}
{{- end}}

var<workgroup> sums: array<vec4<f32>, {{mul .C.Threads (div .C.BlockN 16)}}>; // a row of matrices of each block

@compute @workgroup_size({{.C.Threads}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
  let tiles_n = (P.n_size + {{.C.TileN}}u - 1u) / {{.C.TileN}}u;
  let tiles_m = (P.m_size + {{.C.TileM}}u - 1u) / {{.C.TileM}}u;
  let col0 = id % tiles_n * {{.C.TileN}}u;
  let row0 = id / tiles_n % tiles_m * {{.C.TileM}}u;
  let matrix = id / (tiles_n * tiles_m);
  var rest = matrix;
  var a_base = 0u;
  var b_base = 0u;
  for (var d = 7i; d >= 0i && rest > 0u; d = d - 1i) {
    let k = rest % P.batch[d];
    a_base = a_base + k * P.a_batch[d];
    b_base = b_base + k * P.b_batch[d];
    rest = rest / P.batch[d];
  }
  // The first row and the first column of the block in the tile.
  let block_m = local / 32u % {{.C.BlocksM}}u * {{.C.BlockM}}u;
  let block_n = local / {{mul 32 .C.BlocksM}}u * {{.C.BlockN}}u;
{{- range $i := seq .C.MatricesM}}
  var a{{$i}}: rlx_half8x8;
{{- range $j := seq $c.MatricesN}}
  var c{{$i}}_{{$j}}: rlx_matrix8x8;
{{- end}}{{end}}
{{- range $j := seq .C.MatricesN}}
  var b{{$j}}: rlx_half8x8;
{{- end}}
  for (var k0 = 0u; k0 < P.k_size; k0 = k0 + {{.C.Depth}}u) {
{{- range .C.Both}}
    store_{{.Name}}({{.Name}}_base, {{.Base}}, k0, local);
{{- end}}
    workgroupBarrier();
{{- range $k := seq (div .C.Depth 8)}}
{{- range $i := seq $c.MatricesM}}
    rlx_matrix_load(&a{{$i}}, &tile_a, {{$c.X.At $i $k}}u + block_m * {{$c.X.First}}u, {{mul 4 $c.X.Line}}u,
        {{$c.X.Across}});
{{- end}}
{{- range $j := seq $c.MatricesN}}
    rlx_matrix_load(&b{{$j}}, &tile_b, {{$c.W.At $j $k}}u + block_n * {{$c.W.First}}u, {{mul 4 $c.W.Line}}u,
        {{not $c.W.Across}});
{{- end}}
{{- range $i := seq $c.MatricesM}}{{range $j := seq $c.MatricesN}}
    rlx_matrix_multiply_add(&c{{$i}}_{{$j}}, &a{{$i}}, &b{{$j}});
{{- end}}{{end}}
{{- end}}
    workgroupBarrier();
  }
  let own = local / 32u * {{mul 2 .C.BlockN}}u;
{{- range $i := seq .C.MatricesM}}
  {
{{- range $j := seq $c.MatricesN}}
    rlx_matrix_store(&c{{$i}}_{{$j}}, &sums, own * 4u + {{mul $j 8}}u, {{$c.BlockN}}u);
{{- end}}
    workgroupBarrier();
    for (var v = local % 32u; v < {{mul 2 $c.BlockN}}u; v = v + 32u) {
      finish(matrix, row0 + block_m + {{mul $i 8}}u + v / {{div $c.BlockN 4}}u,
          col0 + block_n + v % {{div $c.BlockN 4}}u * 4u, sums[own + v]);
    }
    workgroupBarrier();
  }
{{- end}}
}

// finish computes and writes four columns of a row.
fn finish(matrix: u32, row: u32, col: u32, sum: vec4<f32>) {
  if (row >= P.m_size || col >= P.n_size) {
    return;
  }
  var v = sum;
{{- if .C.HasBias}}
  v = v + bias4(col / 4u);
{{- end}}
{{- if .C.Act}}
  v = vec4<f32>({{scalar .C.Act "v.x"}}, {{scalar .C.Act "v.y"}}, {{scalar .C.Act "v.z"}}, {{scalar .C.Act "v.w"}});
{{- end}}
  let at = ((matrix * P.m_size + row) * P.n_size + col) / 4u;
{{- if .C.Add}}
  v = v + residual4(at);
{{- end}}
  y4_put(at, v);
}
