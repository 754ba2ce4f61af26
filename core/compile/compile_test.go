package compile_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
)

// TestStops checks that a compilation that is cancelled runs no further pass, whenever it is cancelled.
func TestStops(t *testing.T) {
	g := ir.NewGraph("f")
	g.Return("y", op.Neg(op.Input(g, "x", ir.TypeOf(dtype.F32, 2))))
	why := errors.New("the user's reason")
	for at := 1; ; at++ {
		ctx, cancel := context.WithCancelCause(context.Background())
		graphs := 0
		_, err := compile.Compile(
			ctx, []*ir.Graph{g},
			compile.Options{Targets: compile.Defaults(), Layout: func([]compile.Weight) (int64, error) {
				return 0, nil
			},
				Dump: func(string, string, string, *ir.Graph) {
					if graphs++; graphs == at {
						cancel(why)
					}
				}})
		cancel(nil)
		if err == nil && graphs < at && at > 10 {
			return // all graphs were tried
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
