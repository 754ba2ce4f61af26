// Offsets of rows of q, k, v and the result, in vectors of four: row r of head h in block b. A block is a batch element
// of attention or a window of grid_attention.
{{- if .C.Grid}}
// Query rows are the window's tokens that are on the grid. Key rows are all tokens of the window. Tokens past the
// grid's edge are padding and use row x1 as their q, k and v.
{{- if .C.Padded}}
fn corner(b: u32) -> vec2<u32> {
  let w = b % (P.nh * P.nw);
  return vec2<u32>((w / P.nw) * P.wh, (w % P.nw) * P.ww);
}
fn inside(b: u32) -> vec2<u32> {
  return min(vec2<u32>(P.wh, P.ww), vec2<u32>(P.gh, P.gw) - corner(b));
}
{{- end}}
fn query_count(b: u32) -> u32 {
{{- if .C.Padded}}
  let n = inside(b);
  return n.x * n.y;
{{- else}}
  return P.sq;
{{- end}}
}
fn query_token(b: u32, r: u32) -> u32 {
{{- if .C.OneWindow}}
  return b * P.sq + r;
{{- else if .C.Padded}}
  let at = corner(b);
  let n = inside(b);
  return ((b / (P.nh * P.nw)) * P.gh + at.x + r / n.y) * P.gw + at.y + r % n.y;
{{- else}}
  let w = b % (P.nh * P.nw);
  return ((b / (P.nh * P.nw)) * P.gh + (w / P.nw) * P.wh + r / P.ww) * P.gw + (w % P.nw) * P.ww + r % P.ww;
{{- end}}
}
{{- if .C.KeyPlaces}}
// Locating a token takes divisions, so the workgroup computes the offsets of its keys once.
var<workgroup> key_places: array<u32, {{.C.KeyPlaces}}>;
fn key_row(b: u32, h: u32, row: u32) -> u32 {
  return key_places[min(row, {{sub .C.KeyPlaces 1}}u)]; // an invocation without a key asks for an index past the table
}
{{- end}}
fn {{if .C.KeyPlaces}}key_place{{else}}key_row{{end}}(b: u32, h: u32, row: u32) -> u32 {
  let r = min(row, P.sk - 1u);
{{- if .C.Padded}}
  let at = corner(b) + vec2<u32>(r / P.ww, r % P.ww);
  if (at.x >= P.gh || at.y >= P.gw) {
    return 0xffffffffu;
  }
  let t = ((b / (P.nh * P.nw)) * P.gh + at.x) * P.gw + at.y;
{{- else}}
  let t = query_token(b, r);
{{- end}}
  return (t * 3u * P.heads + h) * (P.dim / 4u);
}
fn fetch(row: u32, h: u32, which: u32, d4: u32) -> vec4<f32> {
  let at = which * P.heads * (P.dim / 4u) + {{if ne .C.D .C.DP}}min(d4, P.dim / 4u - 1u){{else}}d4{{end}};
{{- if .C.Padded}}
  let pad = row == 0xffffffffu;
  let v = select(x04(select(row + at, 0u, pad)), x14(h * (P.dim / 4u) + at), pad);
{{- else}}
  let v = x04(row + at);
{{- end}}
{{- if ne .C.D .C.DP}}
  return select(vec4<f32>(0.0), v, d4 < P.dim / 4u);
{{- else}}
  return v;
{{- end}}
}
fn fetch_qk(q: bool, rows: vec4<u32>, h: u32, d4: u32) -> mat4x4<f32> {
  let which = select(1u, 0u, q);
  return mat4x4<f32>(fetch(rows.x, h, which, d4), fetch(rows.y, h, which, d4), fetch(rows.z, h, which, d4),
      fetch(rows.w, h, which, d4));
}
fn fetch_v(b: u32, h: u32, r: u32, d4: u32) -> vec4<f32> {
  let v = fetch(key_row(b, h, r), h, 2u, d4);
{{- if .C.TailK}}
  return select(vec4<f32>(0.0), v, r < P.sk);
{{- else}}
  return v;
{{- end}}
}
fn query_row(b: u32, h: u32, r: u32) -> u32 {
  return (query_token(b, r) * 3u * P.heads + h) * (P.dim / 4u);
}
fn result_row(b: u32, h: u32, r: u32) -> u32 {
  return (query_token(b, r) * P.heads + h) * (P.dim / 4u);
}
{{- else}}
{{- template "keys" .}}
var<private> key_end: u32;

