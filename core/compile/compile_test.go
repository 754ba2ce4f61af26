package compile_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
)

// TestStops checks that a compilation that is cancelled runs no further pass and returns the cause, whenever it is
// cancelled, also after a target was left out.
func TestStops(t *testing.T) {
	negation := func(name string) *ir.Graph {
		g := ir.NewGraph(name)
		g.Return("y", op.Neg(op.Input(g, "x", ir.TypeOf(dtype.F32, 2))))
		return g
	}
	quotient := ir.NewGraph("quotient") // wgpu does not divide 64-bit integers
	ints := ir.TypeOf(dtype.I64, 2)
	quotient.Return("y", op.Div(op.Input(quotient, "a", ints), op.Input(quotient, "b", ints)))
	for _, tt := range []struct {
		name    string
		methods []*ir.Graph
		leftOut int
	}{
		{"all targets", []*ir.Graph{negation("f")}, 0},
		{"a target left out", []*ir.Graph{quotient, negation("f"), negation("g")}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) { stopsAnywhere(t, tt.methods, tt.leftOut) })
	}
}

// stopsAnywhere cancels compilations of the methods at each graph in turn.
func stopsAnywhere(t *testing.T, methods []*ir.Graph, leftOut int) {
	why := errors.New("the user's reason")
	for at := 1; ; at++ {
		ctx, cancel := context.WithCancelCause(context.Background())
		graphs := 0
		r, err := compile.Compile(ctx, methods, compile.Options{
			Targets: compile.Defaults(), LeaveOut: true,
			Layout: func([]compile.Weight) (int64, error) { return 0, nil },
			Dump: func(string, string, string, *ir.Graph) {
				if graphs++; graphs == at {
					cancel(why)
				}
			}})
		cancel(nil)
		if err == nil && graphs < at && at > 10 { // all graphs were tried
			if len(r.LeftOut) != leftOut {
				t.Errorf("left out are %v, want %d", r.LeftOut, leftOut)
			}
			return
		}
		if !errors.Is(err, why) {
			t.Fatalf("cancelled at graph %d: %v", at, err)
		}
		// Passes that targets share may show all their graphs before the next check for cancellation.
		if shared := len(pass.Names()); graphs > at+shared {
			t.Errorf("cancelled at graph %d, went on to %d", at, graphs)
		}
	}
}

// TestNative checks that a target without a kernel for a node that must have one is left out, although it can run the
// node's expansion, and that this is an error if no target has one.
func TestNative(t *testing.T) {
	g := ir.NewGraph("f")
	in := func(name string, shape ...int64) *ir.Node { return op.Input(g, name, ir.TypeOf(dtype.F32, shape...)) }
	g.Return("y", op.GridSample(in("x", 1, 2, 3, 3), in("grid", 1, 2, 2, 2),
		op.GridSampleAttrs{Mode: op.ResizeLinear, Padding: op.GridZeros}))
	o := compile.Options{Targets: compile.Defaults(), LeaveOut: true,
		Layout: func([]compile.Weight) (int64, error) { return 0, nil }}
	for _, native := range []bool{false, true} {
		if native {
			o.Native = func(n *ir.Node) bool { return n.Is(op.GridSampleDef) }
		}
		r, err := compile.Compile(t.Context(), []*ir.Graph{g}, o)
		if err != nil || (len(r.LeftOut) == 1 && r.LeftOut[0].Target == "wgpu") != native {
			t.Errorf("native %v: left out are %v, error %v", native, r.LeftOut, err)
		}
	}
	o.LeaveOut = false
	if _, err := compile.Compile(t.Context(), []*ir.Graph{g}, o); !errors.Is(err, code.Untaken) ||
		!strings.Contains(err.Error(), "target wgpu has no kernel for it") {
		t.Errorf("for all targets: %v", err)
	}
}

// TestAttach checks that attachments come after the weights, in their order, and that no program reads them.
func TestAttach(t *testing.T) {
	g := ir.NewGraph("f")
	g.Return("y", op.Add(op.Input(g, "x", ir.TypeOf(dtype.F32, 2)), op.Param(g, "z", ir.TypeOf(dtype.F32, 2))))
	b, a := compile.Weight{Name: "b.json", Type: ir.TypeOf(dtype.U8, 2), Data: []byte("{}")},
		compile.Weight{Name: "a", Type: ir.TypeOf(dtype.U8, 1), Data: []byte{1}}
	r, err := compile.Compile(t.Context(), []*ir.Graph{g},
		compile.Options{Targets: compile.Defaults(), Attach: []compile.Weight{b, a},
			Layout: func(w []compile.Weight) (int64, error) {
				for i := range w {
					w[i].Offset = int64(256 * i)
				}
				return 768, nil
			}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, w := range r.Weights {
		names = append(names, w.Name)
	}
	if !slices.Equal(names, []string{"z", "b.json", "a"}) || r.Weights[1].Offset != 256 ||
		string(r.Weights[1].Data) != "{}" {
		t.Errorf("weights are %q: %+v", names, r.Weights)
	}
}
