//go:build amd64

package kernels

import "testing"

// TestGridAttentionBlocked checks that the blocked result is the plain one, rounded.
func TestGridAttentionBlocked(t *testing.T) {
	eachTiledPool(t, func(t *testing.T, p *Pool) {
		if !TakesBlocked(p, BFloat16) {
			return
		}
		if attnOn(p.Set).attend == nil { // a pool that emulates tiles
			p.Set = emulatePanels(p.Set)
		}
		r := rng(23)
		for _, c := range []struct{ b, gh, gw, heads, dim, win int }{{1, 8, 8, 2, 32, 3}, {2, 5, 37, 3, 64, 0},
			{1, 20, 19, 3, 96, 14}} {
			g := randomGrid(r, c.b, c.gh, c.gw, c.heads, c.dim, c.win, true, true)
			g.Precision = BFloat16
			want := runGrid(t, p, g)
			rows, cols := c.b*c.gh*c.gw, c.heads*c.dim
			g.Out, g.OutBlocked = nil, lines(BlockedLen(rows, cols))
			GridAttention(p, g)
			for i, x := range UnpackBlocked(g.OutBlocked, rows, cols) {
				if x != roundBF16(want[i]) {
					t.Fatalf("%+v: element %d is %v, blocked %v", c, i, want[i], x)
				}
			}
		}
	})
}
