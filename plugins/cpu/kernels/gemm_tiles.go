package kernels

// Products of tiles. Sums of a panel of 32 columns stay in the second-level cache from one block of k to the next; a block of k is
// short enough that the panel, and the blocks of A that stream past it, share the first-level cache.

// tileEnd is what a product of tiles does with the sums of a panel.
type tileEnd uint8

const (
	tileSum         tileEnd = iota // they stay, for the next block of k
	tileRows                       // rows of sum + bias + residual
	tileBlocked                    // sum + bias, blocked
	tileBlockedGelu                // gelu(sum + bias), blocked, with an error of at most 5e-5 before it is rounded
)

// tilePanel is the product of blocks of 32 rows with a panel of 32 columns, for a block of k or several. Strides count floats.
type tilePanel struct {
	blocks, steps int       // of 32 rows; of 32 elements of k; not 0
	a, b          []float32 // blocks [blocks][steps][32 rows, 32 bfloat16], and pairs [16*steps, 32]
	sum           []float32 // [blocks][32, 32]: sums so far. Nil if this is the only block of k
	resume        bool      // there are sums so far
	ahead         []float32 // what will be read next, to prefetch

	// For tileSum: the number of blocks of k, if more than one, and the strides of their a and b. ahead is then b of the second.
	times, aStep, bStep int

	end          tileEnd
	block        []float32 // [32, 32], scratch
	bias         []float32 // [32]
	out          []float32 // rows of 32, or blocks of 32x32
	outStep      int       // between rows, or between blocks
	residual     []float32 // as rows of 32, for tileRows, or nil; may be out
	residualStep int
	stream       bool // out is larger than the caches, so whole lines are stored past them. Blocks always are
}

// lines is how many lines of ahead each step prefetches.
func (t *tilePanel) lines() int {
	all := t.blocks * t.steps
	return (len(t.ahead)/16 + all - 1) / all
}

// tileBlockA bounds the elements of A in a block: they stay in the second-level cache.
const tileBlockA = 3 << 18

// tileStream is the number of elements from which on a result is stored past the caches. It would be evicted before it is read, and a
// store into a cache reads the line first.
const tileStream = 1 << 18

// PackedWeights is the second operand of a product, packed ahead because it is used more than once.
type PackedWeights struct {
	n, k   int
	panels []float32
}

// PackWeights packs B of g for products with the same B, N, K and Precision. It returns nil where packing ahead gains nothing.
func PackWeights(p *Pool, g *GemmArgs) *PackedWeights {
	if !p.TakesBlocked(g.Precision) || g.N*g.K == 0 {
		return nil
	}
	panels := (g.N + p.isa.nr - 1) / p.isa.nr
	w := &PackedWeights{g.N, g.K, make([]float32, panels*p.isa.nr*g.depth(tiled)+spill)}
	p.packPanels(g, w.panels, 0, 1, 0, panels)
	return w
}

// tileBlock computes rows [m, m+rows) by columns [j, j+cols) of product i: a and b are packed, b holding panels panels of which
// those from first on are used. With ABlocked there is no a.
func (g *GemmArgs) tileBlock(s *isa, sc *scratch, i, m, rows, j, cols int, a, b []float32, panels, first int) {
	const way, area = tiled, tileSide * tileSide
	kept := g.keep(sc, i, m, rows, j, cols)
	kb := way.kSplit(g.K)
	blocks := way.rows(rows) / tileSide
	t := tilePanel{sum: sc.floats(blocks * area), block: sc.floats(area), stream: g.M*g.N > tileStream}
	bias := sc.floats(tileSide)
	edge := sc.floats(blocks * area)
	fused := g.Act == Identity || g.CBlocked != nil
	t.stream = t.stream && fused && !g.over() // a residual in the place of C brings its lines into the caches anyway
	left, row := blocked{a, way.rows(rows), g.K, kb}, 0
	if g.ABlocked != nil {
		left, row = newBlocked(g.ABlocked, g.M, g.K), m
	}
	end := tileRows
	var right blocked
	if g.CBlocked != nil {
		right = newBlocked(g.CBlocked, g.M, g.N)
		if end = tileBlocked; g.Act == Gelu {
			end = tileBlockedGelu
		}
	}
	// panel is where the block of k from k on of panel q starts in b.
	panel := func(q, k int) int {
		return panels*tileSide*way.depth(k) + (first+q)*tileSide*way.depth(min(kb, g.K-k))
	}
	last := (g.K - 1) / kb * kb // the last block of k
	depth := way.depth(g.K - last)
	for q := 0; q < cols; q += tileSide {
		w := min(tileSide, cols-q)
		if last > 0 {
			t.end, t.blocks, t.steps, t.resume, t.out, t.residual = tileSum, blocks, kb/tileSide, false, nil, nil
			t.a, t.b = left.data[left.at(row, 0):], b[panel(q/tileSide, 0):]
			t.times, t.aStep, t.bStep = last/kb, left.rows*way.depth(kb), panels*tileSide*way.depth(kb)
			t.ahead = b[panel(q/tileSide, kb):][:tileSide*way.depth(min(kb, g.K-kb))]
			s.tilePanel(&t)
		}
		t.times, t.steps, t.resume = 1, depth/(tileSide/2), last > 0
		t.b, t.ahead = b[panel(q/tileSide, last):], nil
		if q+tileSide < cols {
			t.ahead = b[panel(q/tileSide+1, 0):][:tileSide*way.depth(min(kb, g.K))]
		}
		clear(bias)
		if g.Bias != nil {
			copy(bias[:w], g.Bias[j+q:])
		}
		a := left.data[left.at(row, last):]
		t.end, t.bias = end, bias
		if g.CBlocked != nil { // the padding below the rows may take arbitrary values
			t.blocks, t.a = blocks, a
			t.out, t.outStep = right.data[right.at(m, j+q):], right.at(tileSide, j+q)-right.at(0, j+q)
			s.tilePanel(&t)
			continue
		}
		c := g.C[i*g.StrideC+m*g.LDC+j+q:]
		var residual []float32
		if fused && g.Residual != nil {
			residual = g.Residual[i*g.StrideR+m*g.LDR+j+q:]
		}
		whole := 0 // blocks of which all elements are part of C
		if w == tileSide {
			whole = rows / tileSide
		}
		if whole > 0 {
			t.blocks, t.a = whole, a
			t.out, t.outStep, t.residual, t.residualStep = c, g.LDC, residual, g.LDR
			s.tilePanel(&t)
		}
		if whole == blocks {
			continue
		}
		// A block that is partly outside of C goes through a buffer.
		e := t
		e.blocks, e.a, e.sum = blocks-whole, a[whole*tileSide*depth:], t.sum[whole*area:]
		e.out, e.outStep, e.stream = edge, tileSide, false
		from := whole * tileSide
		if residual != nil {
			for r := from; r < rows; r++ {
				copy(edge[(r-from)*tileSide:][:w], residual[r*g.LDR:])
			}
			e.residual, e.residualStep = edge, tileSide
		}
		s.tilePanel(&e)
		for r := from; r < rows; r++ {
			copy(c[r*g.LDC:][:w], edge[(r-from)*tileSide:])
		}
	}
	if t.stream || g.CBlocked != nil {
		s.storeFence()
	}
	if !fused {
		g.epilogue(s, i, m, rows, j, cols, kept)
	}
}
