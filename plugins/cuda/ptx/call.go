package ptx

import (
	"slices"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// call translates a call of a function or a constructor. ok is false if the function has no result.
func (t *translator) call(e *wgsl.Call) (v value, ok bool) {
	f, isFunction := t.functions[e.Of.Name]
	_, isType := t.types.Structs[e.Of.Name]
	switch {
	case isFunction:
		return t.inline(e, f)
	case e.Of.Name == "bitcast":
		return t.bitcast(e), true
	case isType, wgsl.IsScalar(e.Of.Name), e.Of.Args != nil:
		return t.construct(e, wgsl.Must(t.types.Resolve(e.Of))), true
	}
	v = wgsl.Must(wgsl.Builtin(builtins, e))(t, e)
	return v, v.typ != nil
}

// mostCalls is the largest number of calls of functions that a text translates. See mostLines.
const mostCalls = 1 << 17

// inline translates a function in place of its call.
func (t *translator) inline(e *wgsl.Call, f *wgsl.Function) (value, bool) {
	wgsl.Check(e.CheckFunction(f))
	if t.inlined++; t.inlined > mostCalls {
		wgsl.Fail(t.begin, "more than %d calls", mostCalls)
	}
	scope := map[string]value{}
	for i, a := range e.Args {
		p := f.Params[i]
		v := t.typed(a, t.plain(p.Type))
		if _, ok := scope[p.Name]; ok {
			wgsl.Fail(p.Pos, "%s is declared twice", p.Name)
		}
		scope[p.Name] = value{typ: v.typ, ops: t.kept(v.typ, v.ops)}
	}
	c := &call{}
	if f.Result != nil {
		c.result = t.plain(f.Result)
	}
	scopes, within := t.scopes, t.jumps
	t.scopes = []map[string]value{scopes[0], scope}
	t.jumps = nil
	t.calls = append(t.calls, c)
	out := value{typ: c.result}
	if value, body, ok := lastReturn(f); ok {
		t.list(body)
		if value != nil {
			if c.result == nil {
				wgsl.Fail(value.At(), "the return does not match the result type of the function")
			}
			out = t.typed(value, c.result)
		} else if c.result != nil {
			wgsl.Fail(f.Pos, "%s ends without a return", f.Name)
		}
	} else {
		t.branch(func() { t.list(f.Body.List) })
		if c.end != "" {
			t.place(c.end)
		}
		out.ops = c.ops
		if c.result != nil && c.ops == nil {
			wgsl.Fail(f.Pos, "%s ends without a return", f.Name)
		}
	}
	t.calls = t.calls[:len(t.calls)-1]
	t.scopes, t.jumps = scopes, within
	return out, f.Result != nil
}

// lastReturn reports whether a function returns only at its end. If so, it returns the returned expression, or nil if
// the function has no result, and the statements before the return.
func lastReturn(f *wgsl.Function) (of wgsl.Expr, body []wgsl.Statement, ok bool) {
	body = f.Body.List
	if n := len(body); n > 0 {
		if r, isReturn := body[n-1].(*wgsl.Return); isReturn {
			body, of = body[:n-1], r.Value
		}
	}
	ok = true
	for _, s := range body {
		wgsl.Walk(s, func(n any) bool {
			_, isReturn := n.(*wgsl.Return)
			ok = ok && !isReturn
			return ok
		})
	}
	return of, body, ok
}

func (t *translator) bitcast(e *wgsl.Call) value {
	of, x, err := e.Bitcast()
	wgsl.Check(err)
	to, v := wgsl.Must(t.types.Resolve(of)), t.concrete(x)
	wgsl.Check(e.CheckBitcast(v.typ, to))
	return t.reinterpret(v, to)
}

// reinterpret returns the bits of a value as another type.
func (t *translator) reinterpret(v value, to *wgsl.Type) value {
	from, s := v.typ.Scalar(), to.Scalar()
	return each(to, func(x ...operand) operand {
		if (from == wgsl.F32) == (s == wgsl.F32) || x[0].constant() {
			return x[0]
		}
		return t.from("mov.b32", s, from, x[0])
	}, v)
}

// construct translates a constructor or a conversion: T(), T(x) or T(a, b, ...).
func (t *translator) construct(e *wgsl.Call, to *wgsl.Type) value {
	if !to.Constructible() {
		wgsl.Fail(e.Pos, "%s has no constructor", to)
	}
	inRegisters(e.Pos, to)
	out := value{typ: to}
	if len(e.Args) == 0 {
		out.ops = zeros(to)
		return out
	}
	var vs []value
	for _, a := range e.Args {
		vs = append(vs, t.value(a))
	}
	want := wgsl.Must(e.Parts(to, types(vs)))
	if want == nil {
		return t.convert(e, vs[0], to)
	}
	for i, v := range vs {
		out.ops = append(out.ops, as(e.Args[i].At(), v, want[i]).ops...)
	}
	if to.Kind == wgsl.Vector && len(vs) == 1 {
		out.ops = slices.Repeat(out.ops, to.N)
	}
	return out
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
	return each(to, func(x ...operand) operand { return t.converted(v.typ.Scalar(), to.Scalar(), x[0]) }, v)
}

// converted returns a scalar as another type.
func (t *translator) converted(from, to *wgsl.Type, x operand) operand {
	one := map[*wgsl.Type]operand{wgsl.F32: float(1), wgsl.I32: number(1), wgsl.U32: number(1)}
	switch {
	case from == to, from != wgsl.F32 && from != wgsl.Bool && to.Integer():
		return x
	case from == wgsl.Bool:
		return t.choice(to, one[to], number(0), x)
	case to == wgsl.Bool:
		return t.compare("!=", from, x, number(0))
	case to == wgsl.F32 && from == wgsl.U32 && !x.constant() && x.most < 1<<23:
		// 2^23 + x, minus 2^23: conversions are a quarter as fast as additions, or slower
		sum := t.result("or.b32", wgsl.U32, x, number(0x4B000000))
		return t.result("sub.rn.f32", wgsl.F32, t.from("mov.b32", wgsl.F32, wgsl.U32, sum), float(1<<23))
	case to == wgsl.F32:
		return t.from("cvt.rn.f32"+suffix(from), to, from, x)
	}
	// cvt clamps to the range of the integers, and NaN gives 0. WGSL clamps to the largest float in the range.
	n := t.from("cvt.rzi"+suffix(to)+".f32", to, from, x)
	most := number(2147483520)
	if to == wgsl.U32 {
		most = number(4294967040)
	}
	return t.result("min"+suffix(to), to, n, most)
}

// builtins holds the translations of the supported built-in functions. They return a value without a type if the
// function has no result.
var builtins map[string]func(t *translator, e *wgsl.Call) value

func init() {
	builtins = map[string]func(t *translator, e *wgsl.Call) value{
		"workgroupBarrier": func(t *translator, e *wgsl.Call) value {
			t.line("bar.sync 0")
			return value{}
		},
		"select":            choose,
		"dot":               dot,
		"transpose":         transpose,
		"any":               anyOf,
		"unpack2x16float":   unpackHalves,
		"abs":               abs,
		"min":               extreme("min"),
		"max":               extreme("max"),
		"clamp":             clamp,
		"fma":               floats("fma.rn.f32"),
		"ceil":              floats("cvt.rpi.f32.f32"),
		"floor":             floats("cvt.rmi.f32.f32"),
		"round":             floats("cvt.rni.f32.f32"), // half to even
		"sqrt":              floats("sqrt.rn.f32"),
		"exp2":              floats("ex2.approx.f32"),
		"exp":               function((*translator).exp),
		"log":               function((*translator).log),
		"countLeadingZeros": leadingZeros,
		"atomicLoad":        loadAtomic,
		"atomicStore":       storeAtomic,
		"atomicAdd":         addAtomic,
	}
}

// agreed converts the arguments of a call to their common type,
func (t *translator) agreed(e *wgsl.Call, args []wgsl.Expr) (typ *wgsl.Type, vs []value) {
	for _, a := range args {
		vs = append(vs, t.value(a))
	}
	typ = wgsl.Must(e.Common(types(vs)))
	for i, v := range vs {
		vs[i] = as(args[i].At(), v, typ)
	}
	return typ, vs
}

// floats returns the translation of a built-in function of floats to an instruction.
func floats(op string) func(t *translator, e *wgsl.Call) value {
	return func(t *translator, e *wgsl.Call) value {
		typ, vs := t.agreed(e, e.Args)
		return each(typ, func(x ...operand) operand { return t.result(op, wgsl.F32, x...) }, vs...)
	}
}

// function returns the translation of a built-in function of one float.
func function(f func(t *translator, x operand) operand) func(t *translator, e *wgsl.Call) value {
	return func(t *translator, e *wgsl.Call) value {
		typ, vs := t.agreed(e, e.Args)
		return each(typ, func(x ...operand) operand { return f(t, x[0]) }, vs...)
	}
}

// smaller returns the smaller or, for max, the larger of two numbers.
func (t *translator) smaller(op string, typ *wgsl.Type, x, y operand) operand {
	switch {
	case typ == wgsl.U32 && op == "min":
		return t.least(x, y)
	case typ != wgsl.F32 && x.constant() && y.constant():
		return t.choice(typ, x, y, truth(holds(map[string]string{"min": "<", "max": ">"}[op], typ, x.bits, y.bits)))
	}
	out := t.result(op+suffix(typ), typ, x, y)
	if typ == wgsl.U32 {
		out.most = max(x.most, y.most)
	}
	return out
}

func extreme(op string) func(t *translator, e *wgsl.Call) value {
	return func(t *translator, e *wgsl.Call) value {
		typ, vs := t.agreed(e, e.Args)
		return each(typ, func(x ...operand) operand { return t.smaller(op, typ.Scalar(), x[0], x[1]) }, vs...)
	}
}

func clamp(t *translator, e *wgsl.Call) value {
	typ, vs := t.agreed(e, e.Args)
	s := typ.Scalar()
	return each(typ, func(x ...operand) operand {
		return t.smaller("min", s, t.smaller("max", s, x[0], x[1]), x[2])
	}, vs...)
}

func abs(t *translator, e *wgsl.Call) value {
	typ, vs := t.agreed(e, e.Args)
	s := typ.Scalar()
	if s == wgsl.U32 {
		return vs[0]
	}
	return each(typ, func(x ...operand) operand { return t.result("abs"+suffix(s), s, x[0]) }, vs...)
}

func leadingZeros(t *translator, e *wgsl.Call) value {
	typ, vs := t.agreed(e, e.Args)
	return each(typ, func(x ...operand) operand {
		n := t.result("clz.b32", typ.Scalar(), x[0])
		n.most = 32
		return n
	}, vs...)
}

func dot(t *translator, e *wgsl.Call) value {
	_, vs := t.agreed(e, e.Args)
	x, y := vs[0].ops, vs[1].ops
	sum := t.result("mul.rn.f32", wgsl.F32, x[0], y[0])
	for i := range x[1:] {
		sum = t.result("fma.rn.f32", wgsl.F32, x[i+1], y[i+1], sum)
	}
	return value{typ: wgsl.F32, ops: []operand{sum}}
}

func transpose(t *translator, e *wgsl.Call) value {
	typ, vs := t.agreed(e, e.Args)
	ops := vs[0].ops
	out := value{typ: typ, ops: make([]operand, len(ops))}
	for i := range ops {
		out.ops[i] = ops[i%4*4+i/4]
	}
	return out
}

func anyOf(t *translator, e *wgsl.Call) value {
	_, vs := t.agreed(e, e.Args)
	p := vs[0].ops[0]
	for _, o := range vs[0].ops[1:] {
		p = t.logic("|", p, o)
	}
	return value{typ: wgsl.Bool, ops: []operand{p}}
}

// choose translates select(no, yes, condition).
func choose(t *translator, e *wgsl.Call) value {
	typ, vs := t.agreed(e, e.Args[:2])
	c := t.concrete(e.Args[2])
	wgsl.Check(e.CheckCondition(typ, c.typ))
	return each(typ, func(x ...operand) operand { return t.choice(typ.Scalar(), x[1], x[0], x[2]) }, vs[0], vs[1], c)
}

func unpackHalves(t *translator, e *wgsl.Call) value {
	x := t.typed(e.Args[0], wgsl.U32).ops[0]
	low, high := t.fresh("h"), t.fresh("h")
	if x.constant() {
		r := t.register(wgsl.U32)
		t.line("mov.u32 %s, %d", r.reg, x.bits)
		x = r
	}
	t.line("mov.b32 {%s, %s}, %s", low, high, x.reg)
	out := value{typ: wgsl.VectorOf(wgsl.F32, 2)}
	for _, h := range []string{low, high} {
		f := t.register(wgsl.F32)
		t.line("cvt.f32.f16 %s, %s", f.reg, h)
		out.ops = append(out.ops, f)
	}
	return out
}
