package msl

import (
	"fmt"
	"strings"
)

// call translates a call of a function or a constructor. ok is false if the function has no result.
func (t *translator) call(e *call) (v value, ok bool) {
	f, isFunction := t.functions[e.of.name]
	_, isType := t.structs[e.of.name]
	switch {
	case isFunction:
		return t.callFunction(e, f)
	case e.of.name == "bitcast":
		return t.bitcast(e), true
	case isType, scalars[e.of.name] != nil, e.of.args != nil:
		return t.construct(e, t.resolve(e.of)), true
	}
	b, found := builtins[e.of.name]
	if !found {
		fail(e.pos, "function %s is not declared or not supported", e.of.name)
	}
	if len(e.args) != b.args {
		fail(e.pos, "%s has %d arguments; want %d", e.of.name, len(e.args), b.args)
	}
	v = b.translate(t, e)
	return v, v.typ != nil
}

func (t *translator) callFunction(e *call, f *function) (value, bool) {
	if f.entry {
		fail(e.pos, "a call of the entry point")
	}
	if len(e.args) != len(f.params) {
		fail(e.pos, "%s has %d arguments; want %d", f.name, len(e.args), len(f.params))
	}
	var args []string
	t.calls[f.name] = true
	for i, a := range e.args {
		args = append(args, t.typed(a, t.resolve(f.params[i].typ)).text)
	}
	v := value{text: msl(f.name) + "(" + strings.Join(args, ", ") + ")"}
	if f.result != nil {
		v.typ = t.resolve(f.result)
	}
	return v, f.result != nil
}

func (t *translator) bitcast(e *call) value {
	if len(e.of.args) != 1 || len(e.args) != 1 {
		fail(e.pos, "bitcast takes one type and one argument")
	}
	to, v := t.resolve(e.of.args[0]), t.concrete(e.args[0])
	if !to.numeric() || !v.typ.numeric() || !to.like(u32).is(v.typ.like(u32)) {
		fail(e.pos, "a bitcast of %s to %s", v.typ, to)
	}
	return value{text: bits(to, v.text), typ: to}
}

// construct translates a constructor or a conversion: T(), T(x) or T(a, b, ...).
func (t *translator) construct(e *call, to *typ) value {
	if !to.plain() {
		fail(e.pos, "%s has no constructor", to)
	}
	if len(e.args) == 0 {
		return value{text: to.msl + "{}", typ: to}
	}
	var vs []value
	for _, a := range e.args {
		vs = append(vs, t.expr(a))
	}
	all := func(n int, typ func(i int) *typ) string {
		if len(vs) != n {
			fail(e.pos, "%s of %d values; want %d", to, len(vs), n)
		}
		var args []string
		for i, v := range vs {
			args = append(args, as(e.args[i].at(), v, typ(i)).text)
		}
		return strings.Join(args, ", ")
	}
	out := value{typ: to}
	switch {
	case to.kind == array:
		out.text = to.msl + "{{" + all(to.n, func(int) *typ { return to.elem }) + "}}"
	case to.kind == structure:
		out.text = to.msl + "{" + all(len(to.fields), func(i int) *typ { return to.fields[i].typ }) + "}"
	case to.kind == matrix:
		out.text = to.msl + "(" + all(to.n, func(int) *typ { return to.elem }) + ")"
	case len(vs) == 1 && (to.kind == scalar || vs[0].typ.kind == vector):
		return t.convert(e, vs[0], to)
	case len(vs) == 1:
		out.text = to.msl + "(" + all(1, func(int) *typ { return to.elem }) + ")"
	case to.kind == vector:
		n := 0
		for _, v := range vs {
			n += max(v.typ.n, 1)
		}
		if n != to.n {
			fail(e.pos, "%s of %d elements", to, n)
		}
		out.text = to.msl + "(" + all(len(vs), func(i int) *typ {
			if v := vs[i].typ; v.kind == vector {
				return vectorOf(to.elem, v.n)
			}
			return to.elem
		}) + ")"
	default:
		fail(e.pos, "%s of %d values; want 1", to, len(vs))
	}
	return out
}

