package devicetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/plan"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// subject is one case of an op. Its operands and results have static types.
type subject struct {
	def *ir.OpDef
	ir.Case[any]
	outs []ir.Type
}

// newSubject infers the types of the results. The one operand of an input or a param is its value.
func newSubject(def *ir.OpDef, c ir.Case[any]) (subject, error) {
	outs, err := def.InferResults(c.Attrs, c.In, c.Out, nil)
	s := subject{def, c, outs}
	if s.leaf() {
		s.In = outs
	}
	return s, err
}

// leaf reports whether the op is input or param.
func (s subject) leaf() bool { return s.def.Eval == nil && s.def != ir.StateDef }

// eval returns the results that the op's definition gives. The result of a leaf is its operand, that of a state its
// initial value.
func (s subject) eval(in []*tensor.Array) ([]*tensor.Array, error) {
	if s.leaf() {
		return in, nil
	}
	out := make([]*tensor.Array, len(s.outs))
	for k, t := range s.outs {
		out[k] = tensor.NewArray(t.DType, t.Shape.Eval(nil)...)
	}
	if s.def == ir.StateDef {
		return []*tensor.Array{initial(s.Attrs, s.outs[0])}, nil
	}
	return out, s.def.Eval(s.Attrs, in, out...)
}

// initial returns the initial value of a state.
func initial(attrs any, typ ir.Type) *tensor.Array {
	t := program.StateTensor{Type: typ, Init: attrs.(ir.StateAttrs).Init}
	b := make([]byte, t.Bytes())
	t.Fill(b)
	return tensor.Tensor{DType: typ.DType, Shape: typ.Shape.Eval(nil), Data: b}.Array()
}

// elements returns the number of elements of all operands and results. Packed types count as one element per 8 bytes.
func (s subject) elements() int64 { return sum(s.In) + sum(s.outs) }

func sum(types []ir.Type) (n int64) {
	for _, t := range types {
		if t.Present() {
			n += tensor.ArrayBytes(t.DType, numel(t)) / 8
		}
	}
	return n
}

func numel(t ir.Type) int64 { return t.Bytes(nil) / int64(t.DType.Size()) }

func (s subject) String() string {
	return fmt.Sprintf("%s %v %+v -> %v", s.def.Name, s.In, s.Attrs, s.outs)
}

// form says how the operands of a subject become values of a program.
type form struct {
	name    string
	weights []bool // whether each operand is a param instead of an input; may be nil
	// arena places the operands and results in the arena, with other values before and after them that the op must not
	// change. The op overwrites an operand if it may.
	arena bool
}

// weightForm makes params of the float and packed operands after the first, or of the first if no other operand can be
// a param. ok is false if no operand becomes a param.
func (s subject) weightForm() (form, bool) {
	w, some := make([]bool, len(s.In)), false
	for k := 1; k < len(w); k++ {
		w[k] = s.In[k].DType.IsFloat() || s.In[k].DType.IsPacked()
		some = some || w[k]
	}
	if !some && len(w) > 0 && s.In[0].DType.IsFloat() {
		w[0], some = true, true
	}
	return form{name: "weights", weights: w}, some
}

// narrowed returns s with its f32 weights in the narrower type d, as far as the op accepts that. ok is false if it
// accepts no such weight.
func (s subject) narrowed(f form, d dtype.DType) (subject, bool) {
	c := s.Case
	c.In = slices.Clone(s.In)
	changed := false
	for k, w := range f.weights {
		if k == 0 || !w || c.In[k].DType != dtype.F32 {
			continue
		}
		was := c.In[k]
		c.In[k].DType = d
		if t, err := s.def.InferResults(c.Attrs, c.In, c.Out, nil); err != nil ||
			!slices.EqualFunc(t, s.outs, ir.Type.Equal) {
			c.In[k] = was
			continue
		}
		changed = true
	}
	return subject{s.def, c, s.outs}, changed
}

func operandName(k int) string { return fmt.Sprintf("i%d", k) }

// outName returns the name of the output for result k.
func (s subject) outName(k int) string {
	if len(s.outs) == 1 {
		return "out"
	}
	return fmt.Sprint("out", k)
}

// build makes the program of a subject. Operand k is called "i" and its number. A single result is called out, several
// out0, out1, ....
func (s subject) build(f form, in []*tensor.Array) (*program.Program, values, error) {
	params := values{}
	for k := range s.In {
		if s.weight(f.weights, k) {
			params[operandName(k)] = in[k]
		}
	}
	p, err := build(s.graph(f), params)
	if err == nil && f.arena {
		err = sandwich(p)
	}
	return p, params, err
}

// present returns the indices of the operands that are there.
func (s subject) present() (out []int) {
	for k, t := range s.In {
		if t.Present() {
			out = append(out, k)
		}
	}
	return out
}

// weight reports whether operand k is a param.
func (s subject) weight(weights []bool, k int) bool {
	return weights != nil && weights[k] || s.def.Name == "param"
}

