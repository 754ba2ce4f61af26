// A product with weights [K,N] of few bits and separate scales. A workgroup computes {{.C.Rows}} rows of 32 columns. An
// invocation computes four columns over a 32nd of K, so that it decodes each weight once for all rows.
var<workgroup> shares: array<vec4<f32>, {{mul 256 .C.Rows}}>; // [row][part of K][four columns]

{{- if or (eq .C.Scheme "fp8_e4m3") (eq .C.Scheme "nvfp4")}}

fn e4m3(b: u32) -> f32 {
  let e = (b >> 3u) & 15u;
  let m = b & 7u;
  var v = bitcast<f32>(((e + 120u) << 23u) | (m << 20u));
  if (e == 0u) {
    v = f32(m) * 0.001953125;
  }
  if ((b & 0x7fu) == 0x7fu) {
    v = from_bits(0x7fc00000u);
  }
  return bitcast<f32>(bitcast<u32>(v) | ((b & 0x80u) << 24u));
}
{{- end}}

// Decodes the bits of a weight.
fn decoded(q: u32) -> f32 {
{{- if eq .C.Scheme "int4"}}
  return f32(bitcast<i32>(q << 28u) >> 28u);
{{- else if eq .C.Scheme "fp8_e4m3"}}
  return e4m3(q);
{{- else if eq .C.Scheme "fp8_e5m2"}}
  return f32_from_f16(q << 8u);
{{- else if eq .C.Scheme "nvfp4"}}
  let e = (q >> 1u) & 3u;
  let v = select(bitcast<f32>(((e + 126u) << 23u) | ((q & 1u) << 22u)), f32(q & 1u) * 0.5, e == 0u);
  return select(v, -v, (q & 8u) != 0u);
{{- else}}
  return f32(bitcast<i32>(q << 24u) >> 24u);
{{- end}}
}

// Four weights from element i on. The last ones may be past the end.
fn weights_at(i: u32) -> vec4<f32> {
{{- if .C.Words}}
{{- if .C.Nibbles}}
  let q = w_bits(i / 8u) >> (i % 8u * 4u);
  return vec4<f32>(decoded(q & 15u), decoded((q >> 4u) & 15u), decoded((q >> 8u) & 15u), decoded((q >> 12u) & 15u));
{{- else}}
  let q = w_bits(i / 4u);
  return vec4<f32>(decoded(q & 255u), decoded((q >> 8u) & 255u), decoded((q >> 16u) & 255u), decoded(q >> 24u));
{{- end}}
{{- else if .C.Nibbles}}
  let last = P.k_size * P.n_size - 1u;
  let j = min(vec4<u32>(i, i + 1u, i + 2u, i + 3u), vec4<u32>(last));
  return vec4<f32>({{range $e := seq 4}}{{if $e}},
      {{end}}decoded((w_bits(j[{{$e}}] / 2u) >> (j[{{$e}}] % 2u * 4u)) & 15u){{end}});
{{- else}}
  let last = P.k_size * P.n_size - 1u;
  let j = min(vec4<u32>(i, i + 1u, i + 2u, i + 3u), vec4<u32>(last));
  return vec4<f32>({{range $e := seq 4}}{{if $e}}, {{end}}decoded(w_bits(j[{{$e}}])){{end}});
{{- end}}
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
  let across = (P.n_size + 31u) / 32u;
  let first_column = id % across * 32u;
  let first_row = id / across * {{.C.Rows}}u;
  let column = min(first_column + local % 8u * 4u, P.n_size - 1u);
  let columns = min(column + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(P.n_size - 1u));
  let span = (P.k_size + 31u) / 32u;
  let begin = local / 8u * span;
  let end = min(begin + span, P.k_size);
{{- range $r := seq .C.Rows}}
  let x_at{{$r}} = min(first_row + {{$r}}u, P.m_size - 1u) * P.k_size;
  var sum{{$r}} = vec4<f32>(0.0);
{{- end}}
  for (var k = begin; k < end;) {
{{- if .C.Block}}
    // Up to the end of the block, which has one scale per column.
    let block = k / {{.C.Block}}u;
    let stop = min((block + 1u) * {{.C.Block}}u, end);
    let j = block * P.n_size + columns;
{{- if eq .C.Scheme "nvfp4"}}
    let scale = vec4<f32>(e4m3(scale_bits(j.x)), e4m3(scale_bits(j.y)), e4m3(scale_bits(j.z)), e4m3(scale_bits(j.w))) *
        whole(0u);
{{- else}}
    let scale = vec4<f32>(scale(j.x), scale(j.y), scale(j.z), scale(j.w));
{{- end}}
{{- if eq .C.Scheme "int8_asym"}}
    let zero = vec4<f32>(zero(j.x), zero(j.y), zero(j.z), zero(j.w));
{{- end}}
{{- else}}
    let stop = end;
{{- if .C.PerColumn}}
    let scale = vec4<f32>(scale(columns.x), scale(columns.y), scale(columns.z), scale(columns.w));
{{- end}}
{{- end}}
    for (; k < stop; k = k + 1u) {
{{- if not (or .C.Block .C.PerColumn)}}
      let w = weights_at(k * P.n_size + column);
{{- else if eq .C.Scheme "int8_asym"}}
      let w = (weights_at(k * P.n_size + column) - zero) * scale;
{{- else}}
      let w = weights_at(k * P.n_size + column) * scale;
{{- end}}
{{- range $r := seq .C.Rows}}
      sum{{$r}} = fma(vec4<f32>(x(x_at{{$r}} + k)), w, sum{{$r}});
{{- end}}
    }
  }
{{- range $r := seq .C.Rows}}
  shares[{{mul $r 256}}u + local] = sum{{$r}};
{{- end}}
  workgroupBarrier();
  let made = first_column + local % 32u;
  let row = local / 32u;
  if (row < {{.C.Rows}}u && first_row + row < P.m_size && made < P.n_size) {
    var total = 0.0;
    for (var part = 0u; part < 32u; part = part + 1u) {
      total = total + shares[row * 256u + part * 8u + local % 32u / 4u][local % 4u];
    }
    y_put((first_row + row) * P.n_size + made, bitcast<u32>(total));
  }
}
