package kernels

import (
	_ "embed"
	"fmt"
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
	//go:embed attention_keys.wgsl
	attentionKeysWGSL string
)

var _ = register(
	Kernel{Op: "attention",
		Takes:   "(" + floats + "..., mask: " + floats + "|bool, position: i32, kv_len: i32, sequence: i32, pages: i32)",
		Shaders: attention, Scratch: attentionBytes})

// attentionFields are the parameters of the attention shaders.
var attentionFields = []string{"heads", "kv_heads", "dim", "dim_v", "sq", "sk", "q_b", "q_s", "q_h", "k_b", "k_s",
	"k_h", "v_b", "v_s", "v_h", "o_b", "o_s", "o_h",
	"q_at", "k_at", "v_at", "scale:f32", "softcap:f32", "offset", "window", "mask_b", "mask_h", "mask_q", "mask_k",
	"page", "elements", "pages"}

func attentionParams(a op.AttentionAttrs, c *Call) []uint32 {
	return append(geometryParams(a, attentionGeometry(a, c)), uint32(c.In[1].Shape[0]), uint32(pagesOf(c)))
}

// geometryParams returns the parameters of attentionFields but the last two.
func geometryParams(a op.AttentionAttrs, g op.AttentionGeometry) []uint32 {
	p := []uint32{uint32(g.H), uint32(g.HKV), uint32(g.D), uint32(g.DV), uint32(g.Sq), uint32(g.Sk)}
	for _, s := range []op.HeadStrides{g.Q, g.K, g.V, g.Out} {
		p = append(p, uint32(s.Batch), uint32(s.Seq), uint32(s.Head))
	}
	const unbounded = 1 << 30 // larger than any size, yet sums with positions do not overflow
	for _, at := range g.Start {
		p = append(p, uint32(at))
	}
	p = append(p, math.Float32bits(float32(a.EffectiveScale(int64(g.D)))), math.Float32bits(float32(a.Softcap)),
		uint32(int32(max(-unbounded, min(unbounded, g.QOffset)))), uint32(min(unbounded, a.Window)))
	for _, stride := range g.Mask {
		p = append(p, uint32(stride))
	}
	return append(p, uint32(g.Page))
}

func attentionGeometry(a op.AttentionAttrs, c *Call) op.AttentionGeometry {
	g := a.Geometry(c.In[0].Shape, c.In[1].Shape, c.In[2].Shape, c.In[op.AttentionMask].Shape) // nil without a mask
	if c.In[op.AttentionPages].Shape != nil {
		g.InPages(a, pagesOf(c))
	}
	return g
}

// pagesOf returns the number of pages of each batch element, 0 without pages.
func pagesOf(c *Call) int {
	if shape := c.In[op.AttentionPages].Shape; shape != nil {
		return shape[1]
	}
	return 0
}

// keyPages has the constants of attention_keys.wgsl.
type keyPages struct {
	Pages    int    // index of the operand, 0 without pages
	PageRows string // the number of keys of a page, in WGSL
}

// keyPagesOf returns the constants for an attention.
func keyPagesOf(n *ir.Node, a op.AttentionAttrs) keyPages {
	if n.In[op.AttentionPages] == nil {
		return keyPages{}
	}
	rows := "P.page"
	if s, err := a.SizesOf(n.InTypes()); err == nil && s.Page.IsStatic() && s.Page.Const > 0 {
		rows = fmt.Sprintf("%du", s.Page.Const) // the shader need not divide
	}
	return keyPages{op.AttentionPages, rows}
}

// loops is the iterations of check_pages, whose pages are divided among so many invocations.
func (p keyPages) loops(c *Call, invocations int) int {
	if p.Pages == 0 {
		return 0
	}
	return loop(ceilDiv(pagesOf(c), invocations), 0)
}

