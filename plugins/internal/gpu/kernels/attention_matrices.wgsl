// Attention with online softmax on devices with matrices. A workgroup computes {{.C.Queries}} queries of one head, in
// tiles of {{.C.Keys}} keys, and writes only the result to memory. A block of 32 invocations holds
// {{mul 8 .C.AttentionMatrices.Rows}} queries and their results in matrices of 8x8. Keys, and then values, are staged
// in workgroup memory. Scores pass through it, too: the matrices have keys as rows and queries as columns, so that a
// vector of tile_s has the scores of four queries with one key. An invocation computes the weights of four queries for
// {{.C.Scores}} keys of a tile. Scores are in units of log2(e).
//
// Conditions around functions of matrices are the same for all invocations of a workgroup.
{{- $c := .C}}
{{- $rows := .C.AttentionMatrices.Rows}}

// k or v as [key][d / 4], or the result as [query][d / 4]
var<workgroup> tile_kv: array<vec4<f32>, {{mul .C.Lines .C.Line}}>;
var<workgroup> tile_s: array<vec4<f32>, {{mul .C.Keys .C.LineS}}>;  // scores, then weights: [key][query / 4]
// maxima, at last sums, of {{.C.Sharers}} invocations: [invocation][query / 4]
var<workgroup> partial: array<vec4<f32>, {{.C.Threads}}>;
// [query / 4]; of the logarithms, at last of the results
var<workgroup> factors: array<vec4<f32>, {{.C.RowS}}>;
// 1 + the first key of the tile that last changed a reference point
var<workgroup> rescales: atomic<u32>;
{{- template "score" .}}
{{- if .C.Grid}}

fn weight(x: vec4<f32>) -> vec4<f32> {
  return exp2(x);
}
fn rescaled(o: vec4<f32>, x: vec4<f32>) -> vec4<f32> {
  return o * exp2(x);
}
{{- else}}
{{- template "exact_weights" .}}
fn weighed(p: f32, v: vec4<f32>) -> vec4<f32> {
  return select(select(p, least_weight, p == 0.0) * v, vec4<f32>(0.0), bitcast<u32>(p) == 0x80000000u);
}
{{- end}}
fn fetch_query(b: u32, h: u32, r: u32, d4: u32) -> vec4<f32> {
  return {{if .C.Grid}}fetch(query_row(b, h, r), h, 0u, d4){{else}}fetch_x0(query_row(b, h, r), d4){{end}};
}
fn fetch_key(b: u32, h: u32, r: u32, d4: u32) -> vec4<f32> {
  return {{if .C.Grid}}fetch(key_row(b, h, r), h, 1u, d4){{else}}fetch_x1(key_row(b, h, r), d4){{end}};
}
{{- define "matrices"}}{{/* copies the results to or from tile_kv */}}
{{- $c := .Consts}}{{$move := .Move}}
{{- range $r := seq $c.AttentionMatrices.Rows}}{{range $d := seq $c.Cols}}
      {{$move}}(&o{{$r}}_{{$d}}, &tile_kv, own + {{add (mul $r (mul 32 $c.Line)) (mul $d 8)}}u,
          {{mul 4 $c.Line}}u{{if eq $move "rlx_matrix_load"}}, false{{end}});
{{- end}}{{end}}
{{- end}}

