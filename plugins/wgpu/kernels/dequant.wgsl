{{define "bytes"}}
// Blocks are read as bytes: most have sizes that are no multiple of 4.
fn byte_at(i: u32) -> u32 { return w_bits(i); }
fn half_at(i: u32) -> f32 { return f32_from_f16(w_bits(i) | (w_bits(i + 1u) << 8u)); }
fn word_at(i: u32) -> u32 { return w_four(i); }
// bytes4 are the bytes of a word.
fn bytes4(x: u32) -> vec4<u32> { return vec4<u32>(x & 255u, (x >> 8u) & 255u, (x >> 16u) & 255u, x >> 24u); }
// bits4 spreads four neighbouring bits over four values.
fn bits4(x: u32) -> vec4<u32> { return vec4<u32>(x & 1u, (x >> 1u) & 1u, (x >> 2u) & 1u, (x >> 3u) & 1u); }
{{if .C.Scales}}
// scale_min are scale and minimum g of 8, six bits each, in the 12 bytes from t on.
fn scale_min(t: u32, g: u32) -> vec2<f32> {
  if (g < 4u) {
    return vec2<f32>(f32(byte_at(t + g) & 63u), f32(byte_at(t + g + 4u) & 63u));
  }
  let x = byte_at(t + g + 4u);
  return vec2<f32>(f32((x & 15u) | ((byte_at(t + g - 4u) >> 6u) << 4u)), f32((x >> 4u) | ((byte_at(t + g) >> 6u) << 4u)));
}
{{end}}
{{end}}

{{define "q8_0"}}
fn values4(b: u32, i: u32) -> vec4<f32> {
  let q = bitcast<i32>(word_at(b + 2u + i));
  return half_at(b) * vec4<f32>(f32((q << 24u) >> 24u), f32((q << 16u) >> 24u), f32((q << 8u) >> 24u), f32(q >> 24u));
}
{{end}}

{{define "q4_0"}}
fn values4(b: u32, i: u32) -> vec4<f32> {
  let q = (bytes4(word_at(b + 2u + (i & 15u))) >> vec4<u32>((i >> 4u) * 4u)) & vec4<u32>(15u);
  return half_at(b) * (vec4<f32>(q) - vec4<f32>(8.0));
}
{{end}}

{{define "q4_1"}}
fn values4(b: u32, i: u32) -> vec4<f32> {
  let q = (bytes4(word_at(b + 4u + (i & 15u))) >> vec4<u32>((i >> 4u) * 4u)) & vec4<u32>(15u);
  return half_at(b) * vec4<f32>(q) + vec4<f32>(half_at(b + 2u));
}
{{end}}

{{define "q5_0"}}
fn values4(b: u32, i: u32) -> vec4<f32> {
  let q = ((bytes4(word_at(b + 6u + (i & 15u))) >> vec4<u32>((i >> 4u) * 4u)) & vec4<u32>(15u)) | (bits4(word_at(b + 2u) >> i) << vec4<u32>(4u));
  return half_at(b) * (vec4<f32>(q) - vec4<f32>(16.0));
}
{{end}}

{{define "q5_1"}}
fn values4(b: u32, i: u32) -> vec4<f32> {
  let q = ((bytes4(word_at(b + 8u + (i & 15u))) >> vec4<u32>((i >> 4u) * 4u)) & vec4<u32>(15u)) | (bits4(word_at(b + 4u) >> i) << vec4<u32>(4u));
  return half_at(b) * vec4<f32>(q) + vec4<f32>(half_at(b + 2u));
}
{{end}}

{{define "q4_k"}}
fn values4(b: u32, i: u32) -> vec4<f32> {
  let g = i >> 5u;
  let s = scale_min(b + 4u, g);
  let q = (bytes4(word_at(b + 16u + (g >> 1u) * 32u + (i & 31u))) >> vec4<u32>((g & 1u) * 4u)) & vec4<u32>(15u);
  return (half_at(b) * s.x) * vec4<f32>(q) - vec4<f32>(half_at(b + 2u) * s.y);
}
{{end}}

