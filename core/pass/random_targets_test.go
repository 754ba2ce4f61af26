package pass_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

var (
	targetSeed  = flag.Uint64("target-seed", 1, "seed of the first target of TestRandomTargets")
	targetCount = flag.Uint64("target-count", 100, "number of targets of TestRandomTargets")
)

// TestRandomTargets takes rules away from targets at random and compiles random graphs for the result. It compares
// the reference's results with those of the graphs as they were written:
//
//	go test ./core/pass -run TestRandomTargets -target-seed 1000 -target-count 5000
func TestRandomTargets(t *testing.T) {
	ran := uint64(0)
	for seed := *targetSeed; seed < *targetSeed+*targetCount; seed++ {
		rng := rand.New(rand.NewPCG(seed, 31))
		bases := append(target.Builtin(), everything())
		base := bases[rng.IntN(len(bases))]
		to := fewerRules(base, rng)
		check := func(kind string, g *ir.Graph, exact bool) {
			ok, err := checkTarget(g, to, base, seed, exact)
			if err != nil {
				t.Errorf("seed %d, from %s, %s: %v\n%v", seed, to.Name, kind, err, g)
			}
			if ok {
				ran++
			}
		}
		types := computed(base)
		check("exact", devicetest.ExactGraph(seed, types), true)
		g := devicetest.ExactGraph(seed, types)
		interp.ReturnAll(g) // fewer fusions, more comparisons
		check("all values, exact", g, true)
		g = devicetest.MixedGraph(seed, types)
		interp.ReturnAll(g)
		check("all values", g, false)
	}
	if ran < *targetCount*5/2 {
		t.Errorf("%d graphs of %d targets were compiled; want 5 for 2 targets", ran, *targetCount)
	}
}

// computed returns the element types that a target casts from f32 and back. Some types it may only store, or take as
// indices.
func computed(d *target.Description) []dtype.DType {
	return slices.DeleteFunc(dtype.All(), func(x dtype.DType) bool {
		g := ir.NewGraph("types")
		there := op.Cast(op.Input(g, "x", ir.TypeOf(dtype.F32)), x)
		return !pass.Runs(d, there) || !pass.Runs(d, op.Cast(there, dtype.F32))
	})
}

// checkTarget compiles a graph for a target with fewer rules than its base, and compares the outputs with those of the
// graph. ok is false if even the base does not run the graph.
func checkTarget(g *ir.Graph, to, base *target.Description, seed uint64, exact bool) (ok bool, err error) {
	rng := rand.New(rand.NewPCG(seed, 32))
	fill := func(t ir.Type, syms map[string]int64) *tensor.Array {
		if exact {
			return devicetest.ExactValue(rng, t, syms)
		}
		return interp.Random(rng, t, syms, ir.Range{Lo: -2, Hi: 2})
	}
	params := map[string]*tensor.Array{}
	for _, n := range g.Params() {
		params[n.Name] = fill(n.Type, nil)
	}
	out, report, err := compileFor(g, to, base, pass.Options{Verify: true, Params: known(params)})
	if err != nil || out == nil {
		return false, err
	}
	for _, syms := range []map[string]int64{g.Syms.Min(), g.Syms.Max()} {
		inputs := map[string]*tensor.Array{}
		for _, n := range g.Inputs() {
			inputs[n.Name] = fill(n.Type, syms)
		}
		got, err := interp.Run(out, syms, inputs, func(name string) (*tensor.Array, error) {
			if v, ok := report.Folded[name]; ok {
				return v.Array(), nil
			}
			return params[name], nil
		})
		if err == nil {
			err = devicetest.SameAsSource(g, syms, inputs, params, got, exact)
		}
		if err != nil {
			return true, fmt.Errorf("%w; compiled:\n%v\nfor\n%v", err, out, to)
		}
	}
	return true, nil
}

// compileFor compiles a graph. If the target lacks a rule for an op, it gets back those of the base. The result is nil
// if the base does not run the graph either.
func compileFor(g *ir.Graph, to, base *target.Description, o pass.Options) (*ir.Graph, *pass.Report, error) {
	for {
		out, report, err := pass.Run(g, to, o)
		var e *diag.Error
		switch {
		case err == nil || !errors.As(err, &e) || e.Code != code.Untaken:
			return out, report, err
		case to.Equal(base):
			return nil, nil, nil
		}
		to = giveBack(to, base, e.Subject)
	}
}

// fewerRules takes a sixth of the rules away, and an element type from a third of the others.
func fewerRules(base *target.Description, rng *rand.Rand) *target.Description {
	out := *base
	out.Rules = nil
	for _, r := range base.Rules {
		if rng.IntN(6) == 0 {
			continue
		}
		if len(r.In) > 0 && rng.IntN(3) == 0 {
			d := dtype.All()[rng.IntN(len(dtype.All()))]
			r.In = slices.Clone(r.In)
			for k, x := range r.In {
				types := x.Types
				if types == nil {
					types = base.Types
				}
				if rest := slices.DeleteFunc(
					slices.Clone(types), func(x dtype.DType) bool { return x == d }); !x.Same && len(rest) > 0 {
					r.In[k].Types = rest
				}
			}
		}
		out.Rules = append(out.Rules, r)
	}
	return out.Sort()
}

// giveBack restores the base's rules for an op, or all rules if the target has those already.
func giveBack(to, base *target.Description, op string) *target.Description {
	out := *to
	other := func(r target.Rule) bool { return r.Op != op }
	out.Rules = slices.DeleteFunc(slices.Clone(to.Rules), func(r target.Rule) bool { return r.Op == op })
	out.Rules = append(out.Rules, slices.DeleteFunc(slices.Clone(base.Rules), other)...)
	if out.Sort(); out.Equal(to) {
		return base
	}
	return &out
}
