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
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

var (
	randomSeed  = flag.Uint64("random-seed", 1, "seed of the first graph of TestRandom")
	randomCount = flag.Int("random-count", 2, "graphs of TestRandom, for each way to compile them")
)

// TestRandom runs random graphs as they are, except that what the backend has no kernel for is rewritten, and as the
// compiler leaves them:
//
//	go test ./plugins/wgpu/backend -run TestRandom -random-seed 1000 -random-count 500
func TestRandom(t *testing.T) {
	_, err := shared.Info(context.Background())
	if errors.Is(err, device.ErrUnavailable) && os.Getenv("RLX_REQUIRE_GPU") == "" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	run := func(name string, b device.Backend, exact bool, compile devicetest.Compiler) {
		t.Run(name, func(t *testing.T) {
			devicetest.Mixed{Seed: *randomSeed, Count: *randomCount, Exact: exact, Compile: compile}.Run(t, b)
		})
	}
	run("written", shared, false, legalized)
	// Operands in several windows, workgroups in two dimensions.
	run("limits", New(Options{MaxBinding: 8 << 10, MaxBuffer: 128 << 10, MaxGroups: 40}), false, legalized)
	run("compiled", shared, false, compiled)
	run("exact", shared, true, compiled)
}

// legalized rewrites the ops for which the backend has no kernel.
func legalized(g *ir.Graph) (*ir.Graph, map[string]tensor.Tensor, error) {
	return passes(func(to *target.Description) (*ir.Graph, *pass.Report, error) {
		return pass.RunOne(g, to, "legalize", pass.Options{})
	})
}

// compiled runs all passes.
func compiled(g *ir.Graph) (*ir.Graph, map[string]tensor.Tensor, error) {
	return passes(func(to *target.Description) (*ir.Graph, *pass.Report, error) {
		return pass.Run(g, to, pass.Options{})
	})
}

func passes(run func(to *target.Description) (*ir.Graph, *pass.Report, error)) (*ir.Graph, map[string]tensor.Tensor,
	error) {
	info, err := shared.Info(context.Background())
	if err != nil {
		return nil, nil, err
	}
	out, report, err := run(info.Target)
	if err != nil {
		return nil, nil, err
	}
	return out, report.Folded, nil
}
