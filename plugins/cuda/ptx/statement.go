package ptx

import (
	"slices"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// list translates statements in the current scope. It leaves out the statements after a jump.
func (t *translator) list(list []wgsl.Statement) {
	for _, s := range list {
		if t.ended {
			return
		}
		t.statement(s)
	}
}

// nested translates statements in a scope of their own.
func (t *translator) nested(list []wgsl.Statement) {
	t.scopes = append(t.scopes, map[string]value{})
	t.branch(func() { t.list(list) })
	t.scopes = t.scopes[:len(t.scopes)-1]
}

func (t *translator) statement(s wgsl.Statement) {
	switch s := s.(type) {
	case *wgsl.Variable:
		t.declare(s)
	case *wgsl.Block:
		t.nested(s.List)
	case *wgsl.Assign:
		t.assignment(s)
	case *wgsl.CallStatement:
		t.call(s.Call)
	case *wgsl.If:
		t.conditional(s)
	case *wgsl.Loop:
		t.loop(s)
	case *wgsl.Switch:
		t.choose(s)
	case *wgsl.Jump:
		t.jump(t.target(s))
	case *wgsl.Return:
		t.returns(s)
	default:
		panic("BUG: ptx: unknown kind of statement")
	}
}

// target returns the label that break or continue jumps to.
func (t *translator) target(s *wgsl.Jump) string {
	for _, j := range slices.Backward(t.jumps) {
		switch {
		case s.Keyword == "break":
			return j.end
		case j.next != "":
			return j.next
		}
	}
	panic("BUG: ptx: " + s.Keyword + " outside of a loop")
}

func (t *translator) declare(v *wgsl.Variable) {
	if v.Keyword == "const" {
		t.declared(v, t.constant(v))
		return
	}
	var x value
	start := len(t.out)
	switch {
	case v.Init == nil:
		x.typ = t.plain(v.Type)
		x.ops = zeros(x.typ)
	case v.Type == nil:
		x = t.concrete(v.Init)
	default:
		x = t.typed(v.Init, t.plain(v.Type))
	}
	wgsl.Check(v.CheckLocal(x.typ))
	if v.Keyword == "var" {
		t.comment("%s", v.Name)
		t.start = start
		x = value{typ: x.typ, ops: t.variable(x.typ, x.ops), variable: true}
	} else {
		x = value{typ: x.typ, ops: t.kept(x.typ, x.ops)}
	}
	t.declared(v, x)
}

// declared declares a name in the current scope.
func (t *translator) declared(v *wgsl.Variable, x value) {
	wgsl.Check(t.scopes.Declare(v.Pos, v.Name, x))
}

func (t *translator) assignment(s *wgsl.Assign) {
	if s.To == nil {
		t.concrete(s.Value)
		return
	}
	if e, ok := s.To.(*wgsl.Index); ok && t.assignElement(e, s.Value) {
		return
	}
	start := len(t.out)
	to := t.expr(s.To)
	if !to.typ.Constructible() || !to.variable && (to.memory == nil || to.memory.buffer != nil &&
		(to.memory.buffer.readOnly || to.memory.buffer.elem == nil)) {
		wgsl.Fail(s.Pos, "an assignment to a value that is not a variable")
	}
	from := t.typed(s.Value, to.typ)
	if to.memory != nil {
		t.store(to, from.ops)
		return
	}
	t.start = start
	t.assign(to.typ, to.ops, from.ops)
}

// assignElement assigns to an element of an array or a vector in registers whose index is not constant. For any other
// place it returns false.
func (t *translator) assignElement(e *wgsl.Index, from wgsl.Expr) bool {
	x := t.expr(e.X)
	if x.memory != nil || !x.variable || x.typ.N == 0 {
		return false
	}
	i := t.position(e, x)
	if i.constant() {
		return false
	}
	v := t.typed(from, x.typ.Elem)
	n := len(x.ops) / x.typ.N
	at := t.clamped(i, x.typ.N)
	for k := range x.typ.N {
		p := t.compare("==", wgsl.U32, at, number(uint32(k)))
		for j, s := range scalars(x.typ.Elem) {
			old := x.ops[k*n+j]
			t.move(s, old, t.choice(s, v.ops[j], old, p))
		}
	}
	return true
}

// condition translates a condition.
func (t *translator) condition(e wgsl.Expr) operand { return t.typed(e, wgsl.Bool).ops[0] }

// unless jumps to a label if a condition is false.
func (t *translator) unless(p operand, label string) {
	switch {
	case p.is(0):
		t.jump(label)
	case !p.constant():
		t.line("@!%s bra %s", p.reg, label)
	}
}

func (t *translator) conditional(s *wgsl.If) {
	p := t.condition(s.Cond)
	if p.constant() {
		if p.bits == 1 {
			t.nested(s.Then.List)
		} else if s.Else != nil {
			t.statement(s.Else)
		}
		return
	}
	if len(s.Then.List) == 1 && s.Else == nil {
		switch j := s.Then.List[0].(type) {
		case *wgsl.Jump:
			t.line("@%s bra %s", p.reg, t.target(j))
			return
		case *wgsl.Return:
			if c := t.calls[len(t.calls)-1]; j.Value == nil && c.result == nil {
				t.line("@%s bra %s", p.reg, c.label(t))
				return
			}
		}
	}
	end := t.label("endif")
	if s.Else == nil {
		t.unless(p, end)
		t.nested(s.Then.List)
		t.place(end)
		return
	}
	other := t.label("else")
	t.unless(p, other)
	t.nested(s.Then.List)
	reached := !t.ended
	if reached {
		t.jump(end)
	}
	t.place(other)
	t.branch(func() { t.statement(s.Else) })
	if reached {
		t.place(end)
	}
}

func (t *translator) loop(s *wgsl.Loop) {
	t.scopes = append(t.scopes, map[string]value{})
	t.branch(func() {
		if c, ok := t.counted(s); ok && c.unroll {
			t.unroll(s, c)
		} else {
			t.repeat(s, c)
		}
	})
	t.scopes = t.scopes[:len(t.scopes)-1]
}

func (t *translator) repeat(s *wgsl.Loop, c counted) {
	if s.Init != nil {
		t.statement(s.Init)
	}
	head, next, end := t.label("loop"), t.label("next"), t.label("done")
	t.place(head)
	if s.Cond != nil {
		t.unless(t.condition(s.Cond), end)
		if t.ended {
			t.place(end)
			return
		}
	}
	t.jumps = append(t.jumps, jumps{end, next})
	t.scopes = append(t.scopes, map[string]value{})
	if v, ok := t.scopes.Find(c.name); ok && (v.typ == wgsl.U32 || v.typ == wgsl.I32 && c.from >= 0) {
		v.ops = slices.Clone(v.ops) // in the body, the variable is below its bound
		v.ops[0].most = uint32(c.end - 1)
		t.scopes[len(t.scopes)-1][c.name] = v
	}
	t.nested(s.Body.List)
	t.scopes = t.scopes[:len(t.scopes)-1]
	t.jumps = t.jumps[:len(t.jumps)-1]
	t.place(next)
	if s.Update != nil {
		t.statement(s.Update)
	}
	t.jump(head)
	t.place(end)
}

// counted describes a loop whose variable grows by a constant, up to a constant, and is not changed by the body.
type counted struct {
	name            string
	from, end, step int64
	unroll          bool // the body uses the variable as index of an array in registers
}

// mostUnrolled is the largest number of iterations of a loop that is unrolled.
const mostUnrolled = 32

// counted recognises for (var i = A; i < B; i = i + C). If A is not constant, from is negative.
func (t *translator) counted(s *wgsl.Loop) (c counted, ok bool) {
	v, _ := s.Init.(*wgsl.Variable)
	cond, _ := s.Cond.(*wgsl.Binary)
	update, _ := s.Update.(*wgsl.Assign)
	if v == nil || cond == nil || update == nil || v.Keyword != "var" || v.Init == nil || v.Type != nil ||
		cond.Op != "<" || !isName(cond.X, v.Name) || !isName(update.To, v.Name) {
		return c, false
	}
	sum, _ := update.Value.(*wgsl.Binary)
	if sum == nil || sum.Op != "+" || !isName(sum.X, v.Name) || assigns(s.Body, v.Name) {
		return c, false
	}
	step, ok1 := t.known(sum.Y)
	end, ok2 := t.known(cond.Y)
	if !ok1 || !ok2 || step < 1 || end < 1 || end > 1<<24 || step > 1<<24 {
		return c, false
	}
	c = counted{name: v.Name, from: -1, end: end, step: step}
	if from, ok := t.known(v.Init); ok && from >= 0 {
		c.from = from
		n := (end - from + step - 1) / step
		c.unroll = n > 0 && n <= mostUnrolled && t.indexesRegisters(s.Body, v.Name)
	}
	return c, true
}

// unroll translates a loop as one block per iteration.
func (t *translator) unroll(s *wgsl.Loop, c counted) {
	end := t.label("done")
	typ := concrete(s.Pos, t.expr(s.Init.(*wgsl.Variable).Init)).typ
	for i := c.from; i < c.end && !t.ended; i += c.step {
		next := t.label("next")
		t.scopes = append(t.scopes, map[string]value{c.name: {typ: typ, ops: []operand{number(uint32(i))}}})
		t.jumps = append(t.jumps, jumps{end, next})
		t.nested(s.Body.List)
		t.jumps = t.jumps[:len(t.jumps)-1]
		t.scopes = t.scopes[:len(t.scopes)-1]
		t.place(next)
	}
	t.place(end)
}

func (t *translator) choose(s *wgsl.Switch) {
	of := t.concrete(s.Of)
	wgsl.Check(s.Check(of.typ))
	end := t.label("endswitch")
	other := end
	labels := make([]string, len(s.Cases))
	for i, c := range s.Cases {
		labels[i] = t.label("case")
		if c.Default {
			other = labels[i]
		}
		for _, e := range c.Values {
			v := t.typed(e, of.typ)
			if !v.ops[0].constant() {
				wgsl.Fail(e.At(), "the value of a case is not a constant")
			}
			switch p := t.compare("==", of.typ, of.ops[0], v.ops[0]); {
			case t.ended || p.is(0):
			case p.is(1):
				t.jump(labels[i])
			default:
				t.line("@%s bra %s", p.reg, labels[i])
			}
		}
	}
	if !t.ended {
		t.jump(other)
	}
	t.jumps = append(t.jumps, jumps{end: end})
	for i, c := range s.Cases {
		t.place(labels[i])
		t.nested(c.Body.List)
		if !t.ended && i < len(s.Cases)-1 {
			t.jump(end)
		}
	}
	t.jumps = t.jumps[:len(t.jumps)-1]
	t.place(end)
}

func (t *translator) returns(s *wgsl.Return) {
	c := t.calls[len(t.calls)-1]
	wgsl.Check(s.Check(c.result))
	if s.Value != nil {
		start := len(t.out)
		v := t.typed(s.Value, c.result)
		t.start = start
		if c.ops == nil {
			c.ops = make([]operand, len(v.ops))
			for i, typ := range scalars(c.result) {
				c.ops[i] = t.register(typ)
			}
		}
		t.assign(c.result, c.ops, v.ops)
	}
	t.jump(c.label(t))
}

// label returns the label after the function.
func (c *call) label(t *translator) string {
	if c.end == "" {
		c.end = t.label("return")
	}
	return c.end
}
