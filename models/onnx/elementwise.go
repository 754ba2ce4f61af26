package onnx

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// unary converts an op of one operand.
func unary(f func(x *ir.Node) *ir.Node) func(n *node) []*value {
	return func(n *node) []*value { return one(f(n.x(0))) }
}

// unaries are ops of one operand that core has.
var _ = func() struct{} {
	for name, f := range map[string]func(x *ir.Node) *ir.Node{
		"Abs": op.Abs, "Atan": op.Atan, "Ceil": op.Ceil, "Cos": op.Cos, "Erf": op.Erf, "Exp": op.Exp, "Floor": op.Floor,
		"IsNaN": op.Isnan, "Log": op.Log, "Mish": op.Mish, "Neg": op.Neg, "Not": op.Not, "Reciprocal": op.Reciprocal,
		"Relu": op.Relu, "Round": op.Round, "Sigmoid": op.Sigmoid, "Sign": op.Sign, "Sin": op.Sin, "Sqrt": op.Sqrt,
		"Tan": op.Tan, "Tanh": op.Tanh, "HardSwish": op.Hardswish,
		"Softsign": func(x *ir.Node) *ir.Node { return op.Div(x, op.Add(number(1, x), op.Abs(x))) },
		"Softplus": func(x *ir.Node) *ir.Node { return op.Softplus(x, 1, 1e9) },
		// asin x = atan(x / sqrt((1-x)(1+x)))
		"Asin": asin,
		"Acos": func(x *ir.Node) *ir.Node { return op.Sub(number(math.Pi/2, x), asin(x)) },
		"Sinh": func(x *ir.Node) *ir.Node {
			e := op.Expm1(op.Abs(x)) // sinh |x| = (e + e/(e+1)) / 2 with e = exp |x| - 1
			y := op.Mul(number(0.5, x), op.Add(e, op.Div(e, op.Add(e, number(1, x)))))
			return op.Where(op.Gt(e, number(1e30, x)), op.Mul(op.Sign(x), op.Mul(number(0.5, x), e)),
				op.Mul(op.Sign(x), y))
		},
		"Cosh": func(x *ir.Node) *ir.Node {
			e := op.Exp(op.Abs(x))
			return op.Mul(number(0.5, x), op.Add(e, op.Reciprocal(e)))
		},
		// asinh |x| = log1p(|x| + x^2 / (1 + sqrt(x^2 + 1)))
		"Asinh": func(x *ir.Node) *ir.Node {
			a, s := op.Abs(x), op.Square(x)
			return op.Mul(
				op.Sign(x), op.Log1p(op.Add(a, op.Div(s, op.Add(number(1, x), op.Sqrt(op.Add(s, number(1, x))))))))
		},
		// acosh x = log1p(t + sqrt(2t + t^2)) with t = x-1
		"Acosh": func(x *ir.Node) *ir.Node {
			t := op.Sub(x, number(1, x))
			return op.Log1p(op.Add(t, op.Sqrt(op.Add(op.Mul(number(2, x), t), op.Square(t)))))
		},
		// atanh x = log1p(2x / (1-x)) / 2
		"Atanh": func(x *ir.Node) *ir.Node {
			return op.Mul(number(0.5, x), op.Log1p(op.Div(op.Mul(number(2, x), x), op.Sub(number(1, x), x))))
		},
		"BitwiseNot": func(x *ir.Node) *ir.Node { return op.Not(x) },
	} {
		register(name, conversion{since: 1, convert: unary(f), symbolic: symbolicUnary[name]})
	}
	return struct{}{}
}()

func asin(x *ir.Node) *ir.Node {
	return op.Atan(op.Div(x, op.Sqrt(op.Mul(op.Sub(number(1, x), x), op.Add(number(1, x), x)))))
}

