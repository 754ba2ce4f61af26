package scan

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// Cell is the kind of a recurrent layer.
type Cell int

// The kinds.
const (
	LSTM Cell = iota
	GRU
	GRUResetAfter
	RNNTanh
	RNNRelu
)

// Gates returns the number of gates.
func (c Cell) Gates() int { return [...]int{4, 3, 3, 1, 1}[c] }

// Recurrent are the operands and results of op.RecurrentDef.
type Recurrent struct {
	Cell              Cell
	T, B, D, H        int
	Reverse           bool // the only direction goes backwards
	X, R              []float32
	Bias, State, C, P []float32 // nil if they are not given
	Lengths           []int64   // of B sequences, or nil
	Lengths32         []int32   // the same as int32
	Y, LastH, LastC   []float32

	Kept *RecurrentKept // not nil if all calls with it have the same R
}

// RecurrentKept holds the packed weights of a layer.
type RecurrentKept struct{ packed []float32 }

// RecurrentKeptSize returns the bytes that Kept takes; only the sizes and the cell of a are read.
func RecurrentKeptSize(p *pool.Pool, a Recurrent) int64 {
	x := recurrence{p: p, Recurrent: a}
	if x.layout(); x.single {
		return 0
	}
	return pool.FloatBytes(x.packedSize())
}

// A block is a group of units, at most as many as a panel of the matrix product has columns. A panel of batch rows and
// a block are computed at a time: the products with the weights of all gates, and then the gates, while the products
// are in the first-level cache. The weights are packed once, so that those of a block lie in the order in which all
// steps read them. A single sequence needs dot products with rows of the weights, which are read as they are stored.
//
// The sequences do not depend on each other, so a worker goes through all steps with its share of them. If there are
// too few sequences, or the weights do not fit the second-level cache of one core, the workers share the blocks of each
// step instead, and each reads only its own part of the weights.

const (
	ownWeights = 1 << 18 // the largest number of weights of a direction that each worker reads
	sharedStep = 1 << 17 // the least number of multiplications of a step whose blocks are shared
	// The least number of multiplications of all steps that are worth panels for all workers. With fewer, the calls of
	// routines for more panels take longer than the products.
	ownSteps = 1 << 18
)

// recurrence is a call of RunRecurrent.
type recurrence struct {
	p *pool.Pool
	Recurrent
	gates, nr  int
	high       int // batch rows of a panel; the last one may have fewer
	panels     int
	blocks     int
	wide       int // units, rounded up to whole vectors
	shared     bool
	single     bool // one sequence: the weights are not packed, and blocks have no padding
	t          int  // of a shared step
	second     bool
	packed     []float32    // [D][blocks][gates][H][width]
	h          [2][]float32 // states before even and odd steps: [D][panels][H][rows]
	reset      []float32    // r*h of a GRU, as h
	state      []float32    // h as [D][panels][blocks][rows][width]
	cell, gate []float32    // c of an LSTM, z of a GRU, as state
}

// layout sets what depends on the sizes.
func (x *recurrence) layout() {
	on := product.On(x.p.Set)
	x.gates, x.nr = x.Cell.Gates(), on.NR
	x.blocks, x.wide = pool.CeilDiv(x.H, x.nr), pool.CeilDiv(x.H, x.p.Set.Lanes)*x.p.Set.Lanes
	threads := x.p.Threads()
	weights, work := x.gates*x.H*x.H, x.gates*x.H*x.H*x.B*x.D
	x.shared = threads > 1 && x.blocks > 1 && work >= sharedStep && (weights > ownWeights || x.B*x.D < threads)
	x.high = on.MR
	if !x.shared && work*x.T >= ownSteps { // panels for all workers
		x.high = min(x.high, max(1, x.B*x.D/threads))
	}
	x.high = max(1, min(x.high, x.B))
	x.panels = pool.CeilDiv(x.B, x.high)
	x.single = x.B == 1
	if x.single {
		x.nr, x.wide = x.H, x.H
		if x.shared {
			x.nr = pool.CeilDiv(pool.CeilDiv(x.H, threads), x.p.Set.Lanes) * x.p.Set.Lanes
		}
		x.blocks = pool.CeilDiv(x.H, x.nr)
	}
}

