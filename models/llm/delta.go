package llm

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

// lengthEps is added to the squared length of q and k (Transformers' l2norm).
const lengthEps = 1e-6

// deltaNet is linear attention by the gated delta rule on x [B,T,width].
func (d *decoder) deltaNet(s nn.Scope, x *ir.Node) *ir.Node {
	n := d.delta
	b, t := x.Type.Shape[0], x.Type.Shape[1]
	heads := func(x *ir.Node, count, dim int64) *ir.Node {
		return op.Reshape(x, ir.Shape{b, t, ir.Static(count), ir.Static(dim)})
	}
	channels := 2*n.keys() + n.values()
	taps := op.Reshape(s.At("conv1d").F32("weight", channels, 1, n.taps), ir.ShapeOf(channels, n.taps))
	qkv := s.At("in_proj_qkv").LinearIf(false, x, channels)
	var before, memory *ir.Node
	if d.cached {
		before = op.State(s.G, s.Path()+".inputs", ir.TypeOf(dtype.F32, 1, n.taps-1, channels), 0)
		memory = op.State(s.G, s.Path()+".memory", ir.TypeOf(dtype.F32, 1, n.valueHeads, n.keyDim, n.valueDim), 0)
	}
	mixed, inputs := op.CausalConv1D(qkv, taps, nil, before, true)

	// q and k are scaled to length 1: a root mean square over N elements is their length over the root of N.
	size, root := float64(n.keyDim), math.Sqrt(float64(n.keyDim))
	unit := op.Const(s.G, 1/root, ir.TypeOf(dtype.F32, n.keyDim))
	zero := op.Const(s.G, 0, ir.TypeOf(dtype.F32, n.keyDim))
	qk := op.RmsNorm(heads(op.Narrow(mixed, 2, 0, int(2*n.keys())), 2*n.keyHeads, n.keyDim), unit, zero, lengthEps/size)
	q, k := op.Narrow(qk, 2, 0, int(n.keyHeads)), op.Narrow(qk, 2, int(n.keyHeads), int(n.keyHeads))
	v := heads(op.Narrow(mixed, 2, int(2*n.keys()), int(n.values())), n.valueHeads, n.valueDim)

	beta := op.Sigmoid(s.At("in_proj_b").LinearIf(false, x, n.valueHeads))
	rate := op.Neg(op.Exp(s.F32("A_log", n.valueHeads)))
	decay := op.Mul(rate, op.Softplus(op.Add(s.At("in_proj_a").LinearIf(false, x, n.valueHeads), s.F32("dt_bias", n.valueHeads)), 1, 20))
	o, after := op.GatedDeltaNet(q, k, v, decay, beta, memory)
	if d.cached {
		start := op.Const(s.G, 0, ir.TypeOf(dtype.I32))
		op.KVAppend(before, inputs, start, 1)
		op.KVAppend(memory, after, start, 1)
	}
	o = s.At("norm").RmsNorm(o, d.eps, 0)
	z := s.At("in_proj_z")
	gate := hir.Linear(x, z.Param("weight", n.values(), d.width), nil, "silu").Named(z.Path())
	o = op.Mul(op.Reshape(o, ir.Shape{b, t, ir.Static(n.values())}), gate)
	return s.At("out_proj").LinearIf(false, o, d.width)
}
