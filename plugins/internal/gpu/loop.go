package gpu

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// loop is a step that runs programs of its own. Each iteration has the same commands. The device counts the iterations,
// and uses their number to find the data of an iteration, such as a slice of an operand. When the condition is false,
// the device makes the loop inactive. Iterations that the host has submitted in advance still compute, but carried
// values, the rows of results and errors stay as they are. So the host need not wait for a condition.
type loop struct {
	step       int      // of the program that has the loop
	node       *ir.Node // of that step
	attrs      op.LoopAttrs
	cond, body *executable // cond is nil if the loop has no condition
	control    int         // slot of the loop's control, see kernels.LoopError
	slots      kernels.LoopSlots
	ends       bool // it may end early

	own                       []*dispatch // all of those below
	start, slices, rows, copy []*dispatch // before the first, before and after each, after the last iteration
	carry                     []*dispatch // after each
	next, last                *dispatch   // see kernels.LoopNext; nil if no shader needs the number of the iteration
	zeroed                    []memory    // results with a row for each iteration, if there may be fewer iterations

	runs uint32 // in the current run, as far as they are recorded
}

// memory is a range of memory that is bound to a binding of a loop's shader.
type memory struct {
	at    func() (s *space, offset int64) // offset is a multiple of program.Align; the offset of a state is known late
	bytes int64
}

// base returns the executable whose arena, weights and status slots x uses.
func (x *executable) base() *executable {
	if x.root != nil {
		return x.root
	}
	return x
}

// all returns x and the executables of its loops and of loops in them.
func (x *executable) all() []*executable {
	list := []*executable{x}
	for _, l := range x.loops {
		for _, y := range l.programs() {
			list = append(list, y.all()...)
		}
	}
	return list
}

// each returns the dispatches of the program, but not of the programs of its loops, in the order of their parameters.
func (x *executable) each() (list []*dispatch) {
	for i := range x.dispatches {
		list = append(list, &x.dispatches[i])
	}
	for _, l := range x.loops {
		list = append(list, l.own...)
	}
	return list
}

// loopOf returns the loop of a step, or nil.
func (x *executable) loopOf(step int) *loop {
	for _, l := range x.loops {
		if l.step == step {
			return l
		}
	}
	return nil
}

// programs returns the executables of cond, if the loop has a condition, and body.
func (l *loop) programs() []*executable {
	if l.cond == nil {
		return []*executable{l.body}
	}
	return []*executable{l.cond, l.body}
}

// addLoop adds the loop of a step. planLoops plans its programs.
func (x *executable) addLoop(step int, p *program.Loop) {
	n := x.program.Graph.Nodes[p.Node]
	l := &loop{step: step, node: n, attrs: n.Attrs.(op.LoopAttrs), control: x.slot()}
	of := func(q *program.Program) *executable {
		at := x.arenaAt + p.Offset
		return &executable{gpu: x.gpu, program: q, root: x.base(), control: l.control, ioAt: at,
			arenaAt: at + p.IOSize()}
	}
	l.body = of(p.Body)
	if p.Cond != nil {
		l.cond = of(p.Cond)
	}
	l.ends = l.cond != nil || l.attrs.Guarded || x.root != nil
	x.loops = append(x.loops, l)
}

// planLoops plans the programs of loops. The status slots of a loop's programs are consecutive.
func (x *executable) planLoops() error {
	for _, l := range x.loops {
		first := x.base().statuses
		for _, y := range l.programs() {
			before := x.base().statuses
			if err := y.planSteps(); err != nil {
				return err
			}
			if n := x.base().statuses - before; y == l.cond {
				l.slots.Cond = n
			} else {
				l.slots.Body = n
			}
		}
		l.slots.First = first
		for _, y := range l.programs() {
			if err := y.planLoops(); err != nil {
				return err
			}
		}
		if err := l.plan(x); err != nil {
			return err
		}
	}
	return nil
}

// plan makes the loop's own dispatches. x has the loop's step.
func (l *loop) plan(x *executable) error {
	a, n, inputs := l.attrs, l.node, l.body.program.Graph.Inputs()
	in := n.In
	control := x.statusAt(l.control, 1)
	bound, written := []memory{control}, false
	if x.root != nil {
		bound = append(bound, x.statusAt(x.control, 1))
	}
	guard := int64(0)
	if a.Guarded {
		m, at := x.memoryOf(in[len(in)-1])
		bound, guard, in = append(bound, m), at, in[:len(in)-1]
	}
	for _, v := range append(append([]*ir.Node(nil), n.In...), n.Values()...) {
		if pl := x.program.Places[v.ID]; pl.Size > math.MaxUint32-2*program.Align {
			return diag.New(device.ErrUnsupported, n.OpName(), "step %d, %s: %s has %s; operands and results of loops "+
				"have at most 4 GB on %s", l.step+1, n.Label(), v.Label(), megabytes(pl.Size), x.gpu.api.Name())
		}
	}
	l.start = []*dispatch{l.add(x, kernels.LoopStart(x.root != nil, a.Guarded, int(guard)), bound...)}
	fixed := len(in) - a.Steps
	copied := func(from, to *executable, x0, y0 *ir.Node, c kernels.LoopCopy) *dispatch {
		source, dest := memory{}, memory{}
		source, c.From = from.memoryOf(x0)
		dest, c.To = to.memoryOf(y0)
		return l.add(x, c.Shader(), dest, source, control)
	}
	for k := range fixed {
		l.start = append(l.start, copied(x, l.body, in[k], inputs[k], kernels.LoopCopy{
			Rows: func(c *kernels.Call) (int, int, int) { return int(c.In[k].Bytes), 0, 0 }}))
	}
	for k := fixed; k < len(in); k++ {
		l.slices = append(l.slices, copied(x, l.body, in[k], inputs[k], kernels.LoopCopy{Active: true,
			Rows: func(c *kernels.Call) (int, int, int) {
				row := int(c.In[k].Bytes) / a.Length
				return row, row, 0
			}}))
	}
	outputs := l.body.program.Graph.Outputs
	for i, k := range a.Results {
		result := n.Values()[i]
		if k < a.Carried {
			l.copy = append(l.copy, copied(l.body, x, inputs[k], result, kernels.LoopCopy{
				Rows: func(c *kernels.Call) (int, int, int) { return int(c.Outs[i].Bytes), 0, 0 }}))
			continue
		}
		written = true
		l.rows = append(l.rows, copied(l.body, x, outputs[k-a.Carried].Node, result, kernels.LoopCopy{Active: true,
			Rows: func(c *kernels.Call) (int, int, int) {
				row := int(c.Outs[i].Bytes) / a.Length
				return row, 0, row
			}}))
		if m, _ := x.memoryOf(result); l.ends {
			l.zeroed = append(l.zeroed, m)
		}
	}
	l.planCarry(x, control)
	if l.cond != nil || l.slots.Body > 0 || a.Steps > 0 || written {
		l.planNext(x, control)
	}
	return nil
}

