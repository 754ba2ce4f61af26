package backend

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

var ownWork, ownLeast = aloneWork, aloneLeast

// The other tests of this package run small programs with several threads.
func init() { aloneWork, aloneLeast = 0, 0 }

// TestAlone checks which runs use one thread: those with little to do at the sizes of the run, which other runs do not
// change.
func TestAlone(t *testing.T) {
	aloneWork, aloneLeast = ownWork, ownLeast
	defer func() { aloneWork, aloneLeast = 0, 0 }()
	square := func(_ *ir.Graph, x *ir.Node) *ir.Node { return op.Mul(x, x) }
	product := func(_ *ir.Graph, x *ir.Node) *ir.Node { return op.MatMul(x, op.Transpose(x, 1, 0), op.MatMulAttrs{}) }
	for _, c := range []struct {
		name   string
		body   func(*ir.Graph, *ir.Node) *ir.Node
		n      int64
		active int
	}{
		{"square", square, 1, 1}, {"square", square, 1000, 1}, {"square", square, 10_000, 3}, {"square", square, 9, 1},
		{"product", product, 16, 1}, {"product", product, 512, 3},
	} {
		g := ir.NewGraph(c.name, ir.Sym{Name: "N", Min: 1, Max: 10_000})
		x := op.Input(g, "x", ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Named("N"), ir.Static(32)}})
		g.Return("y", c.body(g, x))
		if c.name == "product" {
			g.Syms[0].Max = 512
		}
		p, _, err := sched.Build(
			g, sched.Options{Target: "portable", Weights: func(string) (int64, bool) { return 0, false }})
		if err != nil {
			t.Fatal(err)
		}
		e, err := Backend{}.Load(t.Context(), device.Load{Program: p, Threads: 3})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		run := func(n int64) int {
			devicetest.Once(t, e, p, map[string]int64{"N": n},
				map[string]*tensor.Array{"x": tensor.NewArray(dtype.F32, int(n), 32)})
			return e.(*executable).pool.Active()
		}
		for range 2 {
			if got := run(c.n); got != c.active {
				t.Errorf("%s of %d rows: %d threads took part, want %d", c.name, c.n, got, c.active)
			}
			run(1)
			run(g.Syms[0].Max)
		}
	}
}

// TestTrial checks that a trial ends with the faster choice, whichever it begins with, and notices when that changes.
func TestTrial(t *testing.T) {
	for _, first := range []bool{false, true} {
		x, rng := trial{on: true, alone: first}, rand.New(rand.NewPCG(1, 2))
		for round, faster := range []bool{true, false, false, true} {
			counts := map[bool]int{}
			for range trialAgain - trialWarm {
				alone := x.next()
				counts[alone]++
				d := 300 * time.Microsecond
				if alone != faster {
					d += 40 * time.Microsecond
				}
				if rng.IntN(9) == 0 {
					d *= 3 // something else had the processor
				}
				x.ran(d)
			}
			if counts[!faster] > trialWarm+3*trialRuns || round == 0 && counts[!faster] < trialRuns {
				t.Errorf("begins with %v, round %d, %v is faster: %v", first, round, faster, counts)
			}
		}
	}
	x := trial{on: true, alone: true}
	for range 100 { // as fast: the choice stays
		x.next()
		x.ran(time.Millisecond)
	}
	if !x.next() {
		t.Error("a trial without a difference has changed the choice")
	}
}
