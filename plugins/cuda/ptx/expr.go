package ptx

import (
	"go/constant"
	gotoken "go/token"
	"math"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// expr translates an expression. The result may be in memory.
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
	panic("BUG: ptx: unknown kind of expression")
}

// value translates an expression whose result is not in memory.
func (t *translator) value(e wgsl.Expr) value {
	v := t.expr(e)
	if v.memory != nil && !v.typ.Constructible() {
		wgsl.Fail(e.At(), "%s; want a type whose values can be copied", v.typ)
	}
	if v.memory != nil {
		inRegisters(e.At(), v.typ)
	}
	return t.load(v)
}

// typed translates an expression that must have a given type.
func (t *translator) typed(e wgsl.Expr, to *wgsl.Type) value { return as(e.At(), t.value(e), to) }

// concrete translates an expression of any type that is not abstract.
func (t *translator) concrete(e wgsl.Expr) value { return concrete(e.At(), t.value(e)) }

// each returns a value of type typ. Each of its scalars is f of the corresponding scalars of the values. A value with
// fewer scalars is spread.
func each(typ *wgsl.Type, f func(ops ...operand) operand, from ...value) value {
	out := value{typ: typ}
	for i := range count(typ) {
		var ops []operand
		for _, v := range from {
			ops = append(ops, v.ops[min(i, len(v.ops)-1)])
		}
		out.ops = append(out.ops, f(ops...))
	}
	return out
}

func (t *translator) unary(e *wgsl.Unary) value {
	if e.Op == "&" {
		wgsl.Fail(e.Pos, "a pointer; & is supported only in arguments of atomic functions")
	}
	v := t.value(e.X)
	if v.typ.Abstract() {
		if e.Op == "-" {
			return literal(wgsl.Must(wgsl.ConstantOf(e.Pos, constant.UnaryOp(gotoken.SUB, v.abstract, 0), v.typ)))
		}
		v = concrete(e.X.At(), v)
	}
	typ := wgsl.Must(e.Type(v.typ))
	s := typ.Scalar()
	return each(typ, func(x ...operand) operand {
		switch {
		case e.Op == "!":
			return t.not(x[0])
		case e.Op == "~":
			return t.integer("^", s, x[0], number(math.MaxUint32))
		case s == wgsl.F32 && x[0].constant():
			return number(x[0].bits ^ 1<<31)
		case s == wgsl.F32:
			return t.result("neg.f32", s, x[0])
		}
		return t.integer("-", s, number(0), x[0])
	}, v)
}

func (t *translator) binary(e *wgsl.Binary) value {
	if e.Op == "&&" || e.Op == "||" {
		return t.shortCircuit(e)
	}
	x, y := t.value(e.X), t.value(e.Y)
	if a, ok := x.constant(); ok {
		if b, ok := y.constant(); ok {
			c, ok, err := e.Fold(a, b)
			if wgsl.Must(ok, err) {
				return literal(c)
			}
		}
	}
	tx, ty := e.Operands(x.typ, y.typ)
	x, y = as(e.X.At(), x, tx), as(e.Y.At(), y, ty)
	typ := wgsl.Must(e.Type(x.typ, y.typ))
	s := x.typ.Scalar()
	return each(typ, func(ops ...operand) operand {
		a, b := ops[0], ops[1]
		switch {
		case typ.Scalar() == wgsl.Bool && s != wgsl.Bool, e.Op == "==", e.Op == "!=":
			return t.compare(e.Op, s, a, b)
		case s == wgsl.Bool:
			return t.logic(e.Op, a, b)
		case s == wgsl.F32:
			return t.arithmetic(e.Op, a, b)
		case e.Op == "/" || e.Op == "%":
			return t.quotient(e.Op, s, a, b)
		case e.Op == "<<" || e.Op == ">>":
			return t.integer(e.Op, s, a, t.integer("&", wgsl.U32, b, number(31)))
		}
		return t.integer(e.Op, s, a, b)
	}, x, y)
}

// arithmetic writes an operation on floats, which is not fused with another.
func (t *translator) arithmetic(op string, x, y operand) operand {
	name := map[string]string{"+": "add.rn.f32", "-": "sub.rn.f32", "*": "mul.rn.f32", "/": "div.rn.f32"}[op]
	return t.result(name, wgsl.F32, x, y)
}

