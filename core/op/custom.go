package op

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// CustomAttrs are the attributes of custom.
type CustomAttrs struct {
	Name string `attr:"name"` // of the op, such as "acme.wave"
	// Own has the op's own attributes, such as {alpha=0.5, k=3}. They say nothing that the expansion does not say, too;
	// kernels and rules read them.
	Own []ir.Attr `attr:"own"`
	// Expansion computes the results from the operands. Its symbols stand for sizes of operands.
	Expansion *ir.Graph `attr:"expansion"`
	// Gradient, if not nil, is the gradient rule: its inputs are the operands, then the gradients of the results that
	// are floats, and its outputs the gradients of the operands that are floats. Only the compiler needs it.
	Gradient *ir.Graph `attr:"gradient"`
	// Abs and Rel are the tolerance; both 0 stand for the sum of the tolerances of the ops in the expansion.
	Abs float64 `attr:"abs"`
	Rel float64 `attr:"rel"` // see abs
}

// String returns the name and the op's own attributes, without the expansion.
func (a CustomAttrs) String() string { return a.Name + ir.Attr{Value: a.Own}.Text() }

// MaxExpansion is the largest number of nodes in the expansion of a custom op.
const MaxExpansion = 256

// CustomDef is an op of a model's author or a backend's, whose meaning travels with it.
var CustomDef = ir.DefineTuple(ir.TupleDef[CustomAttrs]{
	Name: "custom",
	Doc: "An op that is defined outside of RLX. Its meaning is a graph, expansion, whose inputs are the " +
		"operands and whose outputs are the results. Each symbol of the graph is a whole size of an input; it " +
		"has the size that the operand has there, which lies in the symbol's range. A graph gradient, if it " +
		"is given, computes the gradients in place of the expansion's: its inputs are the operands, then a " +
		"gradient for each result that is a float; its outputs are the gradients of the operands that are " +
		"floats. The compiler leaves it out of artifacts. Each graph has at most 256 nodes, and no node with " +
		"a graph of its own, no params, no states and no reshapes that require sizes to be equal. The " +
		"compiler replaces the op by its expansion for targets that do not claim it (run custom(...) if name " +
		"= \"acme.wave\"). docs/custom-ops.md tells how to define one.",
	Results:  "those of the expansion",
	Operands: "x...",
	Called:   func(a CustomAttrs) string { return a.Name },
	Infer: func(s ir.Sig[CustomAttrs]) (out []ir.Type, err error) {
		a := s.Attrs
		switch {
		case !IsCustomName(a.Name):
			return nil, fmt.Errorf("name is %.80q; want a name with a dot, such as acme.wave, of lower-case letters, digits and _",
				a.Name)
		case a.Expansion == nil:
			return nil, fmt.Errorf("%s has no expansion, which says what it means", a.Name)
		case !(a.Abs >= 0 && a.Rel >= 0) || math.IsInf(a.Abs+a.Rel, 1):
			return nil, fmt.Errorf("%s: the tolerance is %v and %v; want finite numbers, at least 0", a.Name, a.Abs,
				a.Rel)
		}
		if err := ir.CheckOwn(a.Own); err != nil {
			return nil, fmt.Errorf("%s: own: %w", a.Name, err)
		}
		if n := len(a.Expansion.Nodes); n > MaxExpansion {
			return nil, fmt.Errorf("%s: the expansion has %d nodes; at most %d", a.Name, n, MaxExpansion)
		}
		if err := a.Expansion.CheckGeneric(); err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
		if out, err = a.Expansion.BindTypes(s.In, s.Syms); err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
		if err := a.checkGradient(s.In, out, s.Syms); err != nil {
			return nil, fmt.Errorf("%s: gradient: %w", a.Name, err)
		}
		return out, nil
	},
	Eval: func(a CustomAttrs, in, out []*tensor.Array) error {
		types := make([]ir.Type, len(in))
		for k, x := range in {
			types[k] = ir.TypeOf(x.DType, sizes(x)...)
		}
		g, err := a.Expansion.Bind(types, nil)
		if err != nil {
			return err
		}
		return evalGraph(g, in, out)
	},
	Memory: func(s ir.Sig[CustomAttrs], _ []ir.Type) (bytes int64) {
		g, err := s.Attrs.Expansion.Bind(s.In, s.Syms)
		if err != nil {
			panic("BUG: op: " + err.Error()) // Infer has accepted the types
		}
		for _, n := range g.Nodes {
			arrays, own := n.EvalMemory()
			bytes += arrays + own
		}
		return bytes
	},
	FLOPs: func(a CustomAttrs, in, _ []ir.Type) (flops int64) {
		a.each(in, func(n *ir.Node, in, out []ir.Type) { flops += n.Op.FLOPs(n.Attrs, in, out...) })
		return flops
	},
	Tol: func(a CustomAttrs, in, out []ir.Type) []ir.Tolerance {
		t := ir.Tolerance{Abs: a.Abs, Rel: a.Rel}
		if t == (ir.Tolerance{}) {
			a.each(in, func(n *ir.Node, in, out []ir.Type) {
				for _, x := range n.Op.Tol(n.Attrs, in, out...) {
					t.Abs, t.Rel = t.Abs+x.Abs, t.Rel+x.Rel
				}
			})
		}
		tols := make([]ir.Tolerance, len(out))
		for k, o := range out {
			if o.DType.IsFloat() {
				tols[k] = t
			}
		}
		return tols
	},
	Cases: customCases,
})

