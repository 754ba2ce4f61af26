package hir

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// ScanAttrs are the attributes of scan.
type ScanAttrs struct {
	Body       *ir.Graph `attr:"body"`       // the next carried values
	Carried    int       `attr:"carried"`    // number of carried values; 0 means 1
	Steps      int       `attr:"steps"`      // number of operands, the last, that have a slice for each iteration
	Length     int       `attr:"length"`     // number of iterations; may be 0 if an operand has slices
	Trajectory bool      `attr:"trajectory"` // the result has the value after each iteration, not only after the last
	Result     int       `attr:"result"`     // index of the carried value that is the result
}

func (a ScanAttrs) carried() int { return max(a.Carried, 1) }

// ScanDef is a loop over slices of its operands.
var ScanDef = ir.Define(ir.Def[ScanAttrs]{
	Name: "scan", Operands: "in...", Block: true,
	Doc: "A loop with a fixed number of iterations. The operands are the initial carried values, then values that every iteration reads, then those with a slice for " +
		"each iteration (steps): iteration t reads x[t] of x [length, ...]. The inputs of the graph body are the carried values, the values that do not change, and " +
		"the slices, in this order; it returns the next carried values. The result is one of the carried values after the last iteration, of type T, or with trajectory " +
		"[length, ...T], whose row t is the value after iteration t. Lowering makes it a loop, which is one step or is unrolled.",
	Infer: func(s ir.Sig[ScanAttrs]) (ir.Type, error) {
		a, first := s.Attrs, len(s.In)-s.Attrs.Steps
		switch {
		case a.Carried < 0 || a.Steps < 0 || a.carried() > first:
			return ir.Type{}, fmt.Errorf("carried is %d and steps %d of %d operands; want 1 or more carried values and, "+
				"after them, 0 or more with slices", a.Carried, a.Steps, len(s.In))
		case a.Result < 0 || a.Result >= a.carried():
			return ir.Type{}, fmt.Errorf("result is %d; want 0 to %d, the index of a carried value", a.Result,
				a.carried()-1)
		}
		length, err := a.length(s.In)
		if err != nil {
			return ir.Type{}, err
		}
		types := slices.Clone(s.In)
		for k := first; k < len(types); k++ {
			types[k].Shape = types[k].Shape[1:]
		}
		out, err := ir.CheckBody("body", a.Body, types, s.Syms)
		if err == nil {
			err = carried(a.Body, out, types[:a.carried()])
		}
		if err != nil {
			return ir.Type{}, err
		}
		t := s.In[a.Result]
		if a.Trajectory {
			t.Shape = append(ir.ShapeOf(int64(length)), t.Shape...)
		}
		return t, nil
	},
	EvalBodies: func(a ScanAttrs, run ir.RunBody, in []*tensor.Array, out *tensor.Array) error {
		first, length := len(in)-a.Steps, a.Length
		if a.Steps > 0 {
			length = in[first].Shape[0]
		}
		in = slices.Clone(in)
		steps := slices.Clone(in[first:])
		size := tensor.Numel(in[a.Result].Shape)
		for t := range length {
			for k, x := range steps {
				in[first+k] = rows(x, t, 1)
				in[first+k].Shape = x.Shape[1:]
			}
			next, err := run(a.Body, in)
			if err != nil {
				return fmt.Errorf("iteration %d: %w", t, err)
			}
			copy(in, next)
			if a.Trajectory {
				copy(out.Floats[min(t*size, len(out.Floats)):], in[a.Result].Floats)
				copy(out.Ints[min(t*size, len(out.Ints)):], in[a.Result].Ints)
			}
		}
		if !a.Trajectory {
			store(out, in[a.Result])
		}
		return nil
	},
})

// rows returns n rows of x, from row t on.
func rows(x *tensor.Array, t, n int) *tensor.Array {
	size := tensor.Numel(x.Shape[1:])
	y := &tensor.Array{DType: x.DType, Shape: append([]int{n}, x.Shape[1:]...)}
	if x.Floats != nil {
		y.Floats = x.Floats[t*size:][:n*size]
	} else {
		y.Ints = x.Ints[t*size:][:n*size]
	}
	return y
}

// length returns the number of iterations for operands of the given types.
func (a ScanAttrs) length(in []ir.Type) (int, error) {
	length := a.Length
	for k, t := range in[len(in)-a.Steps:] {
		switch {
		case t.DType.IsPacked() || t.Rank() == 0 || !t.Shape[0].IsStatic() || t.Shape[0].Const < 1:
			return 0, fmt.Errorf("in[%d] is %v; want [length, ...] with a number of slices that is known and not 0",
				len(in)-a.Steps+k, t)
		case length != 0 && int64(length) != t.Shape[0].Const:
			return 0, fmt.Errorf("in[%d] is %v; want %d slices, the length", len(in)-a.Steps+k, t, length)
		}
		length = int(t.Shape[0].Const)
	}
	if length < 1 || length > op.MaxIterations {
		return 0, fmt.Errorf("length is %d; want 1 to %d, or operands with slices", length, op.MaxIterations)
	}
	return length, nil
}

var _ = ir.Lower(ScanDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(ScanAttrs)
	length, err := a.length(n.InTypes())
	if err != nil {
		g.Fail(err)
	}
	result := a.Result
	if a.Trajectory {
		result += a.carried()
	}
	return op.Loop(op.LoopAttrs{Body: flat(g, a.Body), Carried: a.carried(), Steps: a.Steps, Length: length,
		Results: []int{result}}, in...)[0]
})

// Scan adds a loop over slices of its operands. It returns the carried value that a.Result says.
func Scan(a ScanAttrs, in ...*ir.Node) *ir.Node {
	return in[0].Graph.Add(ScanDef, a, slices.Clone(in)...)
}
