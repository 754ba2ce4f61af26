package devicetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// A compiled graph is compared with its source in two ways. If the source rounds nothing (ExactGraph), its outputs must have the same numbers.
// Otherwise rounding errors accumulate, and fusions round less often; so every value of the source becomes an output (ReturnAll), and
// sameSteps compares each with its op's definition on the operands that the compiled graph computed.

// ReturnAll makes every value of a graph an output, called value.ID.
func ReturnAll(g *ir.Graph) {
	for _, n := range g.Nodes {
		if !n.Op.Effects && !n.Op.Tuple {
			g.Return(valueName(n), n)
		}
	}
}

func valueName(n *ir.Node) string { return fmt.Sprintf("value.%d", n.ID) }

// sameSteps compares the outputs that ReturnAll added to a graph with the definitions of its ops, within their tolerances.
func sameSteps(g *ir.Graph, syms map[string]int64, inputs, params, got map[string]*tensor.Array) error {
	value := func(n *ir.Node) *tensor.Array {
		switch n.Op.Name {
		case "input":
			return inputs[n.Name]
		case "param":
			return params[n.Name]
		}
		return got[valueName(n)]
	}
	var errs []error
	for _, n := range g.Nodes {
		if n.Op.Effects || n.Op == ir.ResultDef { // a tuple node checks all results
			continue
		}
		in := make([]*tensor.Array, len(n.In))
		for k, x := range n.In {
			in[k] = value(x)
		}
		want, err := interp.Eval(n, syms, in)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Label(), err)
		}
		results := make([]*tensor.Array, len(want))
		for k, v := range n.Values() {
			results[k] = value(v)
		}
		if err := near(whole, n.Op, n.Attrs, in, results, want); err != nil {
			errs = append(errs, fmt.Errorf("%s (%s %v): %w", n.Label(), n.Op.Name, n.InTypes(), err))
		}
	}
	return errors.Join(errs...)
}

// checkSource runs the compiled form of a graph and compares it with the graph itself, the source. given has the params that compiling
// added. source and exact are those of SameAsSource.
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

// SameAsSource compares the outputs of a compiled graph with what the source computes. If exact is set, source is an ExactGraph, and they must
// be equal. Otherwise ReturnAll has changed it, and sameSteps compares them.
func SameAsSource(source *ir.Graph, syms map[string]int64, inputs, params, got map[string]*tensor.Array, exact bool) error {
	if !exact {
		return sameSteps(source, syms, inputs, params, got)
	}
	want, err := interp.Run(source, syms, inputs, func(name string) (*tensor.Array, error) { return params[name], nil })
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
