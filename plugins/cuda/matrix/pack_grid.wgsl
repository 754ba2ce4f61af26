// Rounds q, k and v of attention in windows to 16 bits: [part][window and head][token][dim]. An invocation writes eight
// values. Terms lie as in pack_attention.wgsl.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let unit = (group.y * groups.x + group.x) * 256u + local;
  if (unit >= P.units) {
    return;
  }
{{- $quads := div .C.D 4}}
{{- $units := div .C.D 8}}
{{- $g := .C.Grid}}
  let first = unit % {{$units}}u * 2u;
  let token = unit / {{$units}}u % {{mul $g.WH $g.WW}}u;
  let row = unit / {{mul $units (mul $g.WH $g.WW)}}u;
  let head = row % {{$g.Heads}}u;
  let window = row / {{$g.Heads}}u % {{.C.Windows}}u;
  let part = row / {{$g.Heads}}u / {{.C.Windows}}u;
  let at = part * {{mul $g.Heads $quads}}u + head * {{$quads}}u + first;
  let w = window % {{mul $g.NH $g.NW}}u;
  let y = w / {{$g.NW}}u * {{$g.WH}}u + token / {{$g.WW}}u;
  let x = w % {{$g.NW}}u * {{$g.WW}}u + token % {{$g.WW}}u;
  let place = (window / {{mul $g.NH $g.NW}}u * {{$g.GH}}u + y) * {{$g.GW}}u + x;
{{- range $e := seq 2}}
  {
    let d = first + {{$e}}u;
    let id = unit * 2u + {{$e}}u;
    var v: vec4<f32>;
{{- if $.C.Padded}}
    if (y >= {{$g.GH}}u || x >= {{$g.GW}}u) {
      v = x14(at + {{$e}}u);
    } else {
      v = x04(place * {{mul 3 (mul $g.Heads $quads)}}u + at + {{$e}}u);
    }
{{- else}}
    v = x04(place * {{mul 3 (mul $g.Heads $quads)}}u + at + {{$e}}u);
{{- end}}
{{- template "row" $}}
  }
{{- end}}
}
