package msl

import (
	"fmt"
	"go/constant"
	gotoken "go/token"
	"strconv"
	"strings"
)

// floatText returns an MSL literal that parses to f.
func floatText(f float32) string {
	s := strconv.FormatFloat(float64(f), 'g', -1, 32)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s + "f"
}

func (t *translator) expr(e expr) value {
	switch e := e.(type) {
	case *literal:
		return numberValue(e)
	case *name:
		s, ok := t.find(e.name)
		if !ok {
			fail(e.pos, "%s is not declared", e.name)
		}
		return s
	case *unary:
		return t.unary(e)
	case *binary:
		return t.binary(e)
	case *index:
		return t.index(e)
	case *member:
		return t.member(e)
	case *call:
		v, ok := t.call(e)
		if !ok {
			fail(e.pos, "%s has no result", e.of.name)
		}
		return v
	}
	panic("BUG: msl: unknown kind of expression")
}

// numberValue returns the value of a literal.
func numberValue(e *literal) value {
	if e.text == "true" || e.text == "false" {
		return constantOf(e.pos, constant.MakeBool(e.text == "true"), boolean)
	}
	text, t, kind := e.text, abstractInt, gotoken.INT
	hex := strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0X")
	if strings.ContainsAny(text, ".pP") || !hex && strings.ContainsAny(text, "eE") {
		t, kind = abstractFloat, gotoken.FLOAT
	}
	switch last := text[len(text)-1]; {
	case last == 'u' && kind == gotoken.INT:
		text, t = text[:len(text)-1], u32
	case last == 'i' && kind == gotoken.INT:
		text, t = text[:len(text)-1], i32
	case last == 'f' && !(hex && kind == gotoken.INT):
		text, t, kind = text[:len(text)-1], f32, gotoken.FLOAT
	}
	c := constant.MakeUnknown()
	if len(text) == 1 || kind == gotoken.FLOAT || text[0] != '0' || hex { // 017 would be octal
		c = constant.MakeFromLiteral(text, kind, 0)
	}
	if c.Kind() == constant.Unknown {
		fail(e.pos, "%s is not a valid number", e.text)
	}
	return constantOf(e.pos, c, t)
}

// as returns v as a value of type to. It converts an abstract value if that is possible, and fails if v has another type.
func as(p pos, v value, to *typ) value {
	if v.typ.abstract() && to.kind == scalar && to != boolean && !(v.typ == abstractFloat && to != f32) {
		return constantOf(p, v.c, to)
	}
	if !v.typ.is(to) {
		fail(p, "a value of %s; want %s", v.typ, to)
	}
	return v
}

// concrete converts an abstract value to its default type, i32 or f32, and returns other values unchanged.
func concrete(p pos, v value) value {
	switch v.typ {
	case abstractInt:
		return as(p, v, i32)
	case abstractFloat:
		return as(p, v, f32)
	}
	return v
}

// typed translates an expression that must have a given type.
func (t *translator) typed(e expr, to *typ) value { return as(e.at(), t.expr(e), to) }

func (t *translator) concrete(e expr) value { return concrete(e.at(), t.expr(e)) }

func (t *translator) unary(e *unary) value {
	v := t.expr(e.x)
	if e.op == "&" {
		fail(e.pos, "a pointer; & is supported only in arguments of atomic functions and matrix functions")
	}
	if v.typ.abstract() {
		if e.op == "-" {
			return constantOf(e.pos, constant.UnaryOp(gotoken.SUB, v.c, 0), v.typ)
		}
		v = concrete(e.x.at(), v)
	}
	out := value{typ: v.typ, loose: true}
	s := v.typ.scalar()
	switch {
	case e.op == "-" && s == f32:
		out.text = "-" + v.tight()
	case e.op == "-" && s == i32: // wraps: the smallest value is its own negation
		out.text, out.loose = bits(v.typ, "0u - "+asBits(v)), false
		if n, ok := v.whole(); ok && n > 0 {
			return constantOf(e.pos, constant.MakeInt64(-n), i32)
		}
	case e.op == "!" && s == boolean, e.op == "~" && v.typ.integer():
		out.text = e.op + v.tight()
	default:
		fail(e.pos, "operator %s of %s", e.op, v.typ)
	}
	return out
}

