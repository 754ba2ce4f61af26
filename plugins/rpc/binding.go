package rpc

import (
	"fmt"

	"github.com/rlx-go/rlx/core/program"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// binding is the ranges of a program's inputs and outputs for given values of its symbols. Host and backend compute it
// independently and compare: neither relies on an offset or a size from the other.
type binding struct {
	in, out         []program.Operand
	inputs, outputs []*rlxv1.Range
}

// binder makes the bindings of a program, and keeps those of the last few sizes.
type binder struct {
	p      *program.Program
	b      *program.Binder // made by the first run
	recent program.Recent[*binding]
}

// bind evaluates the places of inputs and outputs under syms and checks every range against the program's IO space.
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
	x.recent.Put(syms, b)
	return b, nil
}

// sameRanges compares the other side's ranges with ours.
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

// cut returns the ranges of the region's data, as slices that cannot be extended.
func cut(data []byte, ranges []*rlxv1.Range) [][]byte {
	out := make([][]byte, len(ranges))
	for i, r := range ranges {
		out[i] = data[r.Offset : r.Offset+r.Size : r.Offset+r.Size]
	}
	return out
}
