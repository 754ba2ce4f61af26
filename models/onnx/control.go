package onnx

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// enter begins a graph inside a node; leave ends it.
func (n *node) enter(s *scope) (leave func()) {
	b := n.b
	if b.depth++; b.depth > maxNesting {
		n.fail("graphs are nested more than %d deep", maxNesting)
	}
	outer := b.scope
	b.scope = s
	return func() { b.scope = outer; b.depth-- }
}

// call converts the nodes of a function that the file defines.
func (n *node) call(fn *onnxpb.FunctionProto) []*value {
	s := &scope{values: map[string]*value{}, domain: map[string]int64{}}
	for _, o := range fn.GetOpsetImport() {
		s.domain[canonical(o.GetDomain())] = o.GetVersion()
	}
	for i, name := range fn.GetInput() {
		if i < len(n.in) && n.in[i] != nil {
			s.values[name] = n.in[i]
		}
	}
	leave := n.enter(s)
	attrs := map[string]*onnxpb.AttributeProto{}
	for _, a := range fn.GetAttributeProto() {
		attrs[a.GetName()] = a
	}
	for _, a := range n.p.GetAttribute() {
		attrs[a.GetName()] = a
	}
	n.b.nodes(resolved(fn.GetNode(), attrs))
	var out []*value
	for _, name := range fn.GetOutput() {
		out = append(out, s.values[name])
	}
	leave()
	return out
}

// resolved returns the nodes of a function with the attributes of a call. An attribute that the call lacks is absent.
func resolved(list []*onnxpb.NodeProto, attrs map[string]*onnxpb.AttributeProto) []*onnxpb.NodeProto {
	out := make([]*onnxpb.NodeProto, len(list))
	for i, p := range list {
		if !slices.ContainsFunc(p.GetAttribute(), func(a *onnxpb.AttributeProto) bool {
			return a.GetRefAttrName() != "" || a.GetG() != nil || len(a.GetGraphs()) > 0
		}) {
			out[i] = p
			continue
		}
		c := proto.Clone(p).(*onnxpb.NodeProto)
		c.Attribute = nil
		for _, a := range p.GetAttribute() {
			switch given := attrs[a.GetRefAttrName()]; {
			case a.GetRefAttrName() == "":
				a = proto.Clone(a).(*onnxpb.AttributeProto)
				if a.G != nil {
					a.G.Node = resolved(a.G.GetNode(), attrs)
				}
			case given == nil:
				continue
			default:
				name := a.GetName()
				a = proto.Clone(given).(*onnxpb.AttributeProto)
				a.Name = &name
			}
			c.Attribute = append(c.Attribute, a)
		}
		out[i] = c
	}
	return out
}

// graph returns an attribute that is a graph.
func (n *node) graph(name string) *onnxpb.GraphProto {
	a := n.attr(name)
	if a == nil || a.GetG() == nil {
		n.fail("graph %s is missing", name)
	}
	return a.GetG()
}

// inline converts a graph inside a node, where it is, for the given inputs. It returns the outputs.
func (n *node) inline(g *onnxpb.GraphProto, in []*value) []*value {
	s := &scope{values: map[string]*value{}, outer: n.b.scope}
	defer n.enter(s)()
	if err := n.b.initializers(g); err != nil {
		n.b.g.Fail(err)
	}
	if len(in) > len(g.GetInput()) {
		n.fail("its graph has %d inputs; want %d", len(g.GetInput()), len(in))
	}
	for i, v := range in {
		s.values[g.GetInput()[i].GetName()] = v
	}
	n.b.nodes(g.GetNode())
	var out []*value
	for _, o := range g.GetOutput() {
		v := s.find(o.GetName())
		if v == nil {
			n.fail("output %q of its graph is not computed", o.GetName())
		}
		out = append(out, v)
	}
	return out
}

// The ranks of inputs.
var (
	_ = ranks("one one", "Loop")
)

var (
	_ = register("Loop", conversion{since: 1, keep: true, convert: loopOp,
		note: "unrolled, or a loop if the number of iterations is a size; it must have an upper limit"})
	_ = register("Scan", conversion{since: 9, keep: true, convert: scanOp,
		note: "unrolled, or a loop if the length is a size"})
)

