package product

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Matrix products with AMX. C is computed in panels of 32 columns. The sums of a panel stay in the second-level cache
// from one block of k to the next. A block of k is so short that its part of a panel of B stays in the first-level
// cache, while blocks of 32 rows of A pass through.

// tileEnd selects what tilePanel does with finished sums.
type tileEnd uint8

const (
	tileSum     tileEnd = iota // keep them in tilePanel.sum, for the next block of k
	tileRows                   // store sum + bias + residual as rows of float32
	tileBlocked                // store sum + bias as blocks of bfloat16, see blocked
	// store gelu(sum + bias) as blocks of bfloat16; the error before rounding is at most 5e-5
	tileBlockedGelu
)

// tilePanel describes the product of blocks of 32 rows of A and a panel of 32 columns of B, over one or several blocks
// of k. Strides count floats.
type tilePanel struct {
	blocks, steps int       // number of blocks of 32 rows, and of steps of 32 elements along k; both > 0
	a, b          []float32 // blocks [blocks][steps][32 rows, 32 bfloat16], and pairs [16*steps, 32]
	sum           []float32 // [blocks][32, 32]: the sums over the blocks of k so far; nil if there is only this block
	resume        bool      // there are earlier blocks of k
	ahead         []float32 // memory to prefetch: the part of B that is read next

	// For tileSum: the number of blocks of k, and the distance from one to the next in a and in b. ahead is then the
	// second block of b.
	times, aStep, bStep int

	end          tileEnd
	block        []float32 // [32, 32], scratch
	bias         []float32 // [32]
	out          []float32 // rows of 32, or blocks of 32x32
	outStep      int       // between rows, or between blocks
	residual     []float32 // rows of 32, for tileRows, or nil; may be out
	residualStep int
	stream       bool // write rows with non-temporal stores, which bypass the caches. Blocks are always written so
}

// lines returns how many cache lines of ahead each step prefetches.
func (t *tilePanel) lines() int {
	all := t.blocks * t.steps
	return (len(t.ahead)/16 + all - 1) / all
}

// tileBlockA is the largest number of elements of A in a block of C, so that they stay in the second-level cache.
const tileBlockA = 3 << 18

// tileStream is the size above which a result, in elements, is written with non-temporal stores. It would be evicted
// from the caches before it is read, and an ordinary store reads the cache line first.
const tileStream = 1 << 18

// tileBlock is tiles for a set with AMX. With ABlocked, a is nil.
func (g *GemmArgs) tileBlock(s *isa.Set, sc *pool.Scratch, i, m, rows, j, cols int, a, b []float32, panels, first int) {
	const way, area = Tiled, TileSide * TileSide
	kept := g.keep(sc, i, m, rows, j, cols)
	kb := way.KSplit(g.K)
	blocks := way.Rows(rows) / TileSide
	t := tilePanel{sum: sc.Floats(blocks * area), block: sc.Floats(area), stream: g.M*g.N > tileStream}
	bias := sc.Floats(TileSide)
	edge := sc.Floats(blocks * area)
	fused := g.Act == elementwise.Identity || g.CBlocked != nil
	t.stream = t.stream && fused && !g.over() // a residual in the place of C brings its lines into the caches anyway
	left, row := Blocked{a, way.Rows(rows), g.K, kb}, 0
	if g.ABlocked != nil {
		left, row = NewBlocked(g.ABlocked, g.M, g.K), m
	}
	end := tileRows
	var right Blocked
	if g.CBlocked != nil {
		right = NewBlocked(g.CBlocked, g.M, g.N)
		end = tileBlocked
		if g.Act == elementwise.Gelu {
			end = tileBlockedGelu
		}
	}
	// panel returns where panel q starts in b, for the block of k that begins at k.
	panel := func(q, k int) int {
		return panels*TileSide*way.Depth(k) + (first+q)*TileSide*way.Depth(min(kb, g.K-k))
	}
	last := (g.K - 1) / kb * kb // the last block of k
	depth := way.Depth(g.K - last)
	for q := 0; q < cols; q += TileSide {
		w := min(TileSide, cols-q)
		if last > 0 {
			t.end, t.blocks, t.steps, t.resume, t.out, t.residual = tileSum, blocks, kb/TileSide, false, nil, nil
			t.a, t.b = left.data[left.at(row, 0):], b[panel(q/TileSide, 0):]
			t.times, t.aStep, t.bStep = last/kb, left.rows*way.Depth(kb), panels*TileSide*way.Depth(kb)
			t.ahead = b[panel(q/TileSide, kb):][:TileSide*way.Depth(min(kb, g.K-kb))]
			On(s).tilePanel(&t)
		}
		t.times, t.steps, t.resume = 1, depth/(TileSide/2), last > 0
		t.b, t.ahead = b[panel(q/TileSide, last):], nil
		if q+TileSide < cols {
			t.ahead = b[panel(q/TileSide+1, 0):][:TileSide*way.Depth(min(kb, g.K))]
		}
		clear(bias)
		if g.Bias != nil {
			copy(bias[:w], g.Bias[j+q:])
		}
		a := left.data[left.at(row, last):]
		t.end, t.bias = end, bias
		if g.CBlocked != nil { // the padding below the rows may take arbitrary values
			t.blocks, t.a = blocks, a
			t.out, t.outStep = right.data[right.at(m, j+q):], right.at(TileSide, j+q)-right.at(0, j+q)
			On(s).tilePanel(&t)
			continue
		}
		c := g.C[i*g.StrideC+m*g.LDC+j+q:]
		var residual []float32
		if fused && g.Residual != nil {
			residual = g.Residual[i*g.StrideR+m*g.LDR+j+q:]
		}
		whole := 0 // number of blocks that lie in C entirely
		if w == TileSide {
			whole = rows / TileSide
		}
		if whole > 0 {
			t.blocks, t.a = whole, a
			t.out, t.outStep, t.residual, t.residualStep = c, g.LDC, residual, g.LDR
			On(s).tilePanel(&t)
		}
		if whole == blocks {
			continue
		}
		// A block that lies partly outside C goes through a buffer.
		e := t
		e.blocks, e.a, e.sum = blocks-whole, a[whole*TileSide*depth:], t.sum[whole*area:]
		e.out, e.outStep, e.stream = edge, TileSide, false
		from := whole * TileSide
		if residual != nil {
			for r := from; r < rows; r++ {
				copy(edge[(r-from)*TileSide:][:w], residual[r*g.LDR:])
			}
			e.residual, e.residualStep = edge, TileSide
		}
		On(s).tilePanel(&e)
		for r := from; r < rows; r++ {
			copy(c[r*g.LDC:][:w], edge[(r-from)*TileSide:])
		}
	}
	if t.stream || g.CBlocked != nil {
		vec.On(s).StoreFence()
	}
	if !fused {
		g.epilogue(s, i, m, rows, j, cols, kept)
	}
}
