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

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/plugins/metal/msl"
	"github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// A sample has as many kernels, of each op and in all. They bound the time that it takes, which is mostly that of the C++ compiler.
const (
	mostOfOp = 4
	most     = 48
)

// TestConformance makes checks of the conformance suite with translated kernels: the whole suite, or checks of some ops. devicetest.SampleEnv says
// which: all, or a seed.
func TestConformance(t *testing.T) {
	b := &backend{numbers: map[string]int{}, most: math.MaxInt}
	config := devicetest.Config{All: true}
	if v := cmp.Or(os.Getenv(devicetest.SampleEnv), "1"); v != "all" {
		seed, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		config = devicetest.Config{Brief: true, Seed: seed}
		ops := kernels.Description().Ops()
		rand.New(rand.NewPCG(seed, 16)).Shuffle(len(ops), func(i, k int) { ops[i], ops[k] = ops[k], ops[i] })
		for _, op := range ops {
			before := len(b.kernels)
			if b.most = before + mostOfOp; b.most > most || devicetest.CheckOps([]string{op}) != nil {
				continue
			}
			one := config
			one.Ops = []string{op}
			collect(t, b, one)
			if len(b.kernels) > before {
				config.Ops = append(config.Ops, op)
			}
		}
	} else {
		collect(t, b, config)
	}
	b.dev = start(t, 256<<20, b.kernels...)
	slices.Sort(config.Ops)
	passed, of := 0, map[string]bool{}
	test(t, b, config, func(r devicetest.Result) {
		switch {
		case r.Outcome == devicetest.Passed:
			passed++
			of[r.Section] = true
		case r.Check == "conv1d/4/spread": // fails on wgpu, too: a convolution in tiles multiplies the padding by the weights
		case r.Outcome == devicetest.Failed && !(errors.Is(r.Err, errCollecting) && !config.All):
			t.Errorf("%s: %v", r.Check, r.Err)
		}
	})
	t.Logf("%d checks passed with %d kernels: %s", passed, len(b.kernels), strings.Join(config.Ops, ", "))
	for _, op := range config.Ops {
		if !of[op] {
			t.Errorf("no check of %s", op)
		}
	}
}

// collect finds the kernels that checks need. They fail, because there is no device yet.
func collect(t *testing.T, b *backend, config devicetest.Config) {
	t.Helper()
	test(t, b, config, func(r devicetest.Result) {
		if wrong := (*msl.Error)(nil); errors.As(r.Err, &wrong) {
			t.Errorf("%s: %v", r.Check, r.Err)
		}
	})
}

func test(t *testing.T, b *backend, config devicetest.Config, report func(devicetest.Result)) {
	t.Helper()
	open := func(context.Context) (device.Backend, error) { return b, nil }
	if err := devicetest.Test(t.Context(), config, open, report); err != nil {
		t.Fatal(err)
	}
}
