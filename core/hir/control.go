package hir

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// Control flow consists of the blocks if, while and scan, whose attributes are graphs. An if computes both branches and
// selects one, so targets need nothing new. while and scan become the op loop. It is unrolled where it is short, and
// for targets that do not run it (op.UnrollNodes). A value that is computed but not selected must not fail; see
// op.InlineGuarded.

// flat returns a body without blocks, for inlining.
func flat(g *ir.Graph, body *ir.Graph) *ir.Graph {
	b, err := body.LowerBlocks(nil)
	if err != nil {
		g.Fail(fmt.Errorf("graph %s: %w", body.Name, err))
	}
	return b
}

// single returns cond, a graph that flat returned, with one bool as its output: whether all bools of the output are
// true.
func single(g, cond *ir.Graph) *ir.Graph {
	out := &cond.Outputs[0]
	if out.Node.Type.Rank() == 0 {
		return cond
	}
	if err := cond.Build(func() { out.Node = reduced(op.All, out.Node) }); err != nil {
		g.Fail(fmt.Errorf("graph %s: %w", cond.Name, err))
	}
	cond.Name += ".all"
	return cond
}

// prefixOf returns the prefix for names of nodes that are inlined for n: h is called y.then.h. Names are dropped if n
// has none.
func prefixOf(n *ir.Node, parts ...any) string {
	if n.Name == "" {
		return ""
	}
	name := n.Name
	for _, p := range parts {
		name += fmt.Sprint(".", p)
	}
	return name + "."
}

// flag checks that a body returns a single bool, or bools. what names it in the error.
func flag(what string, b *ir.Graph, out []ir.Type) error {
	if len(out) != 1 || out[0].DType != dtype.Bool {
		return fmt.Errorf("%s: graph %s returns %v; want one value of type bool", what, b.Name, out)
	}
	return nil
}

// carried checks that a loop's body returns values of the types that it takes.
func carried(b *ir.Graph, out, want []ir.Type) error {
	const format = "body: graph %s returns %v; want the types of the carried values, %v"
	if len(out) != len(want) {
		return fmt.Errorf(format, b.Name, out, want)
	}
	for k := range out {
		if !out[k].Equal(want[k]) {
			return fmt.Errorf(format, b.Name, out, want)
		}
	}
	return nil
}

// truth reports whether all elements, or any element, of a are not 0.
func truth(a *tensor.Array) (all, any bool) {
	all = true
	for i := range a.Len() {
		v := a.At(i) != 0
		all, any = all && v, any || v
	}
	return all, any
}

// store copies the elements of a to out.
func store(out, a *tensor.Array) {
	copy(out.Floats, a.Floats)
	copy(out.Ints, a.Ints)
	copy(out.Bytes, a.Bytes)
}

// reduced adds the disjunction or conjunction of all elements of x.
func reduced(reduce func(x *ir.Node, keepDims bool, axes ...int) *ir.Node, x *ir.Node) *ir.Node {
	axes := make([]int, x.Type.Rank())
	for i := range axes {
		axes[i] = i
	}
	if len(axes) == 0 {
		return x
	}
	return reduce(x, false, axes...)
}
