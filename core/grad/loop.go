package grad

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// The gradient of a loop is a loop that goes the other way. Its body has the nodes of the loop's body and those of
// their gradients. It carries the gradients of the carried values, the sums of the gradients of the values that do not
// change, and the gradients of the slices. The values of these after all iterations are the result. It reads the
// carried values from before each iteration. A copy of the first loop gives these; the pass loops merges the two loops.
//
// If these values take more than loopBytes, only those before every m-th iteration are kept, where m is the square root
// of the number of iterations. The backward pass then runs m iterations again at a time (Griewank 1992, with one
// level). This costs one forward pass, and the gradients have the same bits.
//
// A loop with a condition is unrolled. So is a short loop that would be unrolled anyway (op.UnrollNodes).

// loopBytes is the memory for carried values up to which those of all iterations are kept.
const loopBytes = 1 << 20

// loop adds the gradients of a loop's operands. It reports false if the loop is to be unrolled.
func (d *differentiator) loop(n *ir.Node, dy []*ir.Node) bool {
	a := n.Attrs.(op.LoopAttrs)
	if a.Nodes() <= op.UnrollNodes {
		return false
	}
	if why := d.unrolls(n); why != "" {
		if a.Nodes() > op.MaxUnrolled {
			d.g.Fail(d.refuse(n, fmt.Sprintf("%s, so its gradient needs the loop unrolled, which gives %d nodes; at most "+
				"%d can be unrolled", why, a.Nodes(), op.MaxUnrolled)))
		}
		return false
	}
	l := loopBack{a: a, count: len(n.In), live: make([]bool, len(n.In))}
	like := d.copyOf(n)
	operands := like.In
	if a.Guarded {
		l.count--
		operands, l.guard = operands[:l.count], operands[l.count:]
	}
	for k := range l.count {
		l.live[k] = d.depends[n.In[k]]
	}
	l.spread()
	l.rows = make([]bool, a.Carried)
	state, rows := l.start(d.g, operands, dy)
	if len(state) == 0 {
		return true
	}
	if err := l.build(); err != nil {
		d.g.Fail(err)
	}
	var slices []*ir.Node
	if most := l.bytes(d.g.Syms); a.Length >= 16 && most > loopBytes/int64(a.Length) {
		state, slices = l.segments(d.g, operands, rows, state)
	} else {
		state, slices = l.reverse(d.g, a.Length, operands, rows, l.guard, state)
	}
	for k := range l.count - a.Steps {
		if l.live[k] {
			d.add(n.In[k], narrow(state[0], n.In[k].Type.DType), n)
			state = state[1:]
		}
	}
	for k := l.count - a.Steps; k < l.count; k++ {
		if l.live[k] {
			d.add(n.In[k], slices[0], n)
			slices = slices[1:]
		}
	}
	return true
}

// unrolls says why a loop has no gradient that is a loop, or nothing.
func (d *differentiator) unrolls(n *ir.Node) string {
	if n.Attrs.(op.LoopAttrs).Cond != nil {
		return "ends by a condition"
	}
	if w := d.weightOf(n); w != "" {
		return "reads the weight " + w + " in its body, not as an operand"
	}
	return ""
}

// weightOf returns the name of a weight that n's bodies read and whose gradient is wanted, or nothing.
func (d *differentiator) weightOf(n *ir.Node) string {
	for _, b := range n.Programs() {
		for _, p := range b.AllParams() {
			if x, ok := d.g.Find(p.Name); ok && d.depends[x] {
				return p.Name
			}
		}
	}
	return ""
}

// loopBack makes the gradient of a loop.
type loopBack struct {
	a     op.LoopAttrs
	count int        // number of the body's inputs
	guard []*ir.Node // one element, or empty
	live  []bool     // by input of the body: it depends on a value whose gradient is wanted
	rows  []bool     // by carried value: all its values have a gradient, not only the last one
	// By input of the body: the gradient needs its value. Values that do not change are taken to be needed.
	used []bool
	back *ir.Graph // body of the loop that goes the other way
}

// spread sets live for the carried values that depend on live inputs.
func (l *loopBack) spread() {
	for again := true; again; {
		again = false
		d := differentiator{g: l.a.Body, depends: map[*ir.Node]bool{}}
		for k, x := range l.a.Body.Inputs() {
			if l.live[k] {
				d.depends[x] = true
			}
		}
		d.mark(0, len(d.g.Nodes))
		for k, o := range l.a.Body.Outputs {
			if d.depends[o.Node] && !l.live[k] {
				l.live[k], again = true, true
			}
		}
	}
}

