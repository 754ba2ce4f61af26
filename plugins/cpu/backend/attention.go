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

var (
	_ = register(kernel{op: "grid_attention", takes: "(f32...)", run: gridAttention, makesBlocked: gridMakesBlocked})
	_ = register(
		kernel{op: "attention",
			takes:   "(f32, f32|f16|bf16, f32|f16|bf16, mask: f32|bool, position: i32, kv_len: i32, sinks: f32, sequence: i32, pages: i32)",
			scratch: attentionScratch, prepare: func(n *ir.Node) func(*call) error { return newAttention(n).run }})
)

func gridAttention(c *call) error {
	g := gridArgs(c)
	if c.outBlocked {
		g.Out, g.OutBlocked = nil, g.Out
	}
	attention.Grid(c.pool, &g)
	return nil
}

func gridMakesBlocked(c *call) bool {
	g := gridArgs(c)
	return g.MakesBlocked(c.pool) && fitsBlocked(rowsOf(c.out))
}

func gridArgs(c *call) attention.GridArgs {
	a := c.node.Attrs.(op.GridAttentionAttrs)
	s := c.in[0].Shape
	d := s[3] / (3 * a.Heads)
	return attention.GridArgs{
		B: s[0], GH: s[1], GW: s[2], Heads: a.Heads, Dim: d, Window: a.Window,
		QKV: f32(c.in[0]), Pad: f32(c.in[1]), RelH: optional(c, op.GridAttentionRH),
		RelW: optional(c, op.GridAttentionRW), Out: f32(c.out),
		Scale: float32(op.AttentionAttrs{Scale: a.Scale}.EffectiveScale(int64(d))), Precision: c.precision,
	}
}

var maskKinds = map[string]attention.MaskKind{
	op.MaskNone: attention.MaskNone, op.MaskCausal: attention.MaskCausal, op.MaskSliding: attention.MaskSliding,
	op.MaskCustom: attention.MaskCustom, op.MaskBias: attention.MaskBias,
}

func attentionScratch(p *pool.Pool, n *ir.Node, precision product.Precision) (r pool.Size) {
	a, most := n.Attrs.(op.AttentionAttrs), n.Graph.Syms.Largest
	at := a.Geometry(most(n.In[0].Type.Shape), most(n.In[1].Type.Shape), most(n.In[2].Type.Shape), nil)
	if pages := n.In[op.AttentionPages]; pages != nil {
		at.InPages(a, most(pages.Type.Shape)[1])
	}
	g := attention.Args{B: at.B, Heads: at.H, KVHeads: at.HKV, SQ: at.Sq, SK: at.Sk, DK: at.D, DV: at.DV,
		Mask: maskKinds[a.Mask]}
	for _, g.Precision = range []product.Precision{product.Float32, precision} { // few rows stay float32
		r = r.With(g.ScratchSize(p))
	}
	return r
}

// attending runs one attention node. It lives as long as the program, so that runs allocate nothing.
type attending struct {
	op.AttentionAttrs
	args attention.Args
}

func newAttention(n *ir.Node) *attending {
	a := n.Attrs.(op.AttentionAttrs)
	return &attending{AttentionAttrs: a, args: attention.Args{
		Softcap: float32(a.Softcap), Mask: maskKinds[a.Mask], Window: a.Window}}
}

func (x *attending) run(c *call) error {
	g := &x.args
	q, k, v := c.in[0], c.in[1], c.in[2]
	var shape []int // the mask's
	if c.has(op.AttentionMask) {
		m := c.in[op.AttentionMask]
		shape, g.MaskF32, g.MaskBool = m.Shape, nil, nil
		if m.DType == dtype.Bool {
			g.MaskBool = tensor.View[uint8](m.Data)
		} else {
			g.MaskF32 = f32(m)
		}
	}
	at := x.Geometry(q.Shape, k.Shape, v.Shape, shape)
	if err := x.pages(c, &at); err != nil {
		return err
	}
	g.B, g.Heads, g.KVHeads, g.SQ, g.SK, g.DK, g.DV = at.B, at.H, at.HKV, at.Sq, at.Sk, at.D, at.DV
	g.QStride, g.KStride, g.VStride, g.OutStride = attention.Strides(at.Q), attention.Strides(at.K),
		attention.Strides(at.V),
		attention.Strides(at.Out)
	g.Scale, g.MaskStride, g.QOffset, g.Precision = float32(x.EffectiveScale(int64(at.D))), at.Mask, at.QOffset,
		c.forRows(min(at.Sq, at.Sk))
	if err := x.spans(c, &at); err != nil {
		return err
	}
	if err := x.elements(c, &at); err != nil {
		return err
	}
	if len(c.out.Data) == 0 {
		return nil
	}
	g.Sinks = optional(c, op.AttentionSinks)
	g.Q, g.Out = from(q, at.Start[0], f32), f32(c.out)
	g.K, g.V = from(k, at.Start[1], weights), from(v, at.Start[2], weights)
	attention.Attend(c.pool, g)
	return nil
}

// spans reads the operands kv_len and position into args.Spans: per batch element, the number of keys, and the position
// of the first query among them.
func (x *attending) spans(c *call, at *op.AttentionGeometry) error {
	g := &x.args
	g.Spans = g.Spans[:0]
	if !c.has(op.AttentionPosition) && !c.has(op.AttentionKVLen) {
		g.Spans = nil
		return nil
	}
	var position, kvLen []int32
	if c.has(op.AttentionPosition) {
		position = view[int32](c.in[op.AttentionPosition])
	}
	if c.has(op.AttentionKVLen) {
		kvLen = view[int32](c.in[op.AttentionKVLen])
	}
	for b := range at.B {
		keys, offset, err := op.Batch(x.AttentionAttrs, at, position, kvLen, b)
		if err != nil {
			return err
		}
		g.Spans = append(g.Spans, attention.KeySpan{Keys: keys, QOffset: offset})
	}
	return nil
}

// elements reads the operand sequence into args.Elements.
func (x *attending) elements(c *call, at *op.AttentionGeometry) error {
	g := &x.args
	g.Elements = g.Elements[:0]
	if !c.has(op.AttentionSequence) {
		g.Elements = nil
		return nil
	}
	sequence := view[int32](c.in[op.AttentionSequence])
	for b := range at.B {
		element, err := op.Element(sequence, b, c.in[1].Shape[0])
		if err != nil {
			return err
		}
		g.Elements = append(g.Elements, element)
	}
	return nil
}

// pages reads the operand pages into args and makes the geometry that of pages.
func (x *attending) pages(c *call, at *op.AttentionGeometry) error {
	g := &x.args
	g.Pages = nil
	if !c.has(op.AttentionPages) {
		return nil
	}
	pages := c.in[op.AttentionPages]
	at.InPages(x.AttentionAttrs, pages.Shape[1])
	g.Page, g.PerElement = at.Page, pages.Shape[1]
	values := view[int32](pages)
	if len(values) > 0 && at.Sk > 0 {
		g.Pages = values
	}
	return op.CheckPages(values, g.PerElement, c.in[1].Shape[0])
}

// from returns view(t[first:]), where t is flat. Of an empty tensor it returns view(t).
func from[V any](t tensor.Tensor, first int, view func(tensor.Tensor) V) V {
	if len(t.Data) > 0 {
		t.Data = t.Data[first*t.DType.Size():]
	}
	return view(t)
}
