package ir_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// TestOperandNames checks that text accepts the operands of an op in every form that is clear, and prints one of them.
func TestOperandNames(t *testing.T) {
	const head = "graph g\nx = input : f32[1,2,4]\nw = param : f32[3,2,1]\nb = param : f32[3]\ns = input : f32[2,2]\nr = input : f32[2]\n"
	for _, c := range []struct{ written, printed string }{
		{"conv1d x, w, bias=b {layout=\"ncw\"} : f32[1,3,4]", ""},
		{"conv1d x, w, b {layout=\"ncw\"} : f32[1,3,4]", "conv1d x, w, bias=b {layout=\"ncw\"} : f32[1,3,4]"},
		{"conv1d x, bias=b, w=w {layout=\"ncw\"} : f32[1,3,4]", "conv1d x, w, bias=b {layout=\"ncw\"} : f32[1,3,4]"},
		{"conv1d x, w {layout=\"ncw\"} : f32[1,3,4]", ""},
		{"fused_matmul s, s, residual=s : f32[2,2]", ""},
		{"fused_matmul s, s, residual=s, bias=r : f32[2,2]", "fused_matmul s, s, bias=r, residual=s : f32[2,2]"},
		{"layer_norm s, r, r {eps=1e-05} : f32[2,2]", ""},
		{"layer_norm s, beta=r, gamma=r {eps=1e-05} : f32[2,2]", "layer_norm s, r, r {eps=1e-05} : f32[2,2]"},
	} {
		g, err := ir.Parse(head + "y = " + c.written + "\nreturn y=y\n")
		if err == nil {
			err = g.Verify()
		}
		if err != nil {
			t.Errorf("%s: %v", c.written, err)
			continue
		}
		if c.printed == "" {
			c.printed = c.written
		}
		if got := g.Outputs[0].Node.String(); got != "y = "+c.printed {
			t.Errorf("%s prints as %s; want y = %s", c.written, got, c.printed)
		}
	}
}

// TestAbsentOperands checks that a node has a place for each operand, wherever it is made, and that code that visits
// operands sees only those that are present.
func TestAbsentOperands(t *testing.T) {
	g := ir.NewGraph("g")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, 2, 2))
	y := op.FusedMatMul(x, x, nil, x, op.FusedMatMulAttrs{})
	short := g.Add(op.FusedMatMulDef, op.FusedMatMulAttrs{}, x, x)
	g.Return("y", y)
	g.Return("short", short)
	if err := g.Verify(); err != nil {
		t.Fatal(err)
	}
	again, err := g.Rebuild(nil)
	if err != nil {
		t.Fatal(err)
	}
	if again.String() != g.String() {
		t.Errorf("Rebuild gives\n%s\nwant\n%s", again, g)
	}
	for _, n := range []*ir.Node{y, short, again.Outputs[0].Node, again.Outputs[1].Node} {
		if len(n.In) != 4 || n.In[op.FusedMatMulBias] != nil {
			t.Errorf("%s has the operands %v; want four places, the third empty", n, n.In)
		}
	}
	var at []int
	for k := range y.Operands() {
		at = append(at, k)
	}
	if !slices.Equal(at, []int{0, 1, 3}) || y.Arity() != 3 || short.Arity() != 2 {
		t.Errorf("operands at %v; arities %d and %d", at, y.Arity(), short.Arity())
	}
	if g.UseCounts()[x.ID] != 5 {
		t.Errorf("x has %d uses; want 5", g.UseCounts()[x.ID])
	}
	short.In = short.In[:2]
	if err := g.Verify(); err == nil || !strings.Contains(err.Error(), "2 places for operands") {
		t.Errorf("error %v", err)
	}
}
