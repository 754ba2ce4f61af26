package product

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// GemmArgs describes C = act(A·B + bias) + residual, for each of Batch independent products. Matrices are row-major
// with a leading dimension: the distance between rows in elements.
type GemmArgs struct {
	M, N, K int

	A      []float32 // [M, K], or [K, M] with TransA
	LDA    int
	TransA bool

	B      stored.Values // [K, N], or [N, K] with TransB
	LDB    int
	TransB bool

	C   []float32 // [M, N]; must not overlap the operands
	LDC int

	Bias []float32 // [N], or nil
	Act  elementwise.UnaryOp
	// [M, N], or nil; may be C itself, with the same leading dimension and stride, and not overlap it otherwise
	Residual []float32
	LDR      int

	Precision Precision // of the operands A and B as they are multiplied

	Packed *PackedWeights // B, packed in advance; or nil

	// ABlocked and CBlocked are only for a pool and a precision for which TakesBlocked is true. In a single product,
	// ABlocked replaces A, if TransA is not set, and CBlocked replaces C, if there is no residual and Act is Identity
	// or Gelu. That Gelu has an error of up to 5e-5.
	ABlocked, CBlocked []float32

	// Batch products, matrix i of an operand starting at i times its stride. 0 and 1 mean one; a stride of 0 shares the
	// matrix. StrideC is not 0 if Batch > 1. The bias is shared.
	Batch                              int
	StrideA, StrideB, StrideC, StrideR int

	// For callers of tiles. wide: the last panel of B is as wide as the others, because the caller has packed B itself.
	// repeats: the residual is [M, nr], and each panel adds it.
	Wide, Repeats bool
}

// Gemm computes the product. Sums run over k in order, within blocks of at most KBlock that are then added in order,
// after the residual if there is no activation; K = 0 gives act(bias) + residual. NaN and infinities propagate as in
// the plain sum.
func Gemm(p *pool.Pool, args *GemmArgs) {
	if args.M == 0 || args.N == 0 {
		return
	}
	batch := max(1, args.Batch)
	args.check(batch)
	g := pool.Keep[GemmArgs](p) // a copy, so that the caller's does not escape to the heap
	*g = *args
	if g.K == 0 {
		g.Precision = Float32 // the sum is empty, so no operand is rounded
	}
	for _, r := range routes {
		if r.takes(p, g, batch) && r.run(p, g, batch) {
			return
		}
	}
	panic("BUG: no route computes the product")
}

// check panics where a slice is too short, so that a mistake shows here and not in a worker.
func (g *GemmArgs) check(batch int) {
	last := func(rows, cols, ld, stride int) int {
		if rows == 0 || cols == 0 {
			return 0
		}
		return (batch-1)*stride + (rows-1)*ld + cols
	}
	ar, ac, br, bc := g.M, g.K, g.K, g.N
	if g.TransA {
		ar, ac = ac, ar
	}
	if g.TransB {
		br, bc = bc, br
	}
	if w := g.Packed; w != nil && (w.n != g.N || w.k != g.K || g.StrideB != 0 || w.precision != g.Precision) {
		panic("BUG: Gemm: B was packed for another product")
	}
	if !g.blockable(batch) {
		panic("BUG: Gemm: a blocked operand or result that it cannot take")
	}
	switch {
	case g.ABlocked == nil && len(g.A) < last(ar, ac, g.LDA, g.StrideA):
		panic("BUG: Gemm: A is short")
	case g.Packed == nil && g.B.Len() < last(br, bc, g.LDB, g.StrideB):
		panic("BUG: Gemm: B is short")
	case g.CBlocked == nil && (len(g.C) < last(g.M, g.N, g.LDC, g.StrideC) || batch > 1 && g.StrideC == 0 ||
		g.LDC < g.N):
		panic("BUG: Gemm: C is short")
	case g.Bias != nil && len(g.Bias) < g.N:
		panic("BUG: Gemm: bias is short")
	case g.Residual != nil && len(g.Residual) < last(g.M, g.N, g.LDR, g.StrideR):
		panic("BUG: Gemm: residual is short")
	}
}

