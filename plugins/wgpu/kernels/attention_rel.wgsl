// Terms of the relative positions, in units of log2(e): rel[block and head][j][query] = q . rh[qy, j] for j below wh, and
// q . rw[qx, j - wh] after. A workgroup has 4 x 8 queries of a window, which share rows of rh and rw; neighbours in its
// second dimension have eight j each.
const log2e = 1.4426950408889634;

@compute @workgroup_size(8, 4, 4)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_id) local: vec3<u32>) {
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
  let across = (P.ww + 7u) / 8u;
  let blocks = across * ((P.wh + 3u) / 4u);
  let block = id % blocks;
  let h = (id / blocks) % P.heads;
  let b = id / (blocks * P.heads);
{{- if .C.Padded}}
  let size = inside(b);
{{- else}}
  let size = vec2<u32>(P.wh, P.ww);
{{- end}}
  let qy = (block / across) * 4u + local.y;
  let qx = (block % across) * 8u + local.x;
  if (qy >= size.x || qx >= size.y) {
    return;
  }
  let r = qy * size.y + qx;
  let q = (query_token(b, r) * 3u * P.heads + h) * (P.dim / 4u);
  let at = (b * P.heads + h) * {{mul .C.RelRows (mul .C.RelPitch 4)}}u + r;
{{- range $axis := seq 2}}
{{- $side := "P.wh"}}{{if $axis}}{{$side = "P.ww"}}{{end}}
  for (var j = local.z * 8u; j < {{$side}}; j = j + 32u) {
    let row = {{if $axis}}qx * P.ww{{else}}qy * P.wh{{end}};
{{- range $i := seq 8}}
    let r{{$i}} = (row + min(j + {{$i}}u, {{$side}} - 1u)) * (P.dim / 4u);
    var s{{$i}} = vec4<f32>(0.0);
{{- end}}
    for (var d = 0u; d < P.dim / 4u; d = d + 1u) {
      let v = x04(q + d);
{{- range $i := seq 8}}
      s{{$i}} = fma(v, {{if $axis}}rw4{{else}}rh4{{end}}(r{{$i}} + d), s{{$i}});
{{- end}}
    }
{{- range $i := seq 8}}
    if (j + {{$i}}u < {{$side}}) {
      rel_put(at + ({{if $axis}}P.wh + {{end}}j + {{$i}}u) * {{mul $.C.RelPitch 4}}u, bitcast<u32>((s{{$i}}.x + s{{$i}}.y + s{{$i}}.z + s{{$i}}.w) * log2e));
    }
{{- end}}
  }
{{- end}}
}
