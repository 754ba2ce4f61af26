//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/tensor"
)

var (
	randomSeed  = flag.Uint64("random-seed", 1, "seed of the first graph of TestRandom")
	randomCount = flag.Int("random-count", 2, "graphs of TestRandom, for each way to compile them")
)

// TestRandom runs random graphs as they are, except that what the backend has no kernel for is rewritten, and as the compiler
// leaves them:
//
//	go test ./plugins/wgpu/backend -run TestRandom -random-seed 1000 -random-count 500
func TestRandom(t *testing.T) {
	info, err := shared.Info(context.Background())
	if errors.Is(err, device.ErrUnavailable) && os.Getenv("RLX_REQUIRE_GPU") == "" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	rewritten := func(g *ir.Graph) (*ir.Graph, *pass.Report, error) {
		return pass.RunOne(g, info.Target, "legalize", pass.Options{})
	}
	compiled := func(g *ir.Graph) (*ir.Graph, *pass.Report, error) { return pass.Run(g, info.Target, pass.Options{}) }
	run := func(name string, b device.Backend, exact bool, passes func(*ir.Graph) (*ir.Graph, *pass.Report, error)) {
		t.Run(name, func(t *testing.T) {
			devicetest.Mixed{Seed: *randomSeed, Count: *randomCount, Exact: exact, Compile: func(g *ir.Graph) (*ir.Graph, map[string]tensor.Tensor, error) {
				out, report, err := passes(g)
				if err != nil {
					return nil, nil, err
				}
				return out, report.Folded, nil
			}}.Run(t, b)
		})
	}
	run("written", shared, false, rewritten)
	// Operands in several windows, workgroups in two dimensions.
	run("limits", New(Options{MaxBinding: 8 << 10, MaxBuffer: 128 << 10, MaxGroups: 40}), false, rewritten)
	run("compiled", shared, false, compiled)
	run("exact", shared, true, compiled)
}