@compute @workgroup_size({{.C.Threads}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
{{- template "first_query" .}}
{{- if .C.KeyPlaces}}
  for (var r = local; r < {{.C.KeyPlaces}}u; r = r + {{.C.Threads}}u) {
    key_places[r] = key_place(b, h, r);
  }
{{- end}}
  // Word at which the block's results begin in tile_kv. The invocation's four queries, and the first of its keys.
  let own = local / 32u * {{mul (mul $rows 32) .C.Line}}u;
  let four = local / 32u * {{.C.Own}}u + local % {{.C.Own}}u;
  let first = local % 32u / {{.C.Own}}u;
  let scale = P.scale{{if .C.Log2}} * {{.C.Log2E}}{{end}};
  for (var u = local; u < {{mul .C.Queries .C.Row}}u; u = u + {{.C.Threads}}u) {
    tile_kv[u / {{.C.Row}}u * {{.C.Line}}u + u % {{.C.Row}}u] = fetch_query(b, h,
        min(q0 + u / {{.C.Row}}u, queries - 1u), u % {{.C.Row}}u) * scale;
  }
  workgroupBarrier();
{{- range $r := seq $rows}}{{range $d := seq $c.Cols}}
  var q{{$r}}_{{$d}}: rlx_matrix8x8;
  var o{{$r}}_{{$d}}: rlx_matrix8x8;
  rlx_matrix_load(&q{{$r}}_{{$d}}, &tile_kv, own + {{add (mul $r (mul 32 $c.Line)) (mul $d 8)}}u, {{mul 4 $c.Line}}u,
      true);
{{- end}}{{end}}
  var most = vec4<f32>(-3.0e38); // finite, so that -Inf minus it stays -Inf
  var sum = vec4<f32>(0.0);
{{- if .C.Rel}}
  let rel_at = (b * P.heads + h) * {{mul .C.RelRows .C.RelPitch}}u + q0 / 4u + four;
{{- end}}

  for (var k0 = k_first; k0 < k_end; k0 = k0 + {{.C.Keys}}u) {
    workgroupBarrier();
    for (var u = local; u < {{mul .C.Keys .C.Row}}u; u = u + {{.C.Threads}}u) {
      tile_kv[u / {{.C.Row}}u * {{.C.Line}}u + u % {{.C.Row}}u] = fetch_key(b, h, k0 + u / {{.C.Row}}u,
          u % {{.C.Row}}u);
    }
    workgroupBarrier();
    {
{{- range $j := seq (div .C.Keys 8)}}{{range $r := seq $rows}}
      var s{{$r}}_{{$j}}: rlx_matrix8x8;
{{- end}}{{end}}
      var k: rlx_matrix8x8;
{{- range $d := seq .C.Cols}}{{range $j := seq (div $c.Keys 8)}}
      rlx_matrix_load(&k, &tile_kv, {{add (mul $j (mul 32 $c.Line)) (mul $d 8)}}u, {{mul 4 $c.Line}}u, false);
{{- range $r := seq $rows}}
      rlx_matrix_multiply_add(&s{{$r}}_{{$j}}, &k, &q{{$r}}_{{$d}});
{{- end}}
{{- end}}{{end}}
{{- range $j := seq (div .C.Keys 8)}}{{range $r := seq $rows}}
      rlx_matrix_store(&s{{$r}}_{{$j}}, &tile_s, {{add (mul $j (mul 32 $c.LineS)) (mul $r 8)}}u +
          local / 32u * {{mul $rows 8}}u, {{mul 4 $c.LineS}}u);
{{- end}}{{end}}
    }
    workgroupBarrier();
{{- range $j := seq .C.Scores}}
    let key{{$j}} = k0 + first + {{mul $j $c.Sharers}}u;
    let at{{$j}} = (first + {{mul $j $c.Sharers}}u) * {{$c.LineS}}u + four;
    var s{{$j}} = tile_s[at{{$j}}];
{{- if $c.Rel}}
    let token{{$j}} = min(key{{$j}}, P.sk - 1u);
    s{{$j}} = s{{$j}} + rel4(rel_at + token{{$j}} / P.ww * {{$c.RelPitch}}u) +
        rel4(rel_at + (P.wh + token{{$j}} % P.ww) * {{$c.RelPitch}}u);
{{- end}}
{{- if $c.Masked}}
{{- range $i := seq 4}}
    s{{$j}}[{{$i}}] = score(b, h, q0 + four * 4u + {{$i}}u, key{{$j}}, s{{$j}}[{{$i}}]);
{{- end}}
{{- else if $c.TailK}}
    if (key{{$j}} >= k_end) {
      s{{$j}} = vec4<f32>(-infinity());
    }
{{- end}}
{{- end}}
    // The reference point of the exponentials follows the maximum only when that has grown by more than 8: see
    // attention.wgsl.
    var top = s0;
{{- range $j := seq .C.Scores}}{{if $j}}
    top = max(top, s{{$j}});
{{- end}}{{end}}
    partial[first * {{.C.RowS}}u + four] = top;
    workgroupBarrier();
{{- range $t := seq .C.Sharers}}
    top = max(top, partial[{{mul $t $c.RowS}}u + four]);
{{- end}}
    top = select(most, top, top > most + 8.0);
    let lower = most - top;
    if (any(top != most)) {
      sum = rescaled(sum, lower);
      atomicStore(&rescales, k0 + 1u);
    }
    if (first == 0u) {
      factors[four] = lower;
    }
    most = top;
{{- range $j := seq .C.Scores}}
    s{{$j}} = weight(s{{$j}} - most);
    sum = sum + s{{$j}};
    tile_s[at{{$j}}] = s{{$j}};
{{- end}}
    workgroupBarrier();

    // Results are rescaled in workgroup memory, because Metal does not say which invocation has which elements of a
    // matrix. At the first tile they are 0.
    if (k0 > k_first && atomicLoad(&rescales) == k0 + 1u) {
{{- template "matrices" .C.Stores}}
      workgroupBarrier();
      for (var u = local; u < {{mul .C.Queries .C.Row}}u; u = u + {{.C.Threads}}u) {
        let q = u / {{.C.Row}}u;
        let at = q * {{.C.Line}}u + u % {{.C.Row}}u;
        tile_kv[at] = rescaled(tile_kv[at], vec4<f32>(factors[q / 4u][q % 4u]));
      }
      workgroupBarrier();
{{- template "matrices" .C.Loads}}
      workgroupBarrier();
    }
    for (var u = local; u < {{mul .C.Keys .C.Row}}u; u = u + {{.C.Threads}}u) {
      let v = fetch_v(b, h, k0 + u / {{.C.Row}}u, u % {{.C.Row}}u);
      tile_kv[u / {{.C.Row}}u * {{.C.Line}}u + u % {{.C.Row}}u] = v;
{{- if not .C.Grid}}
      if (any_not_finite(v)) {
        atomicStore(&not_finite, 1u);
      }
{{- end}}
    }
    workgroupBarrier();
{{- if not .C.Grid}}
    if (atomicLoad(&not_finite) != 0u) {
{{- range $i := seq .C.Units}}
      let u{{$i}} = local + {{mul $i $c.Threads}}u;
      let row{{$i}} = u{{$i}} / {{$c.Row}}u;
      var more{{$i}} = vec4<f32>(0.0);
      if (u{{$i}} < {{mul $c.Queries $c.Row}}u) {
        for (var k = 0u; k < {{$c.Keys}}u; k = k + 1u) {
          more{{$i}} = more{{$i}} + weighed(tile_s[k * {{$c.LineS}}u + row{{$i}} / 4u][row{{$i}} % 4u],
              tile_kv[k * {{$c.Line}}u + u{{$i}} % {{$c.Row}}u]);
        }
      }
{{- end}}
      workgroupBarrier();
{{- template "matrices" .C.Stores}}
      workgroupBarrier();
{{- range $i := seq .C.Units}}
      if (u{{$i}} < {{mul $c.Queries $c.Row}}u) {
        let at = row{{$i}} * {{$c.Line}}u + u{{$i}} % {{$c.Row}}u;
        tile_kv[at] = tile_kv[at] + more{{$i}};
      }
{{- end}}
      workgroupBarrier();
{{- template "matrices" .C.Loads}}
    } else {
{{- else}}
    {
{{- end}}
      var v: rlx_matrix8x8;
{{- range $r := seq $rows}}
      var p{{$r}}: rlx_matrix8x8;
{{- end}}
{{- $some := or .C.TailK .C.Masked}}
{{- if $some}}
      let used = min(k_end - k0, {{.C.Keys}}u);
{{- end}}
      for (var k = 0u; k < {{if $some}}used{{else}}{{.C.Keys}}u{{end}}; k = k + 8u) {
{{- range $r := seq $rows}}
        rlx_matrix_load(&p{{$r}}, &tile_s, k * {{mul 4 $c.LineS}}u + local / 32u * {{mul $rows 8}}u + {{mul $r 8}}u,
            {{mul 4 $c.LineS}}u, true);
{{- end}}
{{- range $d := seq .C.Cols}}
        rlx_matrix_load(&v, &tile_kv, k * {{mul 4 $c.Line}}u + {{mul $d 8}}u, {{mul 4 $c.Line}}u, false);
{{- range $r := seq $rows}}
        rlx_matrix_multiply_add(&o{{$r}}_{{$d}}, &p{{$r}}, &v);
{{- end}}
{{- end}}
      }
    }
  }

  workgroupBarrier();
{{- template "matrices" .C.Stores}}
  partial[first * {{.C.RowS}}u + four] = sum;
  workgroupBarrier();
  if (first == 0u) {
    var total = vec4<f32>(0.0);
{{- range $t := seq .C.Sharers}}
    total = total + partial[{{mul $t $c.RowS}}u + four];
{{- end}}
{{- if .C.Sinks}}
    total = select(total + exp2(vec4<f32>(x{{.C.Sinks}}(h) * {{.C.Log2E}}) - most), vec4<f32>(0.0),
        total == vec4<f32>(0.0));
{{- end}}
    factors[four] = select(1.0 / total, vec4<f32>(0.0), total == vec4<f32>(0.0));
  }
  workgroupBarrier();
  for (var u = local; u < {{mul .C.Queries (div .C.D 4)}}u; u = u + {{.C.Threads}}u) {
    let q = u / {{div .C.D 4}}u;
    let d4 = u % {{div .C.D 4}}u;
    if (q0 + q < queries) {
      y4_put(result_row(b, h, q0 + q) + d4, tile_kv[q * {{.C.Line}}u + d4] * factors[q / 4u][q % 4u]);
    }
  }
}
