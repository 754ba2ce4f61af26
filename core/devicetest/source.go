package devicetest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// A compiled graph is compared with its source in two ways. If the source rounds nothing (ExactGraph), its outputs must
// have the same numbers. Otherwise rounding errors accumulate, and fusions round less often; so every value of the
// source becomes an output (interp.ReturnAll), and interp.SameSteps compares each with its op's definition on the
// operands that the compiled graph computed.

// checkSource runs the compiled form of a graph and compares it with the graph itself, the source. given has the params
// that compiling added. source and exact are those of SameAsSource.
func (s *suite) checkSource(source, compiled *ir.Graph, given values, seed uint64, exact bool) error {
	rng := rand.New(rand.NewPCG(seed, 16))
	fill := func(t ir.Type, syms map[string]int64) *tensor.Array {
		if exact {
			return ExactValue(rng, t, syms)
		}
		return operand(rng, t, syms, false)
	}
	params := values{}
	for _, n := range source.Params() {
		params[n.Name] = fill(n.Type, nil)
	}
	stored := values{}
	for _, n := range compiled.Params() {
		if stored[n.Name] = given[n.Name]; stored[n.Name] == nil {
			stored[n.Name] = params[n.Name]
		}
	}
	p, err := build(compiled, stored)
	if err != nil {
		return fmt.Errorf("BUG: devicetest: %w", err)
	}
	return s.withRig(p, stored, device.Load{Threads: 2}, func(r *rig) error {
		for _, syms := range points(source.Syms)[:min(2, len(points(source.Syms)))] {
			inputs := values{}
			for _, n := range source.Inputs() {
				inputs[n.Name] = fill(n.Type, syms)
			}
			out, _, err := r.run(context.Background(), inputs, device.Run{Syms: syms})
			if err != nil {
				return err
			}
			got := values{}
			for name, x := range out {
				got[name] = x.Array()
			}
			if err := SameAsSource(source, syms, inputs, params, got, exact); err != nil {
				return fmt.Errorf("sizes %v: %w", syms, err)
			}
		}
		return nil
	})
}

// SameAsSource compares the outputs of a compiled graph with those of the source. If exact is set, source is an
// ExactGraph, and they must be equal. Otherwise interp.ReturnAll has changed source, and interp.SameSteps compares
// them.
func SameAsSource(source *ir.Graph, syms map[string]int64, inputs, params, got map[string]*tensor.Array,
	exact bool) error {
	given := func(name string) (*tensor.Array, error) { return params[name], nil }
	if !exact {
		return interp.SameSteps(source, syms, inputs, given, got,
			func(n *ir.Node, in, got, want []*tensor.Array) error {
				return near(whole, n.Op, n.Attrs, in, got, want)
			})
	}
	want, err := interp.Run(source, syms, inputs, given)
	if err != nil {
		return fmt.Errorf("BUG: devicetest: %w", err)
	}
	for _, o := range source.Outputs {
		if err := compare(got[o.Name], want[o.Name], ir.Tolerance{}); err != nil {
			return fmt.Errorf("output %s is not what the source computes: %w", o.Name, err)
		}
	}
	return nil
}