// asBits reinterprets a value, which may be a vector, as u32.
func asBits(v value) string { return fmt.Sprintf("as_type<%s>(%s)", v.typ.like(u32).msl, v.text) }

// bits reinterprets an expression in MSL as type t, which has the same size.
func bits(t *typ, text string) string { return fmt.Sprintf("as_type<%s>(%s)", t.msl, text) }

// spread returns v as an operand of type t, which is the type of v or a vector of it. A scalar becomes a vector of equal elements.
func spread(v value, t *typ) string {
	if v.typ.is(t) {
		return v.text
	}
	return t.msl + "(" + v.text + ")"
}

// foldable holds the operators that fold evaluates.
var foldable = map[string]gotoken.Token{"+": gotoken.ADD, "-": gotoken.SUB, "*": gotoken.MUL, "/": gotoken.QUO, "%": gotoken.REM}

func (t *translator) binary(e *binary) value {
	x, y := t.expr(e.x), t.expr(e.y)
	shift := e.op == "<<" || e.op == ">>"
	if x.c != nil && y.c != nil && x.typ != boolean && y.typ != boolean {
		if v, ok := fold(e, x, y); ok {
			return v
		}
	}
	switch { // an abstract operand gets the type of the other one
	case shift:
		x, y = concrete(e.x.at(), x), as(e.y.at(), y, x.typ.like(u32))
	case x.typ.abstract() && y.typ.abstract():
		to := i32
		if x.typ == abstractFloat || y.typ == abstractFloat {
			to = f32
		}
		x, y = as(e.x.at(), x, to), as(e.y.at(), y, to)
	case x.typ.abstract():
		x = as(e.x.at(), x, y.typ.scalar())
	case y.typ.abstract():
		y = as(e.y.at(), y, x.typ.scalar())
	}
	wrong := func() { fail(e.pos, "operator %s of %s and %s", e.op, x.typ, y.typ) }
	if !shift && !x.typ.scalar().is(y.typ.scalar()) || x.typ.kind > vector || y.typ.kind > vector {
		wrong()
	}
	same := x.typ.is(y.typ)
	out := value{typ: x.typ, loose: true, text: x.tight() + " " + e.op + " " + y.tight()}
	if y.typ.kind == vector {
		out.typ = y.typ
	}
	switch s := x.typ.scalar(); e.op {
	case "+", "-", "*":
		if !x.typ.numeric() || x.typ.kind == vector && y.typ.kind == vector && !same {
			wrong()
		}
		if s == i32 { // wraps in WGSL, undefined in C++
			out.text, out.loose = bits(out.typ, asBits(x)+" "+e.op+" "+asBits(y)), false
		}
	case "/", "%":
		if !x.typ.numeric() || x.typ.kind == vector && y.typ.kind == vector && !same || s == f32 && e.op == "%" {
			wrong()
		}
		if n, ok := y.whole(); s != f32 && !(ok && n > 0) {
			if s == i32 && out.typ.kind == vector {
				wrong()
			}
			helper := map[string]string{"/": "rlx_div", "%": "rlx_mod"}[e.op]
			t.need(helper)
			out.text, out.loose = helper+"("+spread(x, out.typ)+", "+spread(y, out.typ)+")", false
		}
	case "<<", ">>":
		if !x.typ.integer() {
			wrong()
		}
		out.typ = x.typ
		by := y.tight()
		if n, ok := y.whole(); !ok || n > 31 {
			by = "(" + by + " & 31u)"
		}
		if s == i32 && x.typ.kind == vector && e.op == ">>" { // in MSL both operands have the same vector type
			by = bits(x.typ, by)
		}
		out.text = x.tight() + " " + e.op + " " + by
		if s == i32 && e.op == "<<" {
			out.text, out.loose = bits(out.typ, asBits(x)+" << "+by), false
		}
	case "&", "|", "^":
		if !same || s == f32 || s == boolean && e.op == "^" {
			wrong()
		}
		if s == boolean { // in C++ the result is an int
			out.text, out.loose = out.typ.msl+"("+out.text+")", false
		}
	case "&&", "||":
		if !same || x.typ != boolean {
			wrong()
		}
	default: // comparisons
		if !same || s == boolean && e.op != "==" && e.op != "!=" {
			wrong()
		}
		out.typ = x.typ.like(boolean)
	}
	return out
}

