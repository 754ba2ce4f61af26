package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
)

// Split is a method divided into segments that run in turn. Each segment is a program for one backend. Most methods
// have one segment, for the backend that they were compiled for; see Whole. If that backend lacks an op, other backends
// run segments in between. A value that one segment computes and another reads is an output of the first and an input
// of the second; the host copies it.
type Split struct {
	Method   string
	Target   string // target that the method was compiled for; its backend keeps the states
	Segments []Segment
	Outputs  []Source // where each output of the method comes from
}

// Segment is a program that computes a part of a method. It has the symbols of the method.
type Segment struct {
	*Program
	Inputs []Source // where each input of Graph comes from
	// Lacked counts the ops of the segment that Split.Target lacks. Moved counts the ops that Split.Target has, but
	// that run here to save changes between backends. Both are sorted by op, and empty for segments of Split.Target.
	Lacked, Moved []OpCount
}

// Source says where a value comes from: output Index of a segment, or input Index of the method if Segment is
// FromInput.
type Source struct{ Segment, Index int }

// FromInput is the Segment of a Source that is an input of the method.
const FromInput = -1

// Whole returns a Split with p as its only segment.
func Whole(p *Program) *Split {
	s := &Split{Method: p.Method, Target: p.Target, Segments: []Segment{{Program: p}}}
	for i := range p.Graph.Inputs() {
		s.Segments[0].Inputs = append(s.Segments[0].Inputs, Source{FromInput, i})
	}
	for i := range p.Graph.Outputs {
		s.Outputs = append(s.Outputs, Source{0, i})
	}
	return s
}

// Signature describes a method for its callers.
type Signature struct {
	Syms            ir.Syms
	Inputs, Outputs []ir.Type
}

