package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/attention"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

var _ = register(kernel{op: "attention_backward",
	takes:   "(f32, f32, f32, f32, mask: f32|bool, position: i32, kv_len: i32, sinks: f32)",
	scratch: attentionBackwardScratch,
	prepare: func(n *ir.Node) func(*call) error { return newAttentionBackward(n).run }})

func attentionBackwardScratch(p *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
	a, most := n.Attrs.(op.AttentionAttrs), n.Graph.Syms.Largest
	at := a.Geometry(most(n.In[0].Type.Shape), most(n.In[1].Type.Shape), most(n.In[2].Type.Shape), nil)
	g := attention.BackwardArgs{SQ: at.Sq, SK: at.Sk, KeyDim: at.D, ValueDim: at.DV}
	if a.Mask == op.MaskBias {
		g.DBias = []float32{}
	}
	return attention.BackwardScratch(p, g)
}

// attendingBackward runs one attention_backward node. It lives as long as the program, so that runs allocate nothing.
type attendingBackward struct {
	op.AttentionAttrs
	args            attention.BackwardArgs
	at              op.AttentionGeometry
	position, kvLen []int32
}

func newAttentionBackward(n *ir.Node) *attendingBackward {
	a := n.Attrs.(op.AttentionAttrs)
	x := &attendingBackward{AttentionAttrs: a, args: attention.BackwardArgs{
		Softcap: float32(a.Softcap), Mask: maskKinds[a.Mask], Window: a.Window}}
	x.args.Span = func(b int) (keys, offset int) {
		keys, offset, _ = op.Batch(x.AttentionAttrs, &x.at, x.position, x.kvLen, b) // run has checked the numbers
		return keys, offset
	}
	return x
}

func (x *attendingBackward) run(c *call) error {
	const mask, position, kvLen, sinks = op.AttentionMask + op.AttentionBackwardShift,
		op.AttentionPosition + op.AttentionBackwardShift, op.AttentionKVLen + op.AttentionBackwardShift,
		op.AttentionSinks + op.AttentionBackwardShift
	g := &x.args
	q, k, v, dy := c.in[0], c.in[1], c.in[2], c.in[op.AttentionBackwardDY]
	var shape []int
	if c.has(mask) {
		m := c.in[mask]
		shape, g.MaskF32, g.MaskBool = m.Shape, nil, nil
		if m.DType == dtype.Bool {
			g.MaskBool = tensor.View[uint8](m.Data)
		} else {
			g.MaskF32 = f32(m)
		}
	}
	x.position, x.kvLen = nil, nil
	if c.has(position) {
		x.position = view[int32](c.in[position])
	}
	if c.has(kvLen) {
		x.kvLen = view[int32](c.in[kvLen])
	}
	x.at = x.Geometry(q.Shape, k.Shape, v.Shape, shape)
	at := &x.at
	for b := range at.B {
		if _, _, err := op.Batch(x.AttentionAttrs, at, x.position, x.kvLen, b); err != nil {
			return err
		}
	}
	g.B, g.Heads, g.KVHeads, g.SQ, g.SK, g.KeyDim, g.ValueDim = at.B, at.H, at.HKV, at.Sq, at.Sk, at.D, at.DV
	g.QStride, g.KStride, g.VStride, g.OutStride = attention.Strides(at.Q), attention.Strides(at.K),
		attention.Strides(at.V), attention.Strides(at.Out)
	g.Scale, g.MaskStride = float32(x.EffectiveScale(int64(at.D))), at.Mask
	g.Q, g.K, g.V, g.DY = f32(q), f32(k), f32(v), f32(dy)
	g.DQ, g.DK, g.DV = f32(c.results[0]), f32(c.results[1]), f32(c.results[2])
	more := c.results[3:]
	if x.Mask == op.MaskBias {
		g.DBias, more = f32(more[0]), more[1:]
	}
	if g.Sinks = optional(c, sinks); g.Sinks != nil {
		g.DSinks = f32(more[0])
	}
	attention.Backward(c.pool, g)
	return nil
}
