package ptx

import (
	"math"
	"math/bits"
	"strings"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// integer writes an operation on two integers. It computes constants and leaves out operations without effect. typ is
// i32 or u32.
func (t *translator) integer(op string, typ *wgsl.Type, x, y operand) operand {
	if strings.Contains("+ * & | ^", op) && x.constant() {
		x, y = y, x
	}
	if y.constant() {
		if out, ok := t.withConstant(op, typ, x, y); ok {
			return out
		}
	}
	name := map[string]string{"+": "add", "-": "sub", "*": "mul.lo", "/": "div", "%": "rem", ">>": "shr"}[op]
	if name != "" {
		name += suffix(typ)
	} else {
		name = map[string]string{"<<": "shl", "&": "and", "|": "or", "^": "xor"}[op] + ".b32"
	}
	out := t.result(name, typ, x, y)
	out.most = bound(op, typ, x, y)
	return out
}

// withConstant is like integer, for a constant y. It returns false if a constant allows nothing better.
func (t *translator) withConstant(op string, typ *wgsl.Type, x, y operand) (operand, bool) {
	if x.constant() {
		if n, ok := fold(op, typ, x.bits, y.bits); ok {
			return number(n), true
		}
	}
	switch n := y.bits; {
	case n == 0 && strings.Contains("+ - | ^ << >>", op), n == 1 && strings.Contains("* /", op),
		n == math.MaxUint32 && op == "&":
		return x, true
	case n == 0 && strings.Contains("* &", op), n == 1 && op == "%":
		return number(0), true
	case op == "+":
		return t.plus(typ, x, n), true
	case op == "-":
		return t.plus(typ, x, -n), true
	case op == "*" && bits.OnesCount32(n) == 1:
		out := t.result("shl.b32", typ, x, number(uint32(bits.TrailingZeros32(n))))
		out.most = bound(op, typ, x, y)
		return out, true
	}
	return operand{}, false
}

// plus adds a constant to an integer.
func (t *translator) plus(typ *wgsl.Type, x operand, n uint32) operand {
	of := x
	if x.of != "" {
		of, n = operand{reg: x.of}, n+x.plus
	}
	out := of
	if n != 0 {
		out = t.result("add"+suffix(typ), typ, of, number(n))
	}
	out.most = bound("+", typ, x, number(n-x.plus))
	if !t.mutable[of.reg] {
		out.of, out.plus = of.reg, n
	}
	return out
}

// fold computes an operation on constants.
func fold(op string, typ *wgsl.Type, x, y uint32) (uint32, bool) {
	signed := typ == wgsl.I32
	switch op {
	case "+":
		return x + y, true
	case "-":
		return x - y, true
	case "*":
		return x * y, true
	case "&":
		return x & y, true
	case "|":
		return x | y, true
	case "^":
		return x ^ y, true
	case "<<":
		return x << y, true
	case ">>":
		if signed {
			return uint32(int32(x) >> y), true
		}
		return x >> y, true
	case "/":
		if y != 0 && !(signed && y == math.MaxUint32) {
			if signed {
				return uint32(int32(x) / int32(y)), true
			}
			return x / y, true
		}
	case "%":
		if y != 0 && !(signed && y == math.MaxUint32) {
			if signed {
				return uint32(int32(x) % int32(y)), true
			}
			return x % y, true
		}
	}
	return 0, false
}

// bound returns an upper bound of the result of an operation on integers, read as u32.
func bound(op string, typ *wgsl.Type, x, y operand) uint32 {
	a, b := uint64(x.most), uint64(y.most)
	most := uint64(math.MaxUint32)
	if typ == wgsl.I32 && (a > math.MaxInt32 || b > math.MaxInt32) && op != "&" { // it may be negative
		return math.MaxUint32
	}
	switch op {
	case "+":
		most = a + b
	case "*":
		most = a * b
	case "/":
		most = a
		if y.constant() && y.bits > 0 {
			most = a / b
		}
	case "%":
		most = a
		if b > 0 && b <= a && y.constant() {
			most = b - 1
		}
	case "&":
		most = min(a, b)
	case "|", "^":
		most = 1<<bits.Len64(a|b) - 1
	case ">>":
		most = a
		if y.constant() {
			most = a >> y.bits
		}
	case "<<":
		if y.constant() {
			most = a << y.bits
		}
	}
	if most > math.MaxUint32 {
		return math.MaxUint32
	}
	return uint32(most)
}

// least returns the smaller of two integers of type u32.
func (t *translator) least(x, y operand) operand {
	switch {
	case y.constant() && x.most <= y.bits:
		return x
	case x.constant() && y.most <= x.bits:
		return y
	}
	out := t.result("min.u32", wgsl.U32, x, y)
	out.most = min(x.most, y.most)
	return out
}

// compare writes a comparison of two scalars.
func (t *translator) compare(op string, typ *wgsl.Type, x, y operand) operand {
	name := map[string]string{"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}[op]
	if typ == wgsl.Bool {
		out := t.logic("^", x, y)
		if op == "==" {
			return t.not(out)
		}
		return out
	}
	if x.constant() && y.constant() && typ != wgsl.F32 {
		return truth(holds(op, typ, x.bits, y.bits))
	}
	if typ == wgsl.U32 && y.constant() {
		switch {
		case op == "<" && x.most < y.bits, op == "<=" && x.most <= y.bits, op == ">=" && y.bits == 0:
			return number(1)
		case op == ">=" && x.most < y.bits, op == ">" && x.most <= y.bits, op == "<" && y.bits == 0:
			return number(0)
		}
	}
	if typ == wgsl.F32 && op == "!=" {
		name = "neu" // true for NaN
	}
	return t.from("setp."+name+suffix(typ), wgsl.Bool, typ, x, y)
}

// holds compares constants.
func holds(op string, typ *wgsl.Type, x, y uint32) bool {
	a, b := int64(x), int64(y)
	if typ == wgsl.I32 {
		a, b = int64(int32(x)), int64(int32(y))
	}
	switch op {
	case "==":
		return a == b
	case "!=":
		return a != b
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	}
	return a >= b
}

// logic writes an operation on two bools: & | or ^.
func (t *translator) logic(op string, x, y operand) operand {
	if x.constant() {
		x, y = y, x
	}
	if y.constant() {
		switch {
		case op == "&" && y.bits == 0, op == "|" && y.bits == 1:
			return y
		case op == "^" && y.bits == 1:
			return t.not(x)
		}
		return x
	}
	name := map[string]string{"&": "and", "|": "or", "^": "xor"}[op]
	return t.result(name+".pred", wgsl.Bool, x, y)
}

func (t *translator) not(x operand) operand {
	if x.constant() {
		return number(1 - x.bits)
	}
	return t.result("not.pred", wgsl.Bool, x)
}

// choice returns yes if a bool is true, and no otherwise.
func (t *translator) choice(typ *wgsl.Type, yes, no, p operand) operand {
	switch {
	case p.is(1) || yes == no:
		return yes
	case p.is(0):
		return no
	case typ == wgsl.Bool:
		return t.logic("|", t.logic("&", p, yes), t.logic("&", t.not(p), no))
	}
	name := "selp.b32"
	if typ == wgsl.F32 {
		name = "selp.f32"
	}
	out := t.once(name, typ, yes.text(typ)+", "+no.text(typ)+", "+p.reg,
		!t.mutable[yes.reg] && !t.mutable[no.reg] && !t.mutable[p.reg])
	out.most = max(yes.most, no.most)
	return out
}
