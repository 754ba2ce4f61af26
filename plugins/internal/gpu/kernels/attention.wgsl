// Attention with online softmax. A workgroup computes {{.C.Queries}} queries of one head, in tiles of {{.C.Keys}} keys,
// and writes only the result to memory. Invocation (tx, ty) holds the scores of {{.C.TQ}} queries x {{.C.TK}} keys and
// {{.C.Cols}} columns of the same queries' results in registers. Both matrix products stage their operands in workgroup
// memory: {{.C.Depth}} values of the head dim of q and k at a time, then {{.C.PartRows}} weights and rows of v. The
// next operands are fetched while the present ones are used. These fetches are unconditional, because a branch would
// make the device wait for them. Scores are in units of log2(e).
//
// Inner loops use only indices that are constant or do not change in the loop. The device clamps all others to the
// array's bounds, which costs one more instruction per read.
{{- $c := .C}}

// Four rows of q, k, v or weights. Each row has a value for all queries, keys or columns. The gaps make neighbouring
// invocations store to different banks.
struct FourA {
  rows: array<array<vec4<f32>, {{add .C.QueryVecs 1}}>, 4>,
  gap: array<vec4<f32>, 2>,
}
struct FourB {
  rows: array<array<vec4<f32>, {{.C.RowVecs}}>, 4>,
  gap: array<vec4<f32>, 2>,
}
// q as [d][query / 4]; weights as [key][query / 4]
var<workgroup> tile_a: array<array<FourA, {{.C.FoursA}}>, {{.C.BlocksA}}>;
var<workgroup> tile_b: array<array<FourB, {{.C.FoursB}}>, {{.C.BlocksB}}>; // k as [d][key / 4]; v as [key][column / 4]
{{- template "score" .}}
{{- if not .C.Grid}}
{{- template "exact_weights" .}}
fn weighed(p: vec4<f32>, v: f32) -> vec4<f32> {
  let some = select(p, vec4<f32>(least_weight), p == vec4<f32>(0.0));
  return select(some * v, vec4<f32>(0.0), bitcast<vec4<u32>>(p) == vec4<u32>(0x80000000u));
}
{{- end}}

