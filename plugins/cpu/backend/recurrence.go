package backend

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

var (
	_ = register(kernel{op: "gated_delta_net", takes: "(f32...)", run: func(c *call) error {
		kernels.GatedDelta(c.pool, deltaOf(c.in[0].Shape, c.in[2].Shape), f32(c.in[0]), f32(c.in[1]), f32(c.in[2]),
			f32(c.in[3]), f32(c.in[4]), optional(c, op.GatedDeltaNetState),
			f32(c.results[0]), f32(c.results[1]))
		return nil
	}, scratch: func(p *kernels.Pool, n *ir.Node, _ kernels.Precision) kernels.ScratchSize {
		return kernels.GatedDeltaScratch(p, deltaOf(largest(n, 0), largest(n, 2)))
	}})
	_ = register(kernel{op: "selective_scan", takes: "(f32...)", run: func(c *call) error {
		kernels.SelectiveScan(c.pool, scanOf(c.in[0].Shape, c.in[2].Shape), f32(c.in[0]), f32(c.in[1]), f32(c.in[2]),
			f32(c.in[3]), f32(c.in[4]), optional(c, op.SelectiveScanState),
			f32(c.results[0]), f32(c.results[1]))
		return nil
	}, scratch: func(_ *kernels.Pool, n *ir.Node, _ kernels.Precision) kernels.ScratchSize {
		return kernels.SelectiveScanScratch(scanOf(largest(n, 0), largest(n, 2)))
	}})
	_ = register(kernel{op: "causal_conv1d", takes: "(f32...)", run: func(c *call) error {
		bias, pad := optional(c, op.CausalConv1DBias), optional(c, op.CausalConv1DPad)
		kernels.CausalConv(c.pool, causalOf(c.in[0].Shape, c.in[1].Shape), f32(c.in[0]), f32(c.in[1]), bias, pad,
			f32(c.results[0]), f32(c.results[1]), c.node.Attrs.(op.CausalConv1DAttrs).Silu)
		return nil
	}, scratch: func(_ *kernels.Pool, n *ir.Node, _ kernels.Precision) kernels.ScratchSize {
		return kernels.CausalConvScratch(causalOf(largest(n, 0), largest(n, 1)))
	}})
)

// largest returns the largest shape that an operand can have.
func largest(n *ir.Node, operand int) []int { return n.Graph.Syms.Largest(n.In[operand].Type.Shape) }

func deltaOf(q, v []int) kernels.Delta {
	return kernels.Delta{B: q[0], T: q[1], Groups: q[2], Heads: v[2], N: q[3], M: v[3]}
}

func scanOf(x, a []int) kernels.Selective {
	return kernels.Selective{B: x[0], T: x[1], C: x[2], N: a[1]}
}

func causalOf(x, w []int) kernels.Causal {
	return kernels.Causal{B: x[0], T: x[1], C: x[2], K: w[1]}
}
