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

// results converts a node. Conversions rely on the ranks and lists that the definition of an op asks for; in a model
// that breaks it, they may read an axis or a number that is not there.
func (n *node) results() []*value {
	defer func() {
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
	}()
	if fn := n.b.file.functions()[functionKey(n.p.GetDomain(), n.p.GetOpType())]; fn != nil {
		return n.call(fn)
	}
	c := find(n.p.GetDomain(), n.p.GetOpType(), n.version)
	if c == nil {
		n.fail("%s", n.unknown())
	}
	for len(n.in) > 0 && n.in[len(n.in)-1] == nil {
		n.in = n.in[:len(n.in)-1]
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

// fold computes a node of which all inputs are known and small.
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
	out, err := interp.Run(inner, nil, nil, b.model.array)
	if err != nil {
		n.fail("%v", err)
	}
	return b.at(made(rounded(out["y"])))
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