// planCarry makes the dispatches that copy results of the body to its inputs.
func (l *loop) planCarry(x *executable, control memory) {
	places, inputs := l.body.program.Places, l.body.program.Graph.Inputs()
	all := memory{func() (*space, int64) { return x.base().arena, l.body.ioAt }, l.body.program.IOSize}
	for first := 0; first < l.attrs.Carried; first += kernels.MaxLoopCarried {
		end := min(first+kernels.MaxLoopCarried, l.attrs.Carried)
		var from, to []int64
		for k := first; k < end; k++ {
			from = append(from, places[l.body.program.Graph.Outputs[k].Node.ID].Offset)
			to = append(to, places[inputs[k].ID].Offset)
		}
		l.carry = append(l.carry, l.add(x, kernels.LoopCarry(from, to, func(c *kernels.Call) (list []int) {
			for _, o := range c.In[first:end] {
				list = append(list, int(o.Bytes))
			}
			return list
		}), all, control))
	}
}

// planNext makes the dispatches that count iterations.
func (l *loop) planNext(x *executable, control memory) {
	make := func(last bool) *dispatch {
		bound := []memory{control}
		if n := l.slots.Cond + l.slots.Body; n > 0 {
			bound = append(bound, x.statusAt(l.slots.First, n))
		}
		if l.cond != nil {
			m, _ := l.cond.memoryOf(l.cond.program.Graph.Outputs[0].Node)
			bound = append(bound, m)
		}
		return l.add(x, kernels.LoopNext(l.slots, l.cond != nil, last), bound...)
	}
	l.next, l.last = make(false), make(true)
}

// add adds a dispatch of the loop's own.
func (l *loop) add(x *executable, s kernels.Shader, bound ...memory) *dispatch {
	d := &dispatch{step: l.step, node: l.node, shader: s, group: -1, status: -1, memory: bound}
	for _, v := range l.node.Operands() {
		d.stateful = d.stateful || x.program.Places[v.ID].Space == program.State
	}
	x.reserve(d)
	l.own = append(l.own, d)
	return d
}

// statusAt returns the memory of status slots.
func (x *executable) statusAt(slot, n int) memory {
	root := x.base()
	return memory{func() (*space, int64) { return root.status, int64(slot) * program.Align }, int64(n) * program.Align}
}

// memoryOf returns the memory of a value, with the bytes before it up to a multiple of program.Align, and their number.
func (x *executable) memoryOf(n *ir.Node) (m memory, before int64) {
	pl := x.program.Places[n.ID]
	before = pl.Offset & (program.Align - 1)
	return memory{func() (*space, int64) {
		s, offset := x.locate(pl)
		return s, offset - before
	}, pl.Size + before}, before
}

// refused returns the error of the first step whose shader has reported a bad value, or nil.
func (x *executable) refused(statuses []byte) error {
	first, slot := len(x.program.Steps), -1
	consider := func(step, k int) {
		if word(statuses, k, kernels.LoopError) != 0 && step < first {
			first, slot = step, k
		}
	}
	for _, d := range x.dispatches {
		if d.status >= 0 && d.x > 0 {
			consider(d.step, d.status)
		}
	}
	for _, l := range x.loops {
		consider(l.step, l.control)
	}
	if slot < 0 {
		return nil
	}
	return x.refusedBy(slot, statuses)
}

// refusedBy returns the error that a slot stands for, or nil if the slot is not one of the program's.
func (x *executable) refusedBy(slot int, statuses []byte) error {
	for _, l := range x.loops {
		if l.control != slot {
			continue
		}
		by := int(word(statuses, slot, kernels.LoopError)) - 1
		for _, y := range l.programs() {
			if err := y.refusedBy(by, statuses); err != nil {
				return device.StepError(device.ErrInput, l.node,
					fmt.Errorf("iteration %d: %w", word(statuses, slot, kernels.LoopIteration), err))
			}
		}
	}
	for _, d := range x.dispatches {
		if d.status == slot {
			return refusal(d.node)
		}
	}
	return nil
}
