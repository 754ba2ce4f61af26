package elementwise

import "github.com/rlx-go/rlx/core/dtype"

// Norms, softmax and reductions compute rows of f16 and bf16 in f32: Weights.row widens the operand into a buffer,
// Weights.room returns memory for f32 results, and Weights.put rounds these into the destination. For f32, all three
// work in place.

// halfFunction is a binary function of operands of f16 or bf16.
type halfFunction struct {
	op  BinaryOp
	typ dtype.DType
}

// mixedFunction is a binary function of one operand of f16 or bf16 and one of f32, with a result of the first operand's
// type.
type mixedFunction struct {
	halfFunction
	swapped bool // whether the f32 is the function's first operand
}

// widenOne returns the conversion from d to f32, narrowOne that back.
func widenOne(d dtype.DType) func(uint16) float32 {
	if d == dtype.BF16 {
		return dtype.BF16ToF32
	}
	return dtype.F16ToF32
}

func narrowOne(d dtype.DType) func(float32) uint16 {
	if d == dtype.BF16 {
		return dtype.F32ToBF16
	}
	return dtype.F32ToF16
}

// halvesInGo returns a halfFunction as a loop in Go.
func halvesInGo(op BinaryOp, d dtype.DType) func(dst, a, b []uint16) {
	f, widen, narrow := binaries[op].f, widenOne(d), narrowOne(d)
	return func(dst, a, b []uint16) {
		for i, x := range a {
			dst[i] = narrow(float32(f(float64(widen(x)), float64(widen(b[i])))))
		}
	}
}

// mixedInGo returns a mixedFunction as a loop in Go.
func mixedInGo(m mixedFunction) func(dst, a []uint16, b []float32) {
	f, widen, narrow := binaries[m.op].f, widenOne(m.typ), narrowOne(m.typ)
	return func(dst, a []uint16, b []float32) {
		for i, v := range a {
			x, y := float64(widen(v)), float64(b[i])
			if m.swapped {
				x, y = y, x
			}
			dst[i] = narrow(float32(f(x, y)))
		}
	}
}
