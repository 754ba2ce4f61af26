package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/scan"
)

var (
	_ = register(kernel{op: "gated_delta_net", takes: "(f32...)", run: func(c *call) error {
		scan.GatedDelta(c.pool, deltaOf(c.in[0].Shape, c.in[2].Shape), f32(c.in[0]), f32(c.in[1]), f32(c.in[2]),
			f32(c.in[3]), f32(c.in[4]), optional(c, op.GatedDeltaNetState),
			f32(c.results[0]), f32(c.results[1]))
		return nil
	}, scratch: func(p *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
		return scan.GatedDeltaScratch(p, deltaOf(largest(n, 0), largest(n, 2)))
	}})
	_ = register(kernel{op: "selective_scan", takes: "(f32...)", run: func(c *call) error {
		scan.SelectiveScan(c.pool, scanOf(c.in[0].Shape, c.in[2].Shape), f32(c.in[0]), f32(c.in[1]), f32(c.in[2]),
			f32(c.in[3]), f32(c.in[4]), optional(c, op.SelectiveScanState),
			f32(c.results[0]), f32(c.results[1]))
		return nil
	}, scratch: func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
		return scan.SelectiveScanScratch(scanOf(largest(n, 0), largest(n, 2)))
	}})
	_ = register(kernel{op: "causal_conv1d", takes: "(f32...)", run: func(c *call) error {
		bias, pad := optional(c, op.CausalConv1DBias), optional(c, op.CausalConv1DPad)
		scan.CausalConv(c.pool, causalOf(c.in[0].Shape, c.in[1].Shape), f32(c.in[0]), f32(c.in[1]), bias, pad,
			f32(c.results[0]), f32(c.results[1]), c.node.Attrs.(op.CausalConv1DAttrs).Silu)
		return nil
	}, scratch: func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
		return scan.CausalConvScratch(causalOf(largest(n, 0), largest(n, 1)))
	}})
	_ = register(kernel{op: "recurrent", prepare: prepareRecurrent,
		takes: "(f32, f32, bias: f32, h: f32, c: f32, lengths: i32|i64, p: f32)",
		scratch: func(p *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
			a := recurrentOf(n.Attrs.(op.RecurrentAttrs), largest(n, 0), largest(n, 1))
			r := scan.RecurrentScratch(p, a)
			if param(n.In[1]) != nil {
				r.Packed = scan.RecurrentKeptSize(p, a)
			}
			return r
		}})
)

// largest returns the largest shape that an operand can have.
func largest(n *ir.Node, operand int) []int { return n.Graph.Syms.Largest(n.In[operand].Type.Shape) }

func deltaOf(q, v []int) scan.Delta {
	return scan.Delta{B: q[0], T: q[1], Groups: q[2], Heads: v[2], N: q[3], M: v[3]}
}

func scanOf(x, a []int) scan.Selective {
	return scan.Selective{B: x[0], T: x[1], C: x[2], N: a[1]}
}

func causalOf(x, w []int) scan.Causal {
	return scan.Causal{B: x[0], T: x[1], C: x[2], K: w[1]}
}

var cells = map[string]scan.Cell{"lstm": scan.LSTM, "gru": scan.GRU, "rnn_tanh": scan.RNNTanh, "rnn_relu": scan.RNNRelu}

// recurrentOf returns the sizes and the kind of a recurrent layer.
func recurrentOf(a op.RecurrentAttrs, x, r []int) scan.Recurrent {
	cell := cells[a.Kind]
	if a.ResetAfter {
		cell = scan.GRUResetAfter
	}
	return scan.Recurrent{Cell: cell, T: x[0], B: x[1], D: r[0], H: r[2], Reverse: a.Reverse}
}

// prepareRecurrent returns the function of a layer. Weights that are parameters are packed once, by the first run.
func prepareRecurrent(n *ir.Node) func(*call) error {
	var kept *scan.RecurrentKept
	if param(n.In[1]) != nil {
		kept = new(scan.RecurrentKept)
	}
	return func(c *call) error { return recurrent(c, kept) }
}

func recurrent(c *call, kept *scan.RecurrentKept) error {
	a := c.node.Attrs.(op.RecurrentAttrs)
	r := recurrentOf(a, c.in[0].Shape, c.in[1].Shape)
	r.Kept = kept
	r.X, r.R = f32(c.in[0]), f32(c.in[1])
	r.Bias, r.State, r.C = optional(c, op.RecurrentBias), optional(c, op.RecurrentH), optional(c, op.RecurrentC)
	r.P = optional(c, op.RecurrentPeephole)
	if c.has(op.RecurrentLengths) {
		if l := c.in[op.RecurrentLengths]; l.DType == dtype.I32 {
			r.Lengths32 = tensor.View[int32](l.Data)
		} else {
			r.Lengths = tensor.View[int64](l.Data)
		}
	}
	r.Y, r.LastH = f32(c.results[0]), f32(c.results[1])
	if a.LSTM() {
		r.LastC = f32(c.results[2])
	}
	scan.RunRecurrent(c.pool, &r)
	return nil
}
