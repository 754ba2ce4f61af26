package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// CastAttrs are the attributes of cast.
type CastAttrs struct {
	To dtype.DType `attr:"to"`
}

// CastDef converts between element types.
var CastDef = ir.Define(ir.Def[CastAttrs]{
	Name:          "cast",
	Discontinuous: func(_ CastAttrs, out ir.Type) bool { return !out.DType.IsFloat() },
	Doc: "The value of x as another element type. Float to integer truncates toward zero and saturates, NaN gives 0; " +
		"anything to bool is x != 0 (NaN is true); bool gives 0 and 1; between floats it rounds to nearest, ties to even, " +
		"overflow gives Inf; integer to integer wraps; integer to float rounds to nearest even. The same type is a view.",
	Operands: "x", Elementwise: true,
	View: func(a CastAttrs, in, _ ir.Type) (int64, bool) { return 0, in.DType == a.To },
	Infer: func(s ir.Sig[CastAttrs]) (ir.Type, error) {
		if s.Attrs.To == dtype.Invalid {
			return ir.Type{}, fmt.Errorf("attribute to is missing; want an element type")
		}
		return ir.Type{DType: s.Attrs.To, Shape: s.In[0].Shape}, nil
	},
	Eval: func(a CastAttrs, in []*tensor.Array, out *tensor.Array) error {
		x := in[0]
		for i := range x.Len() {
			switch {
			case out.Floats != nil && x.Floats != nil:
				out.Floats[i] = x.Floats[i]
				if a.To == dtype.F32 && x.DType == dtype.F64 {
					out.Floats[i] = float64(float32(x.Floats[i]))
				}
			case out.Floats != nil && a.To == dtype.F64:
				out.Floats[i] = float64(x.Ints[i])
			case out.Floats != nil:
				out.Floats[i] = float64(float32(x.Ints[i]))
			case a.To == dtype.Bool:
				if x.At(i) != 0 {
					out.Ints[i] = 1
				}
			case x.DType == dtype.F32: // round f32, which may be the unrounded result of another definition
				out.Ints[i] = saturate(float64(float32(x.Floats[i])), a.To)
			case x.Floats != nil:
				out.Ints[i] = saturate(x.Floats[i], a.To)
			default:
				out.Ints[i] = x.Ints[i] // OpDef.Eval wraps the result to its type
			}
		}
		return nil
	},
	FLOPs: noFLOPs[CastAttrs],
	Tol:   func(_ CastAttrs, _ []ir.Type, out ir.Type) ir.Tolerance { return ir.Tolerance{} },
	Cases: func() []ir.Case[CastAttrs] {
		var cases []ir.Case[CastAttrs]
		for _, from := range dtype.All() {
			for _, to := range dtype.All() {
				c := ir.Case[CastAttrs]{Attrs: CastAttrs{to}, In: []ir.Type{ir.TypeOf(from, 3, 11)}}
				if from.IsFloat() {
					c.Fill = []ir.Range{{Lo: -400, Hi: 400}}
				}
				cases = append(cases, c)
			}
		}
		return append(cases, ir.Case[CastAttrs]{Attrs: CastAttrs{dtype.F32}, In: []ir.Type{f16(0)}},
			ir.Case[CastAttrs]{Attrs: CastAttrs{dtype.F32}, In: []ir.Type{bf16(4, 257)}})
	},
})

// Cast adds a conversion to another element type.
func Cast(x *ir.Node, to dtype.DType) *ir.Node { return x.Graph.Add(CastDef, CastAttrs{to}, x) }

// saturate truncates toward zero into the range of an integer type.
func saturate(f float64, d dtype.DType) int64 {
	lo, hi := d.IntRange()
	switch {
	case math.IsNaN(f):
		return 0
	case f <= float64(lo):
		return lo
	case f >= float64(hi):
		return hi
	}
	return int64(f)
}

var _ = gradient(CastDef, func(n *ir.Node, _ CastAttrs, dy *ir.Node) []*ir.Node {
	return []*ir.Node{castTo(dy, n.In[0].Type.DType)}
})