fn query_count(b: u32) -> u32 {
  return P.sq;
}
fn query_row(b: u32, h: u32, r: u32) -> u32 {
  return (P.q_at + b * P.q_b + r * P.q_s + h * P.q_h) / 4u;
}
fn key_row(b: u32, h: u32, row: u32) -> u32 {
  return (P.k_at + key_at(element, min(row, P.sk - 1u), P.k_b, P.k_s) + ((h * P.kv_heads) / P.heads) * P.k_h) / 4u;
}
fn value_row(b: u32, h: u32, row: u32) -> u32 {
  return (P.v_at + key_at(element, min(row, P.sk - 1u), P.v_b, P.v_s) + ((h * P.kv_heads) / P.heads) * P.v_h) / 4u;
}
{{- range $i := seq 3}}
fn fetch_x{{$i}}(row: u32, d4: u32) -> vec4<f32> {
{{- if ne $.C.D $.C.DP}}
  return select(vec4<f32>(0.0), x{{$i}}4(row + min(d4, {{div $.C.D 4}}u - 1u)), d4 < {{div $.C.D 4}}u);
{{- else}}
  return x{{$i}}4(row + d4);
{{- end}}
}
{{- end}}
fn fetch_qk(q: bool, rows: vec4<u32>, h: u32, d4: u32) -> mat4x4<f32> {
  if (q) {
    return mat4x4<f32>(fetch_x0(rows.x, d4), fetch_x0(rows.y, d4), fetch_x0(rows.z, d4), fetch_x0(rows.w, d4));
  }
  return mat4x4<f32>(fetch_x1(rows.x, d4), fetch_x1(rows.y, d4), fetch_x1(rows.z, d4), fetch_x1(rows.w, d4));
}
fn fetch_v(b: u32, h: u32, r: u32, d4: u32) -> vec4<f32> {
  return select(vec4<f32>(0.0), fetch_x2(value_row(b, h, r), d4), r < key_end); // values past the last key may be NaN
}
fn result_row(b: u32, h: u32, r: u32) -> u32 {
  return (b * P.o_b + r * P.o_s + h * P.o_h) / 4u;
}
{{- end}}
fn query_rows(b: u32, h: u32, r: u32, queries: u32) -> vec4<u32> {
  let most = queries - 1u;
  return vec4<u32>(query_row(b, h, min(r, most)), query_row(b, h, min(r + 1u, most)),
      query_row(b, h, min(r + 2u, most)), query_row(b, h, min(r + 3u, most)));
}
fn key_rows(b: u32, h: u32, r: u32) -> vec4<u32> {
  return vec4<u32>(key_row(b, h, r), key_row(b, h, r + 1u), key_row(b, h, r + 2u), key_row(b, h, r + 3u));
}

{{- /* Templates for attention.wgsl and attention_matrices.wgsl. */}}
{{- define "score"}}
{{- if .C.Masked}}

// Returns the score of a key in units of log2(e), -Inf if it is masked.
fn score(b: u32, h: u32, q: u32, k: u32, product: f32) -> f32 {
  if (k >= keys) {
    return -infinity();
  }
  var s = product;
{{- template "mask" .}}
  return s * {{.C.Log2E}};
}
{{- end}}
{{- end}}

{{- define "exact_weights"}}

// A key whose weight would be 0 even in double precision is skipped; its weight is stored as -0.0. All other keys are
// multiplied although f32 may round their weight to 0, because 0 times an infinite v must be NaN.
var<workgroup> not_finite: atomic<u32>; // set if a value of v is NaN or infinite
const no_weight = -1075.0;
const least_weight = 1.2e-38;

fn weight(x: vec4<f32>) -> vec4<f32> {
  return select(exp2(x), vec4<f32>(from_bits(0x80000000u)), x < vec4<f32>(no_weight));
}
// Rescales a partial result when the reference point of the exponentials changes by x.
fn rescaled(o: vec4<f32>, x: vec4<f32>) -> vec4<f32> {
  return select(o * max(exp2(x), vec4<f32>(least_weight)), vec4<f32>(0.0), x < vec4<f32>(no_weight));
}
fn any_not_finite(v: vec4<f32>) -> bool {
  return any((bitcast<vec4<u32>>(v) & vec4<u32>(0x7f800000u)) == vec4<u32>(0x7f800000u));
}
{{- end}}

{{- define "first_query"}}
  let id = group.y * groups.x + group.x;
  if (id >= P.groups) {
    return;
  }
  let tiles = (P.sq + {{.C.Queries}}u - 1u) / {{.C.Queries}}u;
  let q0 = (id % tiles) * {{.C.Queries}}u;
  let h = (id / tiles) % P.heads;
  let b = id / (tiles * P.heads);
  let queries = query_count(b);
  if (q0 >= queries) {
    return;
  }
{{- if .C.Grid}}
  let k_first = 0u;
  let k_end = P.sk;
{{- else}}
  set_span(b);
  let seen = visible(q0, min(q0 + {{.C.Queries}}u, queries));
  let k_first = seen.x;
  let k_end = seen.y;
  key_end = k_end;
{{- if .C.Pages}}
  if (q0 == 0u && h == 0u) {
    check_pages(b, local, {{.C.Threads}}u);
  }
{{- end}}
{{- end}}
{{- end}}
