package llm

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

// lengthEps is added to the squared length of q and k, as in l2norm of Transformers.
const lengthEps = 1e-6

// carried returns the states of a layer: the last inputs of its convolution, and the memory of the delta rule.
func (d *decoder) carried(s nn.Scope) [2]*ir.Node {
	n := d.delta
	return [2]*ir.Node{
		op.State(s.Graph, s.Path()+".inputs", ir.TypeOf(dtype.F32, 1, n.taps-1, 2*n.keys()+n.values()), 0),
		op.State(s.Graph, s.Path()+".memory", ir.TypeOf(dtype.F32, 1, n.valueHeads, n.keyDim, n.valueDim), 0),
	}
}

// deltaNet applies linear attention by the gated delta rule to x [B,T,width].
func (d *decoder) deltaNet(s nn.Scope, x *ir.Node) *ir.Node {
	n := d.delta
	b, t := x.Type.Shape[0], x.Type.Shape[1]
	heads := func(x *ir.Node, count, dim int64) *ir.Node {
		return op.Reshape(x, ir.Shape{b, t, ir.Static(count), ir.Static(dim)})
	}
	channels := 2*n.keys() + n.values()
	qkv, gate, step, rate := d.deltaInputs(s, x)
	var before, memory *ir.Node
	if d.cached {
		carried := d.carried(s)
		before, memory = carried[0], carried[1]
	}
	mixed, inputs := hir.CausalDepthwiseConv(qkv, s.At("conv1d").Param("weight", channels, 1, n.taps), before, true)

	cut := func(from, count, dim int64) *ir.Node {
		return heads(op.Narrow(mixed, 2, int(from), int(count*dim)), count, dim)
	}
	q, k, v := cut(0, n.keyHeads, n.keyDim), cut(n.keys(), n.keyHeads, n.keyDim),
		cut(2*n.keys(), n.valueHeads, n.valueDim)
	o, after := hir.GatedDeltaRule(q, k, v, rate, step, s.Param("A_log", n.valueHeads),
		s.Param("dt_bias", n.valueHeads), memory, lengthEps)
	if d.cached {
		start := op.Const(s.Graph, 0, ir.TypeOf(dtype.I32))
		op.KVAppend(before, inputs, start, 1)
		op.KVAppend(memory, after, start, 1)
	}
	o = s.At("norm").RmsNorm(o, d.eps, 0)
	o = op.Mul(op.Reshape(o, ir.Shape{b, t, ir.Static(n.values())}), gate)
	return s.At("out_proj").LinearIf(false, o, d.width)
}

// deltaInputs returns the projections of x [B,T,width]: q, k and v side by side [B,T,2*keys+values], the gate of the
// result [B,T,values], and step and rate [B,T,value heads].
func (d *decoder) deltaInputs(s nn.Scope, x *ir.Node) (qkv, gate, step, rate *ir.Node) {
	n := d.delta
	if !n.joined {
		z := s.At("in_proj_z")
		qkv = s.At("in_proj_qkv").LinearIf(false, x, 2*n.keys()+n.values())
		step, rate = s.At("in_proj_b").LinearIf(false, x, n.valueHeads),
			s.At("in_proj_a").LinearIf(false, x, n.valueHeads)
		return qkv, hir.Linear(x, z.Param("weight", n.values(), d.width), nil, "silu").Named(z.Path()), step, rate
	}
	// The rows of a key head are its q, its k, and v and z of the value heads that use it.
	b, t := x.Type.Shape[0], x.Type.Shape[1]
	part := func(all *ir.Node, at, size int64) *ir.Node {
		heads := op.Reshape(all, ir.Shape{b, t, ir.Static(n.keyHeads), ir.Static(all.Type.Shape[2].Const / n.keyHeads)})
		return op.Reshape(op.Narrow(heads, 3, int(at), int(size)), ir.Shape{b, t, ir.Static(n.keyHeads * size)})
	}
	k, v, h := n.keyDim, n.values()/n.keyHeads, n.valueHeads/n.keyHeads
	all, both := s.At("in_proj_qkvz").LinearIf(false, x, 2*n.keys()+2*n.values()),
		s.At("in_proj_ba").LinearIf(false, x, 2*n.valueHeads)
	qkv = op.Concat(2, part(all, 0, k), part(all, k, k), part(all, 2*k, v))
	return qkv, op.Silu(part(all, 2*k+v, v)), part(both, 0, h), part(both, h, h)
}
