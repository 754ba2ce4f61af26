package op

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// BitCastAttrs are the attributes of bit_cast.
type BitCastAttrs struct {
	To dtype.DType `attr:"to"`
}

// bitCasts are the pairs of types of bit_cast.
var bitCasts = [][2]dtype.DType{{dtype.F32, dtype.I32}, {dtype.F32, dtype.U32}, {dtype.F64, dtype.I64}}

// BitCastDef reads the bits of elements as another type.
var BitCastDef = ir.Define(ir.Def[BitCastAttrs]{
	Name: "bit_cast",
	Doc: "x with the bits of its elements read as another element type: f32 as i32 or u32, f64 as i64, or back. Nothing is computed. " +
		"NumPy's view.",
	Operands:      "x",
	Discontinuous: func(BitCastAttrs, ir.Type) bool { return true },
	View:          func(BitCastAttrs, ir.Type, ir.Type) (int64, bool) { return 0, true },
	AlwaysView:    true,
	Infer: func(s ir.Sig[BitCastAttrs]) (ir.Type, error) {
		x, to := s.In[0], s.Attrs.To
		ok := slices.ContainsFunc(bitCasts, func(p [2]dtype.DType) bool {
			return p == [2]dtype.DType{x.DType, to} || p == [2]dtype.DType{to, x.DType}
		})
		if !ok {
			return ir.Type{}, fmt.Errorf("x is %v and to is %v; want f32 and i32 or u32, or f64 and i64", x, to)
		}
		return ir.Type{DType: to, Shape: x.Shape}, nil
	},
	Eval: func(a BitCastAttrs, in []*tensor.Array, out *tensor.Array) error {
		x := in[0]
		for i := range x.Len() {
			switch {
			case x.DType == dtype.F32:
				out.Ints[i] = int64(math.Float32bits(float32(x.Floats[i])))
			case x.DType == dtype.F64:
				out.Ints[i] = int64(math.Float64bits(x.Floats[i]))
			case a.To == dtype.F32:
				out.Floats[i] = float64(math.Float32frombits(uint32(x.Ints[i])))
			default:
				out.Floats[i] = math.Float64frombits(uint64(x.Ints[i]))
			}
		}
		return nil
	},
	FLOPs: noFLOPs[BitCastAttrs],
	Tol:   exact[BitCastAttrs],
	Cases: func() (cases []ir.Case[BitCastAttrs]) {
		for _, p := range bitCasts {
			for _, shape := range [][]int64{{}, {7}, {3, 5}, {0, 2}} {
				float, integer := ir.TypeOf(p[0], shape...), ir.TypeOf(p[1], shape...)
				cases = append(cases, ir.Case[BitCastAttrs]{Attrs: BitCastAttrs{p[1]}, In: []ir.Type{float}},
					ir.Case[BitCastAttrs]{Attrs: BitCastAttrs{p[0]}, In: []ir.Type{integer},
						Fill: []ir.Range{{Lo: 0x3f800000, Hi: 0x40000000}}}) // from 1 to 2 in f32
			}
		}
		return cases
	},
})

// BitCast adds the bits of x as another element type of the same size.
func BitCast(x *ir.Node, to dtype.DType) *ir.Node {
	return x.Graph.Add(BitCastDef, BitCastAttrs{to}, x)
}
