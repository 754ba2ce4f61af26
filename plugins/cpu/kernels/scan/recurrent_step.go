package scan

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// active reports whether step t of a sequence counts.
func (x *recurrence) active(t, b int) bool {
	switch {
	case x.Lengths != nil:
		return int64(t) < x.Lengths[b]
	case x.Lengths32 != nil:
		return t < int(x.Lengths32[b])
	}
	return true
}

// place is a block of a panel at a step.
type place struct {
	d, m, j, t, rows int
	cols, width      int
	at               int       // in state
	h, next          []float32 // the packed states of the panel
	state, cell      []float32
	mem              blockMemory
	gate             [4][]float32 // the gates
	gemm             func(rows, k int, a, b, c []float32, ldc int, accumulate bool, bias, residual []float32, ldr int)
}

// step computes step number i of a block of a panel. A GRU whose reset gate scales the state takes two passes over all
// blocks.
func (x *recurrence) step(mem blockMemory, d, m, j, i int, second bool) {
	w := place{d: d, m: m, j: j, t: i, rows: x.rows(m), mem: mem}
	if x.Reverse || d == 1 {
		w.t = x.T - 1 - i
	}
	w.cols, w.width = x.block(j)
	on := product.On(x.p.Set)
	w.gemm = on.Gemm
	if w.width < x.nr {
		w.gemm = on.Narrow.Gemm
	}
	base := (d*x.B + m) * x.H
	w.h, w.next = x.h[i%2][base:], x.h[(i+1)%2][base:]
	w.at = (d*x.B+m)*x.wide + w.rows*j*x.nr
	size := w.rows * w.width
	w.state = x.state[w.at:][:size]
	for q := range x.gates {
		w.gate[q] = mem.gates[q*size:][:size]
	}
	switch {
	case x.Cell == LSTM:
		w.cell = x.cell[w.at:][:size]
		x.lstm(&w)
	case x.Cell == GRU && !second:
		x.gruReset(&w)
	case x.Cell == GRU:
		x.gruState(&w)
	case x.Cell == GRUResetAfter:
		x.gruAfter(&w)
	default:
		x.products(&w, 0, 1, w.h, true)
		act := elementwise.Tanh
		if x.Cell == RNNRelu {
			act = elementwise.Relu
		}
		elementwise.Apply(x.p.Set, act, w.gate[0], w.gate[0])
		x.store(&w, w.gate[0], nil)
	}
}

// dots is products for a single sequence.
func (x *recurrence) dots(w *place, from, count int, h []float32, with bool) {
	g, add := x.gates*x.H, elementwise.On(x.p.Set).Binary[elementwise.Add]
	for q, more := from, 1; q < from+count; q += more {
		if x.blocks == 1 { // the gates lie one after the other
			more = count
		}
		at := q*x.H + w.j*x.nr
		to := w.mem.gates[q*w.cols:][:more*w.cols]
		vec.On(x.p.Set).DotRows(to, 1, x.R[(w.d*g+at)*x.H:], x.H, len(to), h[:x.H])
		if x.Bias != nil {
			add(to, to, x.Bias[w.d*g+at:][:len(to)])
		}
		if with {
			add(to, to, x.X[(w.t*x.D+w.d)*g+at:][:len(to)])
		}
	}
}

// products sets gates [from, from+count) to h·r^T + bias, and adds x if with is set.
func (x *recurrence) products(w *place, from, count int, h []float32, with bool) {
	if x.single {
		x.dots(w, from, count, h, with)
		return
	}
	g := x.gates * x.H
	for q := from; q < from+count; q++ {
		var bias, add []float32
		ld := x.D * g
		if x.Bias != nil {
			bias = x.Bias[w.d*g+q*x.H+w.j*x.nr:]
		}
		if with {
			add = x.X[((w.t*x.B+w.m)*x.D+w.d)*g+q*x.H+w.j*x.nr:]
		}
		if w.cols < w.width { // the routines read whole vectors
			if bias != nil {
				copy(w.mem.bias, bias[:w.cols])
				clear(w.mem.bias[w.cols:w.width])
				bias = w.mem.bias
			}
			if add != nil {
				x.pad(w.mem.x, add, w, ld)
				add, ld = w.mem.x, w.width
			}
		}
		w.gemm(w.rows, x.H, h, x.weights(w.d, w.j, q), w.gate[q], w.width, false, bias, add, ld)
	}
}

// pad copies the rows of x of a block and fills them with 0.
func (x *recurrence) pad(dst, src []float32, w *place, ld int) {
	for i := range w.rows {
		row := dst[i*w.width:][:w.width]
		copy(row, src[i*ld:][:w.cols])
		clear(row[w.cols:])
	}
}

