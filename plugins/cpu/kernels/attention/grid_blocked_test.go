//go:build amd64

package attention

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// TestGridAttentionBlocked checks that the blocked result is the plain one, rounded.
func TestGridAttentionBlocked(t *testing.T) {
	eachTiledPool(t, func(t *testing.T, p *pool.Pool) {
		if !product.TakesBlocked(p, product.BFloat16) {
			return
		}
		if on(p.Set).attend == nil { // a pool that emulates tiles
			p.Set = emulatePanels(p.Set)
		}
		r := kerneltest.RNG(23)
		for _, c := range []struct{ b, gh, gw, heads, dim, win int }{{1, 8, 8, 2, 32, 3}, {2, 5, 37, 3, 64, 0},
			{1, 20, 19, 3, 96, 14}} {
			g := randomGrid(r, c.b, c.gh, c.gw, c.heads, c.dim, c.win, true, true)
			g.Precision = product.BFloat16
			want := runGrid(t, p, g)
			rows, cols := c.b*c.gh*c.gw, c.heads*c.dim
			g.Out, g.OutBlocked = nil, kerneltest.Lines(product.BlockedLen(rows, cols))
			Grid(p, g)
			for i, x := range product.UnpackBlocked(g.OutBlocked, rows, cols) {
				if x != product.RoundBF16(want[i]) {
					t.Fatalf("%+v: element %d is %v, blocked %v", c, i, want[i], x)
				}
			}
		}
	})
}
