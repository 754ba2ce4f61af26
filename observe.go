package rlx

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/ctxio"
)

// A watcher receives the values of the steps of one run, for Request.Observe and Request.Check.
type watcher struct {
	ctx     context.Context // of the run
	s       *Session
	l       *loaded
	x       *piece
	r       Request
	bound   *program.Bound
	options device.RunOptions
	chosen  map[int]bool          // nodes whose values Observe gets
	stepOf  map[int]int           // step of each node
	values  map[int]*tensor.Array // for Check: results so far, by node
	uses    map[int]int           // number of steps that still read them
}

// watch returns the watcher of a run of segment x. in has the inputs of the segment, except that those in fed are on
// the device.
func (s *Session) watch(ctx context.Context, l *loaded, x *piece, r Request, sizes map[string]int64, in []Tensor,
	fed map[int]*Resident) (*watcher, error) {
	w := &watcher{ctx: ctx, s: s, l: l, x: x, r: r}
	w.options = device.RunOptions{Profile: r.Profile, CheckNaN: r.CheckNaN}
	if r.Observe == nil && !r.Check {
		return w, nil
	}
	if r.Check && s.precision != device.DefaultPrecision {
		return nil,
			usage("Request.Check", "cannot be combined with precision %s: it compares with the tolerances of %s",
				s.precision, device.DefaultPrecision).Naming("Request.Check")
	}
	if err := s.memory.Fits("values of steps", l.schedule.observeMemory(r.Check)); err != nil {
		return nil, about(s.model.path, err)
	}
	var err error
	if w.bound, err = x.binder.Bind(sizes); err != nil {
		return nil, badSizes(l.method.Name, err)
	}
	w.chosen, w.stepOf = map[int]bool{}, map[int]int{}
	for i, s := range w.bound.Steps {
		for _, n := range s.Node.Values() {
			w.stepOf[n.ID] = i
			w.chosen[n.ID] = r.Observe != nil && (r.Select == nil || r.Select(stepValue(x.first+i, n)))
			if r.Check || w.chosen[n.ID] {
				w.options.Dump = append(w.options.Dump, n.ID)
			}
		}
	}
	if r.Check {
		w.values, w.uses = map[int]*tensor.Array{}, map[int]int{}
		for _, s := range w.bound.Steps {
			for _, x := range s.Node.Operands() {
				src := x.Source()
				w.uses[src.ID]++
			}
		}
		for i, n := range x.prog.Graph.Inputs() {
			t := in[i]
			if f := fed[i]; f != nil {
				if t, err = f.Read(ctx); err != nil {
					return nil, err
				}
			}
			w.values[n.ID] = t.core().Array()
		}
		states, err := s.stateValues(ctx, x.prog, r.State)
		if err != nil {
			return nil, err
		}
		maps.Copy(w.values, states)
	}
	w.options.Observe = w.observe
	return w, nil
}

// observeMemory estimates the peak memory for step values in a run with Observe or Check, at the upper bounds of its
// sizes. A value in transit takes twice its size, because it arrives in chunks. Values to compare are held as 64-bit
// numbers, beside those of the reference. We assume that garbage is as large as the operands and results of a step.
func (s *Schedule) observeMemory(check bool) (peak int64) {
	for _, x := range s.split.Segments {
		peak = max(peak, observeMemory(x.Program, check))
	}
	return peak
}

func observeMemory(p *program.Program, check bool) (peak int64) {
	bytes := func(n *ir.Node) int64 { return p.Graph.Syms.MaxBytes(n.Type) }
	wide := func(n *ir.Node) int64 { return bytes(n) / int64(n.Type.DType.Size()) * 8 }
	live, uses := int64(0), map[int]int{}
	if check {
		for _, n := range p.Graph.Inputs() {
			live += wide(n)
		}
		for _, s := range p.Steps {
			for _, x := range p.Graph.Nodes[s.Node].Operands() {
				src := x.Source()
				uses[src.ID]++
			}
		}
	}
	for _, s := range p.Steps {
		node := p.Graph.Nodes[s.Node]
		var now int64
		for _, n := range node.Values() {
			now = max(now, 2*bytes(n)+wide(n)) // a command that writes bf16 to a file widens it
		}
		if check {
			_, own := node.EvalMemory()
			now += own
			for _, n := range node.Values() {
				live += wide(n)
				now += 2 * wide(n)
			}
			for _, x := range node.Operands() {
				src := x.Source()
				now += wide(x)
				if src.Op.Name == "param" {
					now += bytes(x) + wide(x)
				}
			}
		}
		peak = max(peak, live+now)
		if check {
			for _, x := range node.Operands() {
				src := x.Source()
				if uses[src.ID]--; uses[src.ID] == 0 && src.Op.Name != "param" {
					live -= wide(src)
				}
			}
		}
	}
	return peak
}

