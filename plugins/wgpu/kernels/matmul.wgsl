// C = act(A . B + bias) + residual in f32. A workgroup of 16 x 16 invocations makes a tile of 16*TM rows and 16*TN columns;
// an invocation holds TM x TN sums in registers, as groups of four rows and four columns that lie 64 apart. Tiles of A and B,
// 16 deep, pass through workgroup memory with K outermost; the next ones are fetched while the present ones are used.
var<workgroup> tile_a: array<vec4<f32>, {{.C.SizeA}}>;
var<workgroup> tile_b: array<vec4<f32>, {{.C.SizeB}}>;

{{if .C.Conv}}
// Element k of the patch that pixel row of the result sees, x being [batch, height, width, channels]. The weight, stored
// [out, in, kh, kw], is the matrix B as it is.
fn patch_at(row: u32, k: u32) -> f32 {
  let taps = P.kh * P.kw;
  let c = k / taps;
  let tap = k % taps;
  let y = ((row / P.w_out) % P.h_out) * P.stride_h + (tap / P.kw) * P.dil_h - P.pad_h;
  let x = (row % P.w_out) * P.stride_w + (tap % P.kw) * P.dil_w - P.pad_w;
  if (row >= P.m_size || k >= P.k_size || y >= P.h_in || x >= P.w_in) {
    return 0.0;
  }
  return a((((row / (P.w_out * P.h_out)) * P.h_in + y) * P.w_in + x) * P.c_in + c);
}
{{end}}
fn fetch_a(base: u32, row: u32, k: u32) -> mat4x4<f32> {
{{- if .C.Conv}}
  var m = mat4x4<f32>();
{{- range $j := seq 4}}
  m[{{$j}}] = vec4<f32>(patch_at(row * 4u, k * 4u + {{$j}}u), patch_at(row * 4u + 1u, k * 4u + {{$j}}u), patch_at(row * 4u + 2u, k * 4u + {{$j}}u), patch_at(row * 4u + 3u, k * 4u + {{$j}}u));
{{- end}}
  return m;
{{- else if .C.TransA}}
  // Stored [K,M]: row is a group of four columns.
  var m = mat4x4<f32>();
  if (row * 4u < P.m_size) {
{{- range $j := seq 4}}
    if (k * 4u + {{$j}}u < P.k_size) { m[{{$j}}] = a4((base + (k * 4u + {{$j}}u) * P.m_size) / 4u + row); }
{{- end}}
  }
  return m;
{{- else}}
  var m = mat4x4<f32>();
  if (k * 4u < P.k_size) {
{{- range $j := seq 4}}
    if (row * 4u + {{$j}}u < P.m_size) { m[{{$j}}] = a4((base + (row * 4u + {{$j}}u) * P.k_size) / 4u + k); }
{{- end}}
  }
  return transpose(m);
{{- end}}
}

fn fetch_b(base: u32, col: u32, k: u32) -> mat4x4<f32> {
  var m = mat4x4<f32>();
{{- if .C.TransB}}
  if (k * 4u < P.k_size) {
{{- range $j := seq 4}}
    if (col * 4u + {{$j}}u < P.n_size) { m[{{$j}}] = b4((base + (col * 4u + {{$j}}u) * P.k_size) / 4u + k); }
{{- end}}
  }
  return transpose(m);
{{- else}}
  if (col * 4u < P.n_size) {
{{- range $j := seq 4}}
    if (k * 4u + {{$j}}u < P.k_size) { m[{{$j}}] = b4((base + (k * 4u + {{$j}}u) * P.n_size) / 4u + col); }
{{- end}}
  }
  return m;
{{- end}}
}