// simpleLoops is Shader.Loops of attention_simple.wgsl for that number of keys.
func simpleLoops(keys int, c attentionConsts) int {
	if c.D < 16 {
		return loop(keys, 0)
	}
	return loop(keys, loop(c.D/16, 0))
}

// attentionConsts has the constants for the templates of attention and grid_attention.
type attentionConsts struct {
	attentionShape
	keyPages
	Grid, Rel, Softcap, BoolMask bool
	// Position is the operand with the position of query 0, and KVLen the one with the number of keys; the next fields
	// say whether they have a value per batch element. With FixedOffset an attribute has the position. Sinks and
	// Sequence are operand indices. 0 means that the node lacks the operand.
	Position, KVLen, Sinks, Sequence     int
	PositionEach, KVLenEach, FixedOffset bool
	Layout, Mask                         string
	// Log2: the product already gives scores in units of log2(e). That is possible if nothing else is applied to them
	// before the exponential.
	Log2, Masked bool
	TailK        bool // the last tile may have fewer keys

	// For grid_attention. Padded: windows extend past the edge of the grid. OneWindow: the window is the whole grid.
	Padded, OneWindow bool
	// shape of the relative position terms: [RelRows][RelPitch] vectors of four queries
	RelRows, RelPitch, RelWidth int
	// RelMembers: blocks times heads; RelTile: number of terms j that a workgroup computes at a time
	RelMembers, RelTile int
	RelChunkRow         bool // the keys of neighbouring invocations are in one row of the window
	// number of entries of the table of key offsets in workgroup memory, including the padding of the last tile; 0 for
	// no table
	KeyPlaces int
}

// Reports reports whether an operand may hold numbers that are not allowed.
func (c attentionConsts) Reports() bool { return c.KVLen > 0 || c.Sequence > 0 || c.Pages > 0 }

// VecOut reports whether the result is written in vectors of four.
func (c attentionConsts) VecOut() bool { return c.SingleCols() == 0 }

// out is the binding for the result.
func (c attentionConsts) out() Binding {
	y := Binding{Name: "y", Operand: Out, DType: dtype.F32}
	if c.VecOut() {
		y.Vec = 4
	}
	return y
}

// Log2E is log2(e). Multiplied by it, a score becomes an exponent for exp2.
func (attentionConsts) Log2E() string { return "1.4426950408889634" }

// operands are the bindings for the inputs of attention. q, k and v are read in vectors of vec elements, or one by one
// if vec is 0.
func (c attentionConsts) operands(n *ir.Node, vec int) (out []Binding) {
	for i, x := range n.Operands() {
		b := Binding{Name: operandNames[i], Operand: i, DType: x.Type.DType}
		if i < 3 {
			b.Vec = vec
		}
		out = append(out, b)
	}
	if c.Reports() {
		out = append(out, Binding{Name: "status", Operand: Status, DType: dtype.U32})
	}
	return out
}

// attentionBytes is the scratch memory of a node in bytes.
func attentionBytes(n *ir.Node, l Limits) int64 { return max(fewBytes(n), l.ownBytes(n)) }

// attentionConstsOf returns what the attributes and operands of a node determine.
func attentionConstsOf(n *ir.Node, a op.AttentionAttrs) attentionConsts {
	index := func(k int) int { // of an operand; 0 if it is absent
		return max(0, indexIf(n.In[k] != nil, k))
	}
	each := func(k int) bool { return n.In[k] != nil && n.In[k].Type.Rank() == 1 }
	mask := n.In[op.AttentionMask]
	c := attentionConsts{Layout: a.Layout, Mask: a.Mask, Softcap: a.Softcap != 0, BoolMask: mask != nil &&
		mask.Type.DType == dtype.Bool,
		Position: index(op.AttentionPosition), KVLen: index(op.AttentionKVLen), Sinks: index(op.AttentionSinks),
		Sequence: index(op.AttentionSequence), keyPages: keyPagesOf(n, a),
		PositionEach: each(op.AttentionPosition), KVLenEach: each(op.AttentionKVLen), FixedOffset: a.UseQOffset}
	c.Masked = c.Softcap || a.Mask != op.MaskNone || c.KVLen > 0 || c.Sequence > 0
	c.Log2 = !c.Masked
	return c
}