var (
	_ = on("Identity", 1, func(n *node) []*value { return []*value{n.in[0].clone("")} })
	_ = on("Elu", 1, func(n *node) []*value { return one(op.Elu(n.x(0), n.float("alpha", 1))) })
	_ = on("Celu", 1, func(n *node) []*value { return one(op.Celu(n.x(0), n.float("alpha", 1))) })
	_ = on("LeakyRelu", 1, func(n *node) []*value { return one(op.LeakyRelu(n.x(0), n.float("alpha", 0.01))) })
	_ = on("HardSigmoid", 1, func(n *node) []*value {
		return one(op.Hardsigmoid(n.x(0), n.float("alpha", 0.2), n.float("beta", 0.5)))
	})
	_ = on("Selu", 1, func(n *node) []*value {
		x, a, g := n.x(0), n.float("alpha", 1.6732632423543772848170429916717),
			n.float("gamma", 1.0507009873554804934193349852946)
		return one(op.Mul(number(g, x), op.Elu(x, a)))
	})
	_ = on("ThresholdedRelu", 1, func(n *node) []*value {
		x := n.x(0)
		return one(op.Where(op.Gt(x, number(n.float("alpha", 1), x)), x, number(0, x)))
	})
	_ = on("Shrink", 1, func(n *node) []*value {
		x := n.x(0)
		l, bias := n.float("lambd", 0.5), n.float("bias", 0)
		return one(op.Where(op.Lt(x, number(-l, x)), op.Add(x, number(bias, x)),
			op.Where(op.Gt(x, number(l, x)), op.Sub(x, number(bias, x)), number(0, x))))
	})
	_ = on("PRelu", 1, func(n *node) []*value {
		x, slope := n.x(0), n.x(1)
		if n.version < 7 && slope.Type.Rank() == 1 && x.Type.Rank() > 2 {
			slope = channels(slope, x.Type.Rank())
		}
		return one(op.Where(op.Lt(x, number(0, x)), op.Mul(x, slope), x))
	})
	_ = on("Gelu", 1, func(n *node) []*value {
		if n.str("approximate", "none") == "tanh" {
			return one(op.GeluTanh(n.x(0)))
		}
		return one(op.Gelu(n.x(0)))
	})
	_ = on("Swish", 1, func(n *node) []*value {
		x := n.x(0)
		if a := n.float("alpha", 1); a != 1 {
			return one(op.Mul(x, op.Sigmoid(op.Mul(x, number(a, x)))))
		}
		return one(op.Silu(x))
	})
	_ = on("IsInf", 1, func(n *node) []*value {
		x := n.x(0)
		inf := op.Isinf(x)
		if n.int("detect_negative", 1) == 0 {
			inf = op.And(inf, op.Gt(x, number(0, x)))
		}
		if n.int("detect_positive", 1) == 0 {
			inf = op.And(inf, op.Lt(x, number(0, x)))
		}
		return one(inf)
	})
	_ = register("Where", conversion{since: 1, symbolic: symbolicWhere, convert: func(n *node) []*value {
		return one(op.Where(n.x(0), n.x(1), n.x(2)))
	}})
	_ = on("Clip", 1, func(n *node) []*value {
		x := n.x(0)
		if n.version < 11 {
			return one(op.Clamp(x, n.float("min", math.Inf(-1)), n.float("max", math.Inf(1))))
		}
		lo, hi := n.maybe(1), n.maybe(2)
		if lo != nil {
			x = op.Max(x, lo)
		}
		if hi != nil {
			x = op.Min(x, hi)
		}
		return one(x)
	})
	_ = register("Cast", conversion{since: 1, symbolic: symbolicCast,
		note: "uint16 is kept as int32, uint64 as int64, floats of 8 bits and fewer as their bits in uint8; text is refused",
		convert: func(n *node) []*value {
			to := int32(n.int("to", 1))
			out := one(n.castTo(n.x(0), n.in[0].narrow, to))
			out[0].narrow = narrowType(to)
			return out
		}})
	_ = on("BitCast", 26, bitCast)
	_ = on("CastLike", 1, func(n *node) []*value {
		if v := n.in[0]; v.isKnown() && v.numel() <= maxKnown && n.in[1].narrow == 0 && n.in[0].narrow == 0 {
			a := n.array(0)
			out := tensor.NewArray(n.typeOf(1).DType, a.Shape...)
			if err := op.CastDef.Eval(op.CastAttrs{To: out.DType}, []*tensor.Array{a}, out); err != nil {
				n.fail("%w", err)
			}
			return []*value{made(out)}
		}
		from := n.in[0].narrow
		if t := n.in[1].narrow; t != 0 {
			out := one(n.castTo(n.x(0), from, t))
			out[0].narrow = t
			return out
		}
		x := n.x(0)
		if f, ok := smallFloats[onnxpb.TensorProto_DataType(from)]; ok {
			x = f.decoded(n, x)
		}
		return one(cast(x, n.typeOf(1).DType))
	})
)

// bitCast is BitCast. Casts of integers keep their bits.
func bitCast(n *node) []*value {
	x, to := n.x(0), int32(n.int("to", 1))
	d, from := n.dtype(int(to)), x.Type.DType
	narrow := narrowType(to)
	switch {
	case from == d && n.in[0].narrow == narrow:
	case from == dtype.Bool || d == dtype.Bool:
		if from.Size() != d.Size() {
			n.fail("casts %v to %v; want types of the same size", from, d)
		}
		x = cast(x, d)
	case n.in[0].narrow != 0 || narrow != 0:
		if bitsIn(from, n.in[0].narrow) != bitsIn(d, narrow) || from.IsFloat() || d.IsFloat() {
			n.fail("casts %s; want integers of the same size", typeName(to))
		}
		x = op.Cast(x, d) // the bits that are stored, or the wider number
		if i, ok := smallInts[onnxpb.TensorProto_DataType(to)]; ok && !i.signed {
			x = op.And(x, number(float64(int(1)<<i.bits-1), x))
		}
	case from.IsInt() && d.IsInt():
		if from.Size() != d.Size() {
			n.fail("casts %v to %v; want types of the same size", from, d)
		}
		x = op.Cast(x, d)
	default:
		x = op.BitCast(x, d)
	}
	out := one(x)
	out[0].narrow = narrow
	return out
}

