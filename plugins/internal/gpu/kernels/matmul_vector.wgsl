{{- $c := .C -}}
// Products with one row: y = act(x . B + bias) + residual in f32, with x [K] and B [N,K]. {{.C.Lanes}} invocations
// share the sum of a column. Each computes {{.C.Each}} columns, to read x once for them, and reads {{.C.Ahead}} vectors
// ahead, because memory limits the speed.
{{- if .C.Norm}}
// x, normalised. Each workgroup computes it for itself.
var<workgroup> normal: array<vec4<f32>, {{.C.Quads}}>;
{{- end}}
var<workgroup> shares: array<f32, {{mul .C.Sums (mul 256 .C.Each)}}>; // [product][column][lane]
var<workgroup> parts: array<f32, {{.C.Parts}}>; // [product][column][8]

fn row4(k: u32) -> vec4<f32> { return {{if .C.Norm}}normal[k]{{else}}a4(k){{end}}; }

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let {{if .C.Norm}}begin{{else}}id{{end}} = group.y * groups.x + group.x;
  if ({{if .C.Norm}}begin{{else}}id{{end}} >= P.groups) {
    return;
  }
  let quads = P.k_size / 4u;
  let lane = local % {{.C.Lanes}}u;
  let mine = local / {{.C.Lanes}}u * {{.C.Each}}u;
{{- if .C.Norm}}
{{- range $i := seq .C.Kept}}
  let k{{$i}} = local + {{mul $i 256}}u;
  let live{{$i}} = k{{$i}} < {{$c.Quads}}u;
  let x{{$i}} = select(vec4<f32>(0.0), a4(min(k{{$i}}, {{sub $c.Quads 1}}u)), live{{$i}});
  let gamma{{$i}} = gamma4(min(k{{$i}}, {{sub $c.Quads 1}}u));
  let beta{{$i}} = beta4(min(k{{$i}}, {{sub $c.Quads 1}}u));
{{- end}}
  var squares = vec4<f32>(0.0);
{{- range $i := seq .C.Kept}}
  squares = fma(x{{$i}}, x{{$i}}, squares);
{{- end}}
  shares[local] = (squares.x + squares.y) + (squares.z + squares.w);
  workgroupBarrier();
  if (local < 32u) {
    parts[local] = ((shares[local] + shares[local + 32u]) + (shares[local + 64u] + shares[local + 96u]))
      + ((shares[local + 128u] + shares[local + 160u]) + (shares[local + 192u] + shares[local + 224u]));
  }
  workgroupBarrier();
  var total = 0.0;
{{- range $j := seq 32}}
  total = total + parts[{{$j}}];
{{- end}}
  let scale = 1.0 / sqrt(total / P.count + P.eps);
{{- range $i := seq .C.Kept}}
  if (live{{$i}}) {
    normal[k{{$i}}] = x{{$i}} * scale * gamma{{$i}} + beta{{$i}};
  }
{{- end}}
  workgroupBarrier();
  // The workgroup has normalised x once and now computes all its columns.
  for (var id = begin; id < P.groups; id = id + P.stride) {
{{- end}}
{{- range $s := seq .C.Sums}}{{range $i := seq $c.Each}}
  var s{{$s}}_{{$i}} = vec4<f32>(0.0);
  var t{{$s}}_{{$i}} = vec4<f32>(0.0);
{{- end}}{{end}}
  var first = id * {{.C.Columns}}u;
  var n_size = P.n_size0;
{{- if .C.Gated}}
  {
{{- range $i, $p := .C.Products}}
{{template "columns" $c.Of $i}}
{{- end}}
    let units = {{template "units" $c.Of 0}};
    var k = lane;
    for (; k + {{mul (sub .C.Ahead 1) .C.Lanes}}u < units; k = k + {{mul .C.Ahead .C.Lanes}}u) {
{{- range $i, $p := .C.Products}}
{{template "load" $c.Of $i}}
{{- end}}
{{- range $i, $p := .C.Products}}
{{template "sum" $c.Of $i}}
{{- end}}
    }
    for (; k < units; k = k + {{.C.Lanes}}u) {
{{- range $i, $p := .C.Products}}
{{template "rest" $c.Of $i}}
{{- end}}
    }
  }
{{- else}}
{{- range $i, $p := .C.Products}}
  {{if $i}}else {{end}}{{if lt $i $c.Last}}if (id < P.end{{$i}}) {{end}}{
{{- if $i}}
    first = (id - P.end{{sub $i 1}}) * {{$c.Columns}}u;
    n_size = P.n_size{{$i}};
{{- end}}
{{template "columns" $c.Of $i}}
    let units = {{template "units" $c.Of $i}};
    var k = lane;
    for (; k + {{mul (sub $c.Ahead 1) $c.Lanes}}u < units; k = k + {{mul $c.Ahead $c.Lanes}}u) {
{{template "load" $c.Of $i}}
{{template "sum" $c.Of $i}}
    }
    for (; k < units; k = k + {{$c.Lanes}}u) {
{{template "rest" $c.Of $i}}
    }
  }
{{- end}}
{{- end}}
{{- range $s := seq .C.Sums}}{{range $i := seq $c.Each}}
  {
    let s = s{{$s}}_{{$i}} + t{{$s}}_{{$i}};
    shares[{{mul $s (mul 256 $c.Each)}}u + (mine + {{$i}}u) * {{$c.Lanes}}u + lane] = (s.x + s.y) + (s.z + s.w);
  }
{{- end}}{{end}}
  workgroupBarrier();
  if (local < {{mul .C.Sums (mul 8 .C.Columns)}}u) {
    var part = 0.0;
    for (var j = 0u; j < {{div .C.Lanes 8}}u; j = j + 1u) {
      part = part + shares[local * {{div .C.Lanes 8}}u + j];
    }
    parts[local] = part;
  }
  workgroupBarrier();
  let col = first + local;
  if (local < {{.C.Columns}}u && col < n_size) {
{{- range $s := seq .C.Sums}}
  var v{{$s}} = 0.0;
{{- range $j := seq 8}}
  v{{$s}} = v{{$s}} + parts[({{mul $s $c.Columns}}u + local) * 8u + {{$j}}u];
{{- end}}
{{- end}}
{{- range $i, $p := .C.Products}}
{{- $v := print "v" $p.Sum}}
  {{if $c.Gated}}{{else}}{{if $i}}else {{end}}{{if lt $i $c.Last}}if (id < P.end{{$i}}) {{end}}{{end}}{
{{- if $p.Bias}}
    {{$v}} = {{$v}} + bias{{$i}}_(col);
{{- end}}
{{- if $p.Act}}
    {{$v}} = {{scalar $p.Act $v}};
{{- end}}
{{- if $p.Residual}}
    {{$v}} = {{$v}} + residual{{$i}}_(col);
{{- end}}
{{- if not $c.Gated}}
    y{{$i}}__put(col, bitcast<u32>({{$v}}));
{{- end}}
  }
{{- end}}
{{- if .C.Gated}}
  y0__put(col, bitcast<u32>(v0 * v1));
{{- end}}
  }
{{- if .C.Norm}}
  workgroupBarrier(); // parts have been read
  }
{{- end}}
}
{{- define "units"}}quads{{if .Gap}} / 2u{{end}}{{end}}
{{- /* The quad of x for the first four weights of unit k of eight; that for the others follows Gap quads later. */ -}}
{{- define "first"}}(k / {{.Gap}}u * {{mul 2 .Gap}}u + k % {{.Gap}}u){{end}}
{{- define "columns"}}
{{- /* Past the end, the last column is computed again but not written. */ -}}
{{- range $i := seq .Each}}
    let column{{$.I}}_{{$i}} = min(first + mine + {{$i}}u, P.n_size{{$.I}} - 1u) * ({{template "units" $}});
{{- end}}
{{- end}}
{{- define "load"}}
{{- $p := .}}
{{- range $j := seq $p.Ahead}}
{{- if $p.Gap}}
{{- if or (not $p.Gated) (eq $p.I 0)}}
    let k{{$j}} = k + {{mul $j $p.Lanes}}u;
    let at{{$j}} = k{{$j}} / {{$p.Gap}}u * {{mul 2 $p.Gap}}u + k{{$j}} % {{$p.Gap}}u;
    let xa{{$j}} = row4(at{{$j}});
    let xb{{$j}} = row4(at{{$j}} + {{$p.Gap}}u);
{{- end}}
{{- range $i := seq $p.Each}}
    let w{{$p.I}}_{{$i}}_{{$j}} = b{{$p.I}}__words(column{{$p.I}}_{{$i}} + k + {{mul $j $p.Lanes}}u);
    let c{{$p.I}}_{{$i}}_{{$j}} = b{{$p.I}}__scales(column{{$p.I}}_{{$i}} + k + {{mul $j $p.Lanes}}u);
{{- end}}
{{- else}}
{{- if or (not $p.Gated) (eq $p.I 0)}}
    let x{{$j}} = row4(k + {{mul $j $p.Lanes}}u);
{{- end}}
{{- range $i := seq $p.Each}}
    let w{{$p.I}}_{{$i}}_{{$j}} = b{{$p.I}}_4(column{{$p.I}}_{{$i}} + k + {{mul $j $p.Lanes}}u);
{{- end}}
{{- end}}
{{- end}}
{{- end}}
{{- define "sum"}}
{{- $p := .}}
{{- range $i := seq .Each}}
{{- range $j := seq $p.Ahead}}
{{- if $p.Gap}}
{{- $w := print $p.I "_" $i "_" $j}}
    s{{$p.Sum}}_{{$i}} = fma(xa{{$j}}, b{{$p.I}}__values(w{{$w}}.x, c{{$w}}.x, c{{$w}}.z), s{{$p.Sum}}_{{$i}});
    t{{$p.Sum}}_{{$i}} = fma(xb{{$j}}, b{{$p.I}}__values(w{{$w}}.y, c{{$w}}.y, c{{$w}}.w), t{{$p.Sum}}_{{$i}});
{{- else}}
{{- $to := print (index $p.Two (mod $j 2)) $p.Sum "_" $i}}
    {{$to}} = fma(x{{$j}}, w{{$p.I}}_{{$i}}_{{$j}}, {{$to}});
{{- end}}
{{- end}}
{{- end}}
{{- end}}
{{- define "rest"}}
{{- $p := .}}
{{- range $i := seq .Each}}
{{- if $p.Gap}}
      {
        let w = b{{$p.I}}__words(column{{$p.I}}_{{$i}} + k);
        let c = b{{$p.I}}__scales(column{{$p.I}}_{{$i}} + k);
        let at = {{template "first" $p}};
        s{{$p.Sum}}_{{$i}} = fma(row4(at), b{{$p.I}}__values(w.x, c.x, c.z), s{{$p.Sum}}_{{$i}});
        t{{$p.Sum}}_{{$i}} = fma(row4(at + {{$p.Gap}}u), b{{$p.I}}__values(w.y, c.y, c.w), t{{$p.Sum}}_{{$i}});
      }
{{- else}}
      s{{$p.Sum}}_{{$i}} = fma(row4(k), b{{$p.I}}_4(column{{$p.I}}_{{$i}} + k), s{{$p.Sum}}_{{$i}});
{{- end}}
{{- end}}
{{- end}}