// quotient writes a division or a remainder of integers. WGSL defines x / 0 as x and x % 0 as 0, and so for -1 where
// the quotient would not fit.
func (t *translator) quotient(op string, typ *wgsl.Type, x, y operand) operand {
	if !y.constant() || y.bits == 0 {
		y = t.choice(typ, number(1), y, t.compare("==", typ, y, number(0)))
	}
	if typ == wgsl.I32 && (!y.constant() || y.bits == math.MaxUint32) {
		if op == "%" {
			y = t.choice(typ, number(1), y, t.compare("==", typ, y, number(math.MaxUint32)))
		} else {
			overflow := t.logic("&", t.compare("==", typ, y, number(math.MaxUint32)),
				t.compare("==", typ, x, number(1<<31)))
			y = t.choice(typ, number(1), y, overflow)
		}
	}
	if x.constant() && y.constant() {
		if n, ok := fold(op, typ, x.bits, y.bits); ok {
			return number(n)
		}
	}
	return t.integer(op, typ, x, y)
}

// shortCircuit translates && and ||. The second operand is evaluated in any case if that is cheap.
func (t *translator) shortCircuit(e *wgsl.Binary) value {
	x := t.typed(e.X, wgsl.Bool)
	if wgsl.Must(e.Type(x.typ, wgsl.Bool)); x.ops[0].constant() && x.ops[0].is(1) == (e.Op == "||") {
		return x
	}
	if x.ops[0].constant() || !t.lazy(e.Y) {
		y := t.typed(e.Y, wgsl.Bool)
		return value{typ: wgsl.Bool, ops: []operand{t.logic(e.Op[:1], x.ops[0], y.ops[0])}}
	}
	out := t.register(wgsl.Bool)
	t.move(wgsl.Bool, out, x.ops[0])
	end := t.label("known")
	not := "!"
	if e.Op == "||" {
		not = ""
	}
	t.line("@%s%s bra %s", not, out.reg, end)
	t.branch(func() { t.move(wgsl.Bool, out, t.typed(e.Y, wgsl.Bool).ops[0]) })
	t.place(end)
	return value{typ: wgsl.Bool, ops: []operand{out}}
}

// position translates the index of an element of x.
func (t *translator) position(e *wgsl.Index, x value) operand {
	i := t.concrete(e.I)
	c, _ := i.constant()
	c.Type = i.typ
	wgsl.Must(e.Type(x.typ, c))
	return i.ops[0]
}

func (t *translator) index(e *wgsl.Index) value {
	x := t.expr(e.X)
	i := t.position(e, x)
	if x.memory != nil && !(x.memory.index.reg != "" && x.typ.N > 0) {
		return t.element(x, i)
	}
	if x.memory != nil {
		inRegisters(e.Pos, x.typ)
	}
	x = t.load(x)
	n := len(x.ops) / x.typ.N
	if i.constant() {
		k := int(i.bits) * n
		return value{typ: x.typ.Elem, ops: x.ops[k : k+n], variable: x.variable}
	}
	if x.typ.N > mostChoices {
		wgsl.Fail(e.Pos, "an index of %s that is not constant; want at most %d elements", x.typ, mostChoices)
	}
	at := t.clamped(i, x.typ.N)
	out := value{typ: x.typ.Elem, ops: x.ops[:n]}
	for k := 1; k < x.typ.N; k++ {
		p := t.compare("==", wgsl.U32, at, number(uint32(k)))
		next := make([]operand, n)
		for j, s := range scalars(x.typ.Elem) {
			next[j] = t.choice(s, x.ops[k*n+j], out.ops[j], p)
		}
		out.ops = next
	}
	return out
}

// mostChoices is the largest number of elements of an array in registers among which an index may choose.
const mostChoices = 32

func (t *translator) member(e *wgsl.Member) value {
	x := t.expr(e.X)
	typ := wgsl.Must(e.Type(x.typ))
	if x.typ.Kind == wgsl.Structure {
		_, offset, before := field(x.typ, e.Name)
		if x.memory != nil {
			m := *x.memory
			m.offset += offset
			return value{typ: typ, memory: &m}
		}
		return value{typ: typ, ops: x.ops[before : before+count(typ)], variable: x.variable}
	}
	component := func(c byte) int { return map[byte]int{'x': 0, 'y': 1, 'z': 2, 'w': 3}[c] }
	if len(e.Name) == 1 {
		k := component(e.Name[0])
		if x.memory != nil {
			m := *x.memory
			m.offset += 4 * k
			return value{typ: typ, memory: &m}
		}
		return value{typ: typ, ops: x.ops[k : k+1], variable: x.variable}
	}
	x = t.load(x)
	out := value{typ: typ}
	for i := range len(e.Name) {
		out.ops = append(out.ops, x.ops[component(e.Name[i])])
	}
	return out
}