// Check returns an error unless the segments compute a method with the signature sig. All segments must be of this
// method and have its symbols. Each input of a segment must come from an input of the method or from an earlier
// segment, each output of the method from a segment, and the types must match. Only segments of Target may keep states.
// Check assumes that the segments themselves are valid.
func (s *Split) Check(sig Signature) error {
	if len(s.Segments) == 0 {
		return fmt.Errorf("there are no segments")
	}
	for k := range s.Segments {
		if err := s.checkSegment(k, sig); err != nil {
			return err
		}
	}
	if len(s.Outputs) != len(sig.Outputs) {
		return fmt.Errorf("%d outputs; the method has %d", len(s.Outputs), len(sig.Outputs))
	}
	for i, from := range s.Outputs {
		t, err := s.typeOf(from, len(s.Segments), sig)
		if err == nil && from.Segment == FromInput {
			err = fmt.Errorf("is an input of the method; want an output of a segment")
		}
		if err == nil && !t.Equal(sig.Outputs[i]) {
			err = fmt.Errorf("is %v, and comes from a value of type %v", sig.Outputs[i], t)
		}
		if err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}

// checkSegment checks that segment k belongs to the method, and that its inputs have the right sources.
func (s *Split) checkSegment(k int, sig Signature) error {
	x := s.Segments[k]
	in := x.Graph.Inputs()
	switch {
	case x.Method != s.Method:
		return fmt.Errorf("segment %d is one of method %.80q; want %.80q", k, x.Method, s.Method)
	case !slices.Equal(x.Graph.Syms, sig.Syms):
		return fmt.Errorf("segment %d has the symbols %v; the method has %v", k, x.Graph.Syms, sig.Syms)
	case len(x.Inputs) != len(in):
		return fmt.Errorf("segment %d has %d inputs, and sources of %d", k, len(in), len(x.Inputs))
	case x.StateSize > 0 && x.Target != s.Target:
		return fmt.Errorf("segment %d keeps a state and is for %.80q; states stay with %.80q", k, x.Target, s.Target)
	}
	for i, from := range x.Inputs {
		t, err := s.typeOf(from, k, sig)
		if err == nil && !t.Equal(in[i].Type) {
			err = fmt.Errorf("is %v, and comes from a value of type %v", in[i].Type, t)
		}
		if err != nil {
			return fmt.Errorf("segment %d, input %.80q: %w", k, in[i].Name, err)
		}
	}
	return nil
}

// typeOf returns the type of a value that a segment before the given one makes, or the caller of the method.
func (s *Split) typeOf(from Source, before int, sig Signature) (ir.Type, error) {
	if from.Segment == FromInput && from.Index >= 0 && from.Index < len(sig.Inputs) {
		return sig.Inputs[from.Index], nil
	}
	if from.Segment >= 0 && from.Segment < before {
		if outs := s.Segments[from.Segment].Graph.Outputs; from.Index >= 0 && from.Index < len(outs) {
			return outs[from.Index].Node.Type, nil
		}
	}
	return ir.Type{},
		fmt.Errorf(
			"comes from value %d of segment %d; want an input of the method (segment %d) or an output of a segment before %d",
			from.Index, from.Segment, FromInput, before)
}

// InPieces reports whether the method needs a backend other than that of Target, or more than one segment.
func (s *Split) InPieces() bool { return len(s.Segments) > 1 || s.Segments[0].Target != s.Target }

// Backends returns the distinct targets of the segments, with Target first.
func (s *Split) Backends() []string {
	out := []string{s.Target}
	for _, x := range s.Segments {
		if !slices.Contains(out, x.Target) {
			out = append(out, x.Target)
		}
	}
	return out
}

// Stateful reports whether the method keeps a state.
func (s *Split) Stateful() bool {
	return slices.ContainsFunc(s.Segments, func(x Segment) bool { return x.StateSize > 0 })
}

// Steps returns the number of steps of all segments.
func (s *Split) Steps() (n int) {
	for _, x := range s.Segments {
		n += len(x.Steps)
	}
	return n
}

// Needed returns which outputs of each segment the host must read in a run. wanted selects the outputs of the method
// that the caller reads; nil means all. kept selects those that stay on their devices; nil means none. A segment must
// also supply what later segments read. If the entry of a segment is nil, the segment need not run. A segment that
// updates a state always runs.
func (s *Split) Needed(wanted, kept []bool) [][]bool {
	need, computed := make([][]bool, len(s.Segments)), make([][]bool, len(s.Segments))
	for k, x := range s.Segments {
		need[k], computed[k] = make([]bool, len(x.Graph.Outputs)), make([]bool, len(x.Graph.Outputs))
	}
	for i, from := range s.Outputs {
		need[from.Segment][from.Index] = need[from.Segment][from.Index] || wanted == nil || wanted[i]
		computed[from.Segment][from.Index] = computed[from.Segment][from.Index] || need[from.Segment][from.Index] ||
			kept != nil && kept[i]
	}
	for k, x := range slices.Backward(s.Segments) {
		if !slices.Contains(computed[k], true) && !x.Updates() {
			need[k] = nil
			continue
		}
		if k == 0 {
			break // no segment comes before it
		}
		read := x.reads(computed[k])
		for i, from := range x.Inputs {
			if from.Segment != FromInput && read[i] {
				need[from.Segment][from.Index], computed[from.Segment][from.Index] = true, true
			}
		}
	}
	return need
}

// reads reports for each input whether a run that computes the given outputs reads it.
func (p *Program) reads(outputs []bool) []bool {
	inputs := p.Graph.Inputs()
	read := make([]bool, len(inputs))
	steps := p.Needed(outputs, nil)
	for k, st := range p.Steps {
		if steps != nil && !steps[k] {
			continue
		}
		for _, x := range p.Graph.Nodes[st.Node].Operands() {
			if i := slices.Index(inputs, x.Source()); i >= 0 {
				read[i] = true
			}
		}
	}
	return read
}

// Crossing is a value that one segment computes and another one reads.
type Crossing struct {
	From Source
	To   int // segment
	Name string
	Type ir.Type
}

// Crossings returns the values that pass between segments.
func (s *Split) Crossings() (out []Crossing) {
	for k, x := range s.Segments {
		for i, from := range x.Inputs {
			if from.Segment != FromInput {
				n := x.Graph.Inputs()[i]
				out = append(out, Crossing{from, k, n.Name, n.Type})
			}
		}
	}
	return out
}

// CrossingBytes returns the size of all crossings, with the symbols at their upper bounds.
func (s *Split) CrossingBytes() (n int64) {
	for _, c := range s.Crossings() {
		n += s.Segments[c.To].Graph.Syms.MaxBytes(c.Type)
	}
	return n
}

// Lowering returns Program.Lowering of all segments together and the ops that run elsewhere as text, such as
// "rewritten: softmax (4); on cpu: cumsum (2), with add (1)". It is empty if nothing was rewritten or moved.
func (s *Split) Lowering() string {
	var all Program
	var parts []string
	elsewhere := map[string]*Segment{}
	var names []string
	for _, x := range s.Segments {
		all.Rewritten, all.Reference = join(all.Rewritten, x.Rewritten), join(all.Reference, x.Reference)
		if len(x.Lacked)+len(x.Moved) == 0 {
			continue
		}
		e := elsewhere[x.Target]
		if e == nil {
			e = &Segment{}
			elsewhere[x.Target], names = e, append(names, x.Target)
		}
		e.Lacked, e.Moved = join(e.Lacked, x.Lacked), join(e.Moved, x.Moved)
	}
	if text := all.Lowering(); text != "" {
		parts = append(parts, text)
	}
	for _, name := range names {
		e := elsewhere[name]
		text := "on " + name + ": " + listed(e.Lacked)
		if len(e.Moved) > 0 {
			text += ", with " + listed(e.Moved)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// join returns the sums of two lists of counts, by op.
func join(a, b []OpCount) []OpCount {
	out := slices.Clone(a)
	for _, c := range b {
		i, ok := slices.BinarySearchFunc(out, c.Op, func(c OpCount, op string) int { return strings.Compare(c.Op, op) })
		if !ok {
			out = slices.Insert(out, i, OpCount{Op: c.Op})
		}
		out[i].Count += c.Count
	}
	return out
}

// listed returns counts as text, such as "cumsum (2), softmax (1)".
func listed(list []OpCount) string {
	var ops []string
	for _, c := range list {
		ops = append(ops, fmt.Sprintf("%s (%d)", c.Op, c.Count))
	}
	return strings.Join(ops, ", ")
}
