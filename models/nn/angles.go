package nn

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// A Turn is a part of a rotary embedding in which tokens have more than one position.
type Turn struct {
	Frequencies *ir.Node // radians per position f32[pairs]; 0 for the pairs that another position turns
	Position    *ir.Node // i32[B,S]
	Factor      float64  // of cosine and sine; 0 means 1
}

// Angles returns tables for the operands cos and sin of the op rope, f32[B*S,pairs]: row b*S+s is that of token s of
// batch element b, whose pairs make all turns.
func Angles(g *ir.Graph, batch, tokens ir.Dim, pairs int64, turns []Turn) (cos, sin *ir.Node) {
	shape := ir.Shape{batch, tokens, ir.Static(2 * pairs)}
	index := op.Iota(g, 2, ir.Type{DType: dtype.I32, Shape: shape})
	// The pair (1, 0) becomes the cosine and sine, which the op computes more precisely than ops for them would.
	x := op.Cast(op.Lt(index, op.Const(g, float64(pairs), ir.TypeOf(dtype.I32))), dtype.F32)
	for _, t := range turns {
		x = op.Rope(x, op.RopeOperands{Frequencies: t.Frequencies, Position: t.Position},
			op.RopeAttrs{HeadDim: int(2 * pairs), Layout: op.BSE, Factor: t.Factor})
	}
	rows, ok := batch.Mul(tokens)
	if !ok {
		panic("BUG: nn: B*S is no size")
	}
	half := func(start int64) *ir.Node {
		return op.Reshape(op.Narrow(x, 2, int(start), int(pairs)), ir.Shape{rows, ir.Static(pairs)})
	}
	return half(0).Named("cos"), half(pairs).Named("sin")
}
