package program_test

import (
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
)

// A value may be returned under two names. It is needed if one of them is wanted.
func TestNeededTwice(t *testing.T) {
	g := ir.NewGraph("twice")
	x := op.Neg(op.Input(g, "x", ir.MustType("f32[4]")))
	g.Return("a", x)
	if g.Err() != nil {
		t.Fatal(g.Err())
	}
	s := &program.Split{
		Segments: []program.Segment{
			{Program: &program.Program{Graph: g}, Inputs: []program.Source{{Segment: program.FromInput}}}},
		Outputs: []program.Source{{}, {}},
	}
	for _, c := range []struct {
		wanted []bool
		need   bool
	}{{nil, true}, {[]bool{true, false}, true}, {[]bool{false, true}, true}, {[]bool{false, false}, false}} {
		if need := s.Needed(c.wanted, nil)[0]; (need != nil && need[0]) != c.need {
			t.Errorf("wanted %v: needed %v; want %v", c.wanted, need, c.need)
		}
	}
}