// start returns the values that the backward loop carries at first, one for each live input of the body that is not a
// slice: the gradient of a carried value after the last iteration, and 0 for the sum of a value that does not change.
// It returns nothing if the results do not depend on a live input. rows has the gradients of the carried values of all
// iterations.
func (l *loopBack) start(g *ir.Graph, operands, dy []*ir.Node) (state, rows []*ir.Node) {
	last, all := make([]*ir.Node, l.a.Carried), make([]*ir.Node, l.a.Carried)
	reached := false
	for i, k := range l.a.Results {
		if k < l.a.Carried {
			last[k] = dy[i]
		} else {
			all[k-l.a.Carried] = dy[i]
		}
		reached = reached || dy[i] != nil && l.live[k%l.a.Carried]
	}
	if !reached {
		return nil, nil
	}
	for k, x := range operands[:l.count-l.a.Steps] {
		switch {
		case !l.live[k]:
		case k >= l.a.Carried:
			state = append(state, op.Const(g, 0, wide(x.Type)))
		case last[k] == nil:
			state = append(state, op.Const(g, 0, x.Type))
		default:
			state = append(state, last[k])
		}
		if k < l.a.Carried && l.live[k] && all[k] != nil {
			l.rows[k], rows = true, append(rows, all[k])
		}
	}
	return state, rows
}

// wide returns the type in which gradients of many iterations are added.
func wide(t ir.Type) ir.Type {
	if t.DType == dtype.F16 || t.DType == dtype.BF16 {
		t.DType = dtype.F32
	}
	return t
}

func widened(x *ir.Node) *ir.Node { return narrow(x, wide(x.Type).DType) }

func narrow(x *ir.Node, d dtype.DType) *ir.Node {
	if x.Type.DType == d {
		return x
	}
	return op.Cast(x, d)
}

// build sets back and used.
func (l *loopBack) build() error {
	l.used = make([]bool, l.count)
	for k := range l.used {
		l.used[k] = true
	}
	g, args, err := l.body()
	if err != nil {
		return err
	}
	read := make([]bool, len(g.Nodes))
	for _, o := range g.Outputs {
		read[o.Node.ID] = true
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		if read[i] {
			for _, x := range g.Nodes[i].Operands() {
				read[x.ID] = true
			}
		}
	}
	for k, x := range args {
		l.used[k] = read[x.ID] || x.Type.DType.IsPacked() || k >= l.a.Carried && k < l.count-l.a.Steps
	}
	if g, _, err = l.body(); err == nil {
		l.back, err = g.Rebuild(nil)
	}
	if err == nil {
		l.back.NameByText(l.a.Body.Name + ".gradient")
	}
	return err
}

// body returns the body of the backward loop, and its node for each input of the loop's body. Its inputs are the
// gradients, the values that do not change, and the slices: carried values from before the iteration, slices, and
// gradients of the carried values after the iteration.
func (l *loopBack) body() (g *ir.Graph, args []*ir.Node, err error) {
	inputs, a := l.a.Body.Inputs(), l.a
	g = ir.NewGraph("", a.Body.Syms...)
	args = make([]*ir.Node, l.count)
	err = g.Build(func() {
		input := func(what string, k int, t ir.Type) *ir.Node { return op.Input(g, fmt.Sprint(what, k), t) }
		state := make([]*ir.Node, l.count) // of slices, it is not read
		for k, x := range inputs {
			t := x.Type
			if fixed := k >= a.Carried && k < l.count-a.Steps; fixed {
				t = wide(t)
			}
			if l.live[k] {
				state[k] = input("d", k, t)
			}
		}
		for _, carried := range []bool{false, true} {
			for k, x := range inputs[:l.count-a.Steps] {
				if carried == (k < a.Carried) && l.used[k] {
					args[k] = input("x", k, x.Type)
				}
			}
		}
		for k := l.count - a.Steps; k < l.count; k++ {
			if l.used[k] {
				args[k] = input("x", k, inputs[k].Type)
			}
		}
		seeds := slices.Clone(state[:a.Carried])
		for k, rows := range l.rows {
			if rows {
				seeds[k] = op.Add(seeds[k], input("row", k, inputs[k].Type))
			}
		}
		for k, x := range args {
			if x == nil {
				args[k] = op.Const(g, 0, inputs[k].Type)
			}
		}
		l.pull(g, args, state, seeds)
	})
	return g, args, err
}