// observe receives the value of a node as the backend stored it.
func (w *watcher) observe(node int, shape []int, data []byte) error {
	n := w.x.prog.Graph.Nodes[node]
	t := Tensor{DType: DType(n.Type.DType), Shape: slices.Clone(shape), Data: data}
	if w.chosen[node] {
		if err := w.r.Observe(stepValue(w.x.first+w.stepOf[node], n), t); err != nil {
			return err
		}
	}
	if w.values == nil {
		return nil
	}
	w.values[node] = t.core().Array()
	s := w.bound.Steps[w.stepOf[node]]
	for _, o := range s.Outs {
		if w.values[o.Node] == nil { // the step has another result that has not arrived
			return nil
		}
	}
	return w.compare(s)
}

// compare evaluates the op of a step on the operands that the backend had, and compares the results.
func (w *watcher) compare(s program.BoundStep) error {
	in := make([]*tensor.Array, len(s.In))
	for i, o := range s.Operands() {
		var err error
		if in[i], err = w.value(o); err != nil {
			return err
		}
	}
	var want []*tensor.Array
	err := ctxio.Run(w.ctx, "check", func() (err error) {
		want, err = interp.EvalWith(s.Node, s.Syms, in, w.weight)
		return err
	})
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	if err != nil {
		return diag.New(code.Check, w.at(s.Node.ID), "the reference refuses its operands: %w", err)
	}
	for i, tol := range s.Node.Op.Tol(s.Node.Attrs, staticTypes(s.In), staticTypes(s.Outs)...) {
		node := s.Outs[i].Node
		if err := interp.Compare(w.values[node], want[i], tol); err != nil {
			return diag.New(code.Check, w.at(node), "%w", err)
		}
		if w.uses[node] == 0 {
			delete(w.values, node)
		}
	}
	for _, x := range s.Node.Operands() {
		src := x.Source()
		if w.uses[src.ID]--; w.uses[src.ID] == 0 {
			delete(w.values, src.ID)
		}
	}
	return nil
}

// sourceOf returns the node of whose value n is a view, and the offset of n in it in bytes.
func sourceOf(n *ir.Node) (src *ir.Node, offset int64) {
	for {
		off, view := n.View()
		if !view {
			return n, offset
		}
		offset, n = offset+off, n.In[0]
	}
}

// value returns an operand: a weight, a result, an input, or a view of one of these.
func (w *watcher) value(o program.Operand) (*tensor.Array, error) {
	src, off := sourceOf(w.x.prog.Graph.Nodes[o.Node])
	if src.Op.Name == "param" {
		b, err := w.s.weight(o.Offset, o.Bytes)
		if err != nil {
			return nil, err
		}
		return tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: b}.Array(), nil
	}
	v, ok := w.values[src.ID]
	if !ok {
		panic("BUG: Check has no value of " + src.Label())
	}
	first, n := int(off)/o.DType.Size(), tensor.Numel(o.Shape)
	a := &tensor.Array{DType: o.DType, Shape: o.Shape}
	if v.Floats != nil {
		a.Floats = v.Floats[first : first+n]
	} else {
		a.Ints = v.Ints[first : first+n]
	}
	return a, nil
}

// weight returns a weight that the program, or the graph of a loop, reads.
func (w *watcher) weight(name string) (*tensor.Array, error) {
	n, ok := w.x.prog.Graph.Find(name)
	if !ok {
		return nil, diag.New(diag.Internal, name, "the program has no such weight")
	}
	pl := w.x.prog.Places[n.ID]
	b, err := w.s.weight(pl.Offset, pl.Size)
	if err != nil {
		return nil, err
	}
	return tensor.Tensor{DType: n.Type.DType, Shape: n.Type.Shape.Eval(nil), Data: b}.Array(), nil
}

// at names a node in messages: "encode step 12 (softmax %31)".
func (w *watcher) at(node int) string {
	n := w.x.prog.Graph.Nodes[node]
	by, _ := n.Maker()
	for i, s := range w.x.prog.Steps {
		if s.Node == by.ID {
			return fmt.Sprintf("%s step %d of %d (%s %s)", w.x.prog.Method, w.x.first+i+1, w.l.schedule.split.Steps(),
				by.OpName(), n.Label())
		}
	}
	return n.Label()
}

// verdict checks the statistics that the run reported.
func (w *watcher) verdict(st device.Stats) error {
	if !w.options.CheckNaN || st.FirstNaN < 0 {
		return nil
	}
	if st.FirstNaN >= len(w.x.prog.Graph.Nodes) {
		return diag.New(device.ErrLost, "backend "+w.x.backend.Name(), "reported a NaN in node %d of %d", st.FirstNaN,
			len(w.x.prog.Graph.Nodes))
	}
	return diag.New(device.ErrNaN, w.at(st.FirstNaN), "its result holds a NaN")
}

// staticTypes returns the types of operands for the bound values of the symbols.
func staticTypes(list []program.Operand) []ir.Type {
	types := make([]ir.Type, len(list))
	for i, o := range list {
		types[i].DType = o.DType
		for _, d := range o.Shape {
			types[i].Shape = append(types[i].Shape, ir.Static(int64(d)))
		}
	}
	return types
}

// traffic returns a lower bound of the bytes that one step reads and writes.
func traffic(s program.BoundStep) int64 {
	var n int64
	for _, list := range [][]program.Operand{s.In, s.Outs} {
		for _, o := range list {
			n += o.Bytes
		}
	}
	return n
}