// bitsIn returns the bits of an element of a type, which may be stored in a wider one.
func bitsIn(d dtype.DType, narrow int32) int {
	if b := bitsOf(narrow); b != 0 {
		return b
	}
	return 8 * d.Size()
}

// channels returns a vector [C] as [C,1,...], which broadcasts along axis 1 of a tensor of that rank.
func channels(x *ir.Node, rank int) *ir.Node {
	if x == nil {
		return nil
	}
	shape := append(ir.Shape{}, x.Type.Shape...)
	for range rank - 2 {
		shape = append(shape, ir.Static(1))
	}
	return op.Reshape(x, shape)
}

// pairOf converts an op of two operands.
func pairOf(f func(a, b *ir.Node) *ir.Node) func(n *node) []*value {
	return func(n *node) []*value {
		a, b := n.x(0), n.x(1)
		if n.version < 7 && n.int("broadcast", 0) != 0 && b.Type.Rank() > 0 {
			b = n.oldBroadcast(a, b)
		}
		return one(f(a, b))
	}
}

// oldBroadcast aligns b at an axis of a, as before opset 7.
func (n *node) oldBroadcast(a, b *ir.Node) *ir.Node {
	at := n.int("axis", int64(a.Type.Rank()-b.Type.Rank()))
	shape := append(ir.Shape{}, b.Type.Shape...)
	for at+len(shape) < a.Type.Rank() {
		shape = append(shape, ir.Static(1))
	}
	return op.Reshape(b, shape)
}

var _ = func() struct{} {
	for name, f := range map[string]func(a, b *ir.Node) *ir.Node{
		"And": op.And, "Or": op.Or, "Xor": op.Xor, "BitwiseAnd": op.And, "BitwiseOr": op.Or, "BitwiseXor": op.Xor,
		"GreaterOrEqual": op.Ge, "LessOrEqual": op.Le, "Greater": op.Gt, "Less": op.Lt,
		"Add": op.Add, "Sub": op.Sub, "Mul": op.Mul, "Div": op.Div, "Equal": op.Eq,
	} {
		register(name, conversion{since: 1, convert: pairOf(f), symbolic: symbolicBinary[name]})
	}
	return struct{}{}
}()

var (
	_ = on("Pow", 1, func(n *node) []*value {
		x, y := n.x(0), n.x(1)
		d := x.Type.DType
		if v := n.in[1]; v.isKnown() && v.numel() == 1 && d.IsFloat() && v.typ.Rank() <= x.Type.Rank() {
			switch n.array(1).At(0) {
			case 2:
				return one(op.Square(x))
			case 0.5:
				return one(op.Sqrt(x))
			case 1:
				return one(x)
			}
		}
		to := d
		if !d.IsFloat() {
			to = dtype.F64
		} else if y.Type.DType == dtype.F64 {
			to = dtype.F64
		}
		return one(cast(op.Pow(cast(x, to), cast(y, to)), d))
	})
	_ = on("Mod", 1, func(n *node) []*value {
		if n.int("fmod", 0) != 0 {
			return one(op.Remainder(n.x(0), n.x(1)))
		}
		return one(op.Mod(n.x(0), n.x(1)))
	})
	_ = on("BitShift", 1, func(n *node) []*value {
		if n.str("direction", "") == "LEFT" {
			return one(op.ShiftLeft(n.x(0), n.x(1)))
		}
		return one(op.ShiftRight(n.x(0), n.x(1)))
	})
	_ = on("Sum", 1, variadic(op.Add))
	_ = register("Max", conversion{since: 1, convert: variadic(op.Max), symbolic: symbolicExtreme(false)})
	_ = register("Min", conversion{since: 1, convert: variadic(op.Min), symbolic: symbolicExtreme(true)})
	_ = on("Mean", 1, func(n *node) []*value {
		x := variadic(op.Add)(n)[0].node
		return one(op.Div(x, number(float64(len(n.in)), x)))
	})
)

// variadic converts an op of one or more operands.
func variadic(f func(a, b *ir.Node) *ir.Node) func(n *node) []*value {
	return func(n *node) []*value {
		x := n.x(0)
		for i := range n.in[1:] {
			x = f(x, n.x(i+1))
		}
		return one(x)
	}
}
