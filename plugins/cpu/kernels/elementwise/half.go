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
