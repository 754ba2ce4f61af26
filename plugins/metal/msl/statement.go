package msl

import (
	"fmt"
	"strings"
)

// find returns the value of a name. It searches the innermost scope first.
func (t *translator) find(name string) (value, bool) {
	for i := len(t.scopes) - 1; i >= 0; i-- {
		if v, ok := t.scopes[i][name]; ok {
			return v, true
		}
	}
	return value{}, false
}

// local declares a name in the current scope and returns its MSL name. In C++ a variable is in scope in its own initialiser, so a variable that hides another
// gets a different MSL name.
func (t *translator) local(p pos, name string, v value) string {
	scope := t.scopes[len(t.scopes)-1]
	if _, ok := scope[name]; ok {
		fail(p, "%s is declared twice", name)
	}
	out := msl(name)
	for n := 2; t.used[out] || t.isGlobal(name) && n == 2; n++ {
		out = fmt.Sprintf("%s_%d_", name, n)
	}
	t.used[out] = true
	v.text = out
	scope[name] = v
	return out
}

func (t *translator) isGlobal(name string) bool {
	_, variable := t.scopes[0][name]
	_, function := t.functions[name]
	return variable || function
}

func (t *translator) line(format string, args ...any) {
	t.out.WriteString(strings.Repeat("  ", t.indent))
	fmt.Fprintf(&t.out, format, args...)
	t.out.WriteByte('\n')
}

// function writes a function as a method of the struct that holds the global variables.
func (t *translator) function(f *function) {
	t.used, t.calls, t.result = map[string]bool{}, map[string]bool{}, nil
	t.scopes = append(t.scopes[:1], map[string]value{})
	result, params := "void", []string{}
	if f.result != nil {
		t.result = t.plain(f.result)
		result = t.result.msl
	}
	if f.entry && f.result != nil {
		fail(f.pos, "the entry point has a result")
	}
	for _, p := range f.params {
		typ := t.plain(p.typ)
		params = append(params, typ.msl+" "+t.local(p.pos, p.name, value{typ: typ}))
	}
	t.line("%s %s(%s) {", result, msl(f.name), strings.Join(params, ", "))
	t.list(f.body.list) // in the scope of the parameters, since the body cannot declare their names again
	t.line("}")
}

// list writes statements in the current scope.
func (t *translator) list(list []statement) {
	t.indent++
	for _, s := range list {
		t.statement(s)
	}
	t.indent--
}

// nested writes statements in a scope of their own.
func (t *translator) nested(list []statement) {
	t.scopes = append(t.scopes, map[string]value{})
	t.list(list)
	t.scopes = t.scopes[:len(t.scopes)-1]
}

func (t *translator) statement(s statement) {
	switch s := s.(type) {
	case *block:
		t.line("{")
		t.nested(s.list)
		t.line("}")
	case *conditional:
		t.conditional(s, "if")
	case *loop:
		t.loop(s)
	case *switchStatement:
		t.switchStatement(s)
	case *jump:
		t.line("%s;", s.keyword)
	case *returnStatement:
		t.returnStatement(s)
	default:
		if text := t.simple(s); text != "" {
			t.line("%s;", text)
		}
	}
}

// simple returns the text of a statement that may be in the head of a for, without the semicolon. The text of a const is empty.
func (t *translator) simple(s statement) string {
	switch s := s.(type) {
	case *variable:
		return t.declare(s)
	case *callStatement:
		v, _ := t.call(s.call)
		return v.text
	case *assign:
		if s.to == nil {
			return "(void)(" + t.concrete(s.v).text + ")"
		}
		if e, ok := s.to.(*index); ok && t.isBuffer(e.x) {
			return t.put(e, s.v)
		}
		to := t.expr(s.to)
		if !to.ref || !to.typ.plain() {
			fail(s.pos, "an assignment to a value that is not a variable")
		}
		return to.text + " = " + t.typed(s.v, to.typ).text
	}
	panic("BUG: msl: unknown kind of statement")
}

