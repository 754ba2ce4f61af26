package matrix

import (
	_ "embed"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

//go:embed pack_attention.wgsl
var packAttentionWGSL string

var _ = register("attention", func(d Device) (kernels.Own, bool) {
	return kernels.Own{
		Shaders: func(n *ir.Node, l kernels.Limits) []kernels.Shader {
			a, ok := d.attentionOf(n, l)
			if !ok {
				return nil
			}
			return a.shaders()
		},
		Scratch: func(n *ir.Node, l kernels.Limits) int64 {
			a, _ := d.attentionOf(n, l)
			return a.scratch
		},
		ReadsRounded: func(n *ir.Node, l kernels.Limits) dtype.DType {
			a, ok := d.attentionOf(n, l)
			if !ok || a.exact() || a.least < leastQueries {
				return 0
			}
			for i := range a.parts {
				a.rounded[i] = true
				if _, ok := a.part(i); !ok {
					return 0
				}
			}
			return a.Type
		},
		RoundedOperands: 3,
		// with few queries, another kernel may run
		WritesRounded: func(n *ir.Node, l kernels.Limits) bool {
			a, ok := d.attentionOf(n, l)
			return ok && !a.exact() && a.least >= leastQueries
		},
	}, d.Capability >= 80
})

// attention is an attention on matrix units.
type attention struct {
	attentionText
	node    *ir.Node
	attrs   op.AttentionAttrs
	parts   [3]part // q, k and v
	rounded [3]bool // they were written in 16 bits: see kernels.RoundedIn
	scratch int64   // bytes
	least   int     // queries
}

// part is an operand of an attention.
type part struct {
	packed bool  // it is rounded and copied to scratch memory
	begin  int64 // in scratch memory
}

const leastQueries = 16 // with fewer, tiles are mostly empty

// attentionOf returns the attention of a node, or false if it does not run on matrix units: masks that are operands,
// numbers of keys, sinks, sequences and pages run on other kernels.
func (d Device) attentionOf(n *ir.Node, l kernels.Limits) (x attention, ok bool) {
	a, isAttention := n.Attrs.(op.AttentionAttrs)
	x.Type, x.Terms = d.attentionType(l)
	if !isAttention || x.Type == 0 || n.Type.DType != dtype.F32 {
		return x, false
	}
	x.attrs, x.node, x.rounded = a, n, l.Rounded
	s, err := a.Sizes(n.In[0].Type, n.In[1].Type, n.In[2].Type)
	if err != nil || s.D != s.DV || s.D%16 != 0 || s.D > mostDim(x.Terms) || !kernels.BeginsAt(n, 8) {
		return x, false
	}
	if !x.masks() {
		return x, false
	}
	syms := n.Graph.Syms
	most, least := syms.Largest(ir.Shape{s.B, s.Sq, s.Sk}), syms.Smallest(ir.Shape{s.Sq, s.Sk})
	if most[1] < leastQueries || least[1] < 1 {
		return x, false
	}
	x.least, x.Rounded, x.Only = least[0], l.Rounds != 0, l.RoundsOnly
	x.Warps, x.D = 4, int(s.D)
	x.Group = x.groupKernel(d)
	if most[1] >= manyQueries && !x.Group {
		x.Warps = 8
	}
	if !x.suits(d, int64(most[0])*int64(most[1])*int64(most[2])*s.H*s.D*2) {
		return x, false
	}
	for i, in := range n.In[:3] {
		if x.parts[i], ok = x.part(i); !ok {
			return x, false
		}
		if x.parts[i].packed {
			rows := int64(most[0]) * s.HKV * int64(most[2])
			if i == 0 {
				rows = int64(most[0]) * s.H * int64(most[1])
			}
			x.parts[i].begin = x.scratch
			x.scratch += halfBytes(rows * s.D * int64(x.Terms))
		}
		if numberOf(syms.Largest(in.Type.Shape)) > mostBytes/4 {
			return x, false
		}
	}
	return x, x.scratch <= mostBytes && 4*numberOf(syms.Largest(n.Type.Shape)) <= mostBytes
}

// suits reports whether the kernels of this package can run an attention of work multiplications and are worth it. At
// f32 it must be large enough, and a block must have the memory.
func (x attention) suits(d Device, work int64) bool {
	// text.tanh is not as precise as that of the kernels with fma
	return !x.exact() || work >= d.least(true) && x.shared() <= d.Shared && !x.Plain.Softcap
}

// masks sets Plain. It returns false if the node decides otherwise which keys a query sees.
func (x *attention) masks() bool {
	n, a := x.node, x.attrs
	for _, i := range []int{op.AttentionMask, op.AttentionKVLen, op.AttentionSinks, op.AttentionSequence,
		op.AttentionPages} {
		if n.In[i] != nil {
			return false
		}
	}
	position := n.In[op.AttentionPosition]
	x.Plain = plainText{On: true, Causal: a.Mask != op.MaskNone, Sliding: a.Mask == op.MaskSliding,
		Softcap: a.Softcap != 0, Position: position != nil, Each: position != nil && position.Type.Rank() == 1}
	x.Plain.Position = x.Plain.Position && x.Plain.Causal
	return a.Mask == op.MaskNone || a.Mask == op.MaskCausal || a.Mask == op.MaskSliding
}

// manyQueries is the number of queries from which blocks have eight warps.
const manyQueries = 4096

func numberOf(shape []int) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= int64(d)
	}
	return n
}

