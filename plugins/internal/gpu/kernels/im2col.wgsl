// Rows are the positions of the patch in the images; columns are its elements: channel, height, width.
fn value(i: u32) -> u32 {
  let column = i % (P.c_in * {{.C.Taps}}u);
  let row = i / (P.c_in * {{.C.Taps}}u);
  let tap = column % {{.C.Taps}}u;
  let x = row % P.w_out * {{index .C.Stride 2}}u + tap % {{index .C.Kernel 2}}u * {{index .C.Dilation 2}}u -
      {{index .C.Padding 2}}u;
  let y = row / P.w_out % P.h_out * {{index .C.Stride 1}}u + tap / {{index .C.Kernel 2}}u * {{index .C.Dilation 1}}u -
      {{index .C.Padding 1}}u;
  if (y >= P.h_in || x >= P.w_in) {
    return 0u;
  }
  return x0{{.C.Read}}(((row / (P.w_out * P.h_out) * P.c_in + column / {{.C.Taps}}u) * P.h_in + y) * P.w_in + x);
}
