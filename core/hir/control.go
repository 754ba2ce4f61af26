package hir

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// Control flow is blocks whose attributes are graphs: if, while and scan. They are lowered to tensor ops, so targets
// need nothing new: both branches of an if are computed and one is selected, and loops are unrolled.
//
// What is computed but not selected must not fail. So inside a branch, and inside the body of a while, each operand
// that an op checks (ir.Def.Checked), such as the indices of gather, is replaced by a safe value unless the branch is
// taken.

// MaxUnrolled is the largest number of nodes to which a loop is unrolled.
const MaxUnrolled = 1 << 16

// flat returns a body without blocks, for inlining.
func flat(g *ir.Graph, body *ir.Graph) *ir.Graph {
	b, err := body.LowerBlocks(nil)
	if err != nil {
		g.Fail(fmt.Errorf("graph %s: %w", body.Name, err))
	}
	return b
}

// inlined adds the nodes of a body to g. active, if not nil, is a bool[] that is false if nothing uses the results.
func inlined(g, body *ir.Graph, in []*ir.Node, prefix string, active *ir.Node) []*ir.Node {
	if active == nil {
		return g.Inline(body, in, prefix)
	}
	return g.InlineWith(body, in, prefix, func(n *ir.Node, k int, x *ir.Node) *ir.Node {
		for _, c := range n.Op.Checked {
			if c.Operand == k && !(c.Integers && x.Type.DType.IsFloat()) {
				return op.Where(active, x, op.Const(g, c.Safe, ir.Type{DType: x.Type.DType}))
			}
		}
		return x
	})
}

// prefixOf returns the prefix for names of nodes that are inlined for n: h is called y.then.h, or y.7.body.h in
// iteration 7. Names are dropped if n has none.
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

// checkUnrolled fails if a loop has too many nodes to unroll it. limit is the name of the attribute with the number of
// iterations, and each the number of nodes of one.
func checkUnrolled(g *ir.Graph, limit string, iterations, each int) {
	if int64(iterations)*int64(each) > MaxUnrolled {
		g.Fail(fmt.Errorf("the loop is unrolled, and %s = %d iterations of %d nodes are more than %d nodes; give a "+
			"lower %s or a smaller body, or run a shorter loop several times with its results as inputs",
			limit, iterations, each, MaxUnrolled, limit))
	}
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
