package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// An Epilogue is what follows a convolution: y = Act(y + Addend) + Residual. A task applies it to the elements that it
// has just written, which are still in a cache.
type Epilogue struct {
	Addend   []float32 // laid out as the result, or nil; must not overlap it
	Act      elementwise.UnaryOp
	Residual []float32 // as Addend
}

// any reports whether there is something to do.
func (e *Epilogue) any() bool {
	return e.Addend != nil || e.Act != elementwise.Identity || e.Residual != nil
}

// from returns the epilogue of the result from element i on.
func (e Epilogue) from(i int) Epilogue {
	if e.Addend != nil {
		e.Addend = e.Addend[i:]
	}
	if e.Residual != nil {
		e.Residual = e.Residual[i:]
	}
	return e
}

// finish applies the epilogue to elements [at, at+n) of the result.
func (g *convolution) finish(at, n int) { g.apply(g.p.Set, g.Out[at:at+n], at) }

// apply applies the epilogue to y, which holds elements of the result from at on.
func (e *Epilogue) apply(s *isa.Set, y []float32, at int) {
	if e.Addend != nil {
		elementwise.On(s).Binary[elementwise.Add](y, y, e.Addend[at:at+len(y)])
	}
	if e.Act != elementwise.Identity {
		elementwise.Apply(s, e.Act, y, y)
	}
	if e.Residual != nil {
		elementwise.On(s).Binary[elementwise.Add](y, y, e.Residual[at:at+len(y)])
	}
}

// activate applies the activation to a tile of results, if nothing comes before, and returns the rest of the epilogue.
// A call for the whole tile takes less time than one for each row.
func (g *convolution) activate(tile []float32) (rest Epilogue) {
	rest = g.Epilogue
	if g.Addend == nil && g.Act != elementwise.Identity {
		elementwise.Apply(g.p.Set, g.Act, tile, tile)
		rest.Act = elementwise.Identity
	}
	return rest
}

// finishRows applies an epilogue to elements [m, m+n), counted over images, of output channels [o, o+rows), with
// channels first.
func (g *convolution) finishRows(e Epilogue, m, n, o, rows int) {
	if !e.any() {
		return
	}
	area := elementwise.Volume(g.out)
	for end := m + n; m < end; {
		n := min(area-m%area, end-m) // of one image
		at := (m/area*g.Cout+o)*area + m%area
		lines, size := rows, n
		if n == area { // the channels are adjacent
			lines, size = 1, rows*area
		}
		for r := range lines {
			e.apply(g.p.Set, g.Out[at+r*area:][:size], at+r*area)
		}
		m += n
	}
}

// finishLines applies the epilogue to the first n elements of lines, which are out[2] apart. The first begins at at.
func (g *convolution) finishLines(at, n, lines int) {
	if n == g.out[2] {
		n, lines = n*lines, 1
	}
	for h := range lines {
		g.finish(at+h*g.out[2], n)
	}
}

// finishTiles applies an epilogue to the elements of all tiles of a part, for channels [first, first+rows).
func (w *winograd) finishTiles(e Epilogue, x *flatPart, first, rows int, sc *pool.Scratch) {
	if !e.any() {
		return
	}
	area, across, high, wide := w.area(), w.size[2], w.out[1], w.out[2]
	sc.Place = sc.Place[:0] // ranges of elements of the first channel
	for t := 0; t < x.total; {
		at := x.first + t
		n := min(across-at%across, x.total-t)
		row, col := at%area/across*2, at%across*2
		size := min(2*n, wide-col)
		for y := range min(2, high-row) {
			to, last := at/area*w.Cout*high*wide+(row+y)*wide+col, len(sc.Place)-1
			if last > 0 && sc.Place[last] == to {
				sc.Place[last] += size
			} else {
				sc.Place = append(sc.Place, to, to+size)
			}
		}
		t += n
	}
	for r := range rows {
		channel := (w.image*w.Cout + first + r) * high * wide
		for i := 0; i < len(sc.Place); i += 2 {
			from, end := channel+sc.Place[i], channel+sc.Place[i+1]
			e.apply(w.p.Set, w.Out[from:end], from)
		}
	}
}

// finishAll applies the epilogue to the whole result.
func (g *convolution) finishAll() {
	if g.any() {
		g.p.Share(g.N*g.Cout*elementwise.Volume(g.out), pool.Grain, (*convFinish)(g))
	}
}

type convFinish convolution

func (x *convFinish) Do(lo, hi, _ int) { (*convolution)(x).finish(lo, hi-lo) }