// isBuffer reports whether an expression is the name of a storage variable whose type is an array without a size.
func (t *translator) isBuffer(e expr) bool {
	n, ok := e.(*name)
	if !ok {
		return false
	}
	v, ok := t.find(n.name)
	return ok && v.typ.kind == array && v.typ.n == 0
}

func (t *translator) declare(v *variable) string {
	if v.space != "" && v.space != "function" {
		fail(v.pos, "a variable of address space %s in a function", v.space)
	}
	if v.keyword == "const" {
		x := t.constValue(v)
		text := x.text
		t.local(v.pos, v.name, x)
		x.text = text
		t.scopes[len(t.scopes)-1][v.name] = x
		return ""
	}
	x := value{ref: v.keyword == "var"}
	init := "{}"
	switch {
	case v.init == nil && t.resolve(v.typ) == matrix8x8 && v.keyword == "var":
		return matrix8x8.msl + " " + t.local(v.pos, v.name, value{typ: matrix8x8}) + " = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f)"
	case v.init == nil && t.resolve(v.typ) == half8x8 && v.keyword == "var":
		return half8x8.msl + " " + t.local(v.pos, v.name, value{typ: half8x8}) + " = metal::make_filled_simdgroup_matrix<half, 8, 8>(half(0.0f))"
	case v.init == nil:
		x.typ = t.plain(v.typ)
	case v.typ == nil:
		from := t.concrete(v.init)
		x.typ, init = from.typ, from.text
	default:
		x.typ = t.plain(v.typ)
		init = t.typed(v.init, x.typ).text
	}
	if !x.typ.plain() {
		fail(v.pos, "%s of %s; want a type whose values can be copied", v.keyword, x.typ)
	}
	return x.typ.msl + " " + t.local(v.pos, v.name, x) + " = " + init
}

func (t *translator) condition(e expr) string { return t.typed(e, boolean).text }

func (t *translator) conditional(s *conditional, keyword string) {
	t.line("%s (%s) {", keyword, t.condition(s.cond))
	t.nested(s.then.list)
	switch other := s.otherwise.(type) {
	case *conditional:
		t.conditional(other, "} else if")
		return
	case *block:
		t.line("} else {")
		t.nested(other.list)
	}
	t.line("}")
}

func (t *translator) loop(s *loop) {
	t.scopes = append(t.scopes, map[string]value{})
	head := [3]string{}
	if s.init != nil {
		head[0] = t.simple(s.init)
	}
	if s.cond != nil {
		head[1] = " " + t.condition(s.cond)
	}
	if s.update != nil {
		head[2] = " " + t.simple(s.update)
	}
	t.line("for (%s;%s;%s) {", head[0], head[1], head[2])
	t.nested(s.body.list)
	t.line("}")
	t.scopes = t.scopes[:len(t.scopes)-1]
}

func (t *translator) switchStatement(s *switchStatement) {
	of := t.concrete(s.of)
	if of.typ != i32 && of.typ != u32 {
		fail(s.pos, "a switch over %s; want i32 or u32", of.typ)
	}
	t.line("switch (%s) {", of.text)
	for _, c := range s.cases {
		for _, e := range c.values {
			v := t.typed(e, of.typ)
			if v.c == nil {
				fail(e.at(), "the value of a case is not a constant")
			}
			t.line("case %s:", v.text)
		}
		if c.isDefault {
			t.line("default:")
		}
		t.line("{")
		t.nested(c.body.list)
		t.line("  break;")
		t.line("}")
	}
	t.line("}")
}

func (t *translator) returnStatement(s *returnStatement) {
	switch {
	case s.v == nil && t.result == nil:
		t.line("return;")
	case s.v == nil || t.result == nil:
		fail(s.pos, "the return does not match the result type of the function")
	default:
		t.line("return %s;", t.typed(s.v, t.result).text)
	}
}
