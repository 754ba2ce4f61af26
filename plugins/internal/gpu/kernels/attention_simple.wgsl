// For any sizes and element types: each element of the result takes one pass over the keys of its query (online
// softmax).
{{- if .C.Grid}}
struct Token {
  inside: bool,
  at: u32, // index of the token among those of all batch elements
}
fn token(b: u32, r: u32) -> Token {
  let windows = P.nh * P.nw;
  let w = b % windows;
  let y = (w / P.nw) * P.wh + r / P.ww;
  let x = (w % P.nw) * P.ww + r % P.ww;
  return Token(y < P.gh && x < P.gw, ((b / windows) * P.gh + y) * P.gw + x);
}
fn part_at(t: Token, h: u32, which: u32, d: u32) -> f32 {
  let at = (which * P.heads + h) * P.dim + d;
  if (t.inside) {
    return x0(t.at * 3u * P.heads * P.dim + at);
  }
  return x1(at);
}
{{- else}}
{{- template "keys" .}}
fn never_zero(p: f32) -> f32 {
  return select(p, 1.2e-38, p == 0.0);
}
{{- end}}

fn value(i: u32) -> u32 {
{{- if .C.Grid}}
  let d = i % P.dim;
  let h = (i / P.dim) % P.heads;
  let t = i / (P.dim * P.heads);
  let x = t % P.gw;
  let y = (t / P.gw) % P.gh;
  let b = ((t / (P.gw * P.gh)) * P.nh + y / P.wh) * P.nw + x / P.ww;
  let qy = y % P.wh;
  let qx = x % P.ww;
  let token_q = token(b, qy * P.ww + qx);
  let k_first = 0u;
  let k_end = P.sk;
{{- else}}
  let d = i % P.dim_v;
{{- if eq .C.Layout "bhsd"}}
  let q = (i / P.dim_v) % P.sq;
  let h = (i / (P.dim_v * P.sq)) % P.heads;
{{- else}}
  let h = (i / P.dim_v) % P.heads;
  let q = (i / (P.dim_v * P.heads)) % P.sq;
{{- end}}
  let b = i / (P.dim_v * P.sq * P.heads);
  let q_at = P.q_at + b * P.q_b + q * P.q_s + h * P.q_h;
  set_span(b);
{{- if .C.Pages}}
  if (i % (P.dim_v * P.sq * P.heads) == 0u) {
    check_pages(b, 0u, 1u);
  }
{{- end}}
  let k_at = P.k_at + ((h * P.kv_heads) / P.heads) * P.k_h;
  let v_at = P.v_at + ((h * P.kv_heads) / P.heads) * P.v_h + d;
  let seen = visible(q, q + 1u);
  let k_first = seen.x;
  let k_end = seen.y;
{{- end}}
  var most = -infinity();
  var sum = 0.0;
  var acc = 0.0;
  for (var k = k_first; k < k_end; k = k + 1u) {
    var s = 0.0;
{{- if .C.Grid}}
    let token_k = token(b, k);
{{- if .C.Rel}}
    let rel_h = (qy * P.wh + k / P.ww) * P.dim;
    let rel_w = (qx * P.ww + k % P.ww) * P.dim;
    var bias = 0.0;
{{- end}}
{{- else}}
    let row = k_at + key_at(element, k, P.k_b, P.k_s);
{{- end}}
    // Unrolled by sixteen, because Mesa's software adapter ends loops after 65535 iterations in total.
{{- if ge .C.D 16}}
    for (var e0 = 0u; e0 < {{mul (div .C.D 16) 16}}u; e0 = e0 + 16u) {
{{- range $j := seq 16}}
      {
        let e = e0 + {{$j}}u;
{{- template "term" $}}
      }
{{- end}}
    }
{{- end}}
{{- range $j := seq (mod .C.D 16)}}
    {
      let e = {{add (mul (div $.C.D 16) 16) $j}}u;
{{- template "term" $}}
    }
{{- end}}
    s = s * P.scale;
{{- if .C.Grid}}
{{- if .C.Rel}}
    s = s + bias;
{{- end}}
    let v = part_at(token_k, h, 2u, d);
{{- else}}
{{- template "mask" .}}
    let v = x2(v_at + key_at(element, k, P.v_b, P.v_s));
{{- end}}
    if (is_nan(s) || s > -infinity()) {
      let next = op_max(most, s);
{{- if .C.Grid}}
      let keep = select(op_exp(most - next), 0.0, most == -infinity() && !is_nan(next));
      let p = op_exp(s - next);
      sum = sum * keep + p;
      acc = acc * keep + p * v;
{{- else}}
      // A key whose weight would be 0 even in double precision is skipped. Other weights are kept above 0, because v
      // may be infinite.
      if (most - next < -745.0) {
        sum = 0.0;
        acc = 0.0;
      } else {
        let keep = never_zero(op_exp(most - next));
        sum = sum * keep;
        acc = acc * keep;
      }
      if (!(s - next < -745.0)) {
        let p = never_zero(op_exp(s - next));
        sum = sum + p;
        acc = acc + p * v;
      }
{{- end}}
      most = next;
    }
  }
  if (sum == 0.0) {
    return y_encode(0.0);
  }
{{- if not .C.Grid}}{{if .C.Sinks}}
  sum = sum + op_exp(x{{.C.Sinks}}(h) - most);
{{- end}}{{end}}
  return y_encode(acc / sum);
}
{{- define "term"}}
{{- if .C.Grid}}
        let q_e = part_at(token_q, h, 0u, e);
        s = fma(q_e, part_at(token_k, h, 1u, e), s);
{{- if .C.Rel}}
        bias = fma(q_e, x2(rel_h + e) + x3(rel_w + e), bias);
{{- end}}
{{- else}}
        s = fma(x0(q_at + e), x1(row + e), s);
{{- end}}
{{- end}}