func attention(n *ir.Node, l Limits) []Shader {
	a := n.Attrs.(op.AttentionAttrs)
	s, err := a.SizesOf(n.InTypes())
	if err != nil {
		return nil
	}
	c := attentionConstsOf(n, a)
	vectors := fewOperands(n)
	var few []Shader
	if vectors {
		few = fewOrOne(n, a, s, c, l)
	}
	if few != nil && n.Graph.Syms.Largest(ir.Shape{s.Sq})[0] <= fewQueries {
		return few
	}
	// If a run has few queries, the shaders for that case compute the result, and these have nothing to do.
	unlessFew := func(params func(*Call) []uint32) func(*Call) []uint32 {
		return func(call *Call) []uint32 {
			if numel(call.Out.Shape) == 0 || few != nil && attentionGeometry(a, call).Sq <= fewQueries {
				return nil
			}
			return params(call)
		}
	}
	if own := l.own(n); own != nil {
		for _, s := range own {
			s.Params = unlessFew(s.Params)
			few = append(few, s)
		}
		return few
	}
	largest := n.Graph.Syms.Largest(ir.Shape{s.Sq, s.Sk})
	params := unlessFew(func(call *Call) []uint32 {
		return attentionParams(a, call)
	})
	// tiled completes a shader whose workgroups compute a number of queries each.
	tiled := func(s Shader, queries, threads int, loops func(keys int) int) []Shader {
		s.Fields = append([]string{"groups"}, attentionFields...)
		s.Groups = func(call *Call) int {
			g := attentionGeometry(a, call)
			return g.B * g.H * ceilDiv(g.Sq, queries)
		}
		s.Loops = func(call *Call) int {
			return loops(attentionGeometry(a, call).Sk) + c.keyPages.loops(call, threads)
		}
		s.Params = func(call *Call) []uint32 {
			if list := params(call); list != nil {
				return append([]uint32{uint32(s.Groups(call))}, list...)
			}
			return nil
		}
		return append(few, s)
	}
	shared := attentionMaskWGSL + attentionKeysWGSL + `{{template "span" .}}`
	vectors = vectors && s.D%4 == 0 && s.D == s.DV
	keys := 0
	if s.Sk.IsStatic() {
		keys = int(s.Sk.Const)
	}
	if m, ok := c.withMatrices(int(s.D), keys, l); ok && vectors {
		return tiled(m.shader(n, shared+attentionRowsWGSL+attentionMatricesWGSL, c.operands(n, 4)),
			m.Queries(), m.Threads(), m.loops)
	}
	ok := false
	c.attentionShape, ok = chooseAttention(int(s.D), largest[0], largest[1], l)
	c.TailK = keys == 0 || keys%c.Keys() != 0
	if !ok || !vectors || !allF32(&ir.Node{In: n.In[:3], Type: n.Type}) {
		sh := mapped(n, "attention", shared+attentionSimpleWGSL, c, attentionFields,
			func(call *Call) []uint32 {
				return attentionParams(a, call)
			}).withLoops(n, func(call *Call) int {
			return simpleLoops(attentionGeometry(a, call).Sk, c) + c.keyPages.loops(call, 1)
		})
		if c.Reports() {
			sh = sh.withStatus()
		}
		sh.Params = unlessFew(sh.Params)
		return append(few, sh)
	}
	return tiled(
		Shader{Name: "attention", Body: shared + attentionRowsWGSL + attentionPartsWGSL +
			attentionWGSL, Consts: c,
			Bindings: append(c.operands(n, 4), c.out())}, c.Queries(), c.Threads(), c.Loops)
}
