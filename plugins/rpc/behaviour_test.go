//go:build linux || darwin

package rpc

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
)

// plainProgram returns a program without weights.
func plainProgram(t *testing.T) *program.Program {
	t.Helper()
	g := ir.NewGraph("plain", ir.Sym{Name: "N", Min: 1, Max: 3})
	g.Return("y", op.MatMul(op.Input(g, "x", ir.MustType("f32[N,2]")), op.Input(g, "w", ir.MustType("f32[2,2]")), op.MatMulAttrs{}))
	p, _, err := sched.Build(g, sched.Options{Method: "plain", Target: "ref"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBehave checks that the server of this package passes all checks with both transports, and that Behave detects each scripted fault.
func TestBehave(t *testing.T) {
	t.Parallel()
	for mode, fails := range map[string][]string{"good": nil, "orphan@": {"protocol/lifeline"}, "linger@": {"protocol/shutdown"}, "careless@": {"protocol/unload-unknown"}} {
		for _, chunks := range []bool{false, true} {
			t.Run(mode, func(t *testing.T) {
				t.Parallel()
				opts, _ := testOptions(t, mode)
				opts.NoSharedMemory, opts.Artifact = chunks, nil
				n := 0
				var failed []string
				err := Behave(t.Context(), opts, plainProgram(t), func(name string, err error) {
					n++
					if errors.Is(err, ErrNotServed) && !(chunks && strings.HasSuffix(name, "beat")) {
						t.Errorf("%s: %v", name, err)
					} else if err != nil && !errors.Is(err, ErrNotServed) {
						failed = append(failed, name)
						t.Logf("%s: %v", name, err)
					}
				})
				if err != nil || n < 20 || !slices.Equal(failed, fails) {
					t.Errorf("%d checks, %v failed, %v; want %v", n, failed, err, fails)
				}
			})
		}
	}
}
