package matrix

import (
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

var _ = register("grid_attention", func(d Device) (kernels.Own, bool) {
	return kernels.Own{
		Shaders: func(n *ir.Node, l kernels.Limits) []kernels.Shader {
			g, ok := d.gridOf(n, l)
			if !ok {
				return nil
			}
			return g.shaders()
		},
		Scratch: func(n *ir.Node, l kernels.Limits) int64 {
			g, _ := d.gridOf(n, l)
			return g.begin + 3*g.part
		},
		ReadsRounded: func(n *ir.Node, l kernels.Limits) dtype.DType {
			if g, ok := d.gridOf(n, l); ok && !g.exact() {
				return g.Type
			}
			return 0
		},
		WritesRounded: func(n *ir.Node, l kernels.Limits) bool {
			g, ok := d.gridOf(n, l)
			return ok && !g.exact()
		},
	}, d.Capability >= 80
})

// grid is a grid_attention on matrix units.
type grid struct {
	attentionText
	scale   float32
	rounded bool  // q, k and v were written in 16 bits, too: see kernels.RoundedIn
	windows int64 // of all batch elements
	begin   int64 // of the packed operands in scratch memory, after the terms for relative positions
	part    int64 // bytes of each of them
}

const (
	leastTokens = 64  // with fewer, tiles are mostly empty
	manyTokens  = 512 // from which blocks have eight warps
)

// mostDim is the largest dim of a head. Terms of larger ones need too many registers.
func mostDim(terms int) int64 {
	if terms > 1 {
		return 96
	}
	return 128
}

// gridOf returns the attention of a node, or false if it does not run on matrix units.
func (d Device) gridOf(n *ir.Node, l kernels.Limits) (g grid, ok bool) {
	a, isGrid := n.Attrs.(op.GridAttentionAttrs)
	g.Type, g.Terms = d.attentionType(l)
	if !isGrid || g.Type == 0 || n.Type.DType != dtype.F32 {
		return g, false
	}
	s, err := a.Sizes(n.InTypes())
	if err != nil || !s.B.IsStatic() || s.D%16 != 0 || s.D > mostDim(g.Terms) || s.WH*s.WW < leastTokens ||
		s.B.Const < 1 {
		return g, false
	}
	for _, x := range n.Operands() {
		if x.Type.DType != dtype.F32 || !kernels.BeginsAt(x, 16) {
			return g, false
		}
	}
	g.Rounded, g.Only, g.rounded = l.Rounds != 0, l.RoundsOnly, l.Rounded[0]
	g.D, g.Group = int(s.D), g.groupKernel(d)
	g.Warps = g.warpsFor(s)
	g.Grid = gridText{GH: int(s.GH), GW: int(s.GW), WH: int(s.WH), WW: int(s.WW), NH: int(s.NH), NW: int(s.NW),
		Heads: int(s.Heads)}
	g.scale = float32(a.EffectiveScale(s.D) * math.Log2E)
	g.windows = s.B.Const * s.NH * s.NW
	work := g.windows * s.Heads * s.WH * s.WW * s.WH * s.WW * s.D * 2
	if g.exact() && (work < d.least(true) || g.shared() > d.Shared) {
		return g, false
	}
	if s.Positional {
		g.Grid.Rel = true
		g.begin = (4*g.windows*s.Heads*s.WH*s.WW*int64(g.Grid.pitch()) + 255) &^ 255
		if g.shared() > d.Shared {
			g.Warps = 4
		}
		if s.WW > keysOfTile || g.shared() > d.Shared || g.related(0).shared() > d.Shared ||
			g.related(1).shared() > d.Shared {
			return g, false
		}
	}
	g.part = 2 * int64(g.Terms) * g.windows * s.Heads * s.WH * s.WW * s.D
	return g, g.begin+3*g.part <= mostBytes
}

// warpsFor returns the number of warps of a block. Several blocks of a warpgroup are better than one of two, unless the
// memory for terms suffices only for one.
func (g grid) warpsFor(s op.GridShape) int {
	if s.WH*s.WW >= manyTokens && (!g.Group || g.exact() && s.Positional) {
		return 8
	}
	return 4
}

func (g grid) shaders() []kernels.Shader {
	pack := g.pack()
	blocks := g.blocks(int(g.windows)*g.Grid.Heads, g.Grid.tokens())
	bindings := []kernels.Binding{{Name: "packed", Operand: kernels.Scratch, DType: dtype.U32},
		{Name: "y", Operand: kernels.Out, DType: dtype.F32}}
	if g.Rounded {
		bindings = append(bindings, kernels.Binding{Name: "z", Operand: kernels.RoundedOut, DType: g.Type})
	}
	x := g.attentionText
	attend := fixed(
		kernels.Shader{Name: "attention in windows", Consts: x, Bindings: bindings, Fields: attentionFields}, blocks,
		[]uint32{uint32(blocks), uint32(g.begin / 16), uint32(g.part / 16), math.Float32bits(g.scale)},
		func(skip []int64) string {
			x := x
			x.Skips = skip
			return x.text()
		})
	if !g.Grid.Rel {
		return []kernels.Shader{pack, attend}
	}
	return []kernels.Shader{pack, g.relate(0), g.relate(1), attend}
}

// pack returns the shader that writes the operands to scratch memory.
func (g grid) pack() kernels.Shader {
	x := packText{Type: g.Type, Terms: g.Terms, D: g.D, Grid: g.Grid, Windows: g.windows, Rounded: g.rounded}
	bindings := []kernels.Binding{{Name: "x0", Operand: 0, DType: dtype.F32},
		{Name: "x1", Operand: 1, DType: dtype.F32}, {Name: "y", Operand: kernels.Scratch, DType: dtype.U32}}
	if g.rounded {
		bindings[0].Operand, bindings[0].DType = kernels.RoundedIn, g.Type
	}
	s := kernels.Shader{Name: "windows", Consts: x, Bindings: bindings, Fields: packFields}
	return fixed(s, ceilDiv(x.units(), packThreads), []uint32{uint32(x.units()), uint32(g.begin / 16)},
		func(skip []int64) string {
			x := x
			x.Skips = skip
			return x.text()
		})
}

func (g grid) related(axis int) relText {
	return relText{Type: g.Type, Terms: g.Terms, D: g.D, Axis: axis, Grid: g.Grid}
}

// relate returns the shader for the relative position terms along an axis.
func (g grid) relate(axis int) kernels.Shader {
	x := g.related(axis)
	groups := int(g.windows) * g.Grid.Heads
	s := kernels.Shader{Name: "relative positions", Consts: x, Fields: relFields,
		Bindings: []kernels.Binding{{Name: "packed", Operand: kernels.Scratch, DType: dtype.U32},
			{Name: "vectors", Operand: op.GridAttentionRH + axis, DType: dtype.F32}}}
	return fixed(s, x.blocks(groups), []uint32{uint32(x.blocks(groups)), uint32(groups * x.across()),
		uint32(g.begin / 16)}, func(skip []int64) string {
		x := x
		x.Skips = skip
		return x.text()
	})
}

// fixed completes a shader of static sizes: its number of blocks, its parameters, and its text for the bytes to skip in
// each binding.
func fixed(s kernels.Shader, blocks int, params []uint32, text func(skip []int64) string) kernels.Shader {
	bindings := s.Bindings
	s.Source = func(views []kernels.View) (string, error) {
		list, err := skips(bindings, views)
		return text(list), err
	}
	s.Params = func(c *kernels.Call) []uint32 {
		if empty(c) {
			return nil
		}
		return slices.Clone(params)
	}
	s.Groups = func(*kernels.Call) int { return blocks }
	return s
}
