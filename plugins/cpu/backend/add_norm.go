package backend

import (
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/norm"
)

var (
	_ = register(kernel{op: "fused_add_layer_norm", takes: "(f32...)", run: func(c *call) error {
		return addNorm(c, c.node.Attrs.(op.FusedAddLayerNormAttrs).Eps, true)
	}})
	_ = register(kernel{op: "fused_add_rms_norm", takes: "(f32...)", run: func(c *call) error {
		return addNorm(c, c.node.Attrs.(op.FusedAddRmsNormAttrs).Eps, false)
	}})
)

func addNorm(c *call, eps float64, center bool) error {
	sum, y := c.results[0], c.results[1]
	rows, n := rowsOf(sum)
	norm.Add(c.pool, norm.AddArgs{Sum: f32(sum), Dst: f32(y), X: f32(c.in[0]), Residual: f32(c.in[1]),
		Gamma: f32(c.in[2]), Beta: f32(c.in[3]), N: n, Eps: float32(eps), Center: center}, rows)
	return nil
}
