package compile

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/tensor"
)

// CheckSource compiles each method for each target once more, with every value of the graph as an output, so that none
// disappears in a fusion. It runs the result by the reference, on generated inputs at the smallest sizes, and compares
// each value with the op of the source graph on the operands that the compiled graph computed, within the op's
// tolerance. It returns a diag.Error with code.Source for the first that differs. skipped lists the methods that are
// not compared, with the reason: those that a target runs only in segments or only with its fusions, and those that
// refuse generated inputs.
func CheckSource(ctx context.Context, methods []*ir.Graph, o Options) (skipped []string, err error) {
	for _, g := range methods {
		for _, t := range o.Targets {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			name := g.Name + "/" + t.Name
			err := checkSource(g, t, o)
			switch {
			case errors.As(err, new(refusal)):
				skipped = append(skipped, name+": the reference refuses generated inputs: "+err.Error())
			case errors.Is(err, code.Untaken):
				skipped = append(skipped, name+": the target does not run each op by itself")
			case err != nil:
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return skipped, nil
}

func checkSource(g *ir.Graph, t Target, o Options) error {
	source, _, err := pass.RunOne(g, t.Takes, "lower", pass.Options{}) // blocks have no definition of their own
	if err != nil {
		return err
	}
	interp.ReturnAll(source)
	out, report, err := pass.Run(source, t.Takes, pass.Options{Params: o.Params})
	if err != nil {
		return err
	}
	params := func(name string) (*tensor.Array, error) {
		if v, ok := report.Folded[name]; ok {
			return v.Array(), nil
		}
		return o.Params.Param(name)
	}
	var refused error
	compared := false
	for try := range uint64(4) {
		syms, inputs := g.Syms.Min(), map[string]*tensor.Array{}
		for _, n := range g.Inputs() {
			h := fnv.New64()
			h.Write([]byte(n.Name))
			// integers are often indices of small tables; some floats, such as probabilities, must be in the range, too
			r := ir.Range{Lo: 0, Hi: 1}
			if n.Type.DType.IsFloat() && try%2 == 0 {
				r.Lo = -1
			}
			inputs[n.Name] = interp.Random(rand.New(rand.NewPCG(h.Sum64(), try)), n.Type, syms, r)
		}
		if _, refused = interp.Run(source, syms, inputs, o.Params.Param); refused != nil {
			continue
		}
		compared = true
		got, err := interp.Run(out, syms, inputs, params)
		if err == nil {
			err = interp.SameSteps(source, syms, inputs, params, got, near)
		}
		if err != nil {
			return diag.New(code.Source, t.Name, "%w", err)
		}
	}
	if !compared {
		return refusal{refused}
	}
	return nil
}

// refusal is the reason why a method does not take generated inputs.
type refusal struct{ error }

// near compares the results of an op within its tolerances.
func near(n *ir.Node, in, got, want []*tensor.Array) error {
	for k, tol := range n.Op.Tol(n.Attrs, typesOf(in), typesOf(want)...) {
		if err := interp.Compare(got[k], want[k], tol); err != nil {
			return err
		}
	}
	return nil
}

func typesOf(arrays []*tensor.Array) (types []ir.Type) {
	for _, x := range arrays {
		types = append(types, interp.TypeOf(x))
	}
	return types
}