func (s subject) graph(f form) *ir.Graph {
	g := ir.NewGraph(s.def.Name)
	nodes := make([]*ir.Node, len(s.In))
	for k, t := range s.In {
		if !t.Present() {
			continue
		}
		if s.weight(f.weights, k) {
			nodes[k] = op.Param(g, operandName(k), t)
		} else {
			nodes[k] = op.Input(g, operandName(k), t)
		}
	}
	results := func() []*ir.Node {
		switch {
		case s.leaf():
			return nodes[:1]
		case s.def.Tuple:
			return g.AddResults(len(s.outs), s.def, s.Attrs, nodes...)
		}
		n := g.AddDeclared(s.def, s.Attrs, s.Case.Out, nodes...)
		if s.def == ir.StateDef {
			n.Named("state")
		}
		return []*ir.Node{n}
	}
	if s.def.Updates { // an operand for each result is a state; give it the value of the operand
		zero := op.Const(g, 0, ir.TypeOf(dtype.I32))
		for k := range s.outs {
			nodes[k] = op.KVAppend(op.State(g, fmt.Sprint("state", k), s.In[k], 0), nodes[k], zero, 0)
		}
	}
	if !f.arena {
		for k, n := range results() {
			g.Return(s.outName(k), n)
		}
		return g
	}
	guards := []*ir.Node{op.Input(g, "guard", ir.TypeOf(dtype.F32, guardElems))}
	guards = append(guards, op.Copy(guards[0]).Named("guard0"))
	for k, x := range nodes {
		if x != nil && x.Op == op.InputDef {
			nodes[k] = op.Copy(x)
		}
	}
	guards = append(guards, op.Copy(guards[0]).Named("guard1"), op.Copy(guards[0]).Named("guard2"))
	for k, n := range results() {
		g.Return(s.outName(k), op.Copy(n))
	}
	for i, x := range guards[1:] {
		g.Return(fmt.Sprint("guard", i, "out"), op.Copy(x))
	}
	return g
}

// guardElems is the number of f32 elements of a guard: 256 bytes.
const guardElems = program.Align / 4

// build schedules a graph whose params are placed by layout. The target stays empty until load sets it.
func build(g *ir.Graph, params values) (*program.Program, error) {
	if err := g.Err(); err != nil {
		return nil, err
	}
	at, _ := layout(params.names(), params)
	p, _, err := sched.Build(
		g, sched.Options{Weights: func(name string) (int64, bool) { o, ok := at[name]; return o, ok }})
	return p, err
}

// sandwich replaces the plan of the arena: guard0, the operands, guard1, the results and guard2 lie one right after the
// other. It also sorts the steps by node, so that all guards are written before the op runs and read after it.
func sandwich(p *program.Program) error {
	var next int64
	put := func(n *ir.Node) {
		pl := &p.Places[n.ID]
		if pl.Space != program.Arena || n.Op.Tuple {
			return
		}
		if pl.Parent == plan.None {
			pl.Offset = next
			next += max(program.AlignUp(pl.Size), program.Align)
			return
		}
		off, _ := n.View()
		pl.Offset = p.Places[pl.Parent].Offset + off
	}
	var last *ir.Node
	for _, n := range p.Graph.Nodes {
		if n.Name == "guard2" {
			last = n
			continue
		}
		put(n)
	}
	put(last)
	for i := range p.Loops { // the region of a loop, which only its own step uses, comes after all
		p.Loops[i].Offset = next
		next += p.Loops[i].Size()
	}
	p.ArenaSize = next
	slices.SortFunc(p.Steps, func(a, b program.Step) int { return a.Node - b.Node })
	return plan.CheckProgram(p)
}

// namesOnce checks that errors about bad values name the op at most once: the definition's, where ir.OpDef.Eval puts
// the name, and the backend's.
func (s subject) namesOnce(refused, err error) error {
	for _, e := range []error{refused, err} {
		if strings.Count(" "+e.Error(), " "+s.def.Name+":")+strings.Count(e.Error(), "("+s.def.Name+")") > 1 {
			return fmt.Errorf("%v: the error %q repeats the op's name", s, e)
		}
	}
	return nil
}

// verify runs a subject on the operands and compares the results with the definition. If the definition refuses the
// operands, the backend must return device.ErrInput.
func (s subject) verify(r *rig, in []*tensor.Array) (map[string]tensor.Tensor, error) {
	return s.verifyWith(whole, r, in)
}

func (s subject) verifyWith(cmp comparison, r *rig, in []*tensor.Array) (map[string]tensor.Tensor, error) {
	want, refused := s.eval(in)
	named := named(in)
	guards := tensor.NewArray(dtype.F32, guardElems)
	for i := range guards.Floats {
		guards.Floats[i] = float64(i) - 7.5
	}
	named["guard"] = guards
	got, _, err := r.run(context.Background(), named, device.Run{})
	if refused != nil != (err != nil) {
		// On a device that takes denormals for 0, the definition's opinion on zeros counts as well.
		if zeros := r.s.flush(in); zeros != nil {
			if other, no := s.eval(zeros); no != nil == (err != nil) {
				want, refused = other, no
			}
		}
	}
	if refused != nil {
		if sum(s.outs) == 0 && err == nil {
			return nil, nil
		}
		if errors.Is(err, device.ErrInput) {
			return nil, s.namesOnce(refused, err)
		}
		return nil,
			fmt.Errorf("%v: the definition refuses the values (%v); the backend's error is %v, want device.ErrInput", s,
				refused, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", s, err)
	}
	made := make([]*tensor.Array, len(want))
	for k := range made {
		made[k] = got[s.outName(k)].Array()
	}
	if err := r.s.near(cmp, s.def, s.Attrs, in, made, want); err != nil {
		return nil, fmt.Errorf("%v: %w", s, err)
	}
	for name, x := range got {
		if strings.HasPrefix(name, "guard") {
			if err := compare(x.Array(), guards, ir.Tolerance{}); err != nil {
				return nil, fmt.Errorf("%v: overwrote %s, a value that lies beside it in the arena: %w", s, name, err)
			}
		}
	}
	return got, nil
}
