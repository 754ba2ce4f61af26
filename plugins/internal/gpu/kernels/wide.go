package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

//go:embed wide.wgsl
var wideWGSL string

// wide has the expressions of elementwise functions of i64; see scalars.
var wide = map[string]string{
	"add": "i64_add($1, $2)", "sub": "i64_sub($1, $2)", "mul": "i64_mul($1, $2)", "max": "i64_max($1, $2)",
	"min": "i64_min($1, $2)", "and": "($1 & $2)", "or": "($1 | $2)", "xor": "($1 ^ $2)", "not": "~$1",
	"neg": "i64_neg($1)", "abs": "i64_abs($1)", "sign": "i64_sign($1)", "square": "i64_mul($1, $1)",
	"eq": "i64_eq($1, $2)", "ne": "!i64_eq($1, $2)", "lt": "i64_lt($1, $2)", "le": "!i64_lt($2, $1)",
	"gt": "i64_lt($2, $1)", "ge": "!i64_lt($1, $2)",
}

// castWide returns the shader of a cast from or to i64; ok is false for other types.
func castWide(n *ir.Node) (s Shader, ok bool) {
	from, to := n.In[0].Type.DType, n.Type.DType
	code := ""
	switch {
	case from == dtype.I64 && to == dtype.I64:
		code = "x0_wide(i)"
	case from == dtype.I64 && to == dtype.Bool:
		code = "y_encode(!i64_eq(x0_wide(i), vec2<u32>(0u, 0u)))"
	case from == dtype.I64 && to.IsFloat():
		code = "y_encode(i64_to_f32(x0_wide(i)))"
	case from == dtype.I64:
		code = "x0_bits(i)" // wraps
	case to != dtype.I64:
		return s, false
	case from == dtype.Bool:
		code = "vec2<u32>(select(0u, 1u, x0(i)), 0u)"
	case from.IsFloat():
		code = "i64_from_f32(x0(i))"
	case from == dtype.U32:
		code = "vec2<u32>(x0(i), 0u)"
	default:
		code = "vec2<u32>(x0_bits(i), bitcast<u32>(x0(i) >> 31u))"
	}
	body := "fn value(i: u32) -> " + element(to).typ() + " {\n  return " + code + ";\n}\n"
	return coarsened(n, "cast", body, nil, nil, nil), true
}
