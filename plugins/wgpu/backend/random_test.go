//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"errors"
	"flag"
	"github.com/rlx-go/rlx/core/compile"
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

// TestRandom runs random graphs as they are and as the compiler leaves them for each target:
//
//	go test ./plugins/wgpu/backend -run TestRandom -random-seed 1000 -random-count 500
func TestRandom(t *testing.T) {
	if _, err := shared.Info(context.Background()); errors.Is(err, device.ErrUnavailable) && os.Getenv("RLX_REQUIRE_GPU") == "" {
		t.Skip(err)
	}
	t.Run("written", func(t *testing.T) {
		devicetest.Mixed{Seed: *randomSeed, Count: *randomCount}.Run(t, shared)
	})
	t.Run("limits", func(t *testing.T) { // operands in several windows, workgroups in two dimensions
		devicetest.Mixed{Seed: *randomSeed, Count: *randomCount}.Run(t, New(Options{MaxBinding: 8 << 10, MaxBuffer: 128 << 10, MaxGroups: 20}))
	})
	for _, target := range compile.Defaults() {
		t.Run(target.Name, func(t *testing.T) {
			devicetest.Mixed{Seed: *randomSeed, Count: *randomCount, Compile: func(g *ir.Graph) (*ir.Graph, map[string]tensor.Tensor, error) {
				out, report, err := pass.Run(g, target.Takes, pass.Options{})
				if err != nil {
					return nil, nil, err
				}
				return out, report.Folded, nil
			}}.Run(t, shared)
		})
	}
}