// body converts a graph inside a node to a graph of its own. It returns the values of the graphs around it that it
// reads, which are its inputs after those that inputs adds and returns, in order.
func (n *node) body(g *onnxpb.GraphProto, inputs func(inner *ir.Graph) []*value) (*ir.Graph, []*value) {
	b := n.b
	outer := b.g
	inner := ir.NewGraph(unique(b.graphs, symbolic(g.GetName(), "body")), outer.Syms...)
	var captured []*value
	inside, counts := map[*value]*value{}, map[*ir.Node]*ir.Node{}
	input := func(v *value) *ir.Node {
		captured = append(captured, v)
		return op.Input(inner, fmt.Sprint("capture", len(captured), "_", symbolic(v.name, "x")), v.typ)
	}
	count := func(rows *ir.Node) *ir.Node { // a number of rows that depends on the data
		if rows != nil && rows.Graph != inner && counts[rows] == nil {
			counts[rows] = input(&value{name: "rows", typ: rows.Type, node: rows})
		}
		return cmp.Or(counts[rows], rows)
	}
	s := &scope{values: map[string]*value{}, outer: b.scope}
	s.capture = func(v *value) *value {
		if v.node != nil && v.node.Graph == inner {
			return v
		}
		if c := inside[v]; c != nil {
			return c
		}
		c := v.clone(v.name)
		inside[v] = c
		for i, x := range v.tensors {
			c.tensors[i] = s.capture(x)
		}
		for i := range c.elems {
			c.elems[i].rows = count(c.elems[i].rows)
		}
		if v.bound != nil {
			c.bound = &bound{v.bound.axis, count(v.bound.count)}
		}
		if v.node != nil || v.isKnown() && v.numel() > maxKnown { // else each graph makes a node of its own
			c.node = input(v)
		}
		return c
	}
	b.g = inner
	defer func() { b.g = outer }() // also after a panic
	err := inner.Build(func() {
		defer n.enter(s)()
		if err := b.initializers(g); err != nil {
			inner.Fail(err)
		}
		if inputs != nil {
			for i, v := range inputs(inner) {
				s.values[g.GetInput()[i].GetName()] = v
			}
		}
		b.nodes(g.GetNode())
		for i, o := range g.GetOutput() {
			v := s.find(o.GetName())
			if v == nil {
				n.fail("output %q of its graph is not computed", o.GetName())
			}
			if v.bound != nil {
				n.fail("output %q of its graph has a number of rows that depends on the data; that is not supported here",
					o.GetName())
			}
			inner.Return("out"+symbolic(o.GetName(), "x")+string(rune('a'+i%26)), b.at(v))
		}
	})
	b.g = outer
	if err != nil {
		outer.Fail(err)
	}
	return inner, captured
}

// outputType returns the declared type of an output of a graph, which must be static.
func (n *node) outputType(g *onnxpb.GraphProto, i int) ir.Type {
	tt := g.GetOutput()[i].GetType().GetTensorType()
	t := ir.Type{DType: n.dtype(int(tt.GetElemType())), Shape: ir.Shape{}}
	for _, d := range tt.GetShape().GetDim() {
		if d.GetDimParam() != "" {
			n.fail("output %q of its graph has an open size", g.GetOutput()[i].GetName())
		}
		t.Shape = append(t.Shape, ir.Static(d.GetDimValue()))
	}
	return t
}

// scanOp converts Scan of opset 9 and later by unrolling it.
func scanOp(n *node) []*value {
	g := n.graph("body")
	slicesIn := n.int("num_scan_inputs", 1)
	states := len(n.in) - slicesIn
	if states < 0 || slicesIn < 1 {
		n.fail("num_scan_inputs is %d; the node has %d inputs", slicesIn, len(n.in))
	}
	outs := len(g.GetOutput()) - states
	axesIn, dirIn := n.perSlice("scan_input_axes", slicesIn), n.perSlice("scan_input_directions", slicesIn)
	axesOut, dirOut := n.perSlice("scan_output_axes", outs), n.perSlice("scan_output_directions", outs)
	length := -1
	for k := range slicesIn {
		t := n.typeOf(states + k)
		axesIn[k] = n.axis(axesIn[k], t.Rank())
		d := t.Shape[axesIn[k]]
		if !d.IsStatic() {
			return n.openScan(g, states, d)
		}
		if length >= 0 && int(d.Const) != length {
			n.fail("input %d has %v slices; want a number that is known, the same for all inputs", states+k, d)
		}
		length = int(d.Const)
	}
	state := slices.Clone(n.in[:states])
	rows := make([][]*ir.Node, outs)
	for i := range length {
		in := slices.Clone(state)
		for k := range slicesIn {
			x, at := n.x(states+k), i
			if dirIn[k] != 0 {
				at = length - 1 - i
			}
			shape := slices.Delete(append(ir.Shape{}, x.Type.Shape...), axesIn[k], axesIn[k]+1)
			in = append(in, one(op.Reshape(op.Narrow(x, axesIn[k], at, 1), shape))...)
		}
		out := n.inline(g, in)
		copy(state, out[:states])
		for k := range outs {
			rows[k] = append(rows[k], n.b.at(out[states+k]))
		}
	}
	out := slices.Clone(state)
	for k, r := range rows {
		if len(r) == 0 {
			n.fail("makes no iteration, but has an output of one slice per iteration; want at least one iteration")
		}
		if dirOut[k] != 0 {
			slices.Reverse(r)
		}
		out = append(out, one(op.Stack(n.axis(axesOut[k], r[0].Type.Rank()+1), r...))...)
	}
	return out
}

// perSlice returns a list attribute with a number for each slice, 0 if the node lacks it.
func (n *node) perSlice(name string, count int) []int {
	l, ok := n.list(name)
	if count < 0 {
		n.fail("its graph has %d outputs too few; want one for each state", -count)
	}
	if !ok || len(l) == 0 {
		return make([]int, count)
	}
	if len(l) != count {
		n.fail("%s has %d numbers; want %d", name, len(l), count)
	}
	return l
}
