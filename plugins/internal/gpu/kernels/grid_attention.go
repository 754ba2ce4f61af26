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

var _ = register(Kernel{Op: "grid_attention", Takes: "(" + floats + "...)", Shaders: gridAttention, Scratch: relBytes})

// relBytes is the size of a node's relative position terms in bytes: f32[B, windows, heads, wh+ww, tokens per window
// rounded up to 4].
func relBytes(n *ir.Node, l Limits) int64 {
	if own := l.ownBytes(n); own > 0 {
		return own
	}
	s, err := gridSizes(n)
	if err != nil || !s.Positional || !s.B.IsStatic() {
		return 0
	}
	return s.B.Const * s.NH * s.NW * s.Heads * (s.WH + s.WW) * int64(ceilDiv(int(s.WH*s.WW), 4)) * 16
}

func gridSizes(n *ir.Node) (op.GridShape, error) {
	return n.Attrs.(op.GridAttentionAttrs).Sizes(n.InTypes())
}

// maxKeyPlaces bounds the table of a window's key offsets in workgroup memory, 4 bytes each.
const maxKeyPlaces = 512

var gridFields = []string{"heads", "dim", "sq", "sk", "gh", "gw", "wh", "ww", "nh", "nw", "scale:f32"}

// gridAttention returns the tiled kernel of attention over windows, and the shader before it, which computes the
// relative position terms.
func gridAttention(n *ir.Node, l Limits) []Shader {
	if own := l.own(n); own != nil {
		return own
	}
	s, err := gridSizes(n)
	if err != nil {
		return nil
	}
	a := n.Attrs.(op.GridAttentionAttrs)
	tokens := s.WH * s.WW
	fixed := []uint32{uint32(s.Heads), uint32(s.D), uint32(tokens), uint32(tokens), uint32(s.GH), uint32(s.GW),
		uint32(s.WH), uint32(s.WW),
		uint32(s.NH), uint32(s.NW), math.Float32bits(float32(a.EffectiveScale(s.D)))}
	padded := s.GH%s.WH != 0 || s.GW%s.WW != 0
	c := attentionConsts{Grid: true, Rel: s.Positional, Log2: true, Padded: padded, OneWindow: s.NH*s.NW == 1 &&
		!padded,
		RelRows: int(s.WH + s.WW), RelPitch: ceilDiv(int(tokens), 4), RelWidth: int(s.WW)}
	// All sizes are static. As constants they make the divisions that locate a token cheap.
	var literals []string
	for i, f := range gridFields[:len(gridFields)-1] {
		literals = append(literals, "P."+f, fmt.Sprintf("%du", fixed[i]))
	}
	constant := strings.NewReplacer(literals...)
	m, matrices := c.withMatrices(int(s.D), int(tokens), l)
	fits := false
	c.attentionShape, fits = chooseAttention(int(s.D), int(tokens), int(tokens), l)
	if !matrices && !fits || !allF32(n) || s.D%4 != 0 || !s.B.IsStatic() || !allAligned(n.In) {
		return []Shader{
			mapped(n, "grid_attention", attentionMaskWGSL+attentionSimpleWGSL, c, gridFields, func(c *Call) []uint32 {
				return fixed
			}).
				withLoops(n, func(*Call) int { return simpleLoops(int(tokens), c) })}
	}
	// places returns the size of the table of key offsets for tiles of some keys, or 0 if there is no table. used is
	// the workgroup memory without it.
	places := func(keys, used int) int {
		n := ceilDiv(int(tokens), keys)*keys + keys
		if c.OneWindow || n > maxKeyPlaces || used+4*n > l.WorkgroupStorage {
			return 0
		}
		return n
	}
	operands := []Binding{{Name: "x0", Operand: 0, Vec: 4, DType: dtype.F32},
		{Name: "x1", Operand: 1, Vec: 4, DType: dtype.F32}}
	var main Shader
	queries, threads, loops := c.Queries(), c.Threads(), c.Loops
	if matrices {
		m.KeyPlaces = places(m.Keys, m.bytes())
		main = m.shader(n, constant.Replace(attentionRowsWGSL+attentionMatricesWGSL), operands)
		queries, threads, loops = m.Queries(), m.Threads(), m.loops
	} else {
		c.TailK, c.RelChunkRow = tokens%int64(c.Keys()) != 0, s.WW%int64(4*c.LK) == 0 && c.SingleKeys() == 0
		c.KeyPlaces = places(c.Keys(), c.bytes())
		main = Shader{Name: "grid_attention",
			Body: constant.Replace(attentionRowsWGSL + attentionPartsWGSL + attentionWGSL), Consts: c,
			Bindings: append(operands, c.out())}
	}
	main.Fields = append([]string{"groups"}, gridFields...)
	main.Groups = func(call *Call) int {
		return call.In[0].Shape[0] * int(s.NH*s.NW*s.Heads) * ceilDiv(int(tokens), queries)
	}
	main.Loops = func(*Call) int { return loops(int(tokens)) + loop(ceilDiv(maxKeyPlaces, threads), 0) }
	params := func(groups func(*Call) int) func(*Call) []uint32 {
		return func(c *Call) []uint32 {
			if numel(c.Out.Shape) == 0 {
				return nil
			}
			return append([]uint32{uint32(groups(c))}, fixed...)
		}
	}
	main.Params = params(main.Groups)
	if !s.Positional {
		return []Shader{main}
	}
	main.Bindings = append(main.Bindings, Binding{Name: "rel", Operand: Scratch, Vec: 4, DType: dtype.F32})
	c.KeyPlaces, c.RelMembers, c.RelTile = 0, int(s.B.Const*s.NH*s.NW*s.Heads), 64
	if max(s.WH, s.WW) <= 16 {
		c.RelTile = 16
	}
	terms := Shader{Name: "grid_attention", Body: constant.Replace(attentionRowsWGSL + attentionRelWGSL), Consts: c,
		Fields: append([]string{"groups"}, gridFields...),
		Bindings: []Binding{{Name: "x0", Operand: 0, Vec: 4, DType: dtype.F32},
			{Name: "x1", Operand: 1, Vec: 4, DType: dtype.F32},
			{Name: "rh", Operand: op.GridAttentionRH, Vec: 4, DType: dtype.F32},
			{Name: "rw", Operand: op.GridAttentionRW, Vec: 4, DType: dtype.F32},
			{Name: "rel", Operand: Scratch, DType: dtype.F32}},
		Groups: func(*Call) int { return int(s.WH+s.WW) * ceilDiv(c.RelMembers*int(max(s.WH, s.WW)), 64) },
		Loops: func(*Call) int {
			units := loop(ceilDiv(64+c.RelTile, 4*c.RelTile), 0)
			return loop(ceilDiv(int(max(s.WH, s.WW)), c.RelTile), loop(ceilDiv(int(s.D), 16), units))
		},
	}
	terms.Params = params(terms.Groups)
	return []Shader{terms, main}
}