// blockable reports whether operand and result may be blocked, if they are.
func (g *GemmArgs) blockable(batch int) bool {
	if g.ABlocked == nil && g.CBlocked == nil {
		return true
	}
	if batch > 1 || g.Precision != BFloat16 || g.ABlocked != nil && g.TransA {
		return false
	}
	return g.CBlocked == nil || g.Residual == nil && (g.Act == elementwise.Identity || g.Act == elementwise.Gelu)
}

// depth returns how many floats of memory one row or column of K values takes in a packed operand.
func (g *GemmArgs) depth(w Packing) int {
	kb := w.KSplit(g.K)
	return g.K/kb*w.Depth(kb) + w.Depth(g.K%kb)
}

// PackA packs rows [m, m+rows) of product i, all blocks of k, as panels that lie one after the other within each block.
func (g *GemmArgs) PackA(s *isa.Set, sc *pool.Scratch, dst []float32, i, m, rows int) {
	w := PackingOf(s, g.Precision)
	kb := w.KSplit(g.K)
	at := 0
	buf := sc.Floats(w.Buffer(On(s).MR, kb))
	for k := 0; k < g.K; k += kb {
		n := min(kb, g.K-k)
		if w == Tiled {
			g.packBlocked(s, sc, dst[at:], i, m, rows, k, n)
			at += w.Rows(rows) * w.Depth(n)
			continue
		}
		if g.TransA && w == Plain {
			packRowsTrans(s, dst[at:], g.A[i*g.StrideA+k*g.LDA+m:], g.LDA, rows, n)
			at += rows * n
			continue
		}
		for r, h := 0, 0; r < rows; r += h {
			h = PanelHeight(s, rows-r)
			panel := dst[at:]
			if w == Pairs {
				panel = buf
			}
			if g.TransA {
				copyShort(s, panel, h, g.A[i*g.StrideA+k*g.LDA+m+r:], g.LDA, n)
			} else {
				PackRows(s, panel, g.A[i*g.StrideA+(m+r)*g.LDA+k:], g.LDA, h, n)
			}
			Convert(s, w, dst[at:], panel, h, n)
			at += h * w.Depth(n)
		}
	}
}

// PanelHeight returns the number of rows of the next panel of A, if so many are left. The last two panels are of about
// equal height, because a panel of one or two rows takes as long as one of three.
func PanelHeight(s *isa.Set, left int) int { return panelHeight(On(s).MR, left) }

func panelHeight(mr, left int) int {
	if mr < left && left < 2*mr {
		return (left + 1) / 2
	}
	return min(mr, left)
}

// packBlocked is PackA for one block of k of a product of tiles.
func (g *GemmArgs) packBlocked(s *isa.Set, sc *pool.Scratch, dst []float32, i, m, rows, k, n int) {
	if !g.TransA {
		PackTileRows(s, dst, g.A[i*g.StrideA+m*g.LDA+k:], g.LDA, rows, n)
		return
	}
	transposed := sc.Floats(rows * n)
	for l := range n {
		for r, x := range g.A[i*g.StrideA+(k+l)*g.LDA+m:][:rows] {
			transposed[r*n+l] = x
		}
	}
	PackTileRows(s, dst, transposed, n, rows, n)
}