// pull adds the nodes of the loop's body to g, those of their gradients, and the outputs. seeds has the gradients of
// the body's outputs, state those that the backward loop carries.
func (l *loopBack) pull(g *ir.Graph, args, state, seeds []*ir.Node) {
	out := g.Inline(l.a.Body, args, "")
	d := differentiator{g: g, depends: map[*ir.Node]bool{}, gradient: map[*ir.Node]*ir.Node{},
		reader: map[*ir.Node]*ir.Node{}}
	for k, x := range args {
		if l.live[k] {
			d.depends[x] = true
		}
	}
	last := len(g.Nodes)
	d.mark(0, last)
	for k, x := range seeds {
		d.add(out[k], x, nil)
	}
	d.back(0, last)
	for k, x := range args {
		if !l.live[k] {
			continue
		}
		y := d.gradient[x]
		switch fixed := k >= l.a.Carried && k < l.count-l.a.Steps; {
		case y == nil && fixed:
			y = state[k]
		case y == nil:
			y = op.Const(g, 0, x.Type)
		case fixed:
			y = op.Add(state[k], widened(y))
		}
		g.Return(fmt.Sprint("d", k), y)
	}
}

// bytes returns the size of the carried values of an iteration that are kept.
func (l *loopBack) bytes(syms ir.Syms) (sum int64) {
	for k, x := range l.a.Body.Inputs()[:l.a.Carried] {
		if size := syms.MaxBytes(x.Type); l.used[k] {
			sum += min(size, math.MaxInt64-sum)
		}
	}
	return sum
}

// reverse adds the backward loop of a number of iterations to g, which is the graph of the loop or a body. It returns
// the values that the backward loop carries in the end, and the gradients of the live slices. operands, state and rows
// are as in start.
func (l *loopBack) reverse(g *ir.Graph, length int, operands, rows, guard, state []*ir.Node) (end, dx []*ir.Node) {
	a := l.a
	a.Length, a.Results = length, nil
	for k := range a.Carried {
		if l.used[k] {
			a.Results = append(a.Results, a.Carried+k)
		}
	}
	var values []*ir.Node
	if length > 1 && len(a.Results) > 0 {
		values = op.Loop(a, slices.Concat(operands, guard)...)
	}
	var steps []*ir.Node
	for i, k := range a.Results {
		x := op.Reshape(operands[k-a.Carried], rowsOf(operands[k-a.Carried].Type, 1))
		if length > 1 {
			x = op.Concat(0, x, op.Narrow(values[i], 0, 0, length-1))
		}
		steps = append(steps, x)
	}
	for k, x := range operands[l.count-a.Steps:] {
		if l.used[l.count-a.Steps+k] {
			steps = append(steps, x)
		}
	}
	return l.backward(g, l.back, length, append(steps, rows...), operands[a.Carried:l.count-a.Steps], guard, state,
		func(k int) ir.Type { return l.a.Body.Inputs()[k].Type })
}

// backward adds a loop with the given body that goes from the last of the slices to the first. sliceType returns the
// type of the gradient of a slice.
func (l *loopBack) backward(g, body *ir.Graph, length int, steps, fixed, guard, state []*ir.Node,
	sliceType func(k int) ir.Type) (end, dx []*ir.Node) {
	first := slices.Clone(state)
	for k := l.count - l.a.Steps; k < l.count; k++ {
		if l.live[k] {
			first = append(first, op.Const(g, 0, sliceType(k)))
		}
	}
	a := op.LoopAttrs{Body: body, Carried: len(first), Steps: len(steps), Length: length, Guarded: len(guard) > 0}
	for k := range first {
		if k >= len(state) {
			k += a.Carried
		}
		a.Results = append(a.Results, k)
	}
	in := slices.Concat(first, fixed)
	for _, x := range steps {
		in = append(in, op.Flip(x, 0))
	}
	out := op.Loop(a, append(in, guard...)...)
	for _, x := range out[len(state):] {
		dx = append(dx, op.Flip(x, 0))
	}
	return out[:len(state)], dx
}

// rowsOf returns the shape of n values of a type.
func rowsOf(t ir.Type, n int) ir.Shape { return append(ir.ShapeOf(int64(n)), t.Shape...) }

