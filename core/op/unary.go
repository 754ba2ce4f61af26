package op

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// unary defines y = f(x) on floats. The one-paragraph doc is the op's; flops is its cost per element; fill is the range
// of test values.
func unary(name, doc string, flops int64, tol func(NoAttrs, []ir.Type, ir.Type) ir.Tolerance, fill ir.Range,
	f func(float64) float64) *ir.OpDef {
	return ir.Define(ir.Def[NoAttrs]{
		Name: name, Doc: doc, MinIn: 1, MaxIn: 1, Elementwise: true, InPlace: []int{0},
		Infer: func(s ir.Sig[NoAttrs]) (ir.Type, error) { return s.In[0], isFloat("operand", s.In[0]) },
		Eval: func(_ NoAttrs, in []*tensor.Array, out *tensor.Array) error {
			for i, x := range in[0].F {
				out.F[i] = f(x)
			}
			return nil
		},
		FLOPs: perElement[NoAttrs](flops),
		Tol:   tol,
		Cases: func() []ir.Case[NoAttrs] {
			var cases []ir.Case[NoAttrs]
			for _, t := range []ir.Type{f32(), f32(0), f32(1), f32(7), f32(3, 5, 17), f32(4, 257), f16(33), bf16(2, 19), f64(5)} {
				cases = append(cases, ir.Case[NoAttrs]{In: []ir.Type{t}, Fill: []ir.Range{fill}})
			}
			return cases
		},
	})
}

// wide is the default range of test values of functions defined everywhere.
var wide = ir.Range{Lo: -6, Hi: 6}

// lowerUnary expresses a function of one float in other ops.
func lowerUnary(def *ir.OpDef, f func(x *ir.Node) *ir.Node) struct{} {
	return ir.Lower(def, func(_ *ir.Graph, _ *ir.Node, in []*ir.Node) *ir.Node { return f(in[0]) })
}

// number is a constant of x's element type.
func number(v float64, x *ir.Node) *ir.Node { return Const(x.Graph, v, ir.TypeOf(x.Type.DType)) }
