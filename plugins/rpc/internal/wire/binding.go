package wire

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/program"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// Binding holds the locations of a program's inputs and outputs for given symbol values. Host and backend compute it
// independently, and the backend compares the results. So neither relies on an offset or size from the other.
type Binding struct {
	In, Out         []program.Operand // inputs and outputs with their shapes
	Inputs, Outputs []*rlxv1.Range    // the bytes that they take in the IO space
	Aliased         []bool            // for each output, whether it shares bytes with another output or an input
}

// Binder computes the bindings of one program. It caches those for recent symbol values.
type Binder struct {
	Program *program.Program
	b       *program.Binder // created by the first run
	recent  program.Recent[*Binding]
}

// Bind evaluates the places of inputs and outputs for syms. It returns an error if one is outside the program's IO
// space.
func (x *Binder) Bind(syms map[string]int64) (*Binding, error) {
	if b, ok := x.recent.Get(syms); ok {
		return b, nil
	}
	if x.b == nil {
		x.b = program.NewBinder(x.Program)
	}
	if err := x.b.Check(syms); err != nil {
		return nil, err
	}
	b := &Binding{}
	b.In, b.Out = x.b.IO(syms)
	ranges := func(kind string, ops []program.Operand) (out []*rlxv1.Range, err error) {
		for i, o := range ops {
			if o.Space != program.IO || !InRange(o.Offset, o.Bytes, x.Program.IOSize) {
				return nil, fmt.Errorf("%s %d takes %d bytes at %d of %v; the io space has %d", kind, i, o.Bytes,
					o.Offset, o.Space, x.Program.IOSize)
			}
			out = append(out, &rlxv1.Range{Offset: o.Offset, Size: o.Bytes})
		}
		return out, nil
	}
	var err error
	if b.Inputs, err = ranges("input", b.In); err != nil {
		return nil, err
	}
	if b.Outputs, err = ranges("output", b.Out); err != nil {
		return nil, err
	}
	b.Aliased = aliased(b.Inputs, b.Outputs)
	x.recent.Put(syms, b)
	return b, nil
}

// aliased reports for each output whether it overlaps another output or an input.
func aliased(inputs, outputs []*rlxv1.Range) []bool {
	all := slices.Concat(outputs, inputs)
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(all[a].Offset, all[b].Offset) })
	out, furthest, end := make([]bool, len(all)), -1, int64(0)
	for _, i := range order {
		if all[i].Offset < end {
			out[i], out[furthest] = true, true
		}
		if e := all[i].Offset + all[i].Size; e > end {
			furthest, end = i, e
		}
	}
	return out[:len(outputs)]
}

// SameRanges reports whether the ranges that the other process sent equal the ranges computed here.
func SameRanges(got, want []*rlxv1.Range) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if got[i].GetOffset() != want[i].Offset || got[i].GetSize() != want[i].Size {
			return false
		}
	}
	return true
}

// Cut returns the slices of data at the ranges. Their capacity equals their length.
func Cut(data []byte, ranges []*rlxv1.Range) [][]byte {
	out := make([][]byte, len(ranges))
	for i, r := range ranges {
		out[i] = data[r.Offset : r.Offset+r.Size : r.Offset+r.Size]
	}
	return out
}
