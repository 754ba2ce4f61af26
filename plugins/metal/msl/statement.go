package msl

import (
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// local declares a name in the current scope and returns its MSL name. In C++ a variable is in scope in its own
// initialiser, so a variable that hides another gets a different MSL name.
func (t *translator) local(p wgsl.Pos, name string, v value) string {
	out := msl(name)
	for n := 2; t.used[out] || t.isGlobal(name) && n == 2; n++ {
		out = fmt.Sprintf("%s_%d_", name, n)
	}
	t.used[out] = true
	v.text = out
	wgsl.Check(t.scopes.Declare(p, name, v))
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
func (t *translator) function(f *wgsl.Function) {
	t.used, t.result = map[string]bool{}, nil
	t.scopes = append(t.scopes[:1], map[string]value{})
	result, params := "void", []string{}
	if f.Result != nil {
		t.result = t.plain(f.Result)
		result = typeName(t.result)
	}
	for _, p := range f.Params {
		typ := t.plain(p.Type)
		params = append(params, typeName(typ)+" "+t.local(p.Pos, p.Name, value{typ: typ}))
	}
	t.line("%s %s(%s) {", result, msl(f.Name), strings.Join(params, ", "))
	t.list(f.Body.List) // in the scope of the parameters, since the body cannot declare their names again
	t.line("}")
}

// list writes statements in the current scope.
func (t *translator) list(list []wgsl.Statement) {
	t.indent++
	for _, s := range list {
		t.statement(s)
	}
	t.indent--
}

// nested writes statements in a scope of their own.
func (t *translator) nested(list []wgsl.Statement) {
	t.scopes = append(t.scopes, map[string]value{})
	t.list(list)
	t.scopes = t.scopes[:len(t.scopes)-1]
}

func (t *translator) statement(s wgsl.Statement) {
	switch s := s.(type) {
	case *wgsl.Block:
		t.line("{")
		t.nested(s.List)
		t.line("}")
	case *wgsl.If:
		t.conditional(s, "if")
	case *wgsl.Loop:
		t.loop(s)
	case *wgsl.Switch:
		t.switchStatement(s)
	case *wgsl.Jump:
		t.line("%s;", s.Keyword)
	case *wgsl.Return:
		t.returnStatement(s)
	default:
		if text := t.simple(s); text != "" {
			t.line("%s;", text)
		}
	}
}

// simple returns the text of a statement that may be in the head of a for, without the semicolon. The text of a const
// is empty.
func (t *translator) simple(s wgsl.Statement) string {
	switch s := s.(type) {
	case *wgsl.Variable:
		return t.declare(s)
	case *wgsl.CallStatement:
		v, _ := t.call(s.Call)
		return v.text
	case *wgsl.Assign:
		if s.To == nil {
			return "(void)(" + t.concrete(s.Value).text + ")"
		}
		if e, ok := s.To.(*wgsl.Index); ok && t.isBuffer(e.X) {
			return t.put(e, s.Value)
		}
		to := t.expr(s.To)
		if !to.ref || !to.typ.Constructible() {
			wgsl.Fail(s.Pos, "an assignment to a value that is not a variable")
		}
		return to.text + " = " + t.typed(s.Value, to.typ).text
	}
	panic("BUG: msl: unknown kind of statement")
}

// isBuffer reports whether an expression is the name of a storage variable whose type is an array without a size.
func (t *translator) isBuffer(e wgsl.Expr) bool {
	n, ok := e.(*wgsl.Ident)
	if !ok {
		return false
	}
	v, ok := t.scopes.Find(n.Name)
	return ok && v.typ.Kind == wgsl.Array && v.typ.N == 0
}

func (t *translator) declare(v *wgsl.Variable) string {
	if v.Keyword == "const" {
		x := t.constValue(v)
		text := x.text
		t.local(v.Pos, v.Name, x)
		x.text = text
		t.scopes[len(t.scopes)-1][v.Name] = x
		return ""
	}
	x := value{ref: v.Keyword == "var"}
	init := "{}"
	if v.Init == nil && v.Keyword == "var" {
		if typ := t.resolve(v.Type); typ.Kind == wgsl.Shared8x8 {
			of := map[*wgsl.Type]string{wgsl.Matrix8x8: "<float, 8, 8>(0.0f)",
				wgsl.Half8x8: "<half, 8, 8>(half(0.0f))"}[typ]
			matrix := t.local(v.Pos, v.Name, value{typ: typ})
			return typeName(typ) + " " + matrix + " = metal::make_filled_simdgroup_matrix" + of
		}
	}
	switch {
	case v.Init == nil:
		x.typ = t.plain(v.Type)
	case v.Type == nil:
		from := t.concrete(v.Init)
		x.typ, init = from.typ, from.text
	default:
		x.typ = t.plain(v.Type)
		init = t.typed(v.Init, x.typ).text
	}
	wgsl.Check(v.CheckLocal(x.typ))
	return typeName(x.typ) + " " + t.local(v.Pos, v.Name, x) + " = " + init
}

func (t *translator) condition(e wgsl.Expr) string { return t.typed(e, wgsl.Bool).text }

func (t *translator) conditional(s *wgsl.If, keyword string) {
	t.line("%s (%s) {", keyword, t.condition(s.Cond))
	t.nested(s.Then.List)
	switch other := s.Else.(type) {
	case *wgsl.If:
		t.conditional(other, "} else if")
		return
	case *wgsl.Block:
		t.line("} else {")
		t.nested(other.List)
	}
	t.line("}")
}

func (t *translator) loop(s *wgsl.Loop) {
	t.scopes = append(t.scopes, map[string]value{})
	head := [3]string{}
	if s.Init != nil {
		head[0] = t.simple(s.Init)
	}
	if s.Cond != nil {
		head[1] = " " + t.condition(s.Cond)
	}
	if s.Update != nil {
		head[2] = " " + t.simple(s.Update)
	}
	t.line("for (%s;%s;%s) {", head[0], head[1], head[2])
	t.nested(s.Body.List)
	t.line("}")
	t.scopes = t.scopes[:len(t.scopes)-1]
}

func (t *translator) switchStatement(s *wgsl.Switch) {
	of := t.concrete(s.Of)
	wgsl.Check(s.Check(of.typ))
	t.line("switch (%s) {", of.text)
	for _, c := range s.Cases {
		for _, e := range c.Values {
			v := t.typed(e, of.typ)
			if v.constant == nil {
				wgsl.Fail(e.At(), "the value of a case is not a constant")
			}
			t.line("case %s:", v.text)
		}
		if c.Default {
			t.line("default:")
		}
		t.line("{")
		t.nested(c.Body.List)
		t.line("  break;")
		t.line("}")
	}
	t.line("}")
}

func (t *translator) returnStatement(s *wgsl.Return) {
	wgsl.Check(s.Check(t.result))
	if s.Value == nil {
		t.line("return;")
		return
	}
	t.line("return %s;", t.typed(s.Value, t.result).text)
}
