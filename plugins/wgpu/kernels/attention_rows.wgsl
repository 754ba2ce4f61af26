// Where rows of q, k, v and the result lie. Row r of head h in block b; a block is a batch of attention, or a window of
// grid_attention. An address past the end says: use the row of padding.
{{- if .C.Grid}}
struct Token {
  inside: bool,
  at: u32, // of the token among those of all batches
}
fn token(b: u32, r: u32) -> Token {
  let windows = P.nh * P.nw;
  let w = b % windows;
  let y = (w / P.nw) * P.wh + r / P.ww;
  let x = (w % P.nw) * P.ww + r % P.ww;
  return Token(y < P.gh && x < P.gw, ((b / windows) * P.gh + y) * P.gw + x);
}
{{- end}}
