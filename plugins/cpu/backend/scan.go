package backend

import "github.com/rlx-go/rlx/plugins/cpu/kernels/scan"

func init() {
	for name, f := range map[string]scan.Op{"cumsum": scan.CumSum, "cumprod": scan.CumProd,
		"cummax": scan.CumMax} {
		register(kernel{op: name, takes: "(f32|f64|i8|i16|i32|i64|u8|u32)", run: func(c *call) error {
			elements[c.in[0].DType].scan(c, f)
			return nil
		}})
	}
}
