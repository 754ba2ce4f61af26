package msl

import (
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// call translates a call of a function or a constructor. ok is false if the function has no result.
func (t *translator) call(e *wgsl.Call) (v value, ok bool) {
	f, isFunction := t.functions[e.Of.Name]
	_, isType := t.types.Structs[e.Of.Name]
	switch {
	case isFunction:
		return t.callFunction(e, f)
	case e.Of.Name == "bitcast":
		return t.bitcast(e), true
	case isType, wgsl.IsScalar(e.Of.Name), e.Of.Args != nil:
		return t.construct(e, t.resolve(e.Of)), true
	}
	b, found := builtins[e.Of.Name]
	if !found {
		fail(e.Pos, "function %s is not declared or not supported", e.Of.Name)
	}
	if len(e.Args) != b.args {
		fail(e.Pos, "%s has %d arguments; want %d", e.Of.Name, len(e.Args), b.args)
	}
	v = b.translate(t, e)
	return v, v.typ != nil
}

func (t *translator) callFunction(e *wgsl.Call, f *wgsl.Function) (value, bool) {
	if f.Entry {
		fail(e.Pos, "a call of the entry point")
	}
	if len(e.Args) != len(f.Params) {
		fail(e.Pos, "%s has %d arguments; want %d", f.Name, len(e.Args), len(f.Params))
	}
	var args []string
	t.calls[f.Name] = true
	for i, a := range e.Args {
		args = append(args, t.typed(a, t.resolve(f.Params[i].Type)).text)
	}
	v := value{text: msl(f.Name) + "(" + strings.Join(args, ", ") + ")"}
	if f.Result != nil {
		v.typ = t.resolve(f.Result)
	}
	return v, f.Result != nil
}

func (t *translator) bitcast(e *wgsl.Call) value {
	if len(e.Of.Args) != 1 || len(e.Args) != 1 {
		fail(e.Pos, "bitcast takes one type and one argument")
	}
	to, v := t.resolve(e.Of.Args[0]), t.concrete(e.Args[0])
	if !to.Numeric() || !v.typ.Numeric() || !to.Like(wgsl.U32).Is(v.typ.Like(wgsl.U32)) {
		fail(e.Pos, "a bitcast of %s to %s", v.typ, to)
	}
	return value{text: bits(to, v.text), typ: to}
}

// construct translates a constructor or a conversion: T(), T(x) or T(a, b, ...).
func (t *translator) construct(e *wgsl.Call, to *wgsl.Type) value {
	if !to.Constructible() {
		fail(e.Pos, "%s has no constructor", to)
	}
	if len(e.Args) == 0 {
		return value{text: typeName(to) + "{}", typ: to}
	}
	var vs []value
	for _, a := range e.Args {
		vs = append(vs, t.expr(a))
	}
	want := must(e.Parts(to, types(vs)))
	if want == nil {
		return t.convert(e, vs[0], to)
	}
	var args []string
	for i, v := range vs {
		args = append(args, as(e.Args[i].At(), v, want[i]).text)
	}
	begin, end := "(", ")"
	switch to.Kind {
	case wgsl.Array:
		begin, end = "{{", "}}"
	case wgsl.Structure:
		begin, end = "{", "}"
	}
	return value{text: typeName(to) + begin + strings.Join(args, ", ") + end, typ: to}
}

func types(vs []value) (out []*wgsl.Type) {
	for _, v := range vs {
		out = append(out, v.typ)
	}
	return out
}

// convert changes the type of a scalar, or of the elements of a vector.
func (t *translator) convert(e *wgsl.Call, v value, to *wgsl.Type) value {
	if v.typ.Abstract() && to != wgsl.Bool {
		return as(e.Args[0].At(), v, to)
	}
	v = concrete(e.Args[0].At(), v)
	if v.typ.Kind != to.Kind || v.typ.N != to.N {
		fail(e.Pos, "a value of %s cannot be converted to %s", v.typ, to)
	}
	out := value{typ: to}
	switch from, s := v.typ.Scalar(), to.Scalar(); {
	case from == s:
		v.ref = false
		return v
	case from == wgsl.F32 && to.Integer():
		if to.Kind == wgsl.Vector {
			fail(e.Pos, "a vector of f32 cannot be converted to %s; convert its elements", to)
		}
		helper := map[*wgsl.Type]string{wgsl.I32: "rlx_int", wgsl.U32: "rlx_uint"}[s]
		t.need(helper)
		out.text = helper + "(" + v.text + ")"
	case from != wgsl.Bool && to.Integer():
		out.text = bits(to, v.text)
	default:
		out.text = typeName(to) + "(" + v.text + ")"
	}
	return out
}

// builtin is a built-in function of WGSL. translate returns a value without a type if the function has no result.
type builtin struct {
	args      int
	translate func(t *translator, e *wgsl.Call) value
}

// builtins holds the supported built-in functions by name.
var builtins map[string]builtin

func init() {
	builtins = map[string]builtin{
		"workgroupBarrier": {0, func(t *translator, e *wgsl.Call) value {
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

func numbers(t *wgsl.Type) bool  { return t.Numeric() }
func floats(t *wgsl.Type) bool   { return t.Scalar() == wgsl.F32 }
func integers(t *wgsl.Type) bool { return t.Integer() }

// agreed converts the arguments of a call to their common type, which must satisfy ok.
func (t *translator) agreed(e *wgsl.Call, ok func(*wgsl.Type) bool) (typ *wgsl.Type, args []string) {
	var vs []value
	for _, a := range e.Args {
		vs = append(vs, t.expr(a))
	}
	typ = must(e.Common(types(vs), ok))
	for i, v := range vs {
		args = append(args, as(e.Args[i].At(), v, typ).text)
	}
	return typ, args
}

// same returns the translation of a built-in function to the MSL function to. The arguments and the result have one
// type, which must satisfy ok.
func same(to string, ok func(*wgsl.Type) bool) func(t *translator, e *wgsl.Call) value {
	return func(t *translator, e *wgsl.Call) value {
		typ, args := t.agreed(e, ok)
		return value{text: to + "(" + strings.Join(args, ", ") + ")", typ: typ}
	}
}

// clamp translates to min(max(x, low), high), because metal::clamp leaves the result open if low is above high.
func clamp(t *translator, e *wgsl.Call) value {
	typ, args := t.agreed(e, numbers)
	return value{text: fmt.Sprintf("metal::min(metal::max(%s, %s), %s)", args[0], args[1], args[2]), typ: typ}
}

func dot(t *translator, e *wgsl.Call) value {
	typ, args := t.agreed(e, floats)
	if typ.Kind != wgsl.Vector {
		fail(e.Pos, "dot of %s", typ)
	}
	return value{text: "metal::dot(" + strings.Join(args, ", ") + ")", typ: wgsl.F32}
}

func transpose(t *translator, e *wgsl.Call) value {
	v := t.expr(e.Args[0])
	if v.typ.Kind != wgsl.Matrix {
		fail(e.Pos, "transpose of %s", v.typ)
	}
	return value{text: "metal::transpose(" + v.text + ")", typ: v.typ}
}

func anyOf(t *translator, e *wgsl.Call) value {
	v := t.expr(e.Args[0])
	if v.typ.Kind != wgsl.Vector || v.typ.Elem != wgsl.Bool {
		fail(e.Pos, "any of %s; want a vector of bool", v.typ)
	}
	return value{text: "metal::any(" + v.text + ")", typ: wgsl.Bool}
}

// choose translates select(no, yes, condition). Unlike ?:, select evaluates all three arguments.
func choose(t *translator, e *wgsl.Call) value {
	values := &wgsl.Call{Pos: e.Pos, Of: e.Of, Args: e.Args[:2]}
	typ, args := t.agreed(values, func(t *wgsl.Type) bool { return t.Kind <= wgsl.Vector })
	c := t.expr(e.Args[2])
	switch {
	case c.typ == wgsl.Bool:
		t.need("rlx_select")
		return value{text: fmt.Sprintf("rlx_select(%s, %s, %s)", args[0], args[1], c.text), typ: typ}
	case typ.Kind != wgsl.Vector || !c.typ.Is(typ.Like(wgsl.Bool)):
		fail(e.Pos, "select of %s by %s", typ, c.typ)
	}
	return value{text: fmt.Sprintf("metal::select(%s, %s, %s)", args[0], args[1], c.text), typ: typ}
}

func unpackHalves(t *translator, e *wgsl.Call) value {
	text := "metal::float2(as_type<metal::half2>(" + t.typed(e.Args[0], wgsl.U32).text + "))"
	return value{text: text, typ: wgsl.VectorOf(wgsl.F32, 2)}
}

// atomic translates the first argument of an atomic function, which is &x for an atomic x. It also returns the element
// type of x.
func (t *translator) atomic(e *wgsl.Call) (string, *wgsl.Type) {
	u, ok := e.Args[0].(*wgsl.Unary)
	if !ok || u.Op != "&" {
		fail(e.Pos, "argument 1 of %s; want the address of an atomic", e.Of.Name)
	}
	v := t.expr(u.X)
	if v.typ.Kind != wgsl.Atomic {
		fail(e.Pos, "%s of %s", e.Of.Name, v.typ)
	}
	return "&" + v.tight(), v.typ.Elem
}

func loadAtomic(t *translator, e *wgsl.Call) value {
	x, typ := t.atomic(e)
	return value{text: "metal::atomic_load_explicit(" + x + ", metal::memory_order_relaxed)", typ: typ}
}

func storeAtomic(t *translator, e *wgsl.Call) value {
	x, typ := t.atomic(e)
	return value{text: "metal::atomic_store_explicit(" + x + ", " + t.typed(e.Args[1], typ).text +
		", metal::memory_order_relaxed)"}
}

func addAtomic(t *translator, e *wgsl.Call) value {
	if u, ok := e.Args[0].(*wgsl.Unary); ok && u.Op == "&" {
		if at, ok := u.X.(*wgsl.Index); ok && t.isBuffer(at.X) {
			return t.addInBuffer(e, at)
		}
	}
	x, typ := t.atomic(e)
	return value{text: "metal::atomic_fetch_add_explicit(" + x + ", " + t.typed(e.Args[1], typ).text +
		", metal::memory_order_relaxed)", typ: typ}
}

// addInBuffer translates atomicAdd(&x[i], v) for a buffer x of atomics. Outside of the buffer it does nothing.
func (t *translator) addInBuffer(e *wgsl.Call, at *wgsl.Index) value {
	x := t.expr(at.X)
	if x.typ.Elem.Kind != wgsl.Atomic {
		fail(e.Pos, "%s of %s", e.Of.Name, x.typ.Elem)
	}
	t.need("rlx_buffer")
	t.need("rlx_add")
	typ := x.typ.Elem.Elem
	return value{text: "rlx_add(" + x.text + ", " + t.position(at.I).text + ", " + t.typed(e.Args[1], typ).text + ")",
		typ: typ}
}
