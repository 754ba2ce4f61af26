package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// binarySpec describes z = f(x, y) on equal element types with NumPy broadcast.
type binarySpec struct {
	name, doc   string
	commutative bool
	tol         func(NoAttrs, []ir.Type, ir.Type) ir.Tolerance
	float       func(a, b float64) float64
	integer     func(a, b int64) int64 // nil: floats only. Results wrap
	zero        string                 // what an integer divisor of 0 is called in errors; empty: allowed
	fill        []ir.Range
}

func binary(b binarySpec) *ir.OpDef {
	return ir.Define(ir.Def[NoAttrs]{
		Name: b.name, Doc: b.doc, MinIn: 2, MaxIn: 2, Elementwise: true, Commutative: b.commutative, InPlace: []int{0, 1},
		Infer: func(s ir.Sig[NoAttrs]) (ir.Type, error) {
			if err := sameDType(s.In); err != nil {
				return ir.Type{}, err
			}
			if d := s.In[0].DType; d == dtype.Bool || b.integer == nil && !d.IsFloat() {
				return ir.Type{}, fmt.Errorf("operands are %v; want a number type that the op takes", s.In[0])
			}
			shape, err := broadcast(s.In[0].Shape, s.In[1].Shape)
			return ir.Type{DType: s.In[0].DType, Shape: shape}, err
		},
		Eval: func(_ NoAttrs, in []*tensor.Array, out *tensor.Array) error {
			x, y := in[0], in[1]
			at := [][]int{strides(x.Shape, out.Shape), strides(y.Shape, out.Shape)}
			if out.F != nil {
				walk(out.Shape, at, func(i int, p []int) { out.F[i] = b.float(x.F[p[0]], y.F[p[1]]) })
				return nil
			}
			zero := false
			walk(out.Shape, at, func(i int, p []int) {
				if b.zero != "" && y.I[p[1]] == 0 {
					zero = true
					return
				}
				out.I[i] = b.integer(x.I[p[0]], y.I[p[1]])
			})
			if zero {
				return fmt.Errorf("%s: %s is 0", b.name, b.zero)
			}
			return nil
		},
		FLOPs: perElement[NoAttrs](1),
		Tol:   b.tol,
		Cases: func() []ir.Case[NoAttrs] {
			pairs := broadcastPairs(f32)
			pairs = append(pairs, [2]ir.Type{f16(3, 7), f16(7)}, [2]ir.Type{bf16(33), bf16(33)}, [2]ir.Type{f64(5), f64()})
			if b.integer != nil {
				pairs = append(pairs, [2]ir.Type{i32(3, 7), i32(7)}, [2]ir.Type{i64(9), i64(9)}, [2]ir.Type{u8(9), u8(9)},
					[2]ir.Type{u32(9), u32()})
			}
			var cases []ir.Case[NoAttrs]
			for _, p := range pairs {
				fill := b.fill
				if b.zero != "" && p[0].DType.IsInt() {
					fill = []ir.Range{{Lo: 0, Hi: 100}, {Lo: 1, Hi: 5}}
				}
				cases = append(cases, ir.Case[NoAttrs]{In: p[:], Fill: fill})
			}
			return cases
		},
	})
}

// broadcastPairs are operand shapes that a binary kernel must get right.
func broadcastPairs(t func(...int64) ir.Type) [][2]ir.Type {
	return [][2]ir.Type{
		{t(), t()}, {t(0), t(0)}, {t(0), t(1)}, {t(1), t(1)}, {t(17), t(17)}, {t(17), t()}, {t(), t(5)},
		{t(3, 33), t(3, 33)}, {t(3, 33), t(33)}, {t(3, 33), t(3, 1)}, {t(3, 1), t(1, 5)}, {t(2, 3, 4), t(3, 1)},
		{t(2, 1, 4, 1), t(3, 1, 5)}, {t(4, 257), t(4, 257)},
	}
}
