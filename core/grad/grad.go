// Package grad differentiates graphs. Of adds nodes to a graph that compute the gradient of a number, the loss, with
// respect to other values of the graph. It walks the graph from the loss back (reverse-mode differentiation). Each op
// has its own rule, registered with ir.Gradient beside its definition.
package grad

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// Of adds nodes to the graph of loss that compute its gradient with respect to each of wrt. It returns one node for
// each of them, with its shape and element type. loss is a float of rank 0, and wrt are floats. The gradient is 0 where
// loss does not depend on a value. Nodes of wrt may depend on each other. Then the gradient with respect to one of them
// includes the paths to loss through the others.
//
// Integers and bools stop a path: the gradient of the values from which they are computed is 0. An op without a rule is
// differentiated through its expansion (ir.Lower). If it has no expansion, and loss depends on wrt through it, Of
// reports an error with the code code.NoGradient. After an error the graph has further nodes and must not be used.
//
// The order of additions depends only on the graph: the gradients of a value with several readers are added from its
// last reader to its first, each as soon as it is known.
func Of(loss *ir.Node, wrt ...*ir.Node) ([]*ir.Node, error) { return Checkpointed(loss, nil, wrt...) }

// Checkpointed is like Of, but needs less memory. It keeps only the values of cuts from the forward pass, such as the
// result of each layer of a model. Where the backward pass reaches a cut, the nodes between the cut before it and this
// one are copied, and so computed again. The gradients have the same bits.
//
// Values that depend on no cut, such as tables of positions, are not computed again. Nodes after the last cut are not
// computed again either, because their backward pass comes at once. Values before the first cut are kept.
func Checkpointed(loss *ir.Node, cuts []*ir.Node, wrt ...*ir.Node) ([]*ir.Node, error) {
	g := loss.Graph
	if err := check(loss, wrt); err != nil {
		return nil, err
	}
	if err := checkCuts(loss, cuts); err != nil {
		return nil, err
	}
	d := &differentiator{g: g, depends: map[*ir.Node]bool{}, gradient: map[*ir.Node]*ir.Node{},
		reader: map[*ir.Node]*ir.Node{}, cuts: cutsOf(loss, cuts), again: map[*ir.Node]*ir.Node{},
		original: map[*ir.Node]*ir.Node{}}
	for _, x := range wrt {
		d.depends[x] = true
	}
	var out []*ir.Node
	err := g.Build(func() {
		last := loss.ID + 1
		d.mark(0, last)
		if d.depends[loss] {
			d.gradient[loss] = op.Const(g, 1, loss.Type)
			d.segments(last)
		}
		for _, x := range wrt {
			y := d.gradient[x]
			if y == nil {
				y = op.Const(g, 0, x.Type)
			}
			out = append(out, y)
		}
	})
	return out, err
}

// check returns an error unless loss and wrt are values that Of takes.
func check(loss *ir.Node, wrt []*ir.Node) error {
	g := loss.Graph
	if !loss.Type.DType.IsFloat() || loss.Type.Rank() != 0 {
		return diag.New(code.Gradient, "grad", "loss %s is %s; want a float of rank 0", loss.Label(), loss.TypeText()).
			WithHint("reduce it to one number first, for example with reduce_sum or reduce_mean")
	}
	for _, x := range wrt {
		if x.Graph != g || x.ID >= len(g.Nodes) || g.Nodes[x.ID] != x {
			return diag.New(code.Gradient, "grad", "%s is not a value of the loss's graph", x.Label())
		}
		if !x.Type.DType.IsFloat() {
			return diag.New(code.Gradient, "grad", "%s is %s; want a float type: only floats have gradients", x.Label(),
				x.TypeText())
		}
	}
	return nil
}

// differentiator is the state of one call of Of.
type differentiator struct {
	g *ir.Graph
	// depends has the nodes through which a change of wrt reaches others: floats that depend on one of wrt.
	depends map[*ir.Node]bool
	// gradient has the sum of the gradients that are known so far.
	gradient map[*ir.Node]*ir.Node
	// reader has, for each node with a gradient, the node through which it was reached first. It leads to the loss.
	reader map[*ir.Node]*ir.Node
	within []string // ops whose expansions are being differentiated
	// See Checkpointed. cuts are in the order of the graph. again has the copies of a segment's nodes, and original the
	// nodes that copies stand for.
	cuts            []*ir.Node
	again, original map[*ir.Node]*ir.Node
}

