package onnx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// node is an ONNX node that is converted.
type node struct {
	b       *builder
	p       *onnxpb.NodeProto
	index   int
	version int64    // of the op's domain
	in      []*value // nil for an absent input; the last is not nil
	bounded []resultBound
}

// describe returns the name of the node for errors, with the place in the exporter's modules if the file has it.
func (n *node) describe() string {
	name := n.p.GetName()
	if name == "" {
		name = fmt.Sprintf("number %d", n.index)
	}
	s := fmt.Sprintf("node %s (%s)", name, n.p.GetOpType())
	for _, m := range n.p.GetMetadataProps() {
		if m.GetKey() == "pkg.torch.onnx.name_scopes" && m.GetValue() != "" {
			s += " in " +
				strings.Join(strings.Fields(strings.Trim(strings.ReplaceAll(m.GetValue(), "', '", " "), "[']")), ".")
		}
	}
	return s
}

// fail ends the import with an error about the node.
func (n *node) fail(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	n.b.g.Fail(diag.New(code.GraphText, n.b.file.path, "%s: %w", n.describe(), err))
}

// unknown explains why there is no conversion.
func (n *node) unknown() string {
	if since := versions(n.p.GetDomain(), n.p.GetOpType()); len(since) > 0 {
		return fmt.Sprintf("is of opset %d; allowed are %d and later", n.version, since[0])
	}
	name := n.p.GetOpType()
	if d := canonical(n.p.GetDomain()); d != "" {
		name = d + "." + name
	}
	if why := refused[name]; why != "" {
		return "is not supported: " + why
	}
	why := "is not supported: op " + name + " is unknown"
	if s := customName(n.p.GetDomain(), n.p.GetOpType()); s != "" {
		why += "; --op FILE can define it as op " + s
	}
	return why
}

// typeOf returns the type of input i.
func (n *node) typeOf(i int) ir.Type {
	if !n.has(i) {
		n.fail("input %d is missing", i)
	}
	return n.in[i].typ
}

// has reports whether the node has input i.
func (n *node) has(i int) bool { return i < len(n.in) && n.in[i] != nil }

// x returns the node of input i.
func (n *node) x(i int) *ir.Node {
	if !n.has(i) {
		n.fail("input %d is missing", i)
	}
	return n.b.at(n.in[i])
}

// maybe returns the node of input i, or nil.
func (n *node) maybe(i int) *ir.Node {
	if !n.has(i) {
		return nil
	}
	return n.x(i)
}

// dims returns the elements of input i, integers that are known up to sizes.
func (n *node) dims(i int) []ir.Dim {
	if !n.has(i) {
		n.fail("input %d is missing", i)
	}
	list, ok := n.in[i].list()
	if !ok {
		n.fail("input %d (%s) depends on values that are not known before the model runs", i, n.in[i].name)
	}
	out := make([]ir.Dim, len(list))
	for k, e := range list {
		if e.den != 1 {
			n.fail("input %d (%s) has a fraction; want integers", i, n.in[i].name)
		}
		if e.rows != nil && !slices.Contains(takesRows, n.p.GetOpType()) {
			n.fail("input %d (%s) is computed from a number of rows that depends on the data; that is not supported here", i,
				n.in[i].name)
		}
		out[k] = e.num
	}
	return out
}

// ints returns the elements of input i, integers that are known.
func (n *node) ints(i int) []int {
	var out []int
	for _, d := range n.dims(i) {
		if !d.IsStatic() {
			n.fail("input %d (%s) is %v; want a number that does not depend on the sizes of the inputs", i,
				n.in[i].name,
				d)
		}
		out = append(out, int(d.Const))
	}
	return out
}

// oneInt returns the only element of input i, an integer that is known.
func (n *node) oneInt(i int) int { return only(n, i, n.ints(i)) }

// oneDim returns the only element of input i, an integer that is known up to sizes.
func (n *node) oneDim(i int) ir.Dim { return only(n, i, n.dims(i)) }

func only[T any](n *node, i int, list []T) T {
	if len(list) != 1 {
		n.fail("input %d (%s) has %d elements; want 1", i, n.in[i].name, len(list))
	}
	return list[0]
}

// array returns the elements of input i, which must be known.
func (n *node) array(i int) *tensor.Array {
	if !n.has(i) {
		n.fail("input %d is missing", i)
	}
	v := n.in[i]
	if !v.isKnown() {
		n.fail("input %d (%s) depends on values that are not known before the model runs", i, v.name)
	}
	t, err := v.init.read()
	if err != nil {
		n.b.g.Fail(err)
	}
	return t.Array()
}

// one returns a node as the only result.
func one(x *ir.Node) []*value { return []*value{{typ: x.Type, node: x}} }

// many returns nodes as results.
func many(xs ...*ir.Node) []*value {
	var out []*value
	for _, x := range xs {
		if x == nil {
			out = append(out, nil)
			continue
		}
		out = append(out, &value{typ: x.Type, node: x})
	}
	return out
}

// number returns a constant with x's element type.
func number(v float64, x *ir.Node) *ir.Node { return op.Const(x.Graph, v, ir.TypeOf(x.Type.DType)) }

// cast returns x as d, x itself if it is of d.
func cast(x *ir.Node, d dtype.DType) *ir.Node {
	if x.Type.DType == d {
		return x
	}
	return op.Cast(x, d)
}
