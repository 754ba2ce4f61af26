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
	v = wgsl.Must(wgsl.Builtin(builtins, e))(t, e)
	return v, v.typ != nil
}

func (t *translator) callFunction(e *wgsl.Call, f *wgsl.Function) (value, bool) {
	wgsl.Check(e.CheckFunction(f))
	var args []string
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
	of, x, err := e.Bitcast()
	wgsl.Check(err)
	to, v := t.resolve(of), t.concrete(x)
	wgsl.Check(e.CheckBitcast(v.typ, to))
	return value{text: bits(to, v.text), typ: to}
}

// construct translates a constructor or a conversion: T(), T(x) or T(a, b, ...).
func (t *translator) construct(e *wgsl.Call, to *wgsl.Type) value {
	if !to.Constructible() {
		wgsl.Fail(e.Pos, "%s has no constructor", to)
	}
	if len(e.Args) == 0 {
		return value{text: typeName(to) + "{}", typ: to}
	}
	var vs []value
	for _, a := range e.Args {
		vs = append(vs, t.expr(a))
	}
	want := wgsl.Must(e.Parts(to, types(vs)))
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
	wgsl.Check(e.CheckConversion(v.typ, to))
	out := value{typ: to}
	switch from, s := v.typ.Scalar(), to.Scalar(); {
	case from == s:
		v.ref = false
		return v
	case from == wgsl.F32 && to.Integer():
		if to.Kind == wgsl.Vector {
			wgsl.Fail(e.Pos, "a vector of f32 cannot be converted to %s; convert its elements", to)
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

// builtins holds the translations of the supported built-in functions. They return a value without a type if the
// function has no result.
var builtins map[string]func(t *translator, e *wgsl.Call) value

func init() {
	builtins = map[string]func(t *translator, e *wgsl.Call) value{
		"workgroupBarrier": func(t *translator, e *wgsl.Call) value {
			t.barrier = true
			return value{text: "metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup)"}
		},
		"rlx_matrix_load":         loadMatrix,
		"rlx_matrix_store":        storeMatrix,
		"rlx_matrix_multiply_add": multiplyAdd,

		"select":            choose,
		"dot":               dot,
		"transpose":         transpose,
		"any":               anyOf,
		"unpack2x16float":   unpackHalves,
		"abs":               same("metal::abs"),
		"min":               same("metal::min"),
		"max":               same("metal::max"),
		"clamp":             clamp,
		"fma":               same("metal::fma"),
		"ceil":              same("metal::ceil"),
		"floor":             same("metal::floor"),
		"round":             same("metal::rint"), // half to even
		"countLeadingZeros": same("metal::clz"),
		"atomicLoad":        loadAtomic,
		"atomicStore":       storeAtomic,
		"atomicAdd":         addAtomic,
	}
	// MSL has a fast variant of each of these, which ignores NaN and infinities.
	for _, name := range []string{"exp", "exp2", "log", "log2", "sqrt", "tan", "tanh"} {
		builtins[name] = same("metal::precise::" + name)
	}
}

// agreed converts arguments of a call to their common type.
func (t *translator) agreed(e *wgsl.Call, from []wgsl.Expr) (typ *wgsl.Type, args []string) {
	var vs []value
	for _, a := range from {
		vs = append(vs, t.expr(a))
	}
	typ = wgsl.Must(e.Common(types(vs)))
	for i, v := range vs {
		args = append(args, as(from[i].At(), v, typ).text)
	}
	return typ, args
}

// same returns the translation of a built-in function to the MSL function to. The arguments and the result have one
// type.
func same(to string) func(t *translator, e *wgsl.Call) value {
	return func(t *translator, e *wgsl.Call) value {
		typ, args := t.agreed(e, e.Args)
		return value{text: to + "(" + strings.Join(args, ", ") + ")", typ: typ}
	}
}

// clamp translates to min(max(x, low), high), because metal::clamp leaves the result open if low is above high.
func clamp(t *translator, e *wgsl.Call) value {
	typ, args := t.agreed(e, e.Args)
	return value{text: fmt.Sprintf("metal::min(metal::max(%s, %s), %s)", args[0], args[1], args[2]), typ: typ}
}

func dot(t *translator, e *wgsl.Call) value {
	_, args := t.agreed(e, e.Args)
	return value{text: "metal::dot(" + strings.Join(args, ", ") + ")", typ: wgsl.F32}
}

func transpose(t *translator, e *wgsl.Call) value {
	typ, args := t.agreed(e, e.Args)
	return value{text: "metal::transpose(" + args[0] + ")", typ: typ}
}

func anyOf(t *translator, e *wgsl.Call) value {
	_, args := t.agreed(e, e.Args)
	return value{text: "metal::any(" + args[0] + ")", typ: wgsl.Bool}
}

// choose translates select(no, yes, condition). Unlike ?:, select evaluates all three arguments.
func choose(t *translator, e *wgsl.Call) value {
	typ, args := t.agreed(e, e.Args[:2])
	c := t.concrete(e.Args[2])
	wgsl.Check(e.CheckCondition(typ, c.typ))
	if c.typ == wgsl.Bool {
		t.need("rlx_select")
		return value{text: fmt.Sprintf("rlx_select(%s, %s, %s)", args[0], args[1], c.text), typ: typ}
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
	v := t.expr(wgsl.Must(e.Address(0, "an atomic")))
	if v.typ.Kind != wgsl.Atomic {
		wgsl.Fail(e.Pos, "%s of %s", e.Of.Name, v.typ)
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
		wgsl.Fail(e.Pos, "%s of %s", e.Of.Name, x.typ.Elem)
	}
	t.need("rlx_buffer")
	t.need("rlx_add")
	typ := x.typ.Elem.Elem
	return value{text: "rlx_add(" + x.text + ", " + t.position(at, x).text + ", " + t.typed(e.Args[1], typ).text + ")",
		typ: typ}
}