// mark sets depends for the nodes [from, to) of the graph.
func (d *differentiator) mark(from, to int) {
	for _, n := range d.g.Nodes[from:to] {
		if n.Op.Tuple || n.Type.DType.IsFloat() {
			if slices.ContainsFunc(n.In, func(x *ir.Node) bool { return d.depends[x] }) || d.weightOf(n) != "" {
				d.depends[n] = true
			}
		}
	}
}

// back adds the gradients of the operands of the nodes [from, to), from the last to the first.
func (d *differentiator) back(from, to int) {
	for i := to - 1; i >= from; i-- {
		n := d.g.Nodes[i]
		wanted := slices.ContainsFunc(n.In, func(x *ir.Node) bool { return d.depends[x] })
		if n.Op == ir.ResultDef || !d.depends[n] || !wanted && d.weightOf(n) == "" {
			continue
		}
		dy, reached := make([]*ir.Node, len(n.Values())), false
		for k, v := range n.Values() {
			dy[k] = d.gradient[v]
			reached = reached || dy[k] != nil
		}
		if reached {
			d.step(n, dy)
		}
	}
}

// step adds the gradients of n's operands, given those of its results.
func (d *differentiator) step(n *ir.Node, dy []*ir.Node) {
	if n.Op == op.LoopDef && d.loop(n, dy) {
		return
	}
	rule := n.Op.GradientOf()
	if rule == nil {
		d.expand(n, dy)
		return
	}
	dx, err := rule(d.copyOf(n), dy)
	if errors.Is(err, ir.ErrExpand) {
		d.expand(n, dy)
		return
	}
	if err != nil {
		d.g.Fail(d.refuse(n, err.Error()))
	}
	if len(dx) > len(n.In) {
		panic(fmt.Sprintf("BUG: gradient rule of %s returns %d gradients for %d operands", n.OpName(), len(dx),
			len(n.In)))
	}
	for k, y := range dx {
		if y == ir.NoGradient {
			if d.depends[n.In[k]] {
				d.g.Fail(d.refuse(n, "has no gradient with respect to its operand "+n.Op.OperandName(k)))
			}
			continue
		}
		if y != nil && n.In[k] != nil && !y.Type.Equal(n.In[k].Type) {
			panic(fmt.Sprintf("BUG: gradient rule of %s returns %v for operand %s of type %v", n.OpName(), y.Type,
				n.Op.OperandName(k), n.In[k].Type))
		}
		d.add(n.In[k], y, n)
	}
}

// add adds dx to the gradient of x. reader is the node whose rule gave it.
func (d *differentiator) add(x, dx, reader *ir.Node) {
	if o := d.original[x]; o != nil {
		x = o
	}
	if x == nil || dx == nil || !d.depends[x] {
		return
	}
	if known := d.gradient[x]; known != nil {
		dx = op.Add(known, dx)
	} else {
		d.reader[x] = reader
	}
	d.gradient[x] = dx
}

// expand differentiates n through its expansion.
func (d *differentiator) expand(n *ir.Node, dy []*ir.Node) {
	from := len(d.g.Nodes)
	results, ok, err := d.copyOf(n).ExpandForGradient()
	if !ok {
		d.g.Fail(d.refuse(n, "has no gradient: it has neither a gradient rule nor an expansion"))
	}
	if err != nil {
		d.g.Fail(d.refuse(n, err.Error()))
	}
	to := len(d.g.Nodes)
	d.mark(from, to)
	for k, y := range dy {
		d.add(results[k], y, n) // a result may be an operand of n
	}
	d.within = append(d.within, n.OpName())
	d.back(from, to)
	d.within = d.within[:len(d.within)-1]
}

// refuse returns the error that n cannot be differentiated. It names the path from n to the loss.
func (d *differentiator) refuse(n *ir.Node, why string) error {
	var path []string
	for at := n; at != nil; at = d.next(at) {
		path = append(path, at.Label()+" ("+at.OpName()+")")
	}
	if k := len(path); k > 8 {
		path = slices.Concat(path[:4], []string{fmt.Sprintf("... %d more ...", k-7)}, path[k-3:])
	}
	in := ""
	if len(d.within) > 0 {
		in = " in the expansion of " + strings.Join(d.within, ", in that of ")
	}
	return diag.New(code.NoGradient, n.OpName(), "%s%s: %s; the loss depends on it through %s", n.Label(), in, why,
		strings.Join(path, " -> ")).
		WithHint("compute this part without the values whose gradient is wanted, or use other ops")
}

// next returns the node through which n's value was reached from the loss, or nil if that is the loss.
func (d *differentiator) next(n *ir.Node) *ir.Node {
	for _, v := range n.Values() {
		if r := d.reader[v]; r != nil {
			return r
		}
	}
	return nil
}
