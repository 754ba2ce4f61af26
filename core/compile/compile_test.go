package compile_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
)

// TestStops: a compile that is cancelled runs no further pass, whichever it was at.
func TestStops(t *testing.T) {
	g := ir.NewGraph("f")
	g.Return("y", op.Neg(op.Input(g, "x", ir.TypeOf(dtype.F32, 2))))
	why := errors.New("the user's reason")
	for at := 1; ; at++ {
		ctx, cancel := context.WithCancelCause(context.Background())
		graphs := 0
		_, err := compile.Compile(ctx, []*ir.Graph{g}, compile.Options{Targets: compile.Defaults(), Layout: func([]compile.Weight) (int64, error) { return 0, nil },
			Dump: func(string, string, string, *ir.Graph) {
				if graphs++; graphs == at {
					cancel(why)
				}
			}})
		cancel(nil)
		if err == nil && graphs < at && at > 10 {
			return // there are no more
		}
		if !errors.Is(err, why) {
			t.Fatalf("cancelled at graph %d: %v", at, err)
		}
		// What targets share is shown before the first pass that is the target's own is asked for.
		if shared := len(pass.Names()); graphs > at+shared {
			t.Errorf("cancelled at graph %d, went on to %d", at, graphs)
		}
	}
}