// packB packs columns [j, j+nr) of rows [k, k+n) of B, of product i, as one panel. buf is scratch memory of lanes*n
// floats, followed by the floats of w.buffer.
func (g *GemmArgs) packB(s *isa.Set, w Packing, dst []float32, i, j, k, n int, buf []float32) {
	cols := min(On(s).NR, g.N-j)
	nr := g.panelFor(s, w, cols).NR
	panel := dst
	if w == Pairs || w == Tiled {
		panel = buf[s.Lanes*n:]
	}
	if w == Tiled && g.TransB {
		src, ld := g.B.Floats, g.LDB
		if src != nil {
			src = src[i*g.StrideB+j*g.LDB+k:]
		} else {
			src, ld, panel = buf, n, buf[nr*n:]
			for c := range cols {
				g.B.Row(s, i*g.StrideB+(j+c)*g.LDB+k, n, src[c*n:])
			}
		}
		pairBlocked(s, dst, panel, src, ld, cols, n)
		return
	}
	if g.TransB {
		PackColsTrans(s, nr, panel, g.B.From(i*g.StrideB+j*g.LDB+k), g.LDB, cols, n, buf)
	} else {
		packCols(s, nr, panel, g.B.From(i*g.StrideB+k*g.LDB+j), g.LDB, cols, n)
	}
	Convert(s, w, dst, panel, nr, n)
}

// panelFor returns the kind of panel for this number of columns. The last panel of a matrix may be narrow. It starts
// where a wide one would.
func (g *GemmArgs) panelFor(s *isa.Set, w Packing, cols int) *Panel {
	if cols <= On(s).Narrow.NR && w != Tiled && !g.Wide {
		return &On(s).Narrow
	}
	return &On(s).Panel
}

// Tiles computes rows [m, m+rows) and columns [j, j+cols) of C, of product i. a and b are packed. b holds several
// panels, `panels` for each block of k. Column j begins panel number first. a may be nil if readsStored is true.
func (g *GemmArgs) Tiles(s *isa.Set, sc *pool.Scratch, i, m, rows, j, cols int, a, b []float32, panels, first int) {
	nr := On(s).NR
	way := PackingOf(s, g.Precision)
	if way == Tiled {
		g.tileBlock(s, sc, i, m, rows, j, cols, a, b, panels, first)
		return
	}
	// The last panel may be wider than the columns that are left of C. Its results then go through a buffer, except
	// where the rows of C are adjacent in memory. There the excess columns overwrite the beginning of the next row.
	// That is harmless, because columns computes the last panel first, and the other panels afterwards.
	spills := j == 0 && cols == g.N && g.LDC == g.N && g.K <= way.KSplit(g.K) && g.Bias == nil && g.Residual == nil
	wide := cols
	if !spills {
		wide = min(cols, groupPanels*nr)
	}
	mark := sc.Mark()
	for at := 0; at < cols; at += wide {
		g.columns(s, sc, i, m, rows, j+at, min(wide, cols-at), a, b, panels, first+at/nr, spills)
		sc.Release(mark)
	}
}

// columns is tiles for few columns, so that their part of C stays in the second-level cache from one block of k to the
// next. spills allows the last panel to overwrite the beginning of the next row.
func (g *GemmArgs) columns(s *isa.Set, sc *pool.Scratch, i, m, rows, j, cols int, a, b []float32, panels, first int,
	spills bool) {
	nr := On(s).NR
	way := PackingOf(s, g.Precision)
	tile := sc.Floats(On(s).MR * nr)
	kept := g.keep(sc, i, m, rows, j, cols)
	kb := way.KSplit(g.K)
	across := (cols + nr - 1) / nr // panels
	atA, atB := 0, 0
	for k := 0; k == 0 || k < g.K; k += kb {
		n := way.Depth(min(kb, g.K-k))
		for t := range across {
			q := (t + across - 1) % across * nr
			var next []float32
			if a == nil && g.K*g.N > largeB {
				next = b[g.panelAfter(nr, panels, first, across, t, k, atB):]
			}
			g.multiplyPanel(s, tile, i, m, rows, j+q, min(nr, cols-q), k, tail(a, atA), b[atB+(first+q/nr)*nr*n:],
				next, spills, nil)
		}
		atA += rows * n
		atB += panels * nr * n
	}
	if g.Act != elementwise.Identity {
		g.epilogue(s, i, m, rows, j, cols, kept)
	}
}

