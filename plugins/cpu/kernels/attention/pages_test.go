package attention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// TestPages checks that keys and values in pages give the bits that they give in one piece, for pages of which tiles
// have a part, one or several, and that nothing is read of other pages.
func TestPages(t *testing.T) {
	eachTiledPool(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(9)
		for i, mask := range []MaskKind{MaskNone, MaskCausal, MaskSliding, MaskCustom, MaskBias} {
			for j, c := range []struct{ page, pages, sq int }{{1, 40, 2}, {5, 9, 1}, {16, 40, 4}, {64, 10, 1}, {64, 3, 70},
				{100, 2, 33}, {16, 20, 100}, {128, 5, 40}} {
				if testing.Short() && (i+j)%3 != 0 {
					continue
				}
				g := randomAttention(r, 3, 4, 2, c.sq, c.page*c.pages, 1+r.IntN(70), 1+r.IntN(70), mask)
				g.Elements = nil
				for range g.B {
					keys := r.IntN(g.SK + 1)
					g.Spans = append(g.Spans, KeySpan{keys, keys - r.IntN(2*g.SQ)})
				}
				if r.IntN(2) == 0 {
					g.Precision = product.BFloat16
				}
				if r.IntN(2) == 0 {
					g.K, g.V = halves(g.K, j), halves(g.V, j)
				}
				Attend(p, g)
				paged := inPages(r, g, c.page)
				Attend(p, paged)
				same := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
				if !slices.EqualFunc(g.Out, paged.Out, same) {
					t.Errorf("mask %v, %v, %v: keys in pages give other bits", mask, c, fmt.Sprint(g.Precision))
				}
			}
		}
	})
}

// inPages returns g with its keys and values in pages, in any order. Two pages are NaN.
func inPages(r *rand.Rand, g *Args, page int) *Args {
	x := *g
	x.Out = slices.Repeat([]float32{guard64}, len(g.Out))
	x.Page, x.PerElement = page, g.SK/page
	n := g.B*x.PerElement + 2
	order := r.Perm(n)
	for _, at := range order[2:] {
		x.Pages = append(x.Pages, int32(at))
	}
	x.KStride, x.VStride = layout(r, page, g.KVHeads, g.DK), layout(r, page, g.KVHeads, g.DV)
	move := func(m stored.Values, from, to Strides, d int) stored.Values {
		out := stored.Values{Kind: m.Kind}
		if m.Floats != nil {
			out.Floats = slices.Repeat([]float32{float32(math.NaN())}, n*to.Batch)
		} else {
			out.Halves = slices.Repeat([]uint16{0x7fff}, n*to.Batch)
		}
		for b := range g.B {
			for h := range g.KVHeads {
				for j := range g.SK {
					at := int(x.Pages[b*x.PerElement+j/page])*to.Batch + h*to.Head + j%page*to.Seq
					was := b*from.Batch + h*from.Head + j*from.Seq
					if m.Floats != nil {
						copy(out.Floats[at:at+d], m.Floats[was:])
					} else {
						copy(out.Halves[at:at+d], m.Halves[was:])
					}
				}
			}
		}
		return out
	}
	x.K, x.V = move(g.K, g.KStride, x.KStride, g.DK), move(g.V, g.VStride, x.VStride, g.DV)
	return &x
}