// convert changes the type of a scalar, or of the elements of a vector.
func (t *translator) convert(e *call, v value, to *typ) value {
	if v.typ.abstract() && to != boolean {
		return as(e.args[0].at(), v, to)
	}
	v = concrete(e.args[0].at(), v)
	if v.typ.kind != to.kind || v.typ.n != to.n {
		fail(e.pos, "a value of %s cannot be converted to %s", v.typ, to)
	}
	out := value{typ: to}
	switch from, s := v.typ.scalar(), to.scalar(); {
	case from == s:
		v.ref = false
		return v
	case from == f32 && to.integer():
		if to.kind == vector {
			fail(e.pos, "a vector of f32 cannot be converted to %s; convert its elements", to)
		}
		helper := map[*typ]string{i32: "rlx_int", u32: "rlx_uint"}[s]
		t.need(helper)
		out.text = helper + "(" + v.text + ")"
	case from != boolean && to.integer():
		out.text = bits(to, v.text)
	default:
		out.text = to.msl + "(" + v.text + ")"
	}
	return out
}

// builtin is a built-in function of WGSL. translate returns a value without a type if the function has no result.
type builtin struct {
	args      int
	translate func(t *translator, e *call) value
}

// builtins holds the supported built-in functions by name.
var builtins map[string]builtin

func init() {
	builtins = map[string]builtin{
		"workgroupBarrier": {0, func(t *translator, e *call) value {
			t.barrier = true
			return value{text: "metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup)"}
		}},
		"rlx_matrix_load":         {5, loadMatrix},
		"rlx_matrix_store":        {4, storeMatrix},
		"rlx_matrix_multiply_add": {3, multiplyAdd},

		"select":            {3, choose},
		"dot":               {2, dot},
		"transpose":         {1, transpose},
		"any":               {1, anyOf},
		"unpack2x16float":   {1, unpackHalves},
		"abs":               {1, same("metal::abs", numbers)},
		"min":               {2, same("metal::min", numbers)},
		"max":               {2, same("metal::max", numbers)},
		"clamp":             {3, clamp},
		"fma":               {3, same("metal::fma", floats)},
		"ceil":              {1, same("metal::ceil", floats)},
		"floor":             {1, same("metal::floor", floats)},
		"round":             {1, same("metal::rint", floats)}, // half to even
		"countLeadingZeros": {1, same("metal::clz", integers)},
		"atomicLoad":        {1, loadAtomic},
		"atomicStore":       {2, storeAtomic},
		"atomicAdd":         {2, addAtomic},
	}
	// MSL has a fast variant of each of these, which ignores NaN and infinities.
	for _, name := range []string{"exp", "exp2", "log", "log2", "sqrt", "tan", "tanh"} {
		builtins[name] = builtin{1, same("metal::precise::"+name, floats)}
	}
}

func numbers(t *typ) bool  { return t.numeric() }
func floats(t *typ) bool   { return t.scalar() == f32 }
func integers(t *typ) bool { return t.integer() }

// agreed converts the arguments of a call to their common type, which must satisfy ok.
func (t *translator) agreed(e *call, ok func(*typ) bool) (typ *typ, args []string) {
	var vs []value
	for _, a := range e.args {
		v := t.expr(a)
		vs = append(vs, v)
		if !v.typ.abstract() && typ == nil {
			typ = v.typ
		}
	}
	if typ == nil {
		typ = i32
		for _, v := range vs {
			if v.typ == abstractFloat || !ok(i32) {
				typ = f32
			}
		}
	}
	for i, v := range vs {
		args = append(args, as(e.args[i].at(), v, typ).text)
	}
	if !ok(typ) {
		fail(e.pos, "%s of %s", e.of.name, typ)
	}
	return typ, args
}