// allocate takes the memory that all workers share.
func (x *recurrence) allocate(sc *pool.Scratch) {
	if !x.single && x.Kept == nil {
		x.packed = sc.Floats(x.packedSize())
	}
	rows := x.D * x.B
	x.h[0], x.h[1] = sc.Floats(rows*x.H+product.Spill), sc.Floats(rows*x.H+product.Spill)
	x.state = sc.Floats(rows * x.wide)
	switch x.Cell {
	case LSTM:
		x.cell = sc.Floats(rows * x.wide)
	case GRU:
		x.gate, x.reset = sc.Floats(rows*x.wide), sc.Floats(rows*x.H+product.Spill)
	}
}

// packedSize returns the number of floats of the packed weights.
func (x *recurrence) packedSize() int { return x.D*x.gates*x.wide*x.H + product.Spill }

// packWeights packs the weights, unless an earlier call did.
func (x *recurrence) packWeights() {
	if x.single {
		return
	}
	if x.Kept != nil {
		if x.packed = x.Kept.packed; x.packed != nil {
			return
		}
		x.packed = make([]float32, x.packedSize())
		x.Kept.packed = x.packed
	}
	pool.Split(x.p, x.D*x.blocks*x.gates, 1+pool.Grain/(x.nr*x.H), recurrentPacking{x})
}

// blockMemory is the memory of a worker.
type blockMemory struct{ gates, x, bias, packed []float32 }

func (x *recurrence) memory(sc *pool.Scratch) blockMemory {
	size := x.high * x.nr
	return blockMemory{gates: sc.Floats(x.gates * size), x: sc.Floats(x.gates * size), bias: sc.Floats(x.gates * x.nr),
		packed: sc.Floats(size + product.Spill)}
}

// RecurrentScratch returns what RunRecurrent needs; only the sizes and the cell of a are read.
func RecurrentScratch(p *pool.Pool, a Recurrent) pool.Size {
	x := recurrence{p: p, Recurrent: a}
	x.layout()
	x.high = max(x.high, min(product.On(p.Set).MR, x.B)) // of fewer steps; see ownSteps
	shared, worker := pool.NewCounter(), pool.NewCounter()
	x.allocate(&shared)
	x.memory(&worker)
	return pool.Size{Shared: shared.Counted(), Worker: worker.Counted()}
}

// RunRecurrent computes op.RecurrentDef.
func RunRecurrent(p *pool.Pool, a *Recurrent) {
	a.check()
	if a.B == 0 {
		return
	}
	x := pool.Keep[recurrence](p)
	*x = recurrence{p: p, Recurrent: *a}
	x.layout()
	p.Shared.Reset()
	x.allocate(&p.Shared)
	x.packWeights()
	if !x.shared {
		p.Each(x.D*x.panels, 1, x)
		return
	}
	x.each(func(d, m int) { x.begin(d, m) })
	items := x.D * x.panels * x.blocks
	size := pool.CeilDiv(items, p.Threads())
	for x.t = range x.T {
		x.second = false
		p.Each(items, size, x)
		if x.Cell == GRU {
			x.second = true
			p.Each(items, size, x)
		}
	}
	x.each(func(d, m int) { x.end(d, m) })
}

func (a *Recurrent) check() {
	rows, wide := a.T*a.B*a.D, a.Cell.Gates()*a.H
	optional := func(s []float32, n int) bool { return s != nil && len(s) < n }
	if a.H < 1 || len(a.X) < rows*wide || len(a.R) < a.D*wide*a.H || len(a.Y) < rows*a.H ||
		len(a.LastH) < a.D*a.B*a.H ||
		a.Cell == LSTM && len(a.LastC) < a.D*a.B*a.H || optional(a.Bias, a.D*wide) || optional(a.State, a.D*a.B*a.H) ||
		optional(a.C, a.D*a.B*a.H) || optional(a.P, 3*a.D*a.H) || a.Lengths != nil && len(a.Lengths) < a.B ||
		a.Lengths32 != nil && len(a.Lengths32) < a.B {
		panic("BUG: RunRecurrent: a slice is short, or there are no units")
	}
}

