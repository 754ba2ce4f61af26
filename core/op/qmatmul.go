package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// QMatMulAttrs are the attributes of qmatmul.
type QMatMulAttrs struct {
	TransB bool `attr:"trans_b"`
	XZero  int  `attr:"x_zero"` // the integers that stand for 0 in x, w and the result
	WZero  int  `attr:"w_zero"`
	YZero  int  `attr:"y_zero"`
}

// QMatMulBias is the index of the optional operand of qmatmul and qconv2d.
const QMatMulBias = 3

// maxQDepth is the largest K for which sums of products of 8-bit integers fit in 32 bits.
const maxQDepth = 1 << 15

// QMatMulDef defines the product of 8-bit integers.
var QMatMulDef = ir.Define(ir.Def[QMatMulAttrs]{
	Name: "qmatmul",
	Doc: "Takes x [..,M,K] and w [K,N] ([N,K] if trans_b), i8 or u8 each, mult (f32 [] or [N]) and perhaps " +
		"bias (i32 [N]). With acc = sum over k of (x - x_zero)(w - w_zero) + bias in 32-bit integers, which " +
		"wrap, the result is round(acc * mult) + y_zero, half to even, limited to the range of x's type, and " +
		"has that type. acc is rounded to f32, and so is the product. K is static, at most 32768. NaN gives " +
		"0.",
	Operands: "x, w, mult, bias?",
	Infer: func(s ir.Sig[QMatMulAttrs]) (ir.Type, error) {
		a, x, w, mult := s.Attrs, s.In[0], s.In[1], s.In[2]
		for _, v := range []struct {
			name string
			t    ir.Type
			zero int
		}{{"x", x, a.XZero}, {"w", w, a.WZero}, {"y", x, a.YZero}} {
			if d := v.t.DType; d != dtype.I8 && d != dtype.U8 {
				return ir.Type{}, fmt.Errorf("%s is %v; want i8 or u8", v.name, v.t)
			}
			if err := checkZero(v.name+"_zero", v.zero, v.t.DType); err != nil {
				return ir.Type{}, err
			}
		}
		if x.Rank() < 2 || w.Rank() != 2 {
			return ir.Type{}, fmt.Errorf("operands are %v and %v; want x of rank 2 or more and w of rank 2", x, w)
		}
		k, n := w.Shape[0], w.Shape[1]
		if a.TransB {
			k, n = n, k
		}
		if d := x.Shape[x.Rank()-1]; d != k {
			return ir.Type{}, ir.Differ(d, k, "x is %v and w %v (trans_b=%v); want equal sizes to sum over", x, w,
				a.TransB)
		}
		if !k.IsStatic() || k.Const > maxQDepth {
			return ir.Type{}, fmt.Errorf("x is %v; want a static last axis of at most %d", x, maxQDepth)
		}
		if mult.DType != dtype.F32 || mult.Rank() > 1 || mult.Rank() == 1 && mult.Shape[0] != n {
			return ir.Type{}, fmt.Errorf("mult is %v; want f32[] or f32[%v]", mult, n)
		}
		if bias := s.In[QMatMulBias]; bias.Present() {
			if err := vectorOf("bias", bias, dtype.I32, n); err != nil {
				return ir.Type{}, err
			}
		}
		shape := append(append(ir.Shape{}, x.Shape[:x.Rank()-1]...), n)
		return ir.Type{DType: x.DType, Shape: shape}, nil
	},
	Eval: func(a QMatMulAttrs, in []*tensor.Array, out *tensor.Array) error {
		x, w, n := in[0], in[1], out.Shape[len(out.Shape)-1]
		k := x.Shape[len(x.Shape)-1]
		for i := range out.Ints {
			row, col := i/n, i%n
			acc := int32(0)
			for l := range k {
				v := w.Ints[(l*n+col)*btoi(!a.TransB)+(col*k+l)*btoi(a.TransB)]
				acc += int32(x.Ints[row*k+l]-int64(a.XZero)) * int32(v-int64(a.WZero))
			}
			out.Ints[i] = a.finish(acc, col, in, out.DType)
		}
		return nil
	},
	FLOPs: func(_ QMatMulAttrs, in []ir.Type, out ir.Type) int64 {
		return 2 * numel(out) * in[0].Shape[in[0].Rank()-1].Const
	},
	Tol: exact[QMatMulAttrs],
	Cases: func() []ir.Case[QMatMulAttrs] {
		c := func(a QMatMulAttrs, in ...ir.Type) ir.Case[QMatMulAttrs] {
			fill := []ir.Range{byteRange(in[0]), byteRange(in[1]), {Lo: 0.0005, Hi: 0.01}, {Lo: -1000, Hi: 1000}}
			return ir.Case[QMatMulAttrs]{Attrs: a, In: in, Fill: fill[:len(in)]}
		}
		return []ir.Case[QMatMulAttrs]{
			c(QMatMulAttrs{}, i8(1, 1), i8(1, 1), f32()), c(QMatMulAttrs{}, i8(3, 5), i8(5, 7), f32(), i32(7)),
			c(QMatMulAttrs{TransB: true}, i8(9, 33), i8(17, 33), f32(17), i32(17)),
			c(QMatMulAttrs{XZero: 128, YZero: 100, TransB: true}, u8(5, 40), i8(6, 40), f32(6)),
			c(QMatMulAttrs{XZero: -7, WZero: 3, YZero: -5}, i8(2, 3, 19), i8(19, 4), f32(), i32(4)),
			c(QMatMulAttrs{XZero: 255, WZero: 0}, u8(3, 70), u8(70, 5), f32(5)),
			c(QMatMulAttrs{}, i8(3, 0), i8(0, 4), f32()), c(QMatMulAttrs{}, i8(0, 3), i8(3, 4), f32()),
			c(QMatMulAttrs{TransB: true}, i8(4, 1500), i8(3, 1500), f32(3), i32(3)),
			c(QMatMulAttrs{}, i8(65, 64), i8(64, 33), f32(33)),
		}
	},
})

