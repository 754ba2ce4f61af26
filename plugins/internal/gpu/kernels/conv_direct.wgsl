{{- if eq .C.Wide 4}}
// The weights of four channels of the result for channel k of their group and one tap.
fn weights_at(c: u32, k: u32, tap: u32) -> vec4<f32> {
{{- if .C.Kept}}
  return kept4((k * {{.C.Taps}}u + tap) * {{div .C.COut 4}}u + c);
{{- else}}
  let w = ((c * 4u + vec4<u32>(0u, 1u, 2u, 3u)) * {{.C.PerIn}}u + k) * {{.C.Taps}}u + tap;
  return vec4<f32>(x1(w.x), x1(w.y), x1(w.z), x1(w.w));
{{- end}}
}

{{end -}}
// For any sizes and element types: an invocation sums over the taps{{if eq .C.Wide 4}} of four channels of the result
// at once{{else}} of one element of the result{{end}}.
fn convolved(i: u32) -> {{if eq .C.Wide 4}}vec4<f32>{{else}}f32{{end}} {
  // The position of the element in the result: batch, then channel, depth, height and width in the order of the layout.
  var rest = i;
{{- if .C.Last}}
  let c = rest % {{div .C.COut .C.Wide}}u;
  rest = rest / {{div .C.COut .C.Wide}}u;
{{- end}}
  let x = rest % P.w_out;
  rest = rest / P.w_out;
  let y = rest % P.h_out;
  rest = rest / P.h_out;
  let z = rest % P.d_out;
  rest = rest / P.d_out;
{{- if not .C.Last}}
  let c = rest % {{.C.COut}}u;
  rest = rest / {{.C.COut}}u;
{{- end}}
{{- if eq .C.Wide 4}}
  var acc = {{if .C.Bias}}x24(c){{else}}vec4<f32>(0.0){{end}};
{{- else}}
  var acc = {{if .C.Bias}}x2(c){{else}}0.0{{end}};
{{- end}}
{{- range .C.Spatial}}
  for (var k{{.Var}} = 0u; k{{.Var}} < {{.Kernel}}u; k{{.Var}} = k{{.Var}} + 1u) {
{{- if $.C.Transposed}}
    let t{{.Var}} = {{.Var}} + {{.Pad}}u - k{{.Var}} * {{.Dilation}}u;
    let i{{.Var}} = t{{.Var}} / {{.Stride}}u;
    if (k{{.Var}} * {{.Dilation}}u > {{.Var}} + {{.Pad}}u || t{{.Var}} % {{.Stride}}u != 0u ||
        i{{.Var}} >= P.{{.Size}}_in) {
{{- else}}
    let i{{.Var}} = {{.Var}} * {{.Stride}}u + k{{.Var}} * {{.Dilation}}u - {{.Pad}}u;
    if (i{{.Var}} >= P.{{.Size}}_in) {
{{- end}}
      continue;
    }
{{- end}}
    let tap = (kz * {{index .C.Kernel 1}}u + ky) * {{index .C.Kernel 2}}u + kx;
{{- if eq .C.Wide 4}}
    let pixel = ((rest * P.d_in + iz) * P.h_in + iy) * P.w_in + ix;
{{- if .C.Depthwise}}
    acc = fma(x04(pixel * {{div .C.CIn 4}}u + c), weights_at(c, 0u, tap), acc);
{{- else}}
    let first = pixel * {{.C.CIn}}u + c * 4u / {{.C.PerOut}}u * {{.C.PerIn}}u;
{{- if .C.Fours}}
    for (var k = 0u; k < {{.C.PerIn}}u; k = k + 4u) {
      let v = x04((first + k) / 4u);
{{- range $i, $v := fields}}
      acc = fma(vec4<f32>(v.{{$v}}), weights_at(c, k + {{$i}}u, tap), acc);
{{- end}}
    }
{{- else}}
    for (var k = 0u; k < {{.C.PerIn}}u; k = k + 1u) {
      acc = fma(vec4<f32>(x0(first + k)), weights_at(c, k, tap), acc);
    }
{{- end}}
{{- end}}
{{- else}}
{{- if eq .C.PerIn 1}}
    let k = 0u;
{{- else}}
    for (var k = 0u; k < {{.C.PerIn}}u; k = k + 1u) {
{{- end}}
      let channel = c / {{.C.PerOut}}u * {{.C.PerIn}}u + k;
{{- if .C.Last}}
      let v = x0((((rest * P.d_in + iz) * P.h_in + iy) * P.w_in + ix) * {{.C.CIn}}u + channel);
{{- else}}
      let v = x0((((rest * {{.C.CIn}}u + channel) * P.d_in + iz) * P.h_in + iy) * P.w_in + ix);
{{- end}}
{{- if .C.Transposed}}
      acc = fma(v, x1((channel * {{.C.PerOut}}u + c % {{.C.PerOut}}u) * {{.C.Taps}}u + tap), acc);
{{- else}}
      acc = fma(v, x1((c * {{.C.PerIn}}u + k) * {{.C.Taps}}u + tap), acc);
{{- end}}
{{- if ne .C.PerIn 1}}
    }
{{- end}}
{{- end}}
  }
  }
  }
  return acc;
}

// What follows the convolution.
{{- if eq .C.Wide 4}}
fn value(i: u32) -> vec4<f32> {
  var v = convolved(i);
{{- if .C.Addend}}
  v = v + x34(i);
{{- end}}
{{- if .C.Act}}
  v = vec4<f32>({{scalar .C.Act "v.x"}}, {{scalar .C.Act "v.y"}}, {{scalar .C.Act "v.z"}}, {{scalar .C.Act "v.w"}});
{{- end}}
{{- if .C.Residual}}
  v = v + x44(i);
{{- end}}
  return v;
}
{{- else}}
fn finished(i: u32, sum: f32) -> u32 {
  var v = sum;
{{- if .C.Addend}}
  v = v + x3(i);
{{- end}}
{{- if .C.Act}}
  v = {{scalar .C.Act "v"}};
{{- end}}
{{- if .C.Residual}}
  v = v + x4(i);
{{- end}}
  return y_encode(v);
}
{{- if not .C.Summed}}

fn value(i: u32) -> u32 { return finished(i, convolved(i)); }
{{- end}}
{{- end}}
