package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Convolutions with channels first, one tap and few output channels in a group, such as the last one of a segmentation.
// As a matrix product they have few rows, and packing its columns takes longer than multiplying. Instead they add up
// the channels of x where they lie.

const (
	mixedOut    = 4       // maximum number of output channels of a group
	mixedIn     = 512     // maximum number of input channels of a group
	mixedOfFew  = 8       // mixedOut if there are few input channels
	mixedFew    = 64      // maximum number of input channels that are few
	mixedPixels = 1 << 6  // least number of pixels
	mixedTask   = 1 << 16 // about how many multiplications a task takes at least
	mixedPiece  = 1 << 10 // pixels that all output channels read from the first-level cache
)

// mixed reports whether mixes computes the convolution.
func (g *convolution) mixed() bool {
	few := g.og <= mixedOut && g.cg <= mixedIn || g.og <= mixedOfFew && g.cg <= mixedFew
	return few && !g.Last && g.plain() && elementwise.Volume(g.out) >= mixedPixels && !vec.On(g.p.Set).StencilsInGo
}

// mixes computes the convolution.
func (g *convolution) mixes() {
	g.p.Shared.Reset()
	if g.weights = g.Weight.Floats; g.weights == nil {
		g.weights = g.p.Shared.Floats(g.Cout * g.cg)
		g.Weight.Row(g.p.Set, 0, g.Cout*g.cg, g.weights)
	}
	area := elementwise.Volume(g.out)
	g.at = g.at[:0]
	for c := range g.cg {
		g.at = append(g.at, c*area)
	}
	g.p.Share(g.N*g.Groups*area, max(g.p.Set.Lanes, mixedTask/(g.og*g.cg)), (*convMixed)(g))
}

// convMixed computes pixels of groups, counted over all images.
type convMixed convolution

func (x *convMixed) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	area, lanes, sc, stencil := elementwise.Volume(g.out), g.p.Set.Lanes, g.p.Scratch(worker), vec.On(g.p.Set).Stencil
	mark := sc.Mark()
	made := sc.Floats(lanes)
	for lo < hi {
		group, first := lo/area, lo%area
		n := min(hi-lo, area-first, mixedPiece)
		image := g.X[group*g.cg*area:]
		for k := range g.og {
			channel := group*g.og + k // counted over all images
			o, bias := channel%g.Cout, float32(0)
			if g.Bias != nil {
				bias = g.Bias[o]
			}
			weights, dst := g.weights[o*g.cg:][:g.cg], g.Out[channel*area+first:][:n]
			if most := g.at[g.cg-1]; n >= lanes {
				stencil(dst, image[first:], g.at, most, weights, bias)
			} else { // the pixels are the last ones of a vector that lies in the image
				from := max(0, first+n-lanes)
				stencil(made, image[from:], g.at, most, weights, bias)
				copy(dst, made[first-from:])
			}
			g.finish(channel*area+first, n)
		}
		lo += n
	}
	sc.Release(mark)
}
