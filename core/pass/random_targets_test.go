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
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

var (
	targetSeed  = flag.Uint64("target-seed", 1, "seed of the first target of TestRandomTargets")
	targetCount = flag.Uint64("target-count", 100, "number of targets of TestRandomTargets")
)

// TestRandomTargets takes rules away from targets at random, compiles random graphs for what is left, and compares the reference's results
// with those of the graphs as they were written:
//
//	go test ./core/pass -run TestRandomTargets -target-seed 1000 -target-count 5000
func TestRandomTargets(t *testing.T) {
	for seed := *targetSeed; seed < *targetSeed+*targetCount; seed++ {
		rng := rand.New(rand.NewPCG(seed, 31))
		bases := append(target.Builtin(), everything())
		base := bases[rng.IntN(len(bases))]
		for _, all := range []bool{false, true} {
			g := devicetest.ExactGraph(seed, dtype.All())
			if all { // fewer fusions, more comparisons
				devicetest.ReturnAll(g)
			}
			if err := checkTarget(g, base, rng, seed); err != nil {
				t.Errorf("seed %d, from %s: %v\n%v", seed, base.Name, err, g)
			}
		}
	}
}

// checkTarget compiles an exact graph for the base with fewer rules and compares the outputs.
func checkTarget(g *ir.Graph, base *target.Description, rng *rand.Rand, seed uint64) error {
	to := fewerRules(base, rng)
	fill := rand.New(rand.NewPCG(seed, 32))
	params := map[string]*tensor.Array{}
	for _, n := range g.Params() {
		params[n.Name] = devicetest.ExactValue(fill, n.Type, nil)
	}
	var out *ir.Graph
	var report *pass.Report
	for {
		var err error
		if out, report, err = pass.Run(g, to, pass.Options{Verify: true, Params: known(params)}); err == nil {
			break
		}
		var e *diag.Error
		if !errors.As(err, &e) || e.Code != code.Untaken {
			return err
		}
		if to.Equal(base) {
			return nil // even the base does not run it
		}
		to = giveBack(to, base, e.Subject)
	}
	for _, syms := range []map[string]int64{g.Syms.Min(), g.Syms.Max()} {
		inputs := map[string]*tensor.Array{}
		for _, n := range g.Inputs() {
			inputs[n.Name] = devicetest.ExactValue(fill, n.Type, syms)
		}
		want, err := interp.Run(g, syms, inputs, known(params).Param)
		if err != nil {
			return fmt.Errorf("BUG: %w", err)
		}
		got, err := interp.Run(out, syms, inputs, func(name string) (*tensor.Array, error) {
			if v, ok := report.Folded[name]; ok {
				return v.Array(), nil
			}
			return params[name], nil
		})
		if err != nil {
			return fmt.Errorf("compiled: %w", err)
		}
		for _, o := range g.Outputs {
			if err := interp.Compare(got[o.Name], want[o.Name], ir.Tolerance{}); err != nil {
				return fmt.Errorf("output %s: %w; compiled:\n%v\nfor\n%v", o.Name, err, out, to)
			}
		}
	}
	return nil
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
				if rest := slices.DeleteFunc(slices.Clone(types), func(x dtype.DType) bool { return x == d }); !x.Same && len(rest) > 0 {
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
