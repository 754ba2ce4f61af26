package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
)

// Split is a method divided into segments that run in turn, each a program for one backend. Most methods have one
// segment, for the backend that they were compiled for (Whole). If that backend lacks an op, other backends run
// segments in between. A value that one segment computes and another reads is an output of the first and an input of
// the second; the host passes it on.
type Split struct {
	Method   string
	Target   string // whom the method was compiled for; it keeps the states
	Segments []Segment
	Outputs  []Source // of the method's outputs, in their order
}

// Segment is a program that computes a part of a method. Its symbols are the method's.
type Segment struct {
	*Program
	Inputs []Source // of the inputs of Graph, in their order
	// Lacked counts the ops of the segment that Split.Target lacks, Moved those that it runs, and that run here so that
	// control changes fewer times. Both are sorted by op, and empty for segments of Split.Target.
	Lacked, Moved []OpCount
}

// Source is where a value comes from: output Index of a segment, or input Index of the method if Segment is FromInput.
type Source struct{ Segment, Index int }

// FromInput is the Segment of a Source that is an input of the method.
const FromInput = -1

// Whole is the split of a program that is not divided.
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

// Signature is what callers of a method see.
type Signature struct {
	Syms            ir.Syms
	Inputs, Outputs []ir.Type
}

// Check returns an error unless the segments compute a method of a signature: each is for this method and has its
// symbols, each of their inputs, and each output of the method, comes from an input of the method or an earlier segment
// and has its type, and only segments of Target keep states. The segments themselves must be valid.
func (s *Split) Check(sig Signature) error {
	if len(s.Segments) == 0 {
		return fmt.Errorf("there are no segments")
	}
	typeOf := func(from Source, before int) (ir.Type, error) {
		switch {
		case from.Segment == FromInput && from.Index >= 0 && from.Index < len(sig.Inputs):
			return sig.Inputs[from.Index], nil
		case from.Segment >= 0 && from.Segment < before && from.Index >= 0 && from.Index < len(s.Segments[from.Segment].Graph.Outputs):
			return s.Segments[from.Segment].Graph.Outputs[from.Index].Node.Type, nil
		}
		return ir.Type{}, fmt.Errorf("comes from value %d of segment %d; want an input of the method (segment %d) or an output of a segment before %d",
			from.Index, from.Segment, FromInput, before)
	}
	for k, x := range s.Segments {
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
			t, err := typeOf(from, k)
			if err == nil && !t.Equal(in[i].Type) {
				err = fmt.Errorf("is %v, and comes from a value of type %v", in[i].Type, t)
			}
			if err != nil {
				return fmt.Errorf("segment %d, input %.80q: %w", k, in[i].Name, err)
			}
		}
	}
	if len(s.Outputs) != len(sig.Outputs) {
		return fmt.Errorf("%d outputs; the method has %d", len(s.Outputs), len(sig.Outputs))
	}
	for i, from := range s.Outputs {
		t, err := typeOf(from, len(s.Segments))
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

// InPieces reports whether the method needs other backends than that of Target.
func (s *Split) InPieces() bool { return len(s.Segments) > 1 || s.Segments[0].Target != s.Target }

// Backends lists the targets of the segments, each once, Target first.
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

// Steps is the number of steps of all segments.
func (s *Split) Steps() (n int) {
	for _, x := range s.Segments {
		n += len(x.Steps)
	}
	return n
}

// Needed selects the outputs of each segment that the host reads in a run that wants some of the method's outputs (nil
// means all), and keeps some on their devices (nil means none): those that are wanted, and what later segments read. A
// segment that is nil need not run. One that updates a state always runs.
func (s *Split) Needed(wanted, kept []bool) [][]bool {
	need, computed := make([][]bool, len(s.Segments)), make([][]bool, len(s.Segments))
	for k, x := range s.Segments {
		need[k], computed[k] = make([]bool, len(x.Graph.Outputs)), make([]bool, len(x.Graph.Outputs))
	}
	for i, from := range s.Outputs {
		want := wanted == nil || wanted[i]
		need[from.Segment][from.Index] = want
		computed[from.Segment][from.Index] = want || kept != nil && kept[i]
	}
	for k, x := range slices.Backward(s.Segments) {
		if !slices.Contains(computed[k], true) && !x.Updates() {
			need[k] = nil
			continue
		}
		if k == 0 {
			break // nothing comes before it
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

// reads reports which inputs the steps read that compute some of the outputs.
func (p *Program) reads(outputs []bool) []bool {
	inputs := p.Graph.Inputs()
	read := make([]bool, len(inputs))
	steps := p.Needed(outputs, nil)
	for k, st := range p.Steps {
		if steps != nil && !steps[k] {
			continue
		}
		for _, x := range p.Graph.Nodes[st.Node].In {
			if i := slices.Index(inputs, x.Source()); i >= 0 {
				read[i] = true
			}
		}
	}
	return read
}

// Crossing is a value that one segment computes and another reads.
type Crossing struct {
	From Source
	To   int // segment
	Name string
	Type ir.Type
}

// Crossings lists the values that pass from segment to segment.
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

// CrossingBytes is the size of all crossings at the upper bounds of the symbols.
func (s *Split) CrossingBytes() (n int64) {
	for _, c := range s.Crossings() {
		n += s.Segments[c.To].Graph.Syms.MaxBytes(c.Type)
	}
	return n
}

// Lowering says what became of the ops of the model: Program.Lowering of all segments together, and which ops run
// elsewhere, as in "rewritten: softmax (4); on cpu: cumsum (2), with add (1)". It is empty if there is nothing to say.
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

// join adds up two lists of counts.
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

// listed is counts as text: "cumsum (2), softmax (1)".
func listed(list []OpCount) string {
	var ops []string
	for _, c := range list {
		ops = append(ops, fmt.Sprintf("%s (%d)", c.Op, c.Count))
	}
	return strings.Join(ops, ", ")
}
