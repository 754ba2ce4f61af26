package values

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

// Given has the values that a run gets from outside.
type Given struct {
	Sizes  map[string]int64
	Inputs []tensor.Tensor          // in the order of the method's inputs
	States map[string]tensor.Tensor // contents before the run, by name
}

// A Follower receives the values of the steps of one run, in order. It calls a function for each step, and keeps the
// values that the steps to come read.
type Follower struct {
	plan  *Plan
	given Given
	bound []*program.Bound
	kept  map[key]tensor.Tensor
	uses  map[key]int // steps that still read a value
	keep  func(PlanStep) bool
	step  func(*Step) error

	now     *Step // that some results have arrived of
	missing int   // results of it that have not
}

// A Step is a step of a run, with the values that it has computed.
type Step struct {
	program.BoundStep
	Index, Segment int
	Results        []tensor.Tensor // valid until the function of the Follower returns

	f *Follower
}

// Follow returns a Follower for a run. It calls step for each step. Operands can be read in the steps that keep
// selects; a nil keep selects no steps.
func (p *Plan) Follow(g Given, keep func(PlanStep) bool, step func(*Step) error) (*Follower, error) {
	f := &Follower{plan: p, given: g, kept: map[key]tensor.Tensor{}, uses: map[key]int{}, keep: keep, step: step}
	for k, x := range p.Split.Segments {
		b, err := x.Bind(g.Sizes)
		if err != nil {
			return nil, err
		}
		f.bound = append(f.bound, b)
		for _, s := range b.Steps {
			if keep != nil && keep(PlanStep{k, s.Node}) {
				for _, id := range f.reads(k, s.Node) {
					f.uses[id]++
				}
			}
		}
	}
	return f, nil
}

// reads returns the results of steps that a node reads.
func (f *Follower) reads(segment int, n *ir.Node) (list []key) {
	for _, x := range n.Operands() {
		seg, src, _ := f.plan.origin(segment, x)
		if !src.Op.Effects {
			list = append(list, key{seg, src.ID})
		}
	}
	return list
}

// Observe receives a result of step i, called name. Its bytes may change after Observe returns.
func (f *Follower) Observe(i int, name string, t tensor.Tensor) error {
	if f.now == nil || f.now.Index != i {
		f.now = f.begin(i)
		f.missing = len(f.now.Outs)
	}
	values := f.now.Node.Values()
	k := slices.IndexFunc(values, func(n *ir.Node) bool { return n.Label() == name })
	if k < 0 || f.now.Results[k].Data != nil {
		return fmt.Errorf("step %d has no result %q, or it came before", i+1, name)
	}
	if f.missing--; f.missing > 0 {
		t.Data = slices.Clone(t.Data)
	}
	if t.Data == nil {
		t.Data = []byte{}
	}
	f.now.Results[k] = t
	if f.missing > 0 {
		return nil
	}
	return f.end()
}

// begin returns step i, without results.
func (f *Follower) begin(i int) *Step {
	first, at := 0, f.plan.Steps[i]
	for _, b := range f.bound[:at.Segment] {
		first += len(b.Steps)
	}
	s := f.bound[at.Segment].Steps[i-first]
	return &Step{s, i, at.Segment, make([]tensor.Tensor, len(s.Outs)), f}
}

// end finishes the current step: it calls the function, keeps the results that are read later, and drops operands that
// no later step reads.
func (f *Follower) end() error {
	s := f.now
	f.now = nil
	if f.step != nil {
		if err := f.step(s); err != nil {
			return err
		}
	}
	for k, n := range s.Node.Values() {
		if id := (key{s.Segment, n.ID}); f.uses[id] > 0 {
			t := s.Results[k]
			t.Data = append(tensor.AlignedBytes(len(t.Data))[:0], t.Data...)
			f.kept[id] = t
		}
	}
	if f.keep != nil && f.keep(PlanStep{s.Segment, s.Node}) {
		for _, id := range f.reads(s.Segment, s.Node) {
			if f.uses[id]--; f.uses[id] == 0 {
				delete(f.kept, id)
			}
		}
	}
	return nil
}

// Operand returns operand k of a step as the step read it.
func (s *Step) Operand(k int) (tensor.Tensor, error) {
	o := s.In[k]
	seg, src, off := s.f.plan.origin(s.Segment, s.Node.In[k])
	var from tensor.Tensor
	var err error
	switch {
	case src.Op.Name == "param":
		from, err = s.f.plan.Param(seg, src)
	case src.Op.Name == "input":
		from = s.f.given.Inputs[s.f.plan.source(seg, src).Index]
	case src.Op == ir.StateDef:
		from = s.f.given.States[src.Name]
	default:
		from = s.f.kept[key{seg, src.ID}]
	}
	if err != nil {
		return tensor.Tensor{}, err
	}
	if off+o.Bytes > int64(len(from.Data)) {
		return tensor.Tensor{}, fmt.Errorf("the value of %s is not known", src.Label())
	}
	return tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: aligned(from.Data[off : off+o.Bytes])}, nil
}

// aligned returns b, or a copy of it if its memory is not aligned for every element type.
func aligned(b []byte) []byte {
	if tensor.Aligned(b, 8) {
		return b
	}
	return append(tensor.AlignedBytes(len(b))[:0], b...)
}

// Operands returns all operands in the form of the reference; nil for absent ones.
func (s *Step) Operands() ([]*tensor.Array, error) {
	in := make([]*tensor.Array, len(s.In))
	for k := range s.BoundStep.Operands() {
		t, err := s.Operand(k)
		if err != nil {
			return nil, err
		}
		in[k] = t.Array()
	}
	return in, nil
}

// Label names the step in messages, by its result k.
func (s *Step) Label(k int) string { return s.f.plan.Label(s.Index, s.Node.Values()[k]) }

// Memory returns an upper bound of the memory in bytes that a Follower needs for kept values, at given sizes.
func (p *Plan) Memory(sizes map[string]int64, keep func(PlanStep) bool) (peak int64) {
	f := &Follower{plan: p}
	last := map[key]int{}
	for i, s := range p.Steps {
		if keep(s) {
			for _, id := range f.reads(s.Segment, s.Node) {
				last[id] = i
			}
		}
	}
	live, dies := int64(0), map[int]int64{}
	for i, s := range p.Steps {
		for _, n := range s.Node.Values() {
			if end, ok := last[key{s.Segment, n.ID}]; ok {
				bytes := n.Type.Bytes(sizes)
				live, dies[end] = live+bytes, dies[end]+bytes
			}
		}
		peak = max(peak, live)
		live -= dies[i]
	}
	return peak
}