fn finish(row: u32, col: u32, base: u32, sum: vec4<f32>) {
  if (row >= P.m_size || col >= P.n_size) {
    return;
  }
  var v = sum;
{{- if .C.Vec}}
{{- if .C.Bias}}
  v = v + bias4(col / 4u);
{{- end}}
{{- if .C.Act}}
  v = vec4<f32>(op_{{.C.Act}}(v.x), op_{{.C.Act}}(v.y), op_{{.C.Act}}(v.z), op_{{.C.Act}}(v.w));
{{- end}}
  let at = (base + row * P.n_size + col) / 4u;
{{- if .C.Residual}}
  v = v + residual4(at);
{{- end}}
  y4_put(at, v);
{{- else}}
  for (var j = 0u; j < 4u && col + j < P.n_size; j = j + 1u) {
    var s = v[j];
{{- if .C.Bias}}
    s = s + bias(col + j);
{{- end}}
{{- if .C.Act}}
    s = op_{{.C.Act}}(s);
{{- end}}
    let at = base + row * P.n_size + col + j;
{{- if .C.Residual}}
    s = s + residual(at);
{{- end}}
    y_put(at, bitcast<u32>(s));
  }
{{- end}}
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
  let tiles_n = (P.n_size + {{.C.TileN}}u - 1u) / {{.C.TileN}}u;
  let tiles_m = (P.m_size + {{.C.TileM}}u - 1u) / {{.C.TileM}}u;
  let n0 = (id % tiles_n) * {{.C.TileN}}u;
  let m0 = ((id / tiles_n) % tiles_m) * {{.C.TileM}}u;
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
  let tx = local % 16u;
  let ty = local / 16u;
  // Loading: the first half of the invocations fetches A, the second B, each four rows by four values of K.
  let unit = local % 128u;
  let fetches_a = local < 128u;
  let unit_k = unit % 4u;
  let unit_row = unit / 4u;
  let idle = unit_row >= select({{div .C.TileN 4}}u, {{div .C.TileM 4}}u, fetches_a);

{{- range $i := seq .C.TM}}{{range $j := seq $.C.NV}}
  var c{{$i}}_{{$j}} = vec4<f32>(0.0);
{{- end}}{{end}}
  var next = mat4x4<f32>();
  if (!idle) {
    if (fetches_a) {
      next = fetch_a(a_base, m0 / 4u + unit_row, unit_k);
    } else {
      next = fetch_b(b_base, n0 / 4u + unit_row, unit_k);
    }
  }
  for (var k0 = 0u; k0 < P.k_size; k0 = k0 + 16u) {
    if (!idle) {
      if (fetches_a) {
{{- range $j := seq 4}}
        tile_a[(unit_k * 4u + {{$j}}u) * {{$.C.StrideA}}u + unit_row] = next[{{$j}}];
{{- end}}
      } else {
{{- range $j := seq 4}}
        tile_b[(unit_k * 4u + {{$j}}u) * {{$.C.StrideB}}u + unit_row] = next[{{$j}}];
{{- end}}
      }
    }
    workgroupBarrier();
    if (!idle && k0 + 16u < P.k_size) {
      if (fetches_a) {
        next = fetch_a(a_base, m0 / 4u + unit_row, (k0 + 16u) / 4u + unit_k);
      } else {
        next = fetch_b(b_base, n0 / 4u + unit_row, (k0 + 16u) / 4u + unit_k);
      }
    }
    for (var k = 0u; k < 16u; k = k + 1u) {
{{- range $i := seq .C.MV}}
      let a{{$i}} = tile_a[k * {{$.C.StrideA}}u + ty + {{mul $i 16}}u];
{{- end}}
{{- range $j := seq .C.NV}}
      let b{{$j}} = tile_b[k * {{$.C.StrideB}}u + tx + {{mul $j 16}}u];
{{- end}}
{{- range $i := seq .C.TM}}{{range $j := seq $.C.NV}}
      c{{$i}}_{{$j}} = fma(vec4<f32>(a{{div $i 4}}[{{mod $i 4}}]), b{{$j}}, c{{$i}}_{{$j}});
{{- end}}{{end}}
    }
    workgroupBarrier();
  }
  let y_base = matrix * P.m_size * P.n_size;
{{- range $i := seq .C.TM}}{{range $j := seq $.C.NV}}
  finish(m0 + ty * 4u + {{add (mul (div $i 4) 64) (mod $i 4)}}u, n0 + tx * 4u + {{mul $j 64}}u, y_base, c{{$i}}_{{$j}});
{{- end}}{{end}}
}
