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
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// sampled is the number of ops whose checks TestConformance runs.
const sampled = 6

// TestConformance runs checks of the conformance suite. The environment variable devicetest.SampleEnv is "all" for the
// whole suite, or the seed of a sample of ops. With RLX_PTX the tests write each translated kernel to a file of that
// folder.
func TestConformance(t *testing.T) {
	config := devicetest.Config{All: true}
	if seed, all := sample(t); !all {
		config = devicetest.Config{Brief: true, Seed: seed}
		ops := slices.DeleteFunc(kernels.Description().Ops(), func(op string) bool {
			return devicetest.CheckOps([]string{op}) != nil // no op of the suite
		})
		rand.New(rand.NewPCG(seed, 33)).Shuffle(len(ops), func(i, k int) { ops[i], ops[k] = ops[k], ops[i] })
		config.Ops = slices.Sorted(slices.Values(ops[:sampled]))
	}
	check(t, config, Options{MaxGroups: 100}) // with so small a limit, many grids need two dimensions
}

// TestTiles runs products and attention with tiles of all shapes, or with one shape that the seed of the sample
// chooses.
func TestTiles(t *testing.T) {
	type shape struct {
		op  string
		set func(l *gpu.Limits)
	}
	var shapes []shape
	for _, tile := range kernels.Tiles() {
		shapes = append(shapes, shape{"matmul", func(l *gpu.Limits) { l.Kernels.Tile = &tile }})
	}
	for _, tile := range kernels.AttentionTiles {
		shapes = append(shapes, shape{"attention", func(l *gpu.Limits) { l.Kernels.AttentionTile = &tile }})
	}
	for _, tile := range kernels.BackwardTiles {
		shapes = append(shapes, shape{"attention_backward", func(l *gpu.Limits) { l.Kernels.BackwardTile = &tile }})
	}
	seed, _ := sample(t)
	for _, s := range devicetest.SomeOf(t, 1, shapes) {
		check(t, devicetest.Config{Brief: true, Seed: seed, Ops: []string{s.op}}, Options{Limits: s.set})
	}
}

// sample returns the seed of a sample of checks, or true for all of them.
func sample(t *testing.T) (seed uint64, all bool) {
	t.Helper()
	s := cmp.Or(os.Getenv(devicetest.SampleEnv), "1")
	if s == "all" {
		return 1, true
	}
	seed, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed, false
}

// check runs checks of the suite. At least one check of each op in the configuration must pass, and no check may fail.
func check(t *testing.T, config devicetest.Config, opts Options) {
	t.Helper()
	opts.Compiled = keep(t)
	open := func(context.Context) (device.Backend, error) { return New(opts), nil }
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
