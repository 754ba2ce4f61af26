package ptx

import "github.com/rlx-go/rlx/plugins/internal/wgsl"

// This file has functions that inspect code before it is translated.

func isName(e wgsl.Expr, name string) bool {
	i, ok := e.(*wgsl.Ident)
	return ok && i.Name == name
}

// root returns the name of the variable to which the part in an expression belongs, or "".
func root(e wgsl.Expr) string {
	switch e := e.(type) {
	case *wgsl.Ident:
		return e.Name
	case *wgsl.Index:
		return root(e.X)
	case *wgsl.Member:
		return root(e.X)
	}
	return ""
}

// assigns reports whether a statement assigns to a name.
func assigns(n any, name string) (found bool) {
	wgsl.Walk(n, func(n any) bool {
		if a, ok := n.(*wgsl.Assign); ok && a.To != nil && root(a.To) == name {
			found = true
		}
		return !found
	})
	return found
}

// mentions reports whether a name occurs in an expression.
func mentions(n any, name string) (found bool) {
	wgsl.Walk(n, func(n any) bool {
		if i, ok := n.(*wgsl.Ident); ok && i.Name == name {
			found = true
		}
		return !found
	})
	return found
}

// indexesRegisters reports whether a statement indexes a value of the function by an expression with a name.
func (t *translator) indexesRegisters(n any, name string) (found bool) {
	wgsl.Walk(n, func(n any) bool {
		if e, ok := n.(*wgsl.Index); ok && mentions(e.I, name) {
			v, known := t.scopes.Find(root(e.X))
			found = found || !known || v.memory == nil && v.typ.N > 0
		}
		return !found
	})
	return found
}

// known returns the value of an expression that is a constant integer and needs no instructions.
func (t *translator) known(e wgsl.Expr) (int64, bool) {
	simple := true
	wgsl.Walk(e, func(n any) bool {
		switch n := n.(type) {
		case *wgsl.Literal, *wgsl.Binary:
		case *wgsl.Ident:
			v, ok := t.scopes.Find(n.Name)
			if simple = simple && ok && v.memory == nil; simple {
				_, constant := v.constant()
				simple = constant
			}
		default:
			simple = false
		}
		return simple
	})
	if !simple {
		return 0, false
	}
	before := len(t.out)
	c, ok := t.expr(e).constant()
	if len(t.out) != before || !ok {
		return 0, false
	}
	return c.Whole()
}

// effects returns the functions whose calls must be evaluated only where their result is needed: those with loops,
// assignments to global variables or calls of built-in functions with effects, and those that call such functions.
func effects(m *wgsl.Module) map[string]bool {
	global := map[string]bool{}
	for _, v := range m.Globals {
		global[v.Name] = v.Keyword == "var" && v.Space != "private"
	}
	out := map[string]bool{"atomicAdd": true, "atomicStore": true, "workgroupBarrier": true}
	for again := true; again; {
		again = false
		for _, f := range m.Functions {
			if out[f.Name] {
				continue
			}
			wgsl.Walk(f.Body, func(n any) bool {
				switch n := n.(type) {
				case *wgsl.Loop:
					out[f.Name] = true
				case *wgsl.Assign:
					out[f.Name] = out[f.Name] || n.To != nil && isGlobal(m, root(n.To))
				case *wgsl.Index:
					out[f.Name] = out[f.Name] || global[root(n)]
				case *wgsl.Call:
					out[f.Name] = out[f.Name] || out[n.Of.Name]
				}
				return !out[f.Name]
			})
			again = again || out[f.Name]
		}
	}
	return out
}

// isGlobal reports whether a name in a function may be that of a global variable.
func isGlobal(m *wgsl.Module, name string) bool {
	for _, v := range m.Globals {
		if v.Name == name {
			return true
		}
	}
	return false
}

// lazy reports whether an expression should be evaluated only where it is needed: if it reads memory or has effects.
func (t *translator) lazy(e wgsl.Expr) (found bool) {
	wgsl.Walk(e, func(n any) bool {
		switch n := n.(type) {
		case *wgsl.Call:
			found = found || t.effects[n.Of.Name]
		case *wgsl.Index:
			v, ok := t.scopes.Find(root(n))
			found = found || ok && v.memory != nil
		}
		return !found
	})
	return found
}
