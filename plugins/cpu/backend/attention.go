package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

var (
	_ = register(kernel{op: "grid_attention", takes: "(f32...)", run: gridAttention, makesBlocked: gridMakesBlocked})
	_ = register(kernel{op: "attention", takes: "(f32, f32, f32, f32|bool)", also: attentionAt, run: attention})
)

// attentionAt is the rule of an attention whose query position is an operand.
const attentionAt = `(f32, f32, f32, i32) if mask = "causal"|"sliding"`

func gridAttention(c *call) error {
	g := gridArgs(c)
	if c.outBlocked {
		g.Out, g.OutBlocked = nil, g.Out
	}
	kernels.GridAttention(c.pool, &g)
	return nil
}

func gridMakesBlocked(c *call) bool {
	g := gridArgs(c)
	return g.MakesBlocked(c.pool) && fitsBlocked(rowsOf(c.out))
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
	var mask []int
	if len(c.in) == 4 {
		mask = c.in[3].Shape
	}
	at := a.Geometry(q.Shape, k.Shape, mask)
	qs, ks := kernels.Strides(at.Q), kernels.Strides(at.K)
	g := kernels.AttentionArgs{
		B: at.B, Heads: at.H, KVHeads: at.HKV, SQ: at.Sq, SK: at.Sk, DK: at.D, DV: at.D,
		Q: f32(q), K: f32(k), V: f32(c.in[2]), Out: f32(c.out), QStride: qs, KStride: ks, VStride: ks, OutStride: qs,
		Scale: float32(a.EffectiveScale(int64(at.D))), Softcap: float32(a.Softcap),
		Precision: c.forRows(min(at.Sq, at.Sk)), Mask: maskKinds[a.Mask], Window: a.Window, QOffset: at.QOffset, MaskStride: at.Mask,
	}
	if a.HasPosition(len(c.in)) {
		g.QOffset = int(view[int32](c.in[3])[0])
	} else if len(c.in) == 4 {
		m := c.in[3]
		if m.DType == dtype.Bool {
			g.MaskBool = tensor.View[uint8](m.Data)
		} else {
			g.MaskF32 = f32(m)
		}
	}
	kernels.Attention(c.pool, &g)
	return nil
}
