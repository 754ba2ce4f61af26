{{$c := .C}}// The epilogue of a product, and the offsets of its results.

// corner returns the first row and the first column of a tile, and the index of its matrix.
fn corner(tile: u32) -> vec3<u32> {
  let tiles_n = (P.n_size + {{.C.TileN}}u - 1u) / {{.C.TileN}}u;
  let tiles_m = (P.m_size + {{.C.TileM}}u - 1u) / {{.C.TileM}}u;
  return vec3<u32>(tile / tiles_n % tiles_m * {{.C.TileM}}u, tile % tiles_n * {{.C.TileN}}u,
      tile / (tiles_n * tiles_m));
}

// lanes returns the first row and the first column of an invocation in its tile, divided by four. Bit 0 of a lane
// counts rows and bit 1 columns: then every operand in workgroup memory is read at one address by neighbours, which
// lets a GPU serve two quarters of a block in one cycle.
fn lanes(local: u32) -> vec2<u32> {
  let lane = local % 32u;
  let block = local / 32u;
  return vec2<u32>((block % {{.C.BlocksM}}u) * {{mul .C.LanesM .C.MV}}u + lane % 2u + lane / {{mul .C.LanesN 2}}u * 2u,
                   (block / {{.C.BlocksM}}u) * {{mul .C.LanesN .C.NV}}u + lane / 2u % {{.C.LanesN}}u);
}
{{if .C.Spread}}{{$p := .C.Spread}}
// The offset of a sum whose row is a pixel of x and whose column is an output channel and a tap. Each pixel becomes
// {{$p.Taps}} pixels.
fn spread(row: u32, col: u32) -> u32 {
  let tap = col % {{$p.Taps}}u;
  let lines = row / {{index $p.In 2}};
  let z = lines / {{index $p.In 1}} * {{index $p.Kernel 0}}u + tap / {{mul (index $p.Kernel 1) (index $p.Kernel 2)}}u;
  let y = lines % {{index $p.In 1}} * {{index $p.Kernel 1}}u + tap / {{index $p.Kernel 2}}u % {{index $p.Kernel 1}}u;
  let x = row % {{index $p.In 2}} * {{index $p.Kernel 2}}u + tap % {{index $p.Kernel 2}}u;
  return ((z * {{index $p.In 1}} * {{index $p.Kernel 1}}u + y) * {{index $p.In 2}} * {{index $p.Kernel 2}}u + x) *
      {{$p.COut}}u + col / {{$p.Taps}}u;
}
{{end}}
// finish computes and writes four columns of a row. base is the offset of the matrix in the result.
fn finish(row: u32, col: u32, base: u32, sum: vec4<f32>) {
  let m_size = P.m_size;
  let n_size = P.n_size;
{{- if not .C.Whole}}
  if (row >= m_size || col >= n_size) {
    return;
  }
{{- end}}
  var v = sum;
{{- if .C.Vec}}
{{- if .C.RowBias}}
  v = v + bias(row);
{{- else if .C.Bias}}
  v = v + bias4(col / 4u);
{{- end}}
{{- if .C.Addend}}
  v = v + addend4((base + row * n_size + col) / 4u);
{{- end}}
{{- range $i, $act := .C.Acts}}
  if (P.act == {{add $i 1}}u) {
    v = vec4<f32>({{scalar $act "v.x"}}, {{scalar $act "v.y"}}, {{scalar $act "v.z"}}, {{scalar $act "v.w"}});
  }
{{- end}}
  let at = (base + row * n_size + col) / 4u;
{{- if .C.Residual}}
  if (P.residual != 0u) {
    v = v + residual4(at);
  }
{{- end}}
  y4_put(at, v);
{{- else}}
{{- range $j := seq 4}}
  if (col + {{$j}}u < n_size) {
    var s = v[{{$j}}];
{{- if $c.Bias}}
    s = s + bias({{if $c.RowBias}}row{{else if $c.Spread}}(col + {{$j}}u) / {{$c.Spread.Taps}}u{{else}}col +
        {{$j}}u{{end}});
{{- end}}
{{- if $c.Addend}}
    s = s + addend(base + row * n_size + col + {{$j}}u);
{{- end}}
{{- range $i, $act := $c.Acts}}
    if (P.act == {{add $i 1}}u) {
      s = {{scalar $act "s"}};
    }
{{- end}}
    let at = {{if $c.Spread}}spread(row, col + {{$j}}u){{else}}base + row * n_size + col + {{$j}}u{{end}};
{{- if $c.Residual}}
    if (P.residual != 0u) {
      s = s + residual(at);
    }
{{- end}}
    y_put(at, bitcast<u32>(s));
  }
{{- end}}
{{- end}}
}