func (x *recurrence) lstm(w *place) {
	x.products(w, 0, 4, w.h, true)
	size := len(w.state)
	i, o, f, g := w.gate[0], w.gate[1], w.gate[2], w.gate[3]
	mul, add := elementwise.On(x.p.Set).Binary[elementwise.Mul], elementwise.On(x.p.Set).Binary[elementwise.Add]
	if x.P != nil {
		x.peep(w, i, 0, w.cell)
		x.peep(w, f, 2, w.cell)
		elementwise.Apply(x.p.Set, elementwise.Sigmoid, i, i)
		elementwise.Apply(x.p.Set, elementwise.Sigmoid, f, f)
	} else {
		all := w.mem.gates[:3*size]
		elementwise.Apply(x.p.Set, elementwise.Sigmoid, all, all)
	}
	elementwise.Apply(x.p.Set, elementwise.Tanh, g, g)
	mul(i, i, g)
	mul(f, f, w.cell)
	add(f, f, i) // the new cell
	if x.P != nil {
		x.peep(w, o, 1, f)
		elementwise.Apply(x.p.Set, elementwise.Sigmoid, o, o)
	}
	elementwise.Apply(x.p.Set, elementwise.Tanh, g, f)
	mul(o, o, g)
	x.store(w, o, f)
}

// peep adds the product of the cell with the weights of gate q.
func (x *recurrence) peep(w *place, gate []float32, q int, cell []float32) {
	p := x.P[(3*w.d+q)*x.H+w.j*x.nr:][:w.cols]
	for i := range w.rows {
		for k, v := range p {
			gate[i*w.width+k] += v * cell[i*w.width+k]
		}
	}
}

func (x *recurrence) gruAfter(w *place) {
	x.products(w, 0, 2, w.h, true)
	x.products(w, 2, 1, w.h, false)
	size, set := len(w.state), x.p.Set
	z, r, n := w.gate[0], w.gate[1], w.gate[2]
	both := w.mem.gates[:2*size]
	elementwise.Apply(set, elementwise.Sigmoid, both, both)
	x.pad(w.mem.x, x.X[((w.t*x.B+w.m)*x.D+w.d)*3*x.H+2*x.H+w.j*x.nr:], w, x.D*3*x.H)
	elementwise.On(set).Binary[elementwise.Mul](n, n, r)
	elementwise.On(set).Binary[elementwise.Add](n, n, w.mem.x[:size])
	x.gruStore(w, z, n)
}

// gruReset computes z and r*h.
func (x *recurrence) gruReset(w *place) {
	x.products(w, 0, 2, w.h, true)
	size := len(w.state)
	both := w.mem.gates[:2*size]
	elementwise.Apply(x.p.Set, elementwise.Sigmoid, both, both)
	copy(x.gate[w.at:], w.gate[0])
	r := w.gate[1]
	elementwise.On(x.p.Set).Binary[elementwise.Mul](r, r, w.state)
	x.pack(w, x.reset[(w.d*x.B+w.m)*x.H:], r)
}

// gruState computes the next state with the z and r*h of all units.
func (x *recurrence) gruState(w *place) {
	x.products(w, 2, 1, x.reset[(w.d*x.B+w.m)*x.H:], true)
	x.gruStore(w, x.gate[w.at:][:len(w.state)], w.gate[2])
}

// gruStore stores (1-z)*tanh(n) + z*h.
func (x *recurrence) gruStore(w *place, z, n []float32) {
	elementwise.Apply(x.p.Set, elementwise.Tanh, n, n)
	for k, v := range z {
		n[k] = (1-v)*n[k] + v*w.state[k]
	}
	x.store(w, n, nil)
}

// pack stores units of all rows where the next product reads them.
func (x *recurrence) pack(w *place, to, from []float32) {
	to = to[w.j*x.nr*w.rows:][:w.cols*w.rows]
	if w.rows == 1 {
		copy(to, from)
		return
	}
	product.PackRows(x.p.Set, w.mem.packed, from, w.width, w.rows, w.cols)
	copy(to, w.mem.packed)
}

// store stores the states after a step, and y.
func (x *recurrence) store(w *place, h, cell []float32) {
	for i := range w.rows {
		y := x.Y[((w.t*x.B+w.m+i)*x.D+w.d)*x.H+w.j*x.nr:][:w.cols]
		if !x.active(w.t, w.m+i) {
			clear(y)
			continue
		}
		row := h[i*w.width:][:w.width]
		copy(y, row)
		copy(w.state[i*w.width:], row)
		if cell != nil {
			copy(w.cell[i*w.width:][:w.width], cell[i*w.width:])
		}
	}
	x.pack(w, w.next, w.state)
}
