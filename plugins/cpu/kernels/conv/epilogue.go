package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// An Epilogue is what follows a convolution: y = Act(y + Addend) + Residual. Tasks apply it to the elements that they
// have just written, which are still in a cache; see lateSize for small results.
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

// lateSize is the number of elements up to which a result stays in the second-level cache. One pass over it, after all
// tasks, then takes less time than a call for each row of a task. Tests change it.
var lateSize = 1 << 16

// startEpilogue decides when the epilogue is applied.
func (g *convolution) startEpilogue() {
	g.rest = g.Epilogue
	g.late = g.N*g.Cout*elementwise.Volume(g.out) <= lateSize
}

// inTiles makes tasks apply the activation to their tiles, if nothing comes before, and the rest a pass of its own.
func (g *convolution) inTiles() {
	g.late = true
	if g.Addend == nil {
		g.rest.Act = elementwise.Identity
	}
}

// activate applies the activation to a tile of results; see inTiles.
func (g *convolution) activate(tile []float32) {
	if g.Addend == nil && g.Act != elementwise.Identity {
		elementwise.Apply(g.p.Set, g.Act, tile, tile)
	}
}

// finish applies the epilogue to elements [at, at+n) of the result, which a task has written, unless late is set.
func (g *convolution) finish(at, n int) {
	if !g.late {
		g.rest.apply(g.p.Set, g.Out[at:at+n], at)
	}
}

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

// finishRows applies the epilogue to elements [m, m+n), counted over images, of output channels [o, o+rows), with
// channels first.
func (g *convolution) finishRows(m, n, o, rows int) {
	if g.late || !g.rest.any() {
		return
	}
	area := elementwise.Volume(g.out)
	for end := m + n; m < end; {
		n := min(area-m%area, end-m) // of one image
		at := (m/area*g.Cout+o)*area + m%area
		if n == area { // the channels are adjacent
			g.finish(at, rows*area)
		} else {
			for r := range rows {
				g.finish(at+r*area, n)
			}
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

// finishAll applies what rest has to the whole result.
func (g *convolution) finishAll() {
	if g.rest.any() {
		g.p.Share(g.N*g.Cout*elementwise.Volume(g.out), pool.Grain, (*convFinish)(g))
	}
}

type convFinish convolution

func (x *convFinish) Do(lo, hi, _ int) { x.rest.apply(x.p.Set, x.Out[lo:hi], lo) }
