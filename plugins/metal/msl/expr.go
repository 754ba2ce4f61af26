package msl

import (
	"fmt"
	"go/constant"
	gotoken "go/token"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// floatText returns an MSL literal that parses to f.
func floatText(f float32) string {
	s := strconv.FormatFloat(float64(f), 'g', -1, 32)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s + "f"
}

func (t *translator) expr(e wgsl.Expr) value {
	switch e := e.(type) {
	case *wgsl.Literal:
		return literal(wgsl.Must(e.Constant()))
	case *wgsl.Ident:
		s, ok := t.scopes.Find(e.Name)
		if !ok {
			wgsl.Fail(e.Pos, "%s is not declared", e.Name)
		}
		return s
	case *wgsl.Unary:
		return t.unary(e)
	case *wgsl.Binary:
		return t.binary(e)
	case *wgsl.Index:
		return t.index(e)
	case *wgsl.Member:
		return t.member(e)
	case *wgsl.Call:
		v, ok := t.call(e)
		if !ok {
			wgsl.Fail(e.Pos, "%s has no result", e.Of.Name)
		}
		return v
	}
	panic("BUG: msl: unknown kind of expression")
}

// as returns v as a value of type to. It converts an abstract value if that is possible, and fails if v has another
// type.
func as(p wgsl.Pos, v value, to *wgsl.Type) value {
	switch {
	case !v.typ.Becomes(to):
		wgsl.Fail(p, "a value of %s; want %s", v.typ, to)
	case v.typ.Abstract():
		return constantOf(p, v.constant, to)
	}
	return v
}

// concrete converts an abstract value to its default type, i32 or f32, and returns other values unchanged.
func concrete(p wgsl.Pos, v value) value { return as(p, v, v.typ.Concrete()) }

// typed translates an expression that must have a given type.
func (t *translator) typed(e wgsl.Expr, to *wgsl.Type) value { return as(e.At(), t.expr(e), to) }

func (t *translator) concrete(e wgsl.Expr) value { return concrete(e.At(), t.expr(e)) }

func (t *translator) unary(e *wgsl.Unary) value {
	v := t.expr(e.X)
	if e.Op == "&" {
		wgsl.Fail(e.Pos, "a pointer; & is supported only in arguments of atomic functions and matrix functions")
	}
	if v.typ.Abstract() {
		if e.Op == "-" {
			return constantOf(e.Pos, constant.UnaryOp(gotoken.SUB, v.constant, 0), v.typ)
		}
		v = concrete(e.X.At(), v)
	}
	out := value{typ: wgsl.Must(e.Type(v.typ)), text: e.Op + v.tight(), loose: true}
	if e.Op == "-" && v.typ.Integer() { // wraps: the smallest value is its own negation
		if n, ok := v.whole(); ok && n > 0 {
			return constantOf(e.Pos, constant.MakeInt64(-n), wgsl.I32)
		}
		out.text, out.loose = bits(v.typ, "0u - "+asBits(v)), false
	}
	return out
}

// asBits reinterprets a value, which may be a vector, as u32.
func asBits(v value) string {
	return fmt.Sprintf("as_type<%s>(%s)", typeName(v.typ.Like(wgsl.U32)), v.text)
}

// bits reinterprets an expression in MSL as type t, which has the same size.
func bits(t *wgsl.Type, text string) string { return fmt.Sprintf("as_type<%s>(%s)", typeName(t), text) }

// spread returns v as an operand of type t, which is the type of v or a vector of it. A scalar becomes a vector of
// equal elements.
func spread(v value, t *wgsl.Type) string {
	if v.typ.Is(t) {
		return v.text
	}
	return typeName(t) + "(" + v.text + ")"
}

func (t *translator) binary(e *wgsl.Binary) value {
	x, y := t.expr(e.X), t.expr(e.Y)
	if x.constant != nil && y.constant != nil {
		c, ok, err := e.Fold(wgsl.Constant{Type: x.typ, Value: x.constant}, wgsl.Constant{Type: y.typ,
			Value: y.constant})
		if wgsl.Must(ok, err) {
			return literal(c)
		}
	}
	tx, ty := e.Operands(x.typ, y.typ)
	x, y = as(e.X.At(), x, tx), as(e.Y.At(), y, ty)
	out := value{typ: wgsl.Must(e.Type(x.typ, y.typ)), loose: true, text: x.tight() + " " + e.Op + " " + y.tight()}
	signed := x.typ.Scalar() == wgsl.I32
	switch e.Op {
	case "+", "-", "*":
		if signed { // wraps in WGSL, undefined in C++
			out.text, out.loose = bits(out.typ, asBits(x)+" "+e.Op+" "+asBits(y)), false
		}
	case "/", "%":
		if n, ok := y.whole(); x.typ.Integer() && !(ok && n > 0) {
			out.text, out.loose = t.quotient(e, x, y, out.typ), false
		}
	case "<<", ">>":
		by := shiftBy(y)
		if signed && x.typ.Kind == wgsl.Vector && e.Op == ">>" { // in MSL both operands have the same vector type
			by = bits(x.typ, by)
		}
		out.text = x.tight() + " " + e.Op + " " + by
		if signed && e.Op == "<<" {
			out.text, out.loose = bits(out.typ, asBits(x)+" << "+by), false
		}
	case "&", "|":
		if out.typ.Scalar() == wgsl.Bool { // in C++ the result is an int
			out.text, out.loose = typeName(out.typ)+"("+out.text+")", false
		}
	}
	return out
}

// quotient returns the text of a division or a remainder of type typ, by a helper that handles the divisors 0 and -1.
func (t *translator) quotient(e *wgsl.Binary, x, y value, typ *wgsl.Type) string {
	if typ.Kind == wgsl.Vector && typ.Elem == wgsl.I32 {
		wgsl.Fail(e.Pos, "operator %s of %s and %s", e.Op, x.typ, y.typ)
	}
	helper := map[string]string{"/": "rlx_div", "%": "rlx_mod"}[e.Op]
	t.need(helper)
	return helper + "(" + spread(x, typ) + ", " + spread(y, typ) + ")"
}

// shiftBy returns the text of a number of bits to shift by, modulo 32.
func shiftBy(y value) string {
	if n, ok := y.whole(); ok && n <= 31 {
		return y.tight()
	}
	return "(" + y.tight() + " & 31u)"
}

func (t *translator) index(e *wgsl.Index) value {
	x := t.expr(e.X)
	i := t.position(e, x)
	out := value{typ: x.typ.Elem, ref: x.ref}
	switch {
	case x.typ.Kind == wgsl.Array && x.typ.N == 0:
		t.need("rlx_get")
		out.text, out.ref = "rlx_get("+x.text+", "+i.text+")", false
	case x.typ.Kind == wgsl.Vector, x.typ.Kind == wgsl.Matrix:
		out.text = x.tight() + "[" + within(i, x.typ.N) + "]"
	case x.typ.Kind == wgsl.Array:
		out.text = x.tight() + ".at[" + within(i, x.typ.N) + "]"
	}
	return out
}

// within returns the text of an index of an array of n elements. An index beyond the array becomes the index of the
// last element.
func within(i value, n int) string {
	if i.constant != nil {
		return i.text
	}
	if i.typ == wgsl.I32 {
		i.text = asBits(i)
	}
	return fmt.Sprintf("metal::min(%s, %du)", i.text, n-1)
}

// put returns the text of an assignment to an element of a buffer.
func (t *translator) put(e *wgsl.Index, v wgsl.Expr) string {
	x := t.expr(e.X)
	if !x.ref {
		wgsl.Fail(e.Pos, "an assignment to a value that is not a variable")
	}
	t.need("rlx_put")
	return "rlx_put(" + x.text + ", " + t.position(e, x).text + ", " + t.typed(v, x.typ.Elem).text + ")"
}

// position translates the index of an element of x.
func (t *translator) position(e *wgsl.Index, x value) value {
	i := t.concrete(e.I)
	wgsl.Must(e.Type(x.typ, wgsl.Constant{Type: i.typ, Value: i.constant}))
	return i
}

func (t *translator) member(e *wgsl.Member) value {
	x := t.expr(e.X)
	out := value{text: x.tight() + "." + e.Name, typ: wgsl.Must(e.Type(x.typ)), ref: x.ref}
	switch x.typ.Kind {
	case wgsl.Structure:
		out.text = x.tight() + "." + msl(e.Name)
	case wgsl.Vector:
		out.ref = x.ref && len(e.Name) == 1
	}
	return out
}
