{{define "head"}}
@compute @workgroup_size({{.C.Group}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = group.y * groups.x + group.x;
  if (id >= P.tiles) {
    return;
  }
  let a0 = (id % P.ta) * {{.C.Columns}}u;
  let b0 = (id / P.ta % P.tb) * {{mul .C.Down .C.Per}}u;
  var source = 0u;
  var dest = 0u;
{{- if .C.Batch}}
  var rest = id / (P.ta * P.tb);
{{- range .C.Batch}}
  source = source + (rest % P.dims[{{.}}]) * P.source[{{.}}];
  dest = dest + (rest % P.dims[{{.}}]) * P.dest[{{.}}];
  rest = rest / P.dims[{{.}}];
{{- end}}
{{- end}}
{{- end}}

{{define "words"}}
// Row b of the tile has {{.C.Across}} words along the operand's innermost axis, at index b of the result's. The rows
// that share words of the result are spaced far apart, so that neighbouring invocations read neighbouring rows.
var<workgroup> tile: array<u32, {{mul .C.Rows .C.Pitch}}>;

fn at(b: u32, a: u32) -> u32 {
{{- if eq .C.Per 1}}
  return b * {{.C.Pitch}}u + a;
{{- else}}
  return ((b % {{.C.Per}}u) * {{.C.Down}}u + b / {{.C.Per}}u) * {{.C.Pitch}}u + a;
{{- end}}
}
{{template "head" .}}
{{- $lanes := .C.LoadLanes}}
{{- $rows := div .C.Group $lanes}}
{{- $blocks := div .C.Across (mul $lanes .C.Load)}}
  let ax = local % {{$lanes}}u;
  let bx = local / {{$lanes}}u;
{{- $passes := div (add (mul .C.Rows $blocks) (add $rows -1)) $rows}}
{{- range $k := seq $passes}}
{{- $b := mul (div $k $blocks) $rows}}{{$a := mul (mod $k $blocks) $lanes}}
  let i{{$k}} = {{if eq $.C.Load 4}}a0 / 4u{{else}}a0{{end}} + ax + {{$a}}u;
  let j{{$k}} = b0 + bx + {{$b}}u;
  let v{{$k}} = x0{{if eq $.C.Load 4}}4{{else}}_bits{{end}}(select(0u, source + j{{$k}} * P.sb + i{{$k}},
      i{{$k}} < P.na && j{{$k}} < P.nb));
{{- end}}
{{- range $k := seq $passes}}
{{- $b := mul (div $k $blocks) $rows}}{{$a := mul (mod $k $blocks) (mul $lanes $.C.Load)}}
{{- if gt (add $b $rows) $.C.Rows}}
  if (bx + {{$b}}u < {{$.C.Rows}}u) {
{{- end}}
{{- if eq $.C.Load 4}}
{{- range $e := seq 4}}
  tile[at(bx + {{$b}}u, ax * 4u + {{add $a $e}}u)] = v{{$k}}[{{$e}}];
{{- end}}
{{- else}}
  tile[at(bx + {{$b}}u, ax + {{$a}}u)] = v{{$k}};
{{- end}}
{{- if gt (add $b $rows) $.C.Rows}}
  }
{{- end}}
{{- end}}
  workgroupBarrier();
{{- $lanes = .C.StoreLanes}}
{{- $columns := div .C.Group $lanes}}
{{- $blocks = div .C.Down (mul $lanes .C.Store)}}
{{- $across := .C.Across}}
{{- $passes = div (add (mul $across $blocks) (add $columns -1)) $columns}}
  let by = local % {{$lanes}}u;
  let ay = local / {{$lanes}}u;
{{- range $k := seq $passes}}
{{- $a := mul (div $k $blocks) $columns}}
  {
    let a = ay + {{$a}}u;
    let word = (by + {{mul (mod $k $blocks) $lanes}}u) * {{$.C.Store}}u;
    let b = word * {{$.C.Per}}u;
    if ({{if gt (add $a $columns) $across}}a < {{$across}}u && {{end}}{{if eq $.C.Load 4}}(a0 + a) / 4u{{else}}a0 +
        a{{end}} < P.na && b0 + b < P.nb) {
{{- range $q := seq $.C.Store}}{{range $j := seq $.C.Per}}
      let w{{$q}}_{{$j}} = tile[at(b + {{add (mul $q $.C.Per) $j}}u, a)];
{{- end}}{{end}}
      let out = dest + (a0 + a) * {{$.C.Per}}u * P.sa + (b0 / {{$.C.Per}}u + word) / {{$.C.Store}}u;
{{- range $r := seq $.C.Per}}
      y{{if eq $.C.Store 4}}4{{end}}_put(out + {{$r}}u * P.sa, {{if eq $.C.Store 4}}vec4<u32>({{end}}
{{- range $q := seq $.C.Store}}{{if $q}}, {{end}}{{range $j := seq $.C.Per}}{{if $j}} | {{end}}
{{- if eq $.C.Per 1}}w{{$q}}_{{$j}}{{else}}(((w{{$q}}_{{$j}} >> {{mul $r $.C.Width}}u) &
    {{$.C.Mask}}u) << {{mul $j $.C.Width}}u){{end}}
{{- end}}{{end}}
{{- if eq $.C.Store 4}}){{end}});
{{- end}}
    }
  }
{{- end}}
}
{{end}}

{{define "loose"}}
// Rows of the result do not begin at words. A word belongs to the row in which it begins. So a tile reads a few more
// rows of the operand than it has words, and gathers the elements of a word that belong to later rows.
var<workgroup> tile: array<u32, {{mul .C.Rows .C.Pitch}}>;

fn gathered(i: u32) -> u32 {
  var rest = i;
  var at = 0u;
{{- range .C.Axes}}
  at = at + (rest % P.size[{{.}}]) * P.stride[{{.}}];
  rest = rest / P.size[{{.}}];
{{- end}}
  return x0_bits(at + rest * P.stride[0]);
}
{{template "head" .}}
  for (var k = local; k < {{mul .C.Rows .C.Columns}}u; k = k + {{.C.Group}}u) {
    let a = k % {{.C.Columns}}u;
    let b = k / {{.C.Columns}}u;
    tile[b * {{.C.Pitch}}u + a] = x0_bits(select(0u, source + (b0 + b) * P.sb + a0 + a, a0 + a < P.na &&
        b0 + b < P.nb));
  }
  workgroupBarrier();
  for (var k = local; k < {{mul .C.Down .C.Columns}}u; k = k + {{.C.Group}}u) {
    let a = k / {{.C.Down}}u;
    let row = dest + (a0 + a) * P.sa;
    let word = (row + {{.C.Per}}u - 1u) / {{.C.Per}}u + b0 / {{.C.Per}}u + k % {{.C.Down}}u;
    if (a0 + a < P.na && word * {{.C.Per}}u < row + P.nb) {
      var bits = 0u;
      for (var e = 0u; e < {{.C.Per}}u; e = e + 1u) {
        let i = word * {{.C.Per}}u + e;
        var v = 0u;
        if (i < row + P.nb) {
          v = tile[(i - row - b0) * {{.C.Pitch}}u + a];
        } else if (i < P.n) {
          v = gathered(i);
        }
        bits = bits | (v << (e * {{.C.Width}}u));
      }
      y_put(word, bits);
    }
  }
}
{{end}}
