package rpc

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/program"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// binding holds the locations of a program's inputs and outputs for given symbol values. Host and backend compute it independently,
// and the backend compares the results. So neither relies on an offset or size from the other.
type binding struct {
	in, out         []program.Operand
	inputs, outputs []*rlxv1.Range
	aliased         []bool // for each output, whether it shares bytes with another output or an input
}

// binder computes the bindings of one program. It caches those for recent symbol values.
type binder struct {
	p      *program.Program
	b      *program.Binder // created by the first run
	recent program.Recent[*binding]
}

// bind evaluates the places of inputs and outputs for syms. It returns an error if one is outside the program's IO space.
func (x *binder) bind(syms map[string]int64) (*binding, error) {
	if b, ok := x.recent.Get(syms); ok {
		return b, nil
	}
	if x.b == nil {
		x.b = program.NewBinder(x.p)
	}
	if err := x.b.Check(syms); err != nil {
		return nil, err
	}
	b := &binding{}
	b.in, b.out = x.b.IO(syms)
	ranges := func(kind string, ops []program.Operand) (out []*rlxv1.Range, err error) {
		for i, o := range ops {
			if o.Space != program.IO || !inRange(o.Offset, o.Bytes, x.p.IOSize) {
				return nil, fmt.Errorf("%s %d takes %d bytes at %d of %v; the io space has %d", kind, i, o.Bytes, o.Offset, o.Space, x.p.IOSize)
			}
			out = append(out, &rlxv1.Range{Offset: o.Offset, Size: o.Bytes})
		}
		return out, nil
	}
	var err error
	if b.inputs, err = ranges("input", b.in); err != nil {
		return nil, err
	}
	if b.outputs, err = ranges("output", b.out); err != nil {
		return nil, err
	}
	b.aliased = aliased(b.inputs, b.outputs)
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

// sameRanges reports whether the ranges that the other process sent equal the ranges computed here.
func sameRanges(got, want []*rlxv1.Range) bool {
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

// cut returns the slices of data at the ranges. Their capacity equals their length.
func cut(data []byte, ranges []*rlxv1.Range) [][]byte {
	out := make([][]byte, len(ranges))
	for i, r := range ranges {
		out[i] = data[r.Offset : r.Offset+r.Size : r.Offset+r.Size]
	}
	return out
}