// fold evaluates an operator on two constants exactly. It returns false if the device must evaluate it: for f32, operators that are not foldable, and results
// that do not fit in i32 or u32.
func fold(e *binary, x, y value) (value, bool) {
	op, ok := foldable[e.op]
	if !ok || !x.typ.abstract() && x.typ == f32 || y.typ == f32 {
		return value{}, false
	}
	to := x.typ
	switch {
	case x.typ.is(y.typ):
	case x.typ == abstractInt || x.typ == abstractFloat && y.typ == abstractFloat:
		to = y.typ
	case y.typ == abstractInt:
	default:
		return value{}, false
	}
	a, b := x.c, y.c
	if to == abstractFloat {
		a, b = constant.ToFloat(a), constant.ToFloat(b)
		if op == gotoken.REM {
			return value{}, false
		}
	} else if op == gotoken.QUO {
		op = gotoken.QUO_ASSIGN // package constant's operator for integer division
	}
	if (op == gotoken.QUO || op == gotoken.QUO_ASSIGN || op == gotoken.REM) && constant.Sign(b) == 0 {
		fail(e.pos, "a division by 0")
	}
	c := constant.BinaryOp(a, op, b)
	if least, most := rangeOf(to); to == u32 || to == i32 {
		if n, ok := constant.Int64Val(c); !ok || n < least || n > most {
			return value{}, false // the device wraps it
		}
	}
	return constantOf(e.pos, c, to), true
}

func (t *translator) index(e *index) value {
	x, i := t.expr(e.x), t.position(e.i)
	if n, ok := i.whole(); ok && (n < 0 || x.typ.n > 0 && n >= int64(x.typ.n)) {
		fail(e.i.at(), "index %d of %s", n, x.typ)
	}
	out := value{typ: x.typ.elem, ref: x.ref}
	switch {
	case x.typ.kind == array && x.typ.n == 0:
		t.need("rlx_get")
		out.text, out.ref = "rlx_get("+x.text+", "+i.text+")", false
	case x.typ.kind == vector, x.typ.kind == matrix:
		out.text = x.tight() + "[" + within(i, x.typ.n) + "]"
	case x.typ.kind == array:
		out.text = x.tight() + ".at[" + within(i, x.typ.n) + "]"
	default:
		fail(e.pos, "an index of %s", x.typ)
	}
	return out
}

// within returns the text of an index of an array of n elements. An index beyond the array becomes that of the last element.
func within(i value, n int) string {
	if i.c != nil {
		return i.text
	}
	if i.typ == i32 {
		i.text = asBits(i)
	}
	return fmt.Sprintf("metal::min(%s, %du)", i.text, n-1)
}

// put returns the text of an assignment to an element of a buffer.
func (t *translator) put(e *index, v expr) string {
	x := t.expr(e.x)
	if !x.ref {
		fail(e.pos, "an assignment to a value that is not a variable")
	}
	t.need("rlx_put")
	return "rlx_put(" + x.text + ", " + t.position(e.i).text + ", " + t.typed(v, x.typ.elem).text + ")"
}

// position translates an index, which must be i32 or u32.
func (t *translator) position(e expr) value {
	i := t.concrete(e)
	if i.typ != i32 && i.typ != u32 {
		fail(e.at(), "an index of %s; want i32 or u32", i.typ)
	}
	return i
}

func (t *translator) member(e *member) value {
	x := t.expr(e.x)
	switch x.typ.kind {
	case structure:
		for _, f := range x.typ.fields {
			if f.name == e.name {
				return value{text: x.tight() + "." + msl(f.name), typ: f.typ, ref: x.ref}
			}
		}
	case vector:
		n := strings.Trim(e.name, "xyzw"[:x.typ.n])
		if n == "" && len(e.name) <= 4 {
			out := value{text: x.tight() + "." + e.name, typ: x.typ.elem, ref: x.ref}
			if len(e.name) > 1 {
				out.typ, out.ref = vectorOf(x.typ.elem, len(e.name)), false
			}
			return out
		}
	}
	fail(e.pos, "%s has no member %s", x.typ, e.name)
	return value{}
}