// multiplyPanel multiplies rows [m, m+rows) of A by one panel of B, for the block of k that begins at k, and adds the
// products to C. pb is packed, and pa is, too, or nil, as for Tiles. The panel is for columns [j, j+w). tile is scratch
// memory for mr rows. If ahead is not nil, its memory is prefetched meanwhile, and next, if pa is nil.
func (g *GemmArgs) multiplyPanel(s *isa.Set, tile []float32, i, m, rows, j, w, k int, pa, pb, next []float32,
	spills bool, ahead *prefetching) {
	way := PackingOf(s, g.Precision)
	kb := way.KSplit(g.K)
	n := way.Depth(min(kb, g.K-k))
	panel := g.panelFor(s, way, w)
	left := leftOperand{panel: panel, pairs: way == Pairs, a: pa, step: n}
	if pa == nil {
		left.a, left.step, left.lda = g.A[i*g.StrideA+m*g.LDA+k:], g.LDA, g.LDA
		left.next = next[:min(len(next), panel.NR*n)]
	}
	c := g.C[i*g.StrideC:]
	var bias, residual []float32
	if g.Bias != nil && k+kb >= g.K {
		bias = g.Bias[j:]
	}
	// first, so that C may be the residual and hold the partial sums
	if g.Residual != nil && g.Act == elementwise.Identity && k == 0 {
		residual = g.Residual[i*g.StrideR:]
	}
	if residual != nil {
		residual = residual[m*g.LDR:]
		if !g.Repeats {
			residual = residual[j:]
		}
	}
	c = c[m*g.LDC+j:]
	if w == panel.NR && ahead == nil {
		left.multiply(rows, n, pb, c, g.LDC, k > 0, bias, residual, g.LDR)
		return
	}
	mr := On(s).MR
	for r, h := 0, 0; r < rows; r += h {
		h = panelHeight(mr, rows-r)
		to, res := c[r*g.LDC:], rowOf(residual, r, g.LDR)
		if w == panel.NR || spills && (rows-r-h)*g.LDC >= panel.NR-w {
			left.multiply(h, n, pb, to, g.LDC, k > 0, bias, res, g.LDR)
		} else {
			left.multiply(h, n, pb, tile, panel.NR, false, nil, nil, 0)
			for t := range h {
				finishRow(to[t*g.LDC:][:w], tile[t*panel.NR:], k > 0, bias, rowOf(res, t, g.LDR))
			}
		}
		if r+h < rows {
			left.a = left.a[h*left.step:]
		}
		ahead.some(s)
	}
}

// over reports whether the residual is C itself.
func (g *GemmArgs) over() bool {
	return len(g.Residual) > 0 && len(g.C) > 0 && &g.Residual[0] == &g.C[0]
}

// keep copies the residual of a block of C if the product overwrites it before the activation is applied; otherwise it
// returns nil.
func (g *GemmArgs) keep(sc *pool.Scratch, i, m, rows, j, cols int) []float32 {
	if g.Act == elementwise.Identity || !g.over() {
		return nil
	}
	kept := sc.Floats(rows * cols)
	for r := range rows {
		copy(kept[r*cols:(r+1)*cols], g.Residual[i*g.StrideR+(m+r)*g.LDR+j:])
	}
	return kept
}

// epilogue applies the activation, and then the residual, to a finished block of C.
func (g *GemmArgs) epilogue(s *isa.Set, i, m, rows, j, cols int, kept []float32) {
	for r := m; r < m+rows; r++ {
		c := g.C[i*g.StrideC+r*g.LDC+j:][:cols]
		elementwise.Apply(s, g.Act, c, c)
		switch {
		case kept != nil:
			elementwise.On(s).Binary[elementwise.Add](c, c, kept[(r-m)*cols:][:cols])
		case g.Residual != nil:
			elementwise.On(s).Binary[elementwise.Add](c, c, g.Residual[i*g.StrideR+r*g.LDR+j:][:cols])
		}
	}
}