@compute @workgroup_size({{.C.Threads}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
{{- template "first_query" .}}
{{- if .C.Pairs}}
  let tx = local / 2u % {{.C.LK}}u;
  let ty = local % 2u + local / {{mul .C.LK 2}}u * 2u;
{{- else}}
  let tx = local % {{.C.LK}}u;
  let ty = local / {{.C.LK}}u;
{{- end}}
  let row4 = tx % {{.C.FoursA}}u; // row group of its weights in tile_a
  let row1 = tx / {{.C.FoursA}}u;
{{- if .C.KeyPlaces}}
  for (var r = local; r < {{.C.KeyPlaces}}u; r = r + {{.C.Threads}}u) {
    key_places[r] = key_place(b, h, r);
  }
  workgroupBarrier();
{{- end}}
  let scale = P.scale{{if .C.Log2}} * {{.C.Log2E}}{{end}};

  // What this invocation fetches. Of q and k: four rows x four values of the head dim, so that neighbours read along
  // the head dim. Of v: one vector of a row.
{{- range .C.Passes}}
  let unit{{.Index}} = local + {{.First}}u;
{{- if .Mixed}}
  let is_q{{.Index}} = unit{{.Index}} < {{.UnitsA}}u;
{{- else}}
  let is_q{{.Index}} = {{.A}};
{{- end}}
  let depth{{.Index}} = unit{{.Index}} % {{div $c.Depth 4}}u;
  let four{{.Index}} = (unit{{.Index}}{{if .Mixed}} - select({{.UnitsA}}u, 0u, is_q{{.Index}}){{else if not .A}} -
      {{.UnitsA}}u{{end}}) / {{div $c.Depth 4}}u;
{{- if .A}}
  let rows{{.Index}} = query_rows(b, h, q0 + four{{.Index}} * 4u, queries);
{{- else if .Mixed}}
  var rows{{.Index}} = key_rows(b, h, k_first + four{{.Index}} * 4u);
  if (is_q{{.Index}}) {
    rows{{.Index}} = query_rows(b, h, q0 + four{{.Index}} * 4u, queries);
  }
{{- else}}
  var rows{{.Index}} = key_rows(b, h, k_first + four{{.Index}} * 4u);
{{- end}}
  var next{{.Index}} = fetch_qk(is_q{{.Index}}, rows{{.Index}}, h, depth{{.Index}});
{{- end}}
{{- range $i := seq .C.PassesV}}
  let value{{$i}} = (local + {{mul $i $c.Threads}}u) / {{div $c.DP 4}}u;
  let column{{$i}} = (local + {{mul $i $c.Threads}}u) % {{div $c.DP 4}}u;
  // in the order in which lanes hold keys
  let key{{$i}} = value{{$i}} % 4u * {{$c.FoursA}}u + value{{$i}} % {{$c.LK}}u / 4u;
{{- if eq $c.SingleKeys 0}}
  let first{{$i}} = key{{$i}} * 4u + value{{$i}} / {{$c.LK}}u;
{{- end}}
{{- end}}
{{- range $i := seq .C.Rows}}
  var most{{$i}} = vec4<f32>(-3.0e38); // finite, so that -Inf minus it stays -Inf
  var sum{{$i}} = vec4<f32>(0.0);
{{- range $j := seq $c.Cols}}
  var o{{$i}}_{{$j}} = vec4<f32>(0.0);
{{- end}}
{{- end}}
{{- if .C.Rel}}
  let rel_at = (b * P.heads + h) * {{mul .C.RelRows .C.RelPitch}}u + q0 / 4u + ty;
{{- end}}

  for (var k0 = k_first; k0 < k_end; k0 = k0 + {{.C.Keys}}u) {
{{- if .C.Rel}}{{template "rel" .C}}
{{- else}}
{{- range $i := seq .C.Rows}}{{range $j := seq $c.TK}}
    var s{{$i}}_{{$j}} = vec4<f32>(0.0);
{{- end}}{{end}}
{{- end}}
    for (var part = 0u; part < {{.C.Parts}}u; part = part + 1u) {
{{- range $p := .C.Passes}}
      {
        let m = transpose(next{{.Index}});
{{- if or .A .Mixed}}
        {{if .Mixed}}if (is_q{{.Index}}) {{else if .Some}}if (unit{{.Index}} < {{.UnitsA}}u) {{end}}{
{{- range $j := seq 4}}
          {{$c.A (printf "depth%d" $p.Index)}}.rows[{{$j}}][four{{$p.Index}}] = m[{{$j}}] * scale;
{{- end}}
        }
{{- end}}
{{- if not .A}}
        {{if .Mixed}}else {{end}}{{if .Some}}if (unit{{.Index}} < {{.Units}}u) {{end}}{
{{- range $j := seq 4}}
          {{$c.B (printf "depth%d" $p.Index)}}.rows[{{$j}}][four{{$p.Index}}] = m[{{$j}}];
{{- end}}
        }
{{- end}}
      }
{{- end}}
      workgroupBarrier();
      let last = part == {{.C.LastPart}}u;
      if (last) {
{{- range .C.Passes}}{{if not .A}}
        rows{{.Index}} = {{if .Mixed}}select({{end}}key_rows(b, h,
            k0 + {{$c.Keys}}u + four{{.Index}} * 4u){{if .Mixed}}, rows{{.Index}}, is_q{{.Index}}){{end}};
{{- end}}{{end}}
      }
      let depth = select((part + 1u) * {{div .C.Depth 4}}u, 0u, last);
{{- range .C.Passes}}
      next{{.Index}} = fetch_qk(is_q{{.Index}}, rows{{.Index}}, h, depth + depth{{.Index}});
{{- end}}
{{- if gt .C.Bodies 1}}
      for (var body = 0u; body < {{.C.Bodies}}u; body = body + 1u) {
{{- end}}
{{- range $d := seq .C.Body}}
      {
{{- range $i := seq $c.Rows}}
        let a{{$i}} = {{$c.QRow $d}}[ty + {{mul $i $c.LQ}}u];
{{- end}}
{{- range $j := seq $c.VecKeys}}
        let b{{$j}} = {{$c.KRow $d}}[tx + {{mul $j $c.LK}}u];
{{- end}}
{{- range $j := seq $c.SingleKeys}}
        let e{{$j}} = {{$c.KRow $d}}[tx / 4u + {{$c.SingleKey $j}}u][tx % 4u];
{{- end}}
{{- range $j := seq $c.TK}}{{range $i := seq $c.Rows}}
        s{{$i}}_{{$j}} = fma(a{{$i}}, vec4<f32>({{$c.Key $j}}), s{{$i}}_{{$j}});
{{- end}}{{end}}
      }
{{- end}}
{{- if gt .C.Bodies 1}}
      }
{{- end}}
      workgroupBarrier();
    }
{{- range $i := seq .C.PassesV}}
    var v{{$i}} = fetch_v(b, h, k0 + {{if $c.SingleKeys}}key{{$i}} * 4u{{else}}first{{$i}}{{end}}, column{{$i}});
{{- end}}
{{- if .C.Masked}}
{{- range $i := seq .C.Rows}}{{range $j := seq $c.TK}}{{range $r := seq 4}}
    s{{$i}}_{{$j}}[{{$r}}] = score(b, h, q0 + (ty + {{mul $i $c.LQ}}u) * 4u + {{$r}}u, k0 + {{$c.KeyAt $j}},
        s{{$i}}_{{$j}}[{{$r}}]);
{{- end}}{{end}}{{end}}
{{- else if .C.TailK}}
    if (k0 + {{.C.Keys}}u > k_end) {
{{- range $j := seq $c.TK}}
      if (k0 + {{$c.KeyAt $j}} >= k_end) {
{{- range $i := seq $c.Rows}}
        s{{$i}}_{{$j}} = vec4<f32>(-infinity());
{{- end}}
      }
{{- end}}
    }
{{- end}}

    // The reference point of the exponentials follows the maximum only when that has grown by more than 8 (a factor of
    // 2^8). Any point near the maximum works, and the sums need to be rescaled less often.
{{- range $i := seq .C.Rows}}
    var top{{$i}} = s{{$i}}_0;
{{- range $j := seq $c.TK}}{{if $j}}
    top{{$i}} = max(top{{$i}}, s{{$i}}_{{$j}});
{{- end}}{{end}}
    tile_a[0][row4].rows[row1][ty + {{mul $i $c.LQ}}u] = top{{$i}};
{{- end}}
    workgroupBarrier();
{{- range $t := seq .C.LK}}{{range $i := seq $c.Rows}}
    top{{$i}} = max(top{{$i}}, tile_a[0][{{div $t 4}}].rows[{{mod $t 4}}][ty + {{mul $i $c.LQ}}u]);
{{- end}}{{end}}
{{- range $i := seq .C.Rows}}
    top{{$i}} = select(most{{$i}}, top{{$i}}, top{{$i}} > most{{$i}} + 8.0);
{{- end}}
    if ({{range $i := seq .C.Rows}}{{if $i}} || {{end}}any(top{{$i}} != most{{$i}}){{end}}) {
{{- range $i := seq .C.Rows}}
{{- if $c.Grid}}
      let keep{{$i}} = exp2(most{{$i}} - top{{$i}});
      sum{{$i}} = sum{{$i}} * keep{{$i}};
{{- range $j := seq $c.Cols}}
      o{{$i}}_{{$j}} = o{{$i}}_{{$j}} * keep{{$i}};
{{- end}}
{{- else}}
      let lower{{$i}} = most{{$i}} - top{{$i}};
      sum{{$i}} = rescaled(sum{{$i}}, lower{{$i}});
{{- range $j := seq $c.Cols}}
      o{{$i}}_{{$j}} = rescaled(o{{$i}}_{{$j}}, lower{{$i}});
{{- end}}
{{- end}}
      most{{$i}} = top{{$i}};
{{- end}}
    }
{{- range $j := seq .C.TK}}{{range $i := seq $c.Rows}}
    s{{$i}}_{{$j}} = {{if $c.Grid}}exp2{{else}}weight{{end}}(s{{$i}}_{{$j}} - most{{$i}});
    sum{{$i}} = sum{{$i}} + s{{$i}}_{{$j}};
{{- end}}{{end}}
    workgroupBarrier();

{{- if .C.TailK}}
    let parts = min({{.C.KeyParts}}u, (k_end - k0 + {{sub (mul .C.LK 4) 1}}u) / {{mul .C.LK 4}}u * {{div 4 .C.Span}}u);
{{- end}}
    for (var part = 0u; part < {{if .C.TailK}}parts{{else}}{{.C.KeyParts}}u{{end}}; part = part + 1u) {
      switch part {
{{- range $part := seq .C.KeyParts}}
        {{if eq (add $part 1) $c.KeyParts}}default{{else}}case {{$part}}u{{end}}: {
{{- range $s := seq $c.Span}}{{range $i := seq $c.Rows}}
          tile_a[{{$s}}][row4].rows[row1][ty + {{mul $i $c.LQ}}u] = s{{$i}}_{{add (mul $part $c.Span) $s}};
{{- end}}{{end}}
        }
{{- end}}
      }
{{- range $i := seq $c.PassesV}}
      {{if $c.SomeV $i}}if (local + {{mul $i $c.Threads}}u < {{$c.UnitsV}}u) {{end}}{
        {{$c.ValueRow (printf "value%d" $i)}}[{{$c.ValueAt (printf "value%d" $i)}} + column{{$i}}] = v{{$i}};
{{- if not $c.Grid}}
        if (any_not_finite(v{{$i}})) {
          atomicStore(&not_finite, 1u);
        }
{{- end}}
      }
{{- end}}
      workgroupBarrier();
      let next = part + 1u;
{{- if .C.SingleKeys}}
      let fours = next < {{mul .C.VecKeys 4}}u;
      let from_k = k0 + select(next * {{.C.LK}}u, next / 4u * {{mul .C.LK 4}}u + next % 4u, fours);
{{- range $i := seq $c.PassesV}}
      v{{$i}} = fetch_v(b, h, from_k + select(key{{$i}}, key{{$i}} * 4u, fours), column{{$i}});
{{- end}}
{{- else}}
      let from_k = k0 + next / {{div 4 .C.Span}}u * {{mul .C.LK 4}}u + next % {{div 4 .C.Span}}u * {{.C.Span}}u;
{{- range $i := seq $c.PassesV}}
      v{{$i}} = fetch_v(b, h, from_k + first{{$i}}, column{{$i}});
{{- end}}
{{- end}}
{{- if not $c.Grid}}
      if (atomicLoad(&not_finite) != 0u) {
        for (var k = 0u; k < {{$c.PartRows}}u; k = k + 1u) {
{{- range $i := seq $c.Rows}}
          let p{{$i}} = {{$c.A "k / 4u"}}.rows[k % 4u][ty + {{mul $i $c.LQ}}u];
{{- end}}
{{- range $j := seq $c.Cols}}
          let v{{$j}} = {{$c.ValueRow "k"}}[{{$c.ValueAt "k"}} + ({{$c.ColAt $j}}) / 4u][({{$c.ColAt $j}}) % 4u];
{{- range $i := seq $c.Rows}}
          o{{$i}}_{{$j}} = o{{$i}}_{{$j}} + weighed(p{{$i}}, v{{$j}});
{{- end}}
{{- end}}
        }
      } else {
{{- end}}
{{- template "weigh" $c}}
{{- if not $c.Grid}}
      }
{{- end}}
      workgroupBarrier();
    }
  }

  // Each invocation has summed only its own keys.
{{- range $i := seq .C.Rows}}
  tile_a[0][row4].rows[row1][ty + {{mul $i $c.LQ}}u] = sum{{$i}};
{{- end}}
  workgroupBarrier();
{{- range $i := seq .C.Rows}}
  {
    var total = vec4<f32>(0.0);
{{- range $t := seq $c.LK}}
    total = total + tile_a[0][{{div $t 4}}].rows[{{mod $t 4}}][ty + {{mul $i $c.LQ}}u];
{{- end}}
{{- if $c.Sinks}}
    total = select(total + exp2(vec4<f32>(x{{$c.Sinks}}(h) * {{$c.Log2E}}) - most{{$i}}), vec4<f32>(0.0),
        total == vec4<f32>(0.0));
{{- end}}
    let factor = select(1.0 / total, vec4<f32>(0.0), total == vec4<f32>(0.0));
{{- range $r := seq 4}}
    {
      let q = q0 + (ty + {{mul $i $c.LQ}}u) * 4u + {{$r}}u;
      if (q < queries) {

        let at = result_row(b, h, q) * 4u;
{{- if $c.VecOut}}
{{- range $v := seq $c.VecCols}}
{{- $j := mul $v 4}}
        {{if ne $c.D $c.DP}}if ({{$c.ColAt $j}} < {{$c.D}}u) {{end}}{
          y4_put((at + {{$c.ColAt $j}}) / 4u,
              vec4<f32>(o{{$i}}_{{$j}}[{{$r}}], o{{$i}}_{{add $j 1}}[{{$r}}], o{{$i}}_{{add $j 2}}[{{$r}}],
                  o{{$i}}_{{add $j 3}}[{{$r}}]) * factor[{{$r}}]);
        }
{{- end}}
{{- else}}
{{- range $j := seq $c.Cols}}
        {{if ne $c.D $c.DP}}if ({{$c.ColAt $j}} < {{$c.D}}u) {{end}}{
          y_put(at + {{$c.ColAt $j}}, bitcast<u32>(o{{$i}}_{{$j}}[{{$r}}] * factor[{{$r}}]));
        }
{{- end}}
{{- end}}
      }
    }
{{- end}}
  }
{{- end}}
}
