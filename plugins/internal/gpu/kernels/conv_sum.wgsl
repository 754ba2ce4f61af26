
// Finishes element i of a convolution.
{{- if .C.Parts}} Its sum without the bias is in {{.C.Parts}} parts in scratch memory.
{{- else}} Its sum with the bias is in the result.
{{- end}}
{{- if .C.Repairs}}
// A sum that is not finite is computed again without the padding, because the product multiplies zeros of the padding
// by weights, which may be infinite.
{{- end}}
fn value(i: u32) -> u32 {
{{- if .C.Parts}}
  let first = i / P.matrix * {{.C.Parts}}u * P.matrix + i % P.matrix;
{{- range $s := seq .C.Parts}}
  let v{{$s}} = part(first + {{$s}}u * P.matrix);
{{- end}}
  var sum = v0;
{{- range $s := seq .C.Parts}}{{if $s}}
  sum = sum + v{{$s}};
{{- end}}{{end}}
{{- if .C.Bias}}
  sum = sum + x2({{if .C.Last}}i{{else}}i / (P.d_out * P.h_out * P.w_out){{end}} % {{.C.COut}}u);
{{- end}}
{{- else}}
  var sum = bitcast<f32>(y_word(i));
{{- end}}
{{- if .C.Repairs}}
  if ((bitcast<u32>(sum) & 0x7f800000u) == 0x7f800000u) {
    sum = convolved(i);
  }
{{- end}}
  return finished(i, sum);
}
