package onnx

import (
	"fmt"
	"runtime"

	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// testPanics is set by tests, for which a panic in a conversion is a failure: it may be a bug of ours.
var testPanics bool

// recovered ends the import after a panic in a conversion. Nodes are checked before they are converted, so a panic is a
// bug of this package. The user gets an error about the node.
func (n *node) recovered() {
	switch r := recover().(type) {
	case nil:
	case runtime.Error:
		if testPanics {
			panic(r)
		}
		n.fail("its inputs or attributes do not fit the definition of the op (%v)", r)
	default:
		panic(r)
	}
}

// results converts a node.
func (n *node) results() []*value {
	c := find(n.p.GetDomain(), n.p.GetOpType(), n.version)
	if c == nil {
		if out := n.custom(); out != nil {
			return out
		}
		n.fail("%s", n.unknown())
	}
	if out := n.decided(c); out != nil {
		return out
	}
	if late := lates[n.p.GetOpType()]; late != nil && canonical(n.p.GetDomain()) == "" {
		if out := late(n); out != nil {
			return out
		}
	}
	return n.converted(c)
}

// converted converts a node with its conversion.
func (n *node) converted(c *conversion) []*value {
	if c.symbolic != nil {
		if out := c.symbolic(n); out != nil {
			return out
		}
	}
	if c.convert == nil {
		n.fail("depends on values that are not known before the model runs")
	}
	if out := n.fold(c); out != nil {
		return out
	}
	return c.convert(n)
}

// fold computes a node whose inputs are all known and small.
func (n *node) fold(c *conversion) []*value {
	if c.keep {
		return nil
	}
	for _, v := range n.in {
		if v != nil && (!v.isKnown() || v.numel() > maxKnown) {
			return nil
		}
	}
	b := n.b
	g := b.g
	saved := make([]*ir.Node, len(n.in))
	for i, v := range n.in {
		if v != nil {
			saved[i], v.node = v.node, nil
		}
	}
	restore := func() {
		b.g = g
		for i, v := range n.in {
			if v != nil {
				v.node = saved[i]
			}
		}
	}
	defer restore()
	b.g = ir.NewGraph("constants")
	var out []*value
	if err := b.g.Build(func() { out = c.convert(n) }); err != nil {
		restore()
		g.Fail(err)
	}
	var results []*value
	for i, v := range out {
		if v == nil || v.node == nil {
			results = append(results, v)
			continue
		}
		if v.numel() > maxKnown { // such as an expanded constant
			return nil
		}
		b.g.Return(fmt.Sprint("out", i), v.node)
		results = append(results, nil)
	}
	if len(b.g.Outputs) == 0 {
		return results
	}
	if largest(b.g) > maxTable {
		return nil
	}
	arrays, err := interp.Run(b.g, nil, nil, b.model.array)
	if err != nil {
		n.fail("%v", err)
	}
	for i := range results {
		if a := arrays[fmt.Sprint("out", i)]; a != nil {
			results[i] = made(rounded(a))
		}
	}
	return results
}

// computed returns the value of a node that f adds to the graph, which depends on no inputs, as a constant.
func (n *node) computed(f func() *ir.Node) *ir.Node {
	b := n.b
	g := b.g
	inner := ir.NewGraph("constants")
	err := func() error {
		b.g = inner
		defer func() { b.g = g }()
		return inner.Build(func() { inner.Return("y", f()) })
	}()
	if err != nil {
		g.Fail(err)
	}
	if size := largest(inner); size > maxTable {
		n.fail("needs a table that is computed from %d elements; allowed are up to %d", size, maxTable)
	}
	out, err := interp.Run(inner, nil, nil, b.model.array)
	if err != nil {
		n.fail("%v", err)
	}
	return b.at(made(rounded(out["y"])))
}

// largest returns the number of elements of the largest value of a graph without symbols.
func largest(g *ir.Graph) (size int64) {
	for _, x := range g.Nodes {
		if k, ok := x.Type.Shape.Numel(); ok && k.IsStatic() {
			size = max(size, k.Const)
		}
	}
	return size
}

// rounded returns an array with the values of its element type.
func rounded(a *tensor.Array) *tensor.Array { return a.Tensor().Array() }

// array returns the value of a param for the reference.
func (m *Model) array(name string) (*tensor.Array, error) {
	t, err := m.Param(name)
	if err != nil {
		return nil, err
	}
	return t.Array(), nil
}
