package program_test

import (
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
)

func TestConstant(t *testing.T) {
	g := ir.NewGraph("g", ir.Sym{Name: "N", Min: 1, Max: 4})
	row := ir.MustType("f32[4]")
	x, w, s := op.Input(g, "x", row), op.Param(g, "w", row), op.State(g, "s", row, 0)
	g.Return("weight", op.Neg(w))
	g.Return("input", op.Add(w, x))
	g.Return("state", op.Neg(s))
	g.Return("symbol", op.Iota(g, 0, ir.MustType("f32[N]")))
	g.Return("iota", op.Iota(g, 0, row))
	top, _ := op.TopK(w, 2)
	g.Return("values", op.Neg(top))
	if g.Err() != nil {
		t.Fatal(g.Err())
	}
	p := &program.Program{Graph: g}
	if got, want := p.Constant(), []bool{true, false, false, false, true, true}; !slices.Equal(got, want) {
		t.Errorf("constant: %v; want %v", got, want)
	}
}
