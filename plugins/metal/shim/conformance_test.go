//go:build linux

package shim

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	description "github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
	"github.com/rlx-go/rlx/plugins/internal/wgsl"
	"github.com/rlx-go/rlx/plugins/metal/msl"
)

// Maximum numbers of kernels in a sample, which bound its time: most of it is spent in the C++ compiler.
const (
	mostOfOp = 4  // for one op
	most     = 48 // for all ops
)

// TestConformance runs checks of the conformance suite. The environment variable devicetest.SampleEnv is "all" for the
// whole suite, or the seed of a sample of ops. The test first collects the kernels that the checks need, to compile
// them together. Kernels of the whole suite are kept in the user's cache, so the next run does not compile them again.
func TestConformance(t *testing.T) {
	sample := cmp.Or(os.Getenv(devicetest.SampleEnv), "1")
	opts := Options{Level: "-O0", MaxGroups: 100} // with so small a limit, many grids need two dimensions
	if sample != "all" {
		opts.Cache = dir
	}
	c, err := adapter{opts}.cache()
	if err != nil {
		t.Fatal(err)
	}
	errMissing := errors.New("the kernel is not compiled")
	var kernels []*msl.Kernel // not in the cache
	limit := math.MaxInt      // maximum length of kernels
	cut := map[string]bool{}  // ops that may need more kernels, so that perhaps none of their checks can run
	opts.Missing = func(k *msl.Kernel) error {
		same := func(o *msl.Kernel) bool { return *o == *k }
		if len(kernels) < limit && !slices.ContainsFunc(kernels, same) {
			kernels = append(kernels, k)
		}
		return errMissing
	}
	collecting := New(opts)
	if _, err := collecting.NewState(t.Context(), "", 1); errors.Is(err, ErrNoCompiler) &&
		os.Getenv("RLX_REQUIRE_CXX") == "" {
		t.Skip(err)
	}
	config := devicetest.Config{All: true}
	if sample != "all" {
		seed := sampleSeed(t)
		config = devicetest.Config{Brief: true, Seed: seed}
		ops := description.Description().Ops()
		rand.New(rand.NewPCG(seed, 16)).Shuffle(len(ops), func(i, k int) { ops[i], ops[k] = ops[k], ops[i] })
		for _, op := range ops {
			before := len(kernels)
			if limit = before + mostOfOp; limit > most || devicetest.CheckOps([]string{op}) != nil {
				continue
			}
			one := config
			one.Ops = []string{op}
			collect(t, collecting, one)
			if len(kernels) > before {
				config.Ops = append(config.Ops, op)
			}
			cut[op] = len(kernels) == limit
		}
	} else {
		collect(t, collecting, config)
	}
	begin := time.Now()
	if err := c.add(t.Context(), kernels); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d kernels compiled in %v", len(kernels), time.Since(begin).Round(time.Second/10))
	// While kernels are collected, a check ends at its first program that lacks a kernel. A run of the whole suite
	// compiles the kernels of later programs when it reaches them; a sample ignores checks that need other kernels.
	opts.Missing = nil
	if !config.All {
		opts.Missing = func(*msl.Kernel) error { return errMissing }
	}
	slices.Sort(config.Ops)
	passed, of := 0, map[string]bool{}
	test(t, New(opts), config, func(r devicetest.Result) {
		switch {
		case r.Outcome == devicetest.Passed:
			passed++
			of[r.Section] = true
		case r.Outcome == devicetest.Failed && !errors.Is(r.Err, errMissing):
			t.Errorf("%s: %v", r.Check, r.Err)
		}
	})
	t.Logf("%d checks passed: %s", passed, strings.Join(config.Ops, ", "))
	for _, op := range config.Ops {
		if !of[op] && !cut[op] {
			t.Errorf("no check of %s passed", op)
		}
	}
}

// sampleSeed returns the seed of the sample of checks.
func sampleSeed(t *testing.T) uint64 {
	t.Helper()
	sample := cmp.Or(os.Getenv(devicetest.SampleEnv), "1")
	if sample == "all" {
		return 1
	}
	seed, err := strconv.ParseUint(sample, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// collect runs checks on a backend that records missing kernels. The checks fail, since the kernels are missing; only
// errors of package msl are reported.
func collect(t *testing.T, b device.Backend, config devicetest.Config) {
	t.Helper()
	test(t, b, config, func(r devicetest.Result) {
		if wrong := (*wgsl.Error)(nil); errors.As(r.Err, &wrong) {
			t.Errorf("%s: %v", r.Check, r.Err)
		}
	})
}

// test runs checks on a backend, and calls report for each.
func test(t *testing.T, b device.Backend, config devicetest.Config, report func(devicetest.Result)) {
	t.Helper()
	open := func(context.Context) (device.Backend, error) { return b, nil }
	if err := devicetest.Test(t.Context(), config, open, report); err != nil {
		t.Fatal(err)
	}
}
