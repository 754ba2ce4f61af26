// A product with one row: y = act(x . B + bias) + residual in f32, x being [K] and B [N,K]. {{.C.Lanes}} invocations share the sum of a column;
// each has {{.C.Each}} columns, so that it reads x once for them, and reads four vectors ahead, since the speed is that of memory.
var<workgroup> shares: array<f32, {{mul 256 .C.Each}}>; // [column][lane]
var<workgroup> parts: array<f32, {{mul 8 .C.Columns}}>; // [column][8]

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
  let n_size = P.n_size;
  let quads = P.k_size / 4u;
  let first = id * {{.C.Columns}}u;
  let lane = local % {{.C.Lanes}}u;
  let mine = local / {{.C.Lanes}}u * {{.C.Each}}u;
  // Past the end, the last column is computed again and not written.
{{- range $c := seq .C.Each}}
  let column{{$c}} = min(first + mine + {{$c}}u, n_size - 1u) * quads;
  var s{{$c}} = vec4<f32>(0.0);
  var t{{$c}} = vec4<f32>(0.0);
{{- end}}
  var k = lane;
  for (; k + {{mul 3 .C.Lanes}}u < quads; k = k + {{mul 4 .C.Lanes}}u) {
{{- range $j := seq 4}}
    let x{{$j}} = a4(k + {{mul $j $.C.Lanes}}u);
{{- range $c := seq $.C.Each}}
    let w{{$c}}{{$j}} = b4(column{{$c}} + k + {{mul $j $.C.Lanes}}u);
{{- end}}
{{- end}}
{{- range $c := seq .C.Each}}
    s{{$c}} = fma(x0, w{{$c}}0, s{{$c}});
    t{{$c}} = fma(x1, w{{$c}}1, t{{$c}});
    s{{$c}} = fma(x2, w{{$c}}2, s{{$c}});
    t{{$c}} = fma(x3, w{{$c}}3, t{{$c}});
{{- end}}
  }
  for (; k < quads; k = k + {{.C.Lanes}}u) {
    let x = a4(k);
{{- range $c := seq .C.Each}}
    s{{$c}} = fma(x, b4(column{{$c}} + k), s{{$c}});
{{- end}}
  }
{{- range $c := seq .C.Each}}
  s{{$c}} = s{{$c}} + t{{$c}};
  shares[(mine + {{$c}}u) * {{$.C.Lanes}}u + lane] = (s{{$c}}.x + s{{$c}}.y) + (s{{$c}}.z + s{{$c}}.w);
{{- end}}
  workgroupBarrier();
  if (local < {{mul 8 .C.Columns}}u) {
    var part = 0.0;
    for (var j = 0u; j < {{div .C.Lanes 8}}u; j = j + 1u) {
      part = part + shares[local * {{div .C.Lanes 8}}u + j];
    }
    parts[local] = part;
  }
  workgroupBarrier();
  let col = first + local;
  if (local >= {{.C.Columns}}u || col >= n_size) {
    return;
  }
  var v = 0.0;
{{- range $j := seq 8}}
  v = v + parts[local * 8u + {{$j}}u];
{{- end}}
{{- if .C.Bias}}
  v = v + bias(col);
{{- end}}
{{- if .C.Act}}
  v = {{scalar .C.Act "v"}};
{{- end}}
{{- if .C.Residual}}
  v = v + residual(col);
{{- end}}
  y_put(col, bitcast<u32>(v));
}
