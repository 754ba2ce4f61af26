package gpu

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// noAPI is an API that never aborts. Its other methods are not called.
type noAPI struct{ API }

func (noAPI) Aborted() (<-chan struct{}, func() error) { return nil, nil }

// TestPanics checks that a panic on a goroutine that Load starts becomes a panic of Load, which the caller can recover.
func TestPanics(t *testing.T) {
	graph := ir.NewGraph("sums")
	in := op.Input(graph, "x", ir.TypeOf(dtype.F32, 16))
	graph.Return("y", op.Add(op.Add(in, in), in))
	p, _, err := sched.Build(graph, sched.Options{Target: "portable"})
	if err != nil {
		t.Fatal(err)
	}
	x := &executable{program: p, gpu: &gpu{limits: Limits{Binding: 1 << 20, Buffer: 1 << 20, Bindings: 8,
		Groups: 1 << 16}}}
	if err := x.plan(); err != nil {
		t.Fatal(err)
	}
	x.dispatches[1].shader.Bindings = []kernels.Binding{{Operand: 99}}
	for name, f := range map[string]func() error{
		"texts": x.planTexts,
		"upload": func() error {
			return (&executable{gpu: x.gpu, resident: []interval{{from: 99, to: 100, space: &space{}}}}).upload()
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, "out of range") ||
					!strings.Contains(text, "goroutine ") {
					t.Errorf("the panic is %q", text)
				}
			}()
			_, err := guard(noAPI{}, func() (struct{}, error) { return struct{}{}, f() })
			t.Errorf("the error is %v; want a panic", err)
		})
	}
}
