package onnx

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// openScan converts a Scan whose length is a size. It becomes a Loop whose graph picks the slices of an iteration.
func (n *node) openScan(g *onnxpb.GraphProto, states int, length ir.Dim) []*value {
	slicesIn, outs := len(n.in)-states, len(g.GetOutput())-states
	axesIn, dirIn := n.perSlice("scan_input_axes", slicesIn), n.perSlice("scan_input_directions", slicesIn)
	axesOut, dirOut := n.perSlice("scan_output_axes", outs), n.perSlice("scan_output_directions", outs)
	const it, yes = "scan/iteration", "scan/condition"
	info := func(name string) *onnxpb.ValueInfoProto { return &onnxpb.ValueInfoProto{Name: &name} }
	loop := &onnxpb.GraphProto{Name: g.Name, Initializer: g.GetInitializer(),
		Input:  append([]*onnxpb.ValueInfoProto{info(it), info(yes)}, g.GetInput()[:states]...),
		Output: append([]*onnxpb.ValueInfoProto{info(yes)}, g.GetOutput()...)}
	for k := range slicesIn {
		t := n.typeOf(states + k)
		axis := n.axis(axesIn[k], t.Rank())
		if t.Shape[axis] != length {
			n.fail("input %d has %v slices and another one %v; want the same number", states+k, t.Shape[axis], length)
		}
		at := it
		if dirIn[k] != 0 { // the last is -1
			at = fmt.Sprint("scan/from_end", k)
			loop.Node = append(loop.Node, &onnxpb.NodeProto{OpType: proto.String("BitwiseNot"), Input: []string{it},
				Output: []string{at}})
		}
		pick := proto.String("axis")
		loop.Node = append(loop.Node, &onnxpb.NodeProto{OpType: proto.String("Gather"),
			Input: []string{n.p.GetInput()[states+k], at}, Output: []string{g.GetInput()[states+k].GetName()},
			Attribute: []*onnxpb.AttributeProto{{Name: pick, I: proto.Int64(int64(axis))}}})
	}
	loop.Node = append(loop.Node, g.GetNode()...)
	out := n.openLoop(loop, integer(length), nil, slices.Clone(n.in[:states]))
	for k := range outs {
		y := n.b.at(out[states+k])
		if dirOut[k] != 0 {
			y = op.Flip(y, 0)
		}
		if axis := n.axis(axesOut[k], y.Type.Rank()); axis != 0 {
			perm := []int{}
			for a := 1; a < y.Type.Rank(); a++ {
				perm = append(perm, a)
			}
			y = op.Transpose(y, slices.Insert(perm, axis, 0)...)
		}
		out[states+k] = one(y)[0]
	}
	return out
}
