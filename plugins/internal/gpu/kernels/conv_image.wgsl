{{- $c := .C}}
{{- if not .C.Last}}
var<workgroup> turned: array<vec4<f32>, 256>;

// The place of four channels of a pixel in workgroup memory. Writes go along pixels and reads along channels; neither
// has bank conflicts.
fn place(pixel: u32, four: u32) -> u32 {
  return pixel * 4u + (four ^ (pixel / 2u % 4u));
}
{{end}}
// Copies x with zero padding to blocks of 16 channels: [batch, channels / 16, depth, height, width, 16]. A workgroup
// copies 64 pixels of a block.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
  let pixels = {{template "pixels" .C.Bordered}};
  let parts = (pixels + 63u) / 64u;
  let block = id / parts;
  let first = id % parts * 64u;
{{- if .C.Last}}
  let four = local % 4u;
  let pixel = first + local / 4u;
{{- else}}
  let four = local / 64u;
  let pixel = first + local % 64u;
{{- end}}
  let z = pixel / {{index .C.Bordered 2}} / {{index .C.Bordered 1}} - {{index .C.Padding 0}}u;
  let y = pixel / {{index .C.Bordered 2}} % {{index .C.Bordered 1}} - {{index .C.Padding 1}}u;
  let x = pixel % {{index .C.Bordered 2}} - {{index .C.Padding 2}}u;
  var v = vec4<f32>(0.0);
  if (z < {{index .C.In 0}} && y < {{index .C.In 1}} && x < {{index .C.In 2}}) {
    let at = (z * {{index .C.In 1}} + y) * {{index .C.In 2}} + x;
{{- if .C.Last}}
    v = x4((block / {{.C.Blocks}}u * {{template "pixels" .C.In}} + at) * {{div .C.CIn 4}}u +
        block % {{.C.Blocks}}u * 4u + four);
{{- else}}
    let size = {{template "pixels" .C.In}};
    let i = (block * 16u + four * 4u) * size + at;
    v = vec4<f32>(x(i), x(i + size), x(i + 2u * size), x(i + 3u * size));
{{- end}}
  }
{{- if .C.Last}}
  if (pixel < pixels) {
    made4_put({{.C.Image}}u + (block * pixels + pixel) * 4u + four, v);
  }
{{- else}}
  turned[place(local % 64u, four)] = v;
  workgroupBarrier();
  if (first + local / 4u < pixels) {
    made4_put({{.C.Image}}u + (block * pixels + first) * 4u + local, turned[place(local / 4u, local % 4u)]);
  }
{{- end}}
}
{{- define "pixels"}}{{index . 0}} * {{index . 1}} * {{index . 2}}{{end}}