// finish computes an element of column col from its sum. in has the operands of qmatmul or qconv2d.
func (a QMatMulAttrs) finish(acc int32, col int, in []*tensor.Array, d dtype.DType) int64 {
	if bias := in[QMatMulBias]; bias != nil {
		acc += int32(bias.Ints[col])
	}
	mult := in[2].Floats
	scaled := float32(acc) * float32(mult[col%len(mult)])
	return saturate(math.RoundToEven(float64(scaled))+float64(a.YZero), d)
}

// byteRange returns the range of all values of a type.
func byteRange(t ir.Type) ir.Range {
	lo, hi := t.DType.IntRange()
	return ir.Range{Lo: float64(lo), Hi: float64(hi)}
}

// exactDepth is how many products of 8-bit integers f32 can add exactly. Integers in f32 are exact up to 2^24.
const exactDepth = (1 << 24) / (255 * 255)

// The lowering multiplies pieces in f32 that are small enough to be exact, and adds the results as integers.
var _ = ir.Lower(QMatMulDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(QMatMulAttrs)
	shifted := func(v *ir.Node, zero int) *ir.Node {
		f := Cast(v, dtype.F32)
		if zero != 0 {
			f = Sub(f, number(float64(zero), f))
		}
		return f
	}
	x, w := shifted(in[0], a.XZero), shifted(in[1], a.WZero)
	last, k := x.Type.Rank()-1, int(in[0].Type.Shape[in[0].Type.Rank()-1].Const)
	var acc *ir.Node
	for at := 0; at == 0 || at < k; at += exactDepth {
		size := min(exactDepth, k-at)
		p := Cast(MatMul(Narrow(x, last, at, size), Narrow(w, btoi(a.TransB), at, size), MatMulAttrs{TransB: a.TransB}),
			dtype.I32)
		if acc == nil {
			acc = p
		} else {
			acc = Add(acc, p)
		}
	}
	if bias := in[QMatMulBias]; bias != nil {
		acc = Add(acc, bias)
	}
	scaled := Mul(Cast(acc, dtype.F32), in[2])
	y := Round(scaled)
	if a.YZero != 0 {
		y = Add(y, number(float64(a.YZero), y))
	}
	return Cast(y, n.Type.DType)
})

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// QMatMul adds the product of 8-bit integers. bias may be nil.
func QMatMul(x, w, mult, bias *ir.Node, a QMatMulAttrs) *ir.Node {
	return x.Graph.Add(QMatMulDef, a, x, w, mult, bias)
}