// each calls f for the first row of each panel of each direction.
func (x *recurrence) each(f func(d, m int)) {
	for d := range x.D {
		for m := 0; m < x.B; m += x.high {
			f(d, m)
		}
	}
}

// recurrentPacking packs the weights of gates of blocks.
type recurrentPacking struct{ *recurrence }

func (a *recurrentPacking) Do(lo, hi, _ int) {
	x := a.recurrence
	for i := lo; i < hi; i++ {
		d, j, q := i/(x.blocks*x.gates), i/x.gates%x.blocks, i%x.gates
		cols, width := x.block(j)
		rows := stored.F32(x.R[((d*x.gates+q)*x.H+j*x.nr)*x.H:])
		product.PackColsTrans(x.p.Set, width, x.weights(d, j, q), rows, x.H, cols, x.H, nil)
	}
}

// block returns how many units a block has, and how many columns.
func (x *recurrence) block(j int) (cols, width int) {
	cols = min(x.nr, x.H-j*x.nr)
	if x.single {
		return cols, cols
	}
	if cols <= x.p.Set.Lanes {
		return cols, x.p.Set.Lanes
	}
	return cols, x.nr
}

// weights returns the packed weights of a gate from a block on.
func (x *recurrence) weights(d, j, q int) []float32 {
	_, width := x.block(j)
	return x.packed[((d*x.wide+j*x.nr)*x.gates+q*width)*x.H:]
}

// rows returns the number of rows of the panel from row m on.
func (x *recurrence) rows(m int) int { return min(x.high, x.B-m) }

// Do runs all steps of panels or, if the steps are shared, one step of blocks of panels.
func (x *recurrence) Do(lo, hi, worker int) {
	mem := x.memory(x.p.Scratch(worker))
	for i := lo; i < hi; i++ {
		if x.shared {
			block := i / x.panels // a worker has few blocks and so few weights
			x.step(mem, block/x.blocks, i%x.panels*x.high, block%x.blocks, x.t, x.second)
			continue
		}
		d, m := i/x.panels, i%x.panels*x.high
		x.begin(d, m)
		for t := range x.T {
			for j := range x.blocks {
				x.step(mem, d, m, j, t, false)
			}
			for j := 0; j < x.blocks && x.Cell == GRU; j++ {
				x.step(mem, d, m, j, t, true)
			}
		}
		x.end(d, m)
	}
}

// begin sets the states of a panel before the first step.
func (x *recurrence) begin(d, m int) {
	rows := x.rows(m)
	fill := func(to, first []float32) {
		clear(to[:rows*x.wide])
		for j := 0; j < x.blocks && first != nil; j++ {
			cols, width := x.block(j)
			for i := range rows {
				copy(to[rows*j*x.nr+i*width:][:cols], first[(d*x.B+m+i)*x.H+j*x.nr:])
			}
		}
	}
	at := (d*x.B + m) * x.wide
	fill(x.state[at:], x.State)
	if x.Cell == LSTM {
		fill(x.cell[at:], x.C)
	}
	h := x.h[0][(d*x.B+m)*x.H:][:rows*x.H]
	clear(h)
	for i := 0; i < rows && x.State != nil; i++ {
		for k, v := range x.State[(d*x.B+m+i)*x.H:][:x.H] {
			h[k*rows+i] = v
		}
	}
}

// end stores the last states of a panel.
func (x *recurrence) end(d, m int) {
	rows := x.rows(m)
	for j := range x.blocks {
		cols, width := x.block(j)
		at := (d*x.B+m)*x.wide + rows*j*x.nr
		for i := range rows {
			to := (d*x.B+m+i)*x.H + j*x.nr
			copy(x.LastH[to:][:cols], x.state[at+i*width:])
			if x.Cell == LSTM {
				copy(x.LastC[to:][:cols], x.cell[at+i*width:])
			}
		}
	}
}