var _ = ir.LowerTuple(CustomDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	b, err := n.Attrs.(CustomAttrs).Expansion.Bind(n.InTypes(), g.Syms)
	if err != nil {
		g.Fail(err)
		return in
	}
	return g.Inline(b, in, "")
})

// checkGradient checks the gradient rule, if the op has one, against the types of the operands and of the results.
func (a CustomAttrs) checkGradient(in, out []ir.Type, syms ir.Syms) error {
	if a.Gradient == nil {
		return nil
	}
	if n := len(a.Gradient.Nodes); n > MaxExpansion {
		return fmt.Errorf("has %d nodes; at most %d", n, MaxExpansion)
	}
	if err := a.Gradient.CheckGeneric(); err != nil {
		return err
	}
	got, err := a.Gradient.BindTypes(slices.Concat(in, floats(out)), syms)
	if err != nil {
		return err
	}
	want := floats(in)
	if len(got) != len(want) {
		return fmt.Errorf("has %d outputs; want %d, a gradient for each operand that is a float", len(got), len(want))
	}
	for k, t := range want {
		if !got[k].Equal(t) {
			return ir.TypesDiffer(got[k], t, "output %s is %v; want %v, the type of the operand",
				a.Gradient.Outputs[k].Name, got[k], t)
		}
	}
	return nil
}

// floats returns the types that have gradients.
func floats(types []ir.Type) []ir.Type {
	return slices.DeleteFunc(slices.Clone(types), func(t ir.Type) bool { return !t.DType.IsFloat() })
}

var _ = ir.Gradient(CustomDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	a, g := n.Attrs.(CustomAttrs), n.Graph
	if a.Gradient == nil {
		return nil, ir.ErrExpand
	}
	in := slices.Clone(n.In)
	for k, t := range n.Results {
		switch {
		case !t.DType.IsFloat():
		case dy[k] == nil:
			in = append(in, Const(g, 0, t))
		default:
			in = append(in, dy[k])
		}
	}
	types := make([]ir.Type, len(in))
	for k, x := range in {
		types[k] = x.Type
	}
	b, err := a.Gradient.Bind(types, g.Syms)
	if err != nil {
		return nil, err
	}
	given := g.Inline(b, in, "")
	dx := make([]*ir.Node, len(n.In))
	for k, x := range n.In {
		if x.Type.DType.IsFloat() {
			dx[k], given = given[0], given[1:]
		}
	}
	return dx, nil
})

