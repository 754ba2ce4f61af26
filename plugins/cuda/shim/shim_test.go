package shim

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	description "github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// sampled is the number of ops whose checks TestConformance runs.
const sampled = 16

// TestConformance runs checks of the conformance suite. The environment variable devicetest.SampleEnv is "all" for the
// whole suite, or the seed of a sample of ops. With RLX_PTX the test writes each translated kernel to a file of that
// folder.
func TestConformance(t *testing.T) {
	sample := cmp.Or(os.Getenv(devicetest.SampleEnv), "1")
	config := devicetest.Config{All: true}
	if sample != "all" {
		seed, err := strconv.ParseUint(sample, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		config = devicetest.Config{Brief: true, Seed: seed}
		ops := slices.DeleteFunc(description.Description().Ops(), func(op string) bool {
			return devicetest.CheckOps([]string{op}) != nil // no op of the suite
		})
		rand.New(rand.NewPCG(seed, 33)).Shuffle(len(ops), func(i, k int) { ops[i], ops[k] = ops[k], ops[i] })
		config.Ops = slices.Sorted(slices.Values(ops[:sampled]))
	}
	// with so small a limit, many grids need two dimensions
	open := func(context.Context) (device.Backend, error) {
		return New(Options{MaxGroups: 100, Compiled: keep(t)}), nil
	}
	passed, of := 0, map[string]bool{}
	if err := devicetest.Test(t.Context(), config, open, func(r devicetest.Result) {
		switch r.Outcome {
		case devicetest.Passed:
			passed++
			of[r.Section] = true
		case devicetest.Failed:
			t.Errorf("%s: %v", r.Check, r.Err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d checks passed: %s", passed, strings.Join(config.Ops, ", "))
	for _, op := range config.Ops {
		if !of[op] {
			t.Errorf("no check of %s passed", op)
		}
	}
}
