package kernels

import (
	_ "embed"
	"fmt"
	"math"
	"math/bits"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/splat"
)

//go:embed splat_backward.wgsl
var splatBackwardWGSL string

const (
	colorBlock = 4096 // splats whose colours a workgroup compares
	sumsOfOne  = 3 * splat.SumsLen
)

// The tiles are rendered once, which leaves what each pixel shows, and then walked from back to front. A tile's sums
// for a splat are added to the sums of the splat in fixed point with three limbs, so that the result does not depend on
// the order of the tiles. The part that no limb holds is less than 2^-40 of a bound that all sums of tiles share.
var _ = register(Kernel{
	Op: "gaussian_splat_render_backward", Takes: "(f32...) -> any", Refuses: splatRefuses + ", or d_rgba is not finite",
	Shaders: func(n *ir.Node, l Limits) []Shader {
		s := newBackward(n, l)
		tiles, _ := s.tiles()
		all := func(*Call) int { return tiles }
		out := s.prepare()

		forward := s.shader("render", 1,
			append(sceneBindings("cam"), Binding{Name: "x7", Operand: 7, DType: dtype.F32}, status()), nil).walked(1)
		forward.Groups = all
		brightest := s.shader("brightest", colorBlock, sceneBindings(), nil)
		bound := s.shader("bound", 1, sceneBindings("cam"), nil)
		bound.Groups = func(*Call) int { return 1 }
		bound.Loops = func(c *Call) int {
			return loop(ceilDiv(c.In[3].Shape[0], 256*colorBlock), 0) + loop(ceilDiv(tiles, 256), 0) + loop(8, 0)
		}

		each := gradientSplats(l)
		var turns [][]int // sums that the invocations exchange together
		for k := 0; k < splat.SumsLen; k++ {
			if k%(2*each) == 0 {
				turns = append(turns, nil)
			}
			turns[len(turns)-1] = append(turns[len(turns)-1], k)
		}
		backward := s.shader("backward", 1,
			append(sceneBindings(), Binding{Name: "limbs", Operand: Scratch, DType: dtype.U32, Atomic: true}),
			map[string]any{"Forms5": each, "Lanes": 256 / each, "Turns": turns,
				"Unit": fmt.Sprint(float32(1 / splat.Exponent))}).
			walked(ceilDiv(3+loop(each, 0)*2+len(turns)*(2+loop(256/each, 0)), each))
		backward.Groups = all

		var results []Binding
		for k, name := range splatOperandNames[:6] {
			results = append(results, Binding{Name: "d_" + name, Operand: Result(k), DType: dtype.F32})
		}
		chain := s.shader("chain", 64, append(sceneBindings(splatOperandNames[:6]...), results...), nil)
		return append(out, forward, brightest, bound, backward, chain)
	},
	Scratch: func(n *ir.Node, l Limits) int64 { return newBackward(n, l).scratch() },
})

// gradientSplats is how many splats a workgroup does at a time: it keeps two numbers for each and each pixel.
func gradientSplats(l Limits) int {
	switch {
	case l.WorkgroupStorage >= 48<<10:
		return 16
	case l.WorkgroupStorage >= 32<<10:
		return 8
	}
	return 4
}

func newBackward(n *ir.Node, l Limits) *splatting {
	a := n.Attrs.(op.GaussianSplatRenderBackwardAttrs)
	g := splat.Grid{Width: a.Width, Height: a.Height, Tile: splatSide}
	tiles := g.Columns() * g.Rows()
	most := n.Graph.Syms.Largest(n.In[3].Type.Shape)[0]
	s := newSplatting(n, l, g, region{"forms", 0, splat.FormLen}, region{"colors", 0, 4}, region{"frames", 0, 16},
		region{"limbs", 0, sumsOfOne}, region{"pixels", 8 * a.Width * a.Height, 0}, region{"steepest", tiles, 0},
		region{"blocks", ceilDiv(most, colorBlock), 0})
	s.consts["Block"] = colorBlock
	// A sum with one limb for each tile must fit into 31 bits.
	s.consts["Limb"] = 1 << min(16, 30-bits.Len(uint(tiles)))
	s.consts["Clip"] = ""
	if a.LossGradClip > 0 {
		s.consts["Clip"] = literalF32(float32(min(a.LossGradClip, math.MaxFloat32)))
	}
	return s
}
