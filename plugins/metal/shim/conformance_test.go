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
	"github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// A sample has as many kernels, of each op and in all. They bound the time that it takes, which is mostly that of the C++ compiler.
const (
	mostOfOp = 4
	most     = 48
)

// TestConformance translates the kernels of some ops, compiles them as C++ and makes the checks of the conformance suite with them. Which ops, and
// which checks, devicetest.SampleEnv says: a seed, or all.
func TestConformance(t *testing.T) {
	config := devicetest.Config{Brief: true, Seed: 1}
	switch v := cmp.Or(os.Getenv(devicetest.SampleEnv), "1"); v {
	case "all":
		config.Brief, config.All = false, true
	default:
		seed, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		config.Seed = seed
	}
	b := &backend{numbers: map[string]int{}}
	ops := kernels.Description().Ops()
	rand.New(rand.NewPCG(config.Seed, 16)).Shuffle(len(ops), func(i, k int) { ops[i], ops[k] = ops[k], ops[i] })
	for _, op := range ops {
		if devicetest.CheckOps([]string{op}) != nil || len(b.kernels)+mostOfOp > most && !config.All {
			continue
		}
		before := len(b.kernels)
		if b.most = before + mostOfOp; config.All {
			b.most = math.MaxInt
		}
		one := config
		one.Ops = []string{op}
		check(t, b, one, errCollecting)
		if len(b.kernels) > before {
			config.Ops = append(config.Ops, op)
		}
	}
	b.dev = start(t, 256<<20, b.kernels...)
	slices.Sort(config.Ops)
	n := check(t, b, config, errCollecting)
	if n < len(config.Ops) {
		t.Errorf("%d checks of %d ops", n, len(config.Ops))
	}
	t.Logf("%s=%d: %d checks with %d kernels of %s", devicetest.SampleEnv, config.Seed, n, len(b.kernels), strings.Join(config.Ops, ", "))
}

// check makes checks and returns how many passed. They may fail with expected.
func check(t *testing.T, b *backend, config devicetest.Config, expected error) (passed int) {
	t.Helper()
	open := func(context.Context) (device.Backend, error) { return b, nil }
	err := devicetest.Test(t.Context(), config, open, func(r devicetest.Result) {
		switch {
		case r.Outcome == devicetest.Passed:
			passed++
		case r.Outcome == devicetest.Failed && (!errors.Is(r.Err, expected)):
			t.Errorf("%s: %v", r.Check, r.Err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return passed
}