// segments is reverse for all iterations, m at a time, with the carried values of every m-th iteration.
func (l *loopBack) segments(g *ir.Graph, operands, rows, state []*ir.Node) (end, dx []*ir.Node) {
	a := l.a
	m := int(math.Sqrt(float64(a.Length)))
	count, steps := a.Length/m, operands[l.count-a.Steps:]
	fixed := operands[a.Carried : l.count-a.Steps]
	forward := l.segment(m, fixed, steps)
	cut := func(all []*ir.Node) (parts, rest []*ir.Node) {
		for _, x := range all {
			row := ir.Type{DType: x.Type.DType, Shape: append(ir.ShapeOf(int64(m)), x.Type.Shape[1:]...)}
			parts = append(parts, op.Reshape(op.Narrow(x, 0, 0, count*m), rowsOf(row, count)))
			if count*m < a.Length {
				rest = append(rest, op.Narrow(x, 0, count*m, a.Length-count*m))
			}
		}
		return parts, rest
	}
	stepParts, stepRest := cut(steps)
	rowParts, rowRest := cut(rows)
	fa := op.LoopAttrs{Body: forward, Carried: a.Carried, Steps: a.Steps, Length: count, Guarded: a.Guarded}
	for k := range 2 * a.Carried {
		fa.Results = append(fa.Results, k)
	}
	values := op.Loop(fa, slices.Concat(operands[:a.Carried], fixed, stepParts, l.guard)...)
	var restX []*ir.Node
	if rest := a.Length - count*m; rest > 0 {
		state, restX = l.reverse(g, rest, slices.Concat(values[:a.Carried], fixed, stepRest), rowRest, l.guard, state)
	}
	var parts []*ir.Node
	for k, x := range operands[:a.Carried] {
		parts = append(parts, op.Concat(0, op.Reshape(x, rowsOf(x.Type, 1)),
			op.Narrow(values[a.Carried+k], 0, 0, count-1)))
	}
	parts = slices.Concat(parts, stepParts, rowParts)
	partOf := func(k int) ir.Type {
		t := l.a.Body.Inputs()[k].Type
		return ir.Type{DType: t.DType, Shape: rowsOf(t, m)}
	}
	state, dx = l.backward(g, l.segmentBack(g, m, parts, fixed, state, partOf), count, parts, fixed, l.guard, state,
		partOf)
	for k, x := range dx {
		shape := x.Type.Shape
		dx[k] = op.Reshape(x, append(ir.ShapeOf(int64(count*m)), shape[2:]...))
		if restX != nil {
			dx[k] = op.Concat(0, dx[k], restX[k])
		}
	}
	return state, dx
}

// segment returns a graph that runs m iterations: the body of a loop over segments.
func (l *loopBack) segment(m int, fixed, steps []*ir.Node) *ir.Graph {
	a := l.a
	inputs := a.Body.Inputs()
	g := ir.NewGraph("", a.Body.Syms...)
	a.Length, a.Guarded, a.Results = m, false, nil
	for k := range a.Carried {
		a.Results = append(a.Results, k)
	}
	if err := g.Build(func() {
		var in []*ir.Node
		for k, x := range inputs {
			t := x.Type
			if k >= a.Carried+len(fixed) {
				t.Shape = rowsOf(t, m)
			}
			in = append(in, op.Input(g, fmt.Sprint("x", k), t))
		}
		for k, y := range op.Loop(a, in...) {
			g.Return(fmt.Sprint("y", k), y)
		}
	}); err != nil {
		panic("BUG: grad: " + err.Error())
	}
	g.NameByText(a.Body.Name + ".segment")
	return g
}

// segmentBack returns a graph that runs m iterations backwards. parts are the slices of the loop over segments.
func (l *loopBack) segmentBack(of *ir.Graph, m int, parts, fixed, state []*ir.Node,
	partOf func(k int) ir.Type) *ir.Graph {
	a := l.a
	g := ir.NewGraph("", of.Syms...)
	if err := g.Build(func() {
		input := func(what string, k int, t ir.Type) *ir.Node { return op.Input(g, fmt.Sprint(what, k), t) }
		var before, same, in []*ir.Node
		for k, x := range state {
			before = append(before, input("d", k, x.Type))
		}
		for k := l.count - a.Steps; k < l.count; k++ {
			if l.live[k] {
				input("last", k, partOf(k))
			}
		}
		for k, x := range fixed {
			same = append(same, input("same", k, x.Type))
		}
		for k, x := range parts {
			in = append(in, input("x", k, ir.Type{DType: x.Type.DType, Shape: x.Type.Shape[1:]}))
		}
		operands := slices.Concat(in[:a.Carried], same, in[a.Carried:a.Carried+a.Steps])
		end, dx := l.reverse(g, m, operands, in[a.Carried+a.Steps:], nil, before)
		for k, x := range slices.Concat(end, dx) {
			g.Return(fmt.Sprint("y", k), x)
		}
	}); err != nil {
		panic("BUG: grad: " + err.Error())
	}
	g.NameByText(a.Body.Name + ".gradient.segment")
	return g
}
