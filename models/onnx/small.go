package onnx

import (
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// This file has element types that are stored in other types: integers of 2 and 4 bits and unsigned ones of 16 bits in
// wider integers, and the bits of floats of 8 bits and fewer in u8. Such floats can be moved, cast, quantized and
// dequantized.

// smallInts has the bits of integers that are stored in a wider type.
var smallInts = map[onnxpb.TensorProto_DataType]struct {
	bits   int
	signed bool
}{
	onnxpb.TensorProto_UINT16: {16, false}, onnxpb.TensorProto_INT4: {4, true}, onnxpb.TensorProto_UINT4: {4, false},
	onnxpb.TensorProto_INT2: {2, true}, onnxpb.TensorProto_UINT2: {2, false},
}

// smallFloat is a float of 8 bits or fewer: a sign, an exponent and mantissa bits. The definitions are those of the
// ONNX specification (docs/docsgen/source/technical/float8.md) and of the OCP's MX formats.
type smallFloat struct {
	width, mantissa, bias int
	top                   int // the code of the largest number
	nan                   int // the code for NaN, of a type of 4 bits that for -0, as ml_dtypes casts it
	over                  int // the code for numbers that are too large, where these do not become the largest one
	unsignedZero          bool
}

var smallFloats = map[onnxpb.TensorProto_DataType]smallFloat{
	onnxpb.TensorProto_FLOAT8E4M3FN:   {8, 3, 7, 0x7e, 0x7f, 0x7f, false},
	onnxpb.TensorProto_FLOAT8E4M3FNUZ: {8, 3, 8, 0x7f, 0x80, 0x80, true},
	onnxpb.TensorProto_FLOAT8E5M2:     {8, 2, 15, 0x7b, 0x7e, 0x7c, false},
	onnxpb.TensorProto_FLOAT8E5M2FNUZ: {8, 2, 16, 0x7f, 0x80, 0x80, true},
	onnxpb.TensorProto_FLOAT4E2M1:     {4, 1, 1, 7, 8, 7, false},
	onnxpb.TensorProto_FLOAT8E8M0:     {8, 0, 127, 0xfe, 0xff, 0xff, false},
}

// moves has ops that only move elements, which the import of small floats allows.
var moves = []string{"Cast", "CastLike", "Concat", "DequantizeLinear", "Expand", "Flatten", "Gather", "GatherElements",
	"GatherND", "Identity", "QuantizeLinear", "Reshape", "Shape", "Size", "Slice", "Split", "Squeeze", "Tile",
	"Transpose", "Unsqueeze", "Where", "BitCast"}

// refuseSmall refuses arithmetic with small floats.
func (n *node) refuseSmall() {
	for i, v := range n.in {
		if v == nil || slices.Contains(moves, n.p.GetOpType()) {
			continue
		}
		if _, ok := smallFloats[onnxpb.TensorProto_DataType(v.narrow)]; ok {
			n.fail("input %d has elements of %s; only casts and ops that move elements allow it", i, typeName(v.narrow))
		}
	}
}

// narrowType returns an ONNX type if its values are stored in another one, else 0.
func narrowType(t int32) int32 {
	d := onnxpb.TensorProto_DataType(t)
	if _, ok := smallFloats[d]; ok {
		return t
	}
	if _, ok := smallInts[d]; ok {
		return t
	}
	return 0
}

// bitsOf returns how many bits an element of a type takes in a file, 0 for whole bytes of the type it is stored in.
func bitsOf(t int32) int {
	d := onnxpb.TensorProto_DataType(t)
	if i, ok := smallInts[d]; ok {
		return i.bits
	}
	return smallFloats[d].width
}

// limits returns the range of an integer type, or of narrow if that is stored in a wider type.
func limits(d dtype.DType, narrow int32) (lo, hi int64) {
	i, ok := smallInts[onnxpb.TensorProto_DataType(narrow)]
	switch {
	case !ok:
		return d.IntRange()
	case i.signed:
		return -1 << (i.bits - 1), 1<<(i.bits-1) - 1
	}
	return 0, 1<<i.bits - 1
}

// castTo casts x, of ONNX type from or 0, to an ONNX type. Integers wrap where they are stored in a wider type.
func (n *node) castTo(x *ir.Node, from, to int32) *ir.Node {
	if f, ok := smallFloats[onnxpb.TensorProto_DataType(from)]; ok {
		if from == to {
			return x
		}
		x = f.decoded(n, x)
	}
	d := onnxpb.TensorProto_DataType(to)
	if f, ok := smallFloats[d]; ok {
		if d == onnxpb.TensorProto_FLOAT8E8M0 {
			return n.encodedPower(x)
		}
		return f.encoded(x, n.int("saturate", 1) != 0)
	}
	i, ok := smallInts[d]
	if !ok {
		return cast(x, n.dtype(int(to)))
	}
	y := cast(x, dtype.I32)
	y = op.And(y, number(float64(int(1)<<i.bits-1), y))
	if i.signed {
		half := number(float64(int(1)<<(i.bits-1)), y)
		y = op.Sub(op.Xor(y, half), half)
	}
	return cast(y, n.dtype(int(to)))
}

// value returns the number with a code.
func (f smallFloat) value(code int) float64 {
	if f.mantissa == 0 { // a power of two, without a sign
		if code == f.nan {
			return math.NaN()
		}
		return math.Ldexp(1, code-f.bias)
	}
	sign, abs := 1.0, code&(1<<(f.width-1)-1)
	if code != abs {
		sign = -1
	}
	switch {
	case f.width == 8 && (code == f.nan || !f.unsignedZero && abs > f.top && abs != f.over):
		return math.NaN()
	case f.width == 8 && !f.unsignedZero && abs > f.top && f.over != f.nan:
		return sign * math.Inf(1)
	case f.width == 8 && abs > f.top:
		return math.NaN()
	}
	m, e := abs&(1<<f.mantissa-1), abs>>f.mantissa
	if e == 0 {
		return sign * math.Ldexp(float64(m), 1-f.bias-f.mantissa)
	}
	return sign * math.Ldexp(float64(m+1<<f.mantissa), e-f.bias-f.mantissa)
}

// decoded returns the numbers with codes x as f32: elements of a table.
func (f smallFloat) decoded(n *node, x *ir.Node) *ir.Node {
	table := tensor.NewArray(dtype.F32, 1<<f.width)
	for i := range table.Floats {
		table.Floats[i] = f.value(i)
	}
	y := op.Gather(n.b.at(made(table)), cast(n.flat(x), dtype.I32), 0)
	return op.Reshape(y, x.Type.Shape)
}

// encoded returns the codes of the nearest numbers, u8. Halves go to even codes.
func (f smallFloat) encoded(x *ir.Node, saturate bool) *ir.Node {
	if x.Type.DType != dtype.F64 {
		x = cast(x, dtype.F32)
	}
	num := func(v float64) *ir.Node { return number(v, x) }
	a := op.Abs(x)
	// The numbers of a power of two are multiples of ulp, from first on.
	ulp, first := num(math.Ldexp(1, 1-f.bias-f.mantissa)), num(0)
	for e := 2; e <= f.top>>f.mantissa; e++ {
		in := op.Ge(a, num(math.Ldexp(1, e-f.bias)))
		ulp = op.Where(in, num(math.Ldexp(1, e-f.bias-f.mantissa)), ulp)
		first = op.Where(in, num(float64((e-1)<<f.mantissa)), first)
	}
	code := op.Add(op.Round(op.Div(a, ulp)), first)
	over := f.over
	if saturate || f.width < 8 {
		over = f.top
	}
	big := op.Gt(code, num(float64(f.top)))
	code = op.Where(big, num(float64(over)), code)
	sign := num(float64(int(1) << (f.width - 1)))
	negative := op.Or(op.Lt(x, num(0)), op.Lt(op.Reciprocal(x), num(0)))
	if f.unsignedZero {
		negative = op.And(negative, op.And(op.Gt(code, num(0)), op.Le(code, num(float64(f.top)))))
	}
	code = op.Where(negative, op.Add(code, sign), code)
	return op.Cast(op.Where(op.Isnan(x), num(float64(f.nan)), code), dtype.U8)
}

// encodedPower returns the codes of powers of two near |x|: the exponents plus 127.
func (n *node) encodedPower(x *ir.Node) *ir.Node {
	x = cast(x, dtype.F64)
	num := func(v float64) *ir.Node { return number(v, x) }
	a := op.Abs(x)
	low := op.Const(n.b.g, 0, x.Type)
	power := op.Const(n.b.g, math.Ldexp(1, -127), x.Type)
	// The largest power of two that is not above a, bit by bit of its code.
	for bit := 7; bit >= 0; bit-- {
		next := op.Mul(power, num(math.Ldexp(1, 1<<bit)))
		fits := op.And(op.Ge(a, next), op.Le(op.Add(low, num(float64(int(1)<<bit))), num(254)))
		low = op.Where(fits, op.Add(low, num(float64(int(1)<<bit))), low)
		power = op.Where(fits, next, power)
	}
	up := op.Gt(a, power)
	switch mode := n.str("round_mode", "up"); mode {
	case "up":
	case "down":
		up = op.And(up, op.Lt(up, up))
	case "nearest":
		up = op.Ge(a, op.Mul(power, num(1.5)))
	default:
		n.fail("round_mode is %q; allowed are up, down and nearest", mode)
	}
	code := op.Where(up, op.Add(low, num(1)), low)
	top := num(254)
	if n.int("saturate", 1) == 0 {
		top = num(255)
	}
	code = op.Min(code, top)
	return op.Cast(op.Where(op.Isnan(x), num(255), code), dtype.U8)
}
