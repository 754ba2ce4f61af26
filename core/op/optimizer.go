package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// optimizer describes an op that updates a parameter and the moments of its optimizer in place. Its operands are these
// states, then the gradient, of the same type, and a vector with the numbers of the step.
type optimizer struct {
	name, doc string
	states    []string // the parameter is the first
	numbers   []string // in the order of the vector
	flops     int64    // per element
	// step computes the new values of one element's states, over the old ones.
	step func(states []float64, g float64, numbers []float64)
	fill []ir.Range // of the states and the gradient
}

func (o optimizer) define() *ir.OpDef {
	k, results, operands := len(o.states), "", ""
	for i, s := range o.states {
		if i > 0 {
			results += ", "
		}
		results, operands = results+"new "+s, operands+s+", "
	}
	return ir.DefineTuple(ir.TupleDef[NoAttrs]{
		Name: o.name, Doc: o.doc, Results: results, Operands: operands + "g, numbers", Updates: true,
		Infer: func(s ir.Sig[NoAttrs]) ([]ir.Type, error) {
			p, n := s.In[0], s.In[k+1]
			if p.DType != dtype.F32 || p.Rank() == 0 {
				return nil, fmt.Errorf("p is %v; want f32 of rank 1 or more", p)
			}
			for i, x := range s.In[1 : k+1] {
				if !x.Equal(p) {
					return nil, ir.TypesDiffer(x, p, "operand %d is %v and p is %v; want equal types", i+1, x, p)
				}
			}
			if want := ir.TypeOf(dtype.F32, int64(len(o.numbers))); !n.Equal(want) {
				return nil, fmt.Errorf("numbers is %v; want %v", n, want)
			}
			return s.In[:k:k], nil
		},
		Eval: func(_ NoAttrs, in, out []*tensor.Array) error {
			values := make([]float64, k)
			for e, g := range in[k].Floats {
				for i := range values {
					values[i] = in[i].Floats[e]
				}
				o.step(values, g, in[k+1].Floats)
				for i, v := range values {
					out[i].Floats[e] = v
				}
			}
			return nil
		},
		FLOPs: func(_ NoAttrs, in, _ []ir.Type) int64 { return o.flops * numel(in[0]) },
		Tol: func(_ NoAttrs, _, out []ir.Type) []ir.Tolerance {
			tol := make([]ir.Tolerance, len(out))
			for i := range tol {
				tol[i] = forDType(out[i].DType, 2e-6, 1e-5)
			}
			return tol
		},
		Cases: func() (cases []ir.Case[NoAttrs]) {
			numbers := f32(int64(len(o.numbers)))
			for _, p := range []ir.Type{f32(7), f32(5, 3), f32(0, 4), f32(2, 3, 67), f32(1025), f32(33, 257)} {
				in := make([]ir.Type, k+1, k+2)
				for i := range in {
					in[i] = p
				}
				cases = append(cases, ir.Case[NoAttrs]{In: append(in, numbers),
					Fill: append(o.fill[:k+1:k+1], ir.Range{Lo: 0.125, Hi: 1})})
			}
			return cases
		},
	})
}

// optimizerNumbers returns the elements of the vector of numbers as values without axes.
func optimizerNumbers(v *ir.Node) []*ir.Node {
	out := make([]*ir.Node, v.Type.Shape[0].Const)
	for i := range out {
		out[i] = Reshape(Narrow(v, 0, i, 1), nil)
	}
	return out
}

// assigned writes values over states, each in a pass of its own.
func assigned(states []*ir.Node, values ...*ir.Node) []*ir.Node {
	out, first := make([]*ir.Node, len(values)), Const(states[0].Graph, 0, ir.TypeOf(dtype.I32))
	for i, v := range values {
		out[i] = KVAppend(states[i], v, first, 0)
	}
	return out
}

func noOptimizerGradient(*ir.Node, []*ir.Node) ([]*ir.Node, error) {
	return nil, fmt.Errorf("has no gradient: it updates states, and values that a state keeps between runs have none")
}
