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
	"github.com/rlx-go/rlx/plugins/metal/msl"
	description "github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// A sample has as many kernels, of each op and in all. They bound the time that it takes, which is mostly that of the C++ compiler.
const (
	mostOfOp = 4
	most     = 48
)

// TestConformance makes checks of the conformance suite: the whole suite, or checks of some ops. devicetest.SampleEnv says which: all, or a seed. The kernels
// that the checks need are collected first, to compile them together: for the whole suite in the user's cache, from which the next run takes them.
func TestConformance(t *testing.T) {
	sample := cmp.Or(os.Getenv(devicetest.SampleEnv), "1")
	opts := Options{Level: "-O0", MaxGroups: 100} // so few groups that many grids have two dimensions
	if sample != "all" {
		opts.Cache = dir
	}
	c, err := adapter{opts}.cache()
	if err != nil {
		t.Fatal(err)
	}
	errMissing := errors.New("the kernel is not compiled")
	var kernels []*msl.Kernel // not in the cache
	limit := math.MaxInt      // of their number
	opts.Missing = func(k *msl.Kernel) error {
		same := func(o *msl.Kernel) bool { return *o == *k }
		if len(kernels) < limit && !slices.ContainsFunc(kernels, same) {
			kernels = append(kernels, k)
		}
		return errMissing
	}
	collecting := New(opts)
	if _, err := collecting.NewState(t.Context(), "", 1); errors.Is(err, ErrNoCompiler) && os.Getenv("RLX_REQUIRE_CXX") == "" {
		t.Skip(err)
	}
	config := devicetest.Config{All: true}
	if sample != "all" {
		seed, err := strconv.ParseUint(sample, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
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
		}
	} else {
		collect(t, collecting, config)
	}
	begin := time.Now()
	if err := c.add(t.Context(), kernels); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d kernels compiled in %v", len(kernels), time.Since(begin).Round(time.Second/10))
	// Collecting ends a check at the first program that lacks a kernel. The whole suite compiles the kernels of its other programs when it gets there.
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
		if !of[op] {
			t.Errorf("no check of %s", op)
		}
	}
}

// collect finds the kernels that checks need. They fail, because the kernels are missing.
func collect(t *testing.T, b device.Backend, config devicetest.Config) {
	t.Helper()
	test(t, b, config, func(r devicetest.Result) {
		if wrong := (*msl.Error)(nil); errors.As(r.Err, &wrong) {
			t.Errorf("%s: %v", r.Check, r.Err)
		}
	})
}

func test(t *testing.T, b device.Backend, config devicetest.Config, report func(devicetest.Result)) {
	t.Helper()
	open := func(context.Context) (device.Backend, error) { return b, nil }
	if err := devicetest.Test(t.Context(), config, open, report); err != nil {
		t.Fatal(err)
	}
}
