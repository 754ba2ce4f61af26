package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
)

// Log1pDef defines ln(1 + x).
var Log1pDef = unary("log1p", "y = ln(1 + x), as exact near 0 as elsewhere; -Inf at -1, NaN below.", 6,
	rounded[NoAttrs], ir.Range{Lo: -0.9, Hi: 8},
	math.Log1p)

// Log1p returns a node that computes ln(1 + x).
func Log1p(x *ir.Node) *ir.Node { return x.Graph.Add(Log1pDef, NoAttrs{}, x) }

var _ = lowerUnary(Log1pDef, func(x *ir.Node) *ir.Node {
	// ln(u) * x/(u - 1) with u = 1 + x rounded. For small x it changes ln(u) and u - 1 by nearly the same factor
	// (Kahan's form, as in Goldberg, What every computer scientist should know about floating-point arithmetic, 1991,
	// theorem 4).
	u := Add(x, number(1, x))
	d := Sub(u, number(1, x))
	near := Where(Eq(d, number(0, x)), x, Mul(Log(u), Div(x, d)))
	return Where(Lt(Abs(x), number(1, x)), near, Log(u))
})

var _ = gradientUnary(Log1pDef, func(x, _ *ir.Node, _ NoAttrs, dy *ir.Node) *ir.Node {
	return Div(dy, plusConst(x, 1))
})