{{define "q5_k"}}
fn values4(b: u32, i: u32) -> vec4<f32> {
  let g = i >> 5u;
  let l = i & 31u;
  let s = scale_min(b + 4u, g);
  let low = (bytes4(word_at(b + 48u + (g >> 1u) * 32u + l)) >> vec4<u32>((g & 1u) * 4u)) & vec4<u32>(15u);
  let high = (bytes4(word_at(b + 16u + l)) >> vec4<u32>(g)) & vec4<u32>(1u);
  return (half_at(b) * s.x) * vec4<f32>(low | (high << vec4<u32>(4u))) - vec4<f32>(half_at(b + 2u) * s.y);
}
{{end}}

{{define "q6_k"}}
fn values4(b: u32, i: u32) -> vec4<f32> {
  let h = i >> 7u;
  let j = (i >> 5u) & 3u;
  let l = i & 31u;
  let low = (bytes4(word_at(b + 64u * h + 32u * (j & 1u) + l)) >> vec4<u32>((j >> 1u) * 4u)) & vec4<u32>(15u);
  let high = (bytes4(word_at(b + 128u + 32u * h + l)) >> vec4<u32>(2u * j)) & vec4<u32>(3u);
  let s = f32((bitcast<i32>(byte_at(b + 192u + (i >> 4u))) << 24u) >> 24u);
  return (half_at(b + 208u) * s) * (vec4<f32>(low | (high << vec4<u32>(4u))) - vec4<f32>(32.0));
}
{{end}}

{{define "product"}}
var<workgroup> shares: array<vec4<f32>, 256>;

// A workgroup computes 8 columns of {{.C.Rows}} rows: 32 invocations sum their shares of k of one column together.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.tiles) {
    return;
  }
  let across = (P.n_size + 7u) / 8u;
  let column = id % across * 8u + local / 32u;
  let first = id / across * {{.C.Rows}}u;
  var row_of_w = min(column, P.n_size - 1u);
{{- if .C.Grouped}}
  let e = u32(idx(first));
  let known = e < P.matrices;
  if (!known) {
    status_put(0u, 1u);
  }
  row_of_w = row_of_w + select(0u, e, known) * P.n_size;
{{- end}}
  let start = row_of_w * (P.k_size / {{.C.Values}}u) * {{.C.Bytes}}u;
{{- range $i := seq .C.Rows}}
  let at{{$i}} = min(first + {{$i}}u, P.m_size - 1u) * P.k_size;
{{- end}}
  var sum = vec4<f32>(0.0);
  for (var k = local % 32u * 4u; k < P.k_size; k = k + 128u) {
    let w = values4(start + k / {{.C.Values}}u * {{.C.Bytes}}u, k % {{.C.Values}}u);
{{- range $i := seq .C.Rows}}
    sum[{{$i}}] = sum[{{$i}}] + dot(vec4<f32>(x(at{{$i}} + k), x(at{{$i}} + k + 1u), x(at{{$i}} + k + 2u), x(at{{$i}} + k + 3u)), w);
{{- end}}
  }
  shares[local] = sum;
  workgroupBarrier();
  if (local % 32u < {{.C.Rows}}u) {
    let m = local % 32u;
    var total = 0.0;
    for (var i = 0u; i < 32u; i = i + 1u) {
      total = total + shares[local / 32u * 32u + i][m];
    }
    if (column < P.n_size && first + m < P.m_size) {
      y_put((first + m) * P.n_size + column, bitcast<u32>(total));
    }
  }
}
{{end}}

{{define "rows"}}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = ((group.y * groups.x + group.x) * 64u + local) * 4u;
  if (i >= P.n) {
    return;
  }
  let row = u32(idx(i / P.k_size));
  let k = i % P.k_size;
  if (row >= P.rows) {
    status_put(0u, 1u);
    return;
  }
  let v = values4((row * (P.k_size / {{.C.Values}}u) + k / {{.C.Values}}u) * {{.C.Bytes}}u, k % {{.C.Values}}u);
  for (var j = 0u; j < 4u; j = j + 1u) {
    y_put(i + j, bitcast<u32>(v[j]));
  }
}
{{end}}