// part returns how operand i is read. ok is false if the kernels do not take it.
func (x attention) part(i int) (p part, ok bool) {
	in := x.node.In[i]
	last := in.Type.Shape[in.Type.Rank()-1]
	unit := int64(8) // elements of 16 bytes
	if p.packed = in.Type.DType != x.Type && !x.rounded[i] || x.exact(); p.packed {
		unit = 4
	}
	start := int64(0)
	if len(x.attrs.Packed) > 0 {
		start = int64(x.attrs.Packed[i])
	}
	switch in.Type.DType {
	case dtype.F32, dtype.F16, dtype.BF16:
	default:
		return p, false
	}
	return p, last.IsStatic() && last.Const%unit == 0 && start%unit == 0 &&
		kernels.BeginsAt(in, unit*int64(in.Type.DType.Size())) && (!x.rounded[i] || kernels.BeginsAt(in, 32))
}

func (x attention) geometry(c *kernels.Call) op.AttentionGeometry {
	return x.attrs.Geometry(c.In[0].Shape, c.In[1].Shape, c.In[2].Shape, nil)
}

// empty reports whether a call has nothing to compute.
func empty(c *kernels.Call) bool { return numberOf(c.Out.Shape) == 0 }

func (x attention) shaders() (out []kernels.Shader) {
	for i, p := range x.parts {
		if p.packed {
			out = append(out, x.pack(i))
		}
	}
	return append(out, x.attend())
}

// rowsOf are the sizes and strides of operand i in elements.
func rowsOf(g op.AttentionGeometry, i int) (heads, tokens int, s op.HeadStrides) {
	switch i {
	case 0:
		return g.H, g.Sq, g.Q
	case 1:
		return g.HKV, g.Sk, g.K
	}
	return g.HKV, g.Sk, g.V
}

