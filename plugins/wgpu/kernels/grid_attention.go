package kernels

import (
	_ "embed"
	"fmt"
	"math"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed attention_rel.wgsl
var attentionRelWGSL string

var _ = register(Kernel{Op: "grid_attention", Can: floats, Shaders: gridAttention, Scratch: relBytes})

// relBytes is the size of the relative position terms of a node: f32[B, heads, gh, gw, wh+ww].
func relBytes(n *ir.Node) int64 {
	s, err := gridSizes(n)
	if err != nil || !s.Positional || !s.B.IsStatic() {
		return 0
	}
	return s.B.B * s.Heads * s.GH * s.GW * (s.WH + s.WW) * 4
}

func gridSizes(n *ir.Node) (op.GridShape, error) {
	types := make([]ir.Type, len(n.In))
	for i, x := range n.In {
		types[i] = x.Type
	}
	return n.Attrs.(op.GridAttentionAttrs).Sizes(types)
}

var gridFields = []string{"heads", "dim", "sq", "sk", "gh", "gw", "wh", "ww", "nh", "nw", "scale:f32"}

// gridAttention is the tiled kernel of attention over windows; the terms of the relative positions are made before it.
func gridAttention(n *ir.Node, l Limits) []Shader {
	s, err := gridSizes(n)
	if err != nil {
		return nil
	}
	a := n.Attrs.(op.GridAttentionAttrs)
	tokens := s.WH * s.WW
	fixed := []uint32{uint32(s.Heads), uint32(s.D), uint32(tokens), uint32(tokens), uint32(s.GH), uint32(s.GW), uint32(s.WH), uint32(s.WW),
		uint32(s.NH), uint32(s.NW), math.Float32bits(float32(a.EffectiveScale(s.D)))}
	consts := map[string]any{"Grid": true, "Rel": s.Positional, "Layout": "", "Mask": "", "Softcap": false, "BoolMask": false}
	// All sizes are static: as constants they make the divisions that find a token cheap.
	var literals []string
	for i, f := range gridFields[:len(gridFields)-1] {
		literals = append(literals, "P."+f, fmt.Sprintf("%du", fixed[i]))
	}
	constant := strings.NewReplacer(literals...)
	tile := attentionTile(int(s.D))
	ok := allF32(n) && s.D%4 == 0 && s.B.IsStatic() && tile.bytes <= l.WorkgroupStorage
	for _, x := range n.In {
		ok = ok && aligned(x)
	}
	if !ok {
		return []Shader{mapped(n, "grid_attention", attentionRowsWGSL+attentionMaskWGSL+attentionSimpleWGSL, consts, gridFields, func(c *Call) []uint32 { return fixed })}
	}
	consts["DP"], consts["TD"] = tile.dp, tile.dp/16
	main := Shader{Name: "grid_attention", Body: constant.Replace(attentionRowsWGSL + attentionMaskWGSL + attentionWGSL), Consts: consts, Fields: append([]string{"groups"}, gridFields...),
		Bindings: []Binding{{Name: "x0", Operand: 0, Vec: 4, DType: dtype.F32}, {Name: "x1", Operand: 1, Vec: 4, DType: dtype.F32}, {Name: "y", Operand: Out, DType: dtype.F32}},
		Groups: func(c *Call) int {
			return c.In[0].Shape[0] * int(s.NH*s.NW*s.Heads) * ceilDiv(int(tokens), 64)
		}}
	main.Params = func(c *Call) []uint32 {
		if numel(c.Out.Shape) == 0 {
			return nil
		}
		return append([]uint32{uint32(main.Groups(c))}, fixed...)
	}
	if !s.Positional {
		return []Shader{main}
	}
	main.Bindings = append(main.Bindings, Binding{Name: "rel", Operand: Scratch, DType: dtype.F32})
	count := func(c *Call) int { return c.In[0].Shape[0] * int(s.Heads*s.GH*s.GW*(s.WH+s.WW)) }
	terms := Shader{Name: "grid_attention", Body: constant.Replace(attentionRelWGSL), Fields: append([]string{"count"}, gridFields...),
		Bindings: []Binding{{Name: "x0", Operand: 0, Vec: 4, DType: dtype.F32}, {Name: "rh", Operand: 2, Vec: 4, DType: dtype.F32},
			{Name: "rw", Operand: 3, Vec: 4, DType: dtype.F32}, {Name: "rel", Operand: Scratch, DType: dtype.F32}},
		Groups: func(c *Call) int { return ceilDiv(count(c), 64) },
		Params: func(c *Call) []uint32 {
			if count(c) == 0 {
				return nil
			}
			return append([]uint32{uint32(count(c))}, fixed...)
		}}
	return []Shader{terms, main}
}
