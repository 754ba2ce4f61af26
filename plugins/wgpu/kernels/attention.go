package kernels

import (
	_ "embed"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

var (
	//go:embed attention.wgsl
	attentionWGSL string
	//go:embed attention_parts.wgsl
	attentionPartsWGSL string
	//go:embed attention_simple.wgsl
	attentionSimpleWGSL string
	//go:embed attention_mask.wgsl
	attentionMaskWGSL string
	//go:embed attention_rows.wgsl
	attentionRowsWGSL string
)

var _ = register(Kernel{Op: "attention", Takes: "(" + floats + ", " + floats + ", " + floats + ", " + floats + "|bool)", Shaders: attention, Scratch: splitBytes})

// attentionFields are the parameters of attention.
var attentionFields = []string{"heads", "kv_heads", "dim", "sq", "sk", "q_b", "q_s", "q_h", "k_b", "k_s", "k_h", "scale:f32", "softcap:f32",
	"offset", "window", "mask_b", "mask_h", "mask_q", "mask_k"}

func attentionParams(a op.AttentionAttrs, c *Call) []uint32 {
	q, k := c.In[0].Shape, c.In[1].Shape
	kv := a.KVHeads
	if kv == 0 {
		kv = a.Heads
	}
	sq, d, qb, qs, qh := geometry(a.Layout, q, a.Heads)
	sk, _, kb, ks, kh := geometry(a.Layout, k, kv)
	offset := sk - sq
	if a.UseQOffset {
		offset = a.QOffset
	}
	var mask [4]uint32
	if len(c.In) == 4 {
		mask = maskStrides(c.In[3].Shape)
	}
	p := []uint32{uint32(a.Heads), uint32(kv), uint32(d), uint32(sq), uint32(sk), uint32(qb), uint32(qs), uint32(qh), uint32(kb), uint32(ks), uint32(kh),
		math.Float32bits(float32(a.EffectiveScale(int64(d)))), math.Float32bits(float32(a.Softcap)), uint32(int32(offset)), uint32(a.Window)}
	return append(p, mask[:]...)
}

// simpleLoops is Shader.Loops of attention_simple.wgsl with so many keys.
func simpleLoops(keys int, c attentionConsts) int {
	if c.D < 16 {
		return loop(keys, 0)
	}
	return loop(keys, loop(c.D/16, 0))
}

// geometry reads the sequence length, the head dim and the strides of batch, sequence and head off a shape.
func geometry(layout string, s []int, heads int) (seq, d, batch, step, head int) {
	switch layout {
	case op.BSE:
		d = s[2] / heads
		return s[1], d, s[1] * s[2], s[2], d
	case op.BSHD:
		return s[1], s[3], s[1] * s[2] * s[3], s[2] * s[3], s[3]
	}
	return s[2], s[3], s[1] * s[2] * s[3], s[3], s[2] * s[3]
}

// maskStrides are those for batch, head, query and key of a mask [B,K], [B,Q,K] or [B,H,Q,K]; dims of 1 repeat.
func maskStrides(s []int) (out [4]uint32) {
	axes := [][]int{2: {0, 3}, 3: {0, 2, 3}, 4: {0, 1, 2, 3}}[len(s)]
	st := strides(s)
	for i, axis := range axes {
		out[axis] = st[maxRank-len(s)+i]
	}
	return out
}

// attentionConsts are what the templates of attention and grid_attention are specialised with.
type attentionConsts struct {
	attentionShape
	Grid, Rel, Softcap, BoolMask bool
	Layout, Mask                 string
	// Log2: scores come from the product in units of log2(e), nothing being done to them before the exponential.
	Log2, Masked bool
	Split        bool // the keys are dealt out, see attention_split.go
	TailK        bool // the last tile may have fewer keys

	// Of grid_attention. Padded: windows reach over the edge. OneWindow: there is one, the whole grid.
	Padded, OneWindow           bool
	RelRows, RelPitch, RelWidth int  // of the relative position terms: [RelRows][RelPitch] vectors of four queries
	RelMembers, RelTile         int  // blocks and heads; the j that a workgroup makes at a time
	RelChunkRow                 bool // the keys that neighbours have side by side lie in one row of the window
	KeyPlaces                   int  // keys whose places workgroup memory has, those fetched past the last one included; 0: it has none
}

// VecOut: the result is written in vectors.
func (c attentionConsts) VecOut() bool { return !c.Split && c.SingleCols() == 0 }

// out is the binding of the result.
func (c attentionConsts) out() Binding {
	y := Binding{Name: "y", Operand: Out, DType: dtype.F32}
	if c.VecOut() {
		y.Vec = 4
	}
	return y
}

// Log2E turns scores into exponents of 2.
func (attentionConsts) Log2E() string { return "1.4426950408889634" }

func attention(n *ir.Node, l Limits) []Shader {
	a := n.Attrs.(op.AttentionAttrs)
	s, err := a.Sizes(n.In[0].Type, n.In[1].Type)
	if err != nil {
		return nil
	}
	c := attentionConsts{Layout: a.Layout, Mask: a.Mask, Softcap: a.Softcap != 0, BoolMask: len(n.In) == 4 && n.In[3].Type.DType == dtype.Bool}
	c.Masked = c.Softcap || a.Mask != op.MaskNone
	c.Log2 = !c.Masked
	_, c.Split = splitNode(n)
	largest := n.Graph.Syms.Largest(ir.Shape{s.Sq, s.Sk})
	queries, keys := largest[0], largest[1]
	if c.Split {
		queries = 1 // few, at least in the runs that matter
	}
	ok := false
	c.attentionShape, ok = chooseAttention(int(s.D), queries, keys, c.Split, l)
	c.TailK = !s.Sk.IsStatic() || s.Sk.B%int64(c.Keys()) != 0
	ok = ok && allF32(&ir.Node{In: n.In[:3], Type: n.Type}) && s.D%4 == 0 && allAligned(n.In[:3])
	if !ok {
		return []Shader{mapped(n, "attention", attentionMaskWGSL+attentionSimpleWGSL, c, attentionFields, func(c *Call) []uint32 {
			return attentionParams(a, c)
		}).withLoops(n, func(call *Call) int {
			sk, _, _, _, _ := geometry(a.Layout, call.In[1].Shape, 1)
			return simpleLoops(sk, c)
		})}
	}
	most := splitMost(s)
	fields := append([]string{"groups", "splits", "split_keys"}, attentionFields...)
	params := func(call *Call) []uint32 {
		sq, _, _, _, _ := geometry(a.Layout, call.In[0].Shape, a.Heads)
		sk, _, _, _, _ := geometry(a.Layout, call.In[1].Shape, 1)
		batch, count, keys := call.In[0].Shape[0], 1, sk
		if c.Split {
			count, keys = splits(most, resultRows(batch, a.Heads, sq), sk)
		}
		groups := batch * a.Heads * ceilDiv(sq, c.Queries()) * count
		return append([]uint32{uint32(groups), uint32(count), uint32(keys)}, attentionParams(a, call)...)
	}
	sh := Shader{Name: "attention", Body: attentionMaskWGSL + attentionRowsWGSL + attentionPartsWGSL + attentionWGSL, Consts: c, Fields: fields,
		Bindings: []Binding{{Name: "x0", Operand: 0, Vec: 4, DType: dtype.F32}, {Name: "x1", Operand: 1, Vec: 4, DType: dtype.F32}, {Name: "x2", Operand: 2, Vec: 4, DType: dtype.F32}},
		Groups:   func(call *Call) int { return int(params(call)[0]) },
		Loops:    func(call *Call) int { return c.Loops(int(params(call)[2])) },
		Params: func(call *Call) []uint32 {
			if numel(call.Out.Shape) == 0 {
				return nil
			}
			return params(call)
		}}
	if len(n.In) == 4 {
		sh.Bindings = append(sh.Bindings, Binding{Name: "x3", Operand: 3, DType: n.In[3].Type.DType})
	}
	if !c.Split {
		sh.Bindings = append(sh.Bindings, c.out())
		return []Shader{sh}
	}
	sh.Bindings = append(sh.Bindings, Binding{Name: "part", Operand: Scratch, DType: dtype.F32})
	return []Shader{sh, combine(n, c, fields, params)}
}
