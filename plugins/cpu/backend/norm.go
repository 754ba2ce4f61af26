package backend

import (
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

var (
	_ = register(kernel{op: "layer_norm", takes: "(f32...)", makesBlocked: normMakesBlocked, run: func(c *call) error {
		rows, n := rowsOf(c.out)
		if c.outBlocked {
			kernels.LayerNormBlocked(c.pool, f32(c.out), f32(c.in[0]), f32(c.in[1]), f32(c.in[2]), rows, n, float32(c.node.Attrs.(op.LayerNormAttrs).Eps))
			return nil
		}
		kernels.LayerNorm(c.pool, f32(c.out), f32(c.in[0]), f32(c.in[1]), f32(c.in[2]), rows, n, float32(c.node.Attrs.(op.LayerNormAttrs).Eps))
		return nil
	}})
	_ = register(kernel{op: "rms_norm", takes: "(f32...)", run: func(c *call) error {
		rows, n := rowsOf(c.out)
		kernels.RmsNorm(c.pool, f32(c.out), f32(c.in[0]), f32(c.in[1]), f32(c.in[2]), rows, n, float32(c.node.Attrs.(op.RmsNormAttrs).Eps))
		return nil
	}})
	_ = register(kernel{op: "fused_residual_layer_norm", takes: "(f32...)", run: func(c *call) error {
		rows, n := rowsOf(c.out)
		kernels.ResidualLayerNorm(c.pool, f32(c.out), f32(c.in[0]), f32(c.in[1]), nil, f32(c.in[2]), f32(c.in[3]), rows, n,
			float32(c.node.Attrs.(op.FusedResidualLayerNormAttrs).Eps))
		return nil
	}})
	_ = register(kernel{op: "fused_residual_rms_norm", takes: "(f32...)", run: func(c *call) error {
		rows, n := rowsOf(c.out)
		kernels.ResidualRmsNorm(c.pool, f32(c.out), f32(c.in[0]), f32(c.in[1]), nil, f32(c.in[2]), f32(c.in[3]), rows, n,
			float32(c.node.Attrs.(op.FusedResidualRmsNormAttrs).Eps))
		return nil
	}})
	_ = register(kernel{op: "softmax", takes: "(f32)", run: func(c *call) error {
		axis := positive(c.node.Attrs.(op.SoftmaxAttrs).Axis, len(c.out.Shape))
		outer, n, inner := around(c.out.Shape, axis)
		kernels.Softmax(c.pool, f32(c.out), f32(c.in[0]), outer, n, inner)
		return nil
	}})
)

func normMakesBlocked(c *call) bool { return fitsBlocked(rowsOf(c.out)) }

// rowsOf is the number of rows along the last axis, and their length.
func rowsOf(t tensor.Tensor) (rows, n int) {
	n = t.Shape[len(t.Shape)-1]
	return tensor.Numel(t.Shape[:len(t.Shape)-1]), n
}

// positive counts a negative axis from the end.
func positive(axis, rank int) int {
	if axis < 0 {
		return axis + rank
	}
	return axis
}

// around is the number of elements before, at and after an axis.
func around(shape []int, axis int) (outer, n, inner int) {
	return tensor.Numel(shape[:axis]), shape[axis], tensor.Numel(shape[axis+1:])
}
