package backend

import (
	"flag"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/campaign"
)

func open(*testing.T) device.Backend { return Backend{} }

// TestConformance runs the conformance suite on the backend in this process.
func TestConformance(t *testing.T) {
	opts := devicetest.Options{MustHave: true, Compile: compile}
	if testing.Short() { // in an emulator, which is slow
		opts.Ops = 0.1
	}
	devicetest.Run(t, open, opts)
}

var (
	randomSeed  = flag.Uint64("random-seed", 1, "seed of the first graph of TestRandom")
	randomCount = flag.Int("random-count", 20, "number of graphs of TestRandom; each runs unchanged and compiled")
)

// TestRandom runs random graphs unchanged, and after the compiler's passes for this backend:
//
//	go test ./plugins/cpu/backend -run TestRandom -random-seed 1000 -random-count 5000
func TestRandom(t *testing.T) {
	devicetest.Mixed{Seed: *randomSeed, Count: *randomCount}.Run(t, Backend{})
	devicetest.Mixed{Seed: *randomSeed, Count: *randomCount, Compile: compile}.Run(t, Backend{})
	devicetest.Mixed{Seed: *randomSeed, Count: *randomCount, Compile: compile, Exact: true}.Run(t, Backend{})
}

func TestThreads(t *testing.T) { devicetest.Threads(t, Backend{}, compile) }

// TestBounds checks that the bound of a size changes no bit.
func TestBounds(t *testing.T) { devicetest.Bounds(t, Backend{}) }

func compile(g *ir.Graph) (*ir.Graph, map[string]tensor.Tensor, error) {
	out, report, err := pass.Run(g, Description(), pass.Options{})
	if err != nil {
		return nil, nil, err
	}
	return out, report.Folded, nil
}

// FuzzKernels looks for shapes and values for which a kernel differs from its op's definition.
func FuzzKernels(f *testing.F) { devicetest.Fuzz(f, open) }

// FuzzRandom is TestRandom for campaigns: input n is the graph with seed n, unchanged and compiled.
func FuzzRandom(t *testing.F) {
	f := campaign.New(t)
	f.Add(uint64(1))
	f.Add(uint64(32494)) // attention whose scores reach 200
	f.Fuzz(func(t testing.TB, seed uint64) {
		devicetest.Mixed{Seed: seed, Count: 1}.Run(t, Backend{})
		devicetest.Mixed{Seed: seed, Count: 1, Compile: compile}.Run(t, Backend{})
	})
}
