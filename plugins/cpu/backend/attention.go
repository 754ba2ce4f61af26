package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

var (
	_ = register(kernel{op: "grid_attention", takes: "(f32...)", run: gridAttention, makesSquares: gridMakesSquares})
	_ = register(kernel{op: "attention", takes: "(f32, f32, f32, f32|bool)", run: attention})
)

func gridAttention(c *call) error {
	g := gridArgs(c)
	if c.outSquares {
		g.Out, g.OutSquares = nil, g.Out
	}
	kernels.GridAttention(c.pool, &g)
	return nil
}

func gridMakesSquares(c *call) bool {
	g := gridArgs(c)
	return g.MakesSquares(c.pool) && fitsSquares(rowsOf(c.out))
}

func gridArgs(c *call) kernels.GridAttentionArgs {
	a := c.node.Attrs.(op.GridAttentionAttrs)
	s := c.in[0].Shape
	d := s[3] / (3 * a.Heads)
	return kernels.GridAttentionArgs{
		B: s[0], GH: s[1], GW: s[2], Heads: a.Heads, Dim: d, Window: a.Window,
		QKV: f32(c.in[0]), Pad: f32(c.in[1]), RelH: optional(c, 2), RelW: optional(c, 3), Out: f32(c.out),
		Scale: float32(op.AttentionAttrs{Scale: a.Scale}.EffectiveScale(int64(d))), Precision: c.precision,
	}
}

var maskKinds = map[string]kernels.MaskKind{
	op.MaskNone: kernels.MaskNone, op.MaskCausal: kernels.MaskCausal, op.MaskSliding: kernels.MaskSliding,
	op.MaskCustom: kernels.MaskCustom, op.MaskBias: kernels.MaskBias,
}

func attention(c *call) error {
	a := c.node.Attrs.(op.AttentionAttrs)
	q, k := c.in[0], c.in[1]
	kv := a.KVHeads
	if kv == 0 {
		kv = a.Heads
	}
	b, sq, h, d, qs := geometry(a.Layout, q.Shape, a.Heads)
	_, sk, _, _, ks := geometry(a.Layout, k.Shape, kv)
	g := kernels.AttentionArgs{
		B: b, Heads: h, KVHeads: kv, SQ: sq, SK: sk, DK: d, DV: d,
		Q: f32(q), K: f32(k), V: f32(c.in[2]), Out: f32(c.out), QStride: qs, KStride: ks, VStride: ks, OutStride: qs,
		Scale: float32(a.EffectiveScale(int64(d))), Softcap: float32(a.Softcap),
		Precision: c.forRows(min(sq, sk)), Mask: maskKinds[a.Mask], Window: a.Window, QOffset: sk - sq,
	}
	if a.UseQOffset {
		g.QOffset = a.QOffset
	}
	if len(c.in) == 4 {
		m := c.in[3]
		if m.DType == dtype.Bool {
			g.MaskBool = tensor.View[uint8](m.Data)
		} else {
			g.MaskF32 = f32(m)
		}
		g.MaskStride = maskStrides(m.Shape)
	}
	kernels.Attention(c.pool, &g)
	return nil
}

// geometry reads batch, sequence, heads, head dim and strides off a shape.
func geometry(layout string, s []int, heads int) (b, seq, h, d int, st kernels.Strides) {
	switch layout {
	case op.BSE:
		d = s[2] / heads
		return s[0], s[1], heads, d, kernels.Strides{Batch: s[1] * s[2], Seq: s[2], Head: d}
	case op.BSHD:
		return s[0], s[1], heads, s[3], kernels.Strides{Batch: s[1] * s[2] * s[3], Seq: s[2] * s[3], Head: s[3]}
	}
	return s[0], s[2], heads, s[3], kernels.Strides{Batch: s[1] * s[2] * s[3], Seq: s[3], Head: s[2] * s[3]}
}

// maskStrides gives the strides for batch, head, query and key of a mask [B,K], [B,Q,K] or [B,H,Q,K]; dims of 1 repeat.
func maskStrides(s []int) [4]int {
	axes := [][]int{2: {0, 3}, 3: {0, 2, 3}, 4: {0, 1, 2, 3}}[len(s)]
	var out [4]int
	for i, st := range tensor.Strides(s) {
		if s[i] != 1 {
			out[axes[i]] = st
		}
	}
	return out
}
