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

var _ = register(Kernel{Op: "attention", Takes: "(" + floats + ", " + floats + ", " + floats + ", " + floats + "|bool)",
	Also: "(" + floats + ", " + floats + ", " + floats + `, i32) if mask = "causal"|"sliding"`, Shaders: attention, Scratch: splitBytes})

// attentionFields are the parameters of attention.
var attentionFields = []string{"heads", "kv_heads", "dim", "sq", "sk", "q_b", "q_s", "q_h", "k_b", "k_s", "k_h", "scale:f32", "softcap:f32",
	"offset", "window", "mask_b", "mask_h", "mask_q", "mask_k"}

func attentionParams(a op.AttentionAttrs, c *Call) []uint32 {
	g := attentionGeometry(a, c)
	p := []uint32{uint32(g.H), uint32(g.HKV), uint32(g.D), uint32(g.Sq), uint32(g.Sk), uint32(g.Q.Batch), uint32(g.Q.Seq), uint32(g.Q.Head),
		uint32(g.K.Batch), uint32(g.K.Seq), uint32(g.K.Head),
		math.Float32bits(float32(a.EffectiveScale(int64(g.D)))), math.Float32bits(float32(a.Softcap)), uint32(int32(g.QOffset)), uint32(a.Window)}
	for _, stride := range g.Mask {
		p = append(p, uint32(stride))
	}
	return p
}

func attentionGeometry(a op.AttentionAttrs, c *Call) op.AttentionGeometry {
	var mask []int
	if len(c.In) == 4 {
		mask = c.In[3].Shape
	}
	return a.Geometry(c.In[0].Shape, c.In[1].Shape, mask)
}

// simpleLoops is Shader.Loops of attention_simple.wgsl for a number of keys.
func simpleLoops(keys int, c attentionConsts) int {
	if c.D < 16 {
		return loop(keys, 0)
	}
	return loop(keys, loop(c.D/16, 0))
}

// attentionConsts are what the templates of attention and grid_attention are specialised with.
type attentionConsts struct {
	attentionShape
	Grid, Rel, Softcap, BoolMask bool
	Position                     bool // of query 0 is operand 3
	Layout, Mask                 string
	// Log2: scores come from the product in units of log2(e), because nothing is applied to them before the exponential.
	Log2, Masked bool
	Split        bool // the keys are divided among workgroups, see attention_split.go
	TailK        bool // the last tile may have fewer keys

	// Of grid_attention. Padded: windows extend past the edge. OneWindow: the window is the whole grid.
	Padded, OneWindow           bool
	RelRows, RelPitch, RelWidth int  // of the relative position terms: [RelRows][RelPitch] vectors of four queries
	RelMembers, RelTile         int  // blocks and heads; the j that a workgroup computes at a time
	RelChunkRow                 bool // keys of neighbouring invocations are in one row of the window
	KeyPlaces                   int  // keys whose offsets are in workgroup memory, those past the last one included; 0 for no table
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

// Log2E is the factor that makes scores exponents of 2.
func (attentionConsts) Log2E() string { return "1.4426950408889634" }

func attention(n *ir.Node, l Limits) []Shader {
	a := n.Attrs.(op.AttentionAttrs)
	s, err := a.Sizes(n.In[0].Type, n.In[1].Type)
	if err != nil {
		return nil
	}
	c := attentionConsts{Layout: a.Layout, Mask: a.Mask, Softcap: a.Softcap != 0, BoolMask: len(n.In) == 4 && n.In[3].Type.DType == dtype.Bool, Position: a.HasPosition(len(n.In))}
	c.Masked = c.Softcap || a.Mask != op.MaskNone
	c.Log2 = !c.Masked
	_, c.Split = splitNode(n)
	largest := n.Graph.Syms.Largest(ir.Shape{s.Sq, s.Sk})
	queries, keys := largest[0], largest[1]
	if c.Split {
		queries = 1 // few in most runs
	}
	ok := false
	c.attentionShape, ok = chooseAttention(int(s.D), queries, keys, c.Split, l)
	c.TailK = !s.Sk.IsStatic() || s.Sk.B%int64(c.Keys()) != 0
	ok = ok && allF32(&ir.Node{In: n.In[:3], Type: n.Type}) && s.D%4 == 0 && allAligned(n.In[:3])
	if !ok {
		return []Shader{mapped(n, "attention", attentionMaskWGSL+attentionSimpleWGSL, c, attentionFields, func(c *Call) []uint32 {
			return attentionParams(a, c)
		}).withLoops(n, func(call *Call) int {
			return simpleLoops(attentionGeometry(a, call).Sk, c)
		})}
	}
	most := splitMost(s)
	fields := append([]string{"groups", "splits", "split_keys"}, attentionFields...)
	params := func(call *Call) []uint32 {
		g := attentionGeometry(a, call)
		count, keys := 1, g.Sk
		if c.Split {
			count, keys = splits(most, resultRows(g.B, g.H, g.Sq), g.Sk)
		}
		groups := g.B * g.H * ceilDiv(g.Sq, c.Queries()) * count
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