// same returns the translation of a built-in function to the MSL function to. The arguments and the result have one type, which must satisfy ok.
func same(to string, ok func(*typ) bool) func(t *translator, e *call) value {
	return func(t *translator, e *call) value {
		typ, args := t.agreed(e, ok)
		return value{text: to + "(" + strings.Join(args, ", ") + ")", typ: typ}
	}
}

// clamp translates to min(max(x, low), high), because metal::clamp leaves the result open if low is above high.
func clamp(t *translator, e *call) value {
	typ, args := t.agreed(e, numbers)
	return value{text: fmt.Sprintf("metal::min(metal::max(%s, %s), %s)", args[0], args[1], args[2]), typ: typ}
}

func dot(t *translator, e *call) value {
	typ, args := t.agreed(e, floats)
	if typ.kind != vector {
		fail(e.pos, "dot of %s", typ)
	}
	return value{text: "metal::dot(" + strings.Join(args, ", ") + ")", typ: f32}
}

func transpose(t *translator, e *call) value {
	v := t.expr(e.args[0])
	if v.typ.kind != matrix {
		fail(e.pos, "transpose of %s", v.typ)
	}
	return value{text: "metal::transpose(" + v.text + ")", typ: v.typ}
}

func anyOf(t *translator, e *call) value {
	v := t.expr(e.args[0])
	if v.typ.kind != vector || v.typ.elem != boolean {
		fail(e.pos, "any of %s; want a vector of bool", v.typ)
	}
	return value{text: "metal::any(" + v.text + ")", typ: boolean}
}

// choose translates select(no, yes, condition). Unlike ?:, select evaluates all three arguments.
func choose(t *translator, e *call) value {
	typ, args := t.agreed(&call{e.pos, e.of, e.args[:2]}, func(t *typ) bool { return t.kind <= vector })
	c := t.expr(e.args[2])
	switch {
	case c.typ == boolean:
		t.need("rlx_select")
		return value{text: fmt.Sprintf("rlx_select(%s, %s, %s)", args[0], args[1], c.text), typ: typ}
	case typ.kind != vector || !c.typ.is(typ.like(boolean)):
		fail(e.pos, "select of %s by %s", typ, c.typ)
	}
	return value{text: fmt.Sprintf("metal::select(%s, %s, %s)", args[0], args[1], c.text), typ: typ}
}

func unpackHalves(t *translator, e *call) value {
	return value{text: "metal::float2(as_type<metal::half2>(" + t.typed(e.args[0], u32).text + "))", typ: vectorOf(f32, 2)}
}

// atomic translates the first argument of an atomic function, which is &x for an atomic x. It also returns the element type of x.
func (t *translator) atomic(e *call) (string, *typ) {
	u, ok := e.args[0].(*unary)
	if !ok || u.op != "&" {
		fail(e.pos, "argument 1 of %s; want the address of an atomic", e.of.name)
	}
	v := t.expr(u.x)
	if v.typ.kind != atomic {
		fail(e.pos, "%s of %s", e.of.name, v.typ)
	}
	return "&" + v.tight(), v.typ.elem
}

func loadAtomic(t *translator, e *call) value {
	x, typ := t.atomic(e)
	return value{text: "metal::atomic_load_explicit(" + x + ", metal::memory_order_relaxed)", typ: typ}
}

func storeAtomic(t *translator, e *call) value {
	x, typ := t.atomic(e)
	return value{text: "metal::atomic_store_explicit(" + x + ", " + t.typed(e.args[1], typ).text + ", metal::memory_order_relaxed)"}
}

func addAtomic(t *translator, e *call) value {
	x, typ := t.atomic(e)
	return value{text: "metal::atomic_fetch_add_explicit(" + x + ", " + t.typed(e.args[1], typ).text + ", metal::memory_order_relaxed)", typ: typ}
}
