package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// compare defines a comparison with a result of type bool. It broadcasts like NumPy and takes every element type.
func compare(name, doc string, commutative bool, float func(a, b float64) bool,
	integer func(a, b int64) bool) *ir.OpDef {
	return ir.Define(ir.Def[NoAttrs]{
		Name: name, Doc: doc, Operands: "a, b", Elementwise: true, Commutative: commutative, AsI32: narrowIntsAndBool,
		Discontinuous: func(NoAttrs, ir.Type) bool { return true },
		Infer: func(s ir.Sig[NoAttrs]) (ir.Type, error) {
			if err := sameDType(s.In); err != nil {
				return ir.Type{}, err
			}
			shape, err := broadcast(s.In[0].Shape, s.In[1].Shape)
			return ir.Type{DType: dtype.Bool, Shape: shape}, err
		},
		Eval: func(_ NoAttrs, in []*tensor.Array, out *tensor.Array) error {
			x, y := in[0], in[1]
			at := [][]int{strides(x.Shape, out.Shape), strides(y.Shape, out.Shape)}
			tensor.Walk(out.Shape, at, func(i int, p []int) {
				if x.Floats != nil && float(x.Floats[p[0]], y.Floats[p[1]]) || x.Floats == nil &&
					integer(x.Ints[p[0]], y.Ints[p[1]]) {
					out.Ints[i] = 1
				}
			})
			return nil
		},
		FLOPs: perElement[NoAttrs](1),
		Tol:   exact[NoAttrs],
		Cases: func() []ir.Case[NoAttrs] {
			var cases []ir.Case[NoAttrs]
			for _, p := range append(broadcastPairs(f32), broadcastPairs(i32)[5:9]...) {
				cases = append(cases, ir.Case[NoAttrs]{In: p[:]})
			}
			for _, t := range []ir.Type{bf16(9), i64(9), u8(9), bools(9)} {
				cases = append(cases, ir.Case[NoAttrs]{In: []ir.Type{t, t}})
			}
			return cases
		},
	})
}