// IsCustomName reports whether a custom op may have this name: two words or more, of lower-case letters, digits and _,
// with dots between, and at most 64 bytes. No registered op has a dot in its name.
func IsCustomName(name string) bool {
	words := strings.Split(name, ".")
	for _, w := range words {
		if !ir.IsSymbol(w) || strings.ToLower(w) != w {
			return false
		}
	}
	return len(words) > 1 && len(name) <= 64
}

// each calls f for the nodes of the expansion, with static types. These follow from in. If in has symbols, they are the
// largest that the expansion allows.
func (a CustomAttrs) each(in []ir.Type, f func(n *ir.Node, in, out []ir.Type)) {
	g, err := a.Expansion.Bind(in, nil)
	if err != nil {
		g = a.Expansion
	}
	static := func(types []ir.Type) []ir.Type {
		out := make([]ir.Type, len(types))
		for k, t := range types {
			if t.Present() {
				out[k] = g.Syms.AtMost(t)
			}
		}
		return out
	}
	for _, n := range g.Nodes {
		if n.Op != ir.ResultDef {
			f(n, static(n.InTypes()), static(n.ResultTypes()))
		}
	}
}

// evalGraph evaluates a graph of static types by the definitions of its ops.
func evalGraph(g *ir.Graph, in, out []*tensor.Array) error {
	values := make([]*tensor.Array, len(g.Nodes))
	for k, x := range g.Inputs() {
		values[x.ID] = in[k]
	}
	for _, n := range g.Nodes {
		if n.Op == InputDef || n.Op == ir.ResultDef {
			continue
		}
		args := make([]*tensor.Array, len(n.In))
		for k, x := range n.Operands() {
			args[k] = values[x.ID]
		}
		types := n.ResultTypes()
		results := make([]*tensor.Array, len(types))
		for k, t := range types {
			results[k] = tensor.NewArray(t.DType, t.Shape.Eval(nil)...)
		}
		if err := n.Op.Eval(n.Attrs, args, results...); err != nil {
			return fmt.Errorf("%s: %w", n.Label(), err)
		}
		for k, v := range n.Values() {
			values[v.ID] = results[k]
		}
	}
	for k, o := range g.Outputs {
		copy(out[k].Floats, values[o.Node.ID].Floats)
		copy(out[k].Ints, values[o.Node.ID].Ints)
		copy(out[k].Bytes, values[o.Node.ID].Bytes)
	}
	return nil
}

// customCases are made of graphs in text form, with one and with several results, of f32, half floats and integers.
func customCases() []ir.Case[CustomAttrs] {
	c := func(name, text string, own []ir.Attr, in ...ir.Type) ir.Case[CustomAttrs] {
		g, err := ir.Parse("graph " + name + "\n" + text)
		if err != nil {
			panic("BUG: op: " + err.Error())
		}
		return ir.Case[CustomAttrs]{Attrs: CustomAttrs{Name: name, Own: own, Expansion: g}, In: in}
	}
	const wave = `sym N = 0..4096
x = input : f32[N]
a = const {value=0.5} : f32[]
s = sin x : f32[N]
y = mul s, a : f32[N]
return y=y
`
	const best = `sym N = 1..64
sym M = 4..512
x = input : f32[N,M]
y = input : f32[M]
s = add x, y : f32[N,M]
v, i = top_k s {k=3} : f32[N,3], i32[N,3]
return values=v, indices=i, sum=s
`
	alpha := []ir.Attr{{Name: "alpha", Value: 0.5}, {Name: "mode", Value: "half"}}
	halves := strings.ReplaceAll(wave, "f32", dtype.F16.String())
	return []ir.Case[CustomAttrs]{
		c("rlx.wave", wave, alpha, f32(0)), c("rlx.wave", wave, alpha, f32(1)), c("rlx.wave", wave, alpha, f32(257)),
		c("rlx.half_wave", halves, nil, f16(33)), c("rlx.best", best, nil, f32(3, 7), f32(7)),
	}
}