// pack returns the shader that writes operand i to scratch memory.
func (x attention) pack(i int) kernels.Shader {
	bindings := []kernels.Binding{{Name: "x", Operand: i, Vec: 4, DType: x.node.In[i].Type.DType},
		{Name: "y", Operand: kernels.Scratch, Vec: 4, DType: x.Type}}
	position := x.Plain.Position && i > 0
	if position {
		bindings = append(bindings, kernels.Binding{Name: "position", Operand: op.AttentionPosition, DType: dtype.I32})
	}
	units := func(c *kernels.Call) int {
		g := x.geometry(c)
		heads, tokens, _ := rowsOf(g, i)
		return g.B * heads * tokens * g.D / 4
	}
	return kernels.Shader{
		Name: "rounding for attention", Body: termsWGSL + packAttentionWGSL,
		Consts: struct {
			D, Terms       int
			Position, Each bool
		}{x.D, x.Terms, position, x.Plain.Each},
		Bindings: bindings,
		Fields: []string{"units", "tokens", "heads", "queries", "begin", "at", "stride_b", "stride_s",
			"stride_h"},
		Params: func(c *kernels.Call) []uint32 {
			if empty(c) {
				return nil
			}
			g := x.geometry(c)
			heads, tokens, s := rowsOf(g, i)
			return []uint32{uint32(units(c)), uint32(tokens), uint32(heads), uint32(g.Sq), uint32(x.parts[i].begin / 8),
				uint32(g.Start[i]), uint32(s.Batch), uint32(s.Seq), uint32(s.Head)}
		},
		Groups: func(c *kernels.Call) int { return ceilDiv(units(c), 256) },
	}
}

// attend returns the shader of the attention itself.
func (x attention) attend() kernels.Shader {
	var bindings []kernels.Binding
	for i, p := range x.parts {
		b := kernels.Binding{Name: []string{"q", "k", "v"}[i], Operand: i, DType: x.Type}
		switch {
		case p.packed:
			b.Operand, b.DType = kernels.Scratch, dtype.U32
		case x.rounded[i]:
			b.Operand = kernels.RoundedIn + i
		}
		bindings = append(bindings, b)
	}
	if x.Plain.Position {
		bindings = append(bindings, kernels.Binding{Name: "position", Operand: op.AttentionPosition, DType: dtype.I32})
	}
	bindings = append(bindings, kernels.Binding{Name: "y", Operand: kernels.Out, DType: dtype.F32})
	if x.Rounded {
		bindings = append(bindings, kernels.Binding{Name: "z", Operand: kernels.RoundedOut, DType: x.Type})
	}
	blocks := func(c *kernels.Call) int {
		g := x.geometry(c)
		return x.blocks(g.B*g.H, g.Sq)
	}
	text := x.attentionText
	return kernels.Shader{
		Name: "attention", Consts: text, Bindings: bindings, Fields: plainFields,
		Source: func(views []kernels.View) (string, error) {
			var err error
			text := text
			text.Skips, err = skips(bindings, views)
			return text.text(), err
		},
		Params: func(c *kernels.Call) []uint32 {
			if empty(c) {
				return nil
			}
			return x.params(blocks(c), x.geometry(c))
		},
		Groups: blocks,
	}
}

// params returns the values of plainFields.
func (x attention) params(blocks int, g op.AttentionGeometry) []uint32 {
	scale, softcap := x.attrs.EffectiveScale(int64(x.D))*math.Log2E, 0.0
	if x.Plain.Softcap {
		scale, softcap = scale/math.Log2E/x.attrs.Softcap, x.attrs.Softcap*math.Log2E
	}
	out := []uint32{uint32(blocks), uint32(g.H), uint32(g.H / g.HKV), uint32(g.Sq), uint32(g.Sk),
		uint32(int32(max(-unbounded, min(unbounded, g.QOffset)))), uint32(min(unbounded, x.attrs.Window)),
		math.Float32bits(float32(scale)), math.Float32bits(float32(softcap))}
	for i, p := range x.parts {
		heads, tokens, s := rowsOf(g, i)
		at := int64(g.Start[i]) / 8
		if p.packed {
			row := x.Terms * g.D
			s = op.HeadStrides{Batch: heads * tokens * row, Seq: row, Head: tokens * row}
			at = p.begin / 16
		}
		out = append(out, uint32(at), uint32(s.Batch/8), uint32(s.Seq/8), uint32(s.Head/8))
	}
	return append(out, uint32(g.Out.Batch), uint32(g.Out.Seq), uint32(g.Out.Head))
}
