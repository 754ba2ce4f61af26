package onnx

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file has ops of sequences. The import knows the tensors of each sequence, so a program has none: each op becomes
// a change of a list, and only those that join or divide tensors add nodes. A sequence whose number of tensors is not
// known is refused.

var (
	_ = onSequences("SequenceEmpty", func(n *node) []*value { return sequence(nil) })
	_ = onSequences("SequenceConstruct", func(n *node) []*value {
		for i := range n.in {
			n.element(i)
		}
		return sequence(slices.Clone(n.in))
	})
	_ = onSequences("SequenceInsert", func(n *node) []*value {
		list := n.tensors(0)
		at := len(list)
		if n.has(2) {
			at = n.place(2, len(list), len(list)+1)
		}
		return sequence(slices.Insert(slices.Clone(list), at, n.element(1)))
	})
	_ = onSequences("SequenceErase", func(n *node) []*value {
		list := n.tensors(0)
		at := len(list) - 1
		if n.has(1) {
			at = n.place(1, len(list), len(list))
		}
		if at < 0 {
			n.fail("input 0 is an empty sequence")
		}
		return sequence(slices.Delete(slices.Clone(list), at, at+1))
	})
	_ = onSequences("SequenceAt", func(n *node) []*value {
		list := n.tensors(0)
		return []*value{list[n.place(1, len(list), len(list))].clone("")}
	})
	_ = onSequences("SequenceLength", func(n *node) []*value {
		return []*value{sizes(dtype.I64, ir.Shape{}, []elem{integer(ir.Static(int64(len(n.tensors(0)))))})}
	})
	_ = onSequences("SplitToSequence", splitToSequence)
	_ = onSequences("ConcatFromSequence", func(n *node) []*value {
		var parts []*ir.Node
		for _, v := range n.tensors(0) {
			parts = append(parts, n.b.at(v))
		}
		if len(parts) == 0 {
			n.fail("input 0 is an empty sequence")
		}
		rank := parts[0].Type.Rank()
		if n.int("new_axis", 0) != 0 {
			return one(op.Stack(n.axis(n.int("axis", 0), rank+1), parts...))
		}
		return one(op.Concat(n.axis(n.int("axis", 0), rank), parts...))
	})
)

// onSequences registers the conversion of an op that works on sequences.
func onSequences(name string, convert func(n *node) []*value) struct{} {
	return register(name,
		conversion{since: 11, keep: true, convert: convert, note: "the number of tensors must be known"})
}

// takesSequences has the ops whose inputs may be sequences.
var takesSequences = []string{"ConcatFromSequence", "Identity", "Loop", "SequenceAt", "SequenceErase", "SequenceInsert",
	"SequenceLength"}

// sequence returns a sequence as the only result.
func sequence(list []*value) []*value {
	if list == nil {
		list = []*value{}
	}
	return []*value{{tensors: list}}
}

// refuseSequences ends the import if an input is a sequence, and the op does not work on sequences.
func (n *node) refuseSequences() {
	for i, v := range n.in {
		if v != nil && v.tensors != nil && !slices.Contains(takesSequences, n.p.GetOpType()) {
			n.fail("input %d (%s) is a sequence; want a tensor", i, v.name)
		}
	}
}

// tensors returns the tensors of input i.
func (n *node) tensors(i int) []*value {
	if !n.has(i) || n.in[i].tensors == nil {
		n.fail("input %d is missing, or a tensor; want a sequence", i)
	}
	return n.in[i].tensors
}

// element returns input i, a tensor to keep in a sequence.
func (n *node) element(i int) *value {
	switch {
	case !n.has(i) || n.in[i].tensors != nil:
		n.fail("input %d is missing, or a sequence; want a tensor", i)
	case n.in[i].bound != nil:
		n.fail("input %d (%s) has a number of rows that depends on the data; a sequence cannot have such tensors", i,
			n.in[i].name)
	}
	return n.in[i]
}

// place returns input i, a position in a sequence, which may count from the end.
func (n *node) place(i, length, allowed int) int {
	at := n.oneInt(i)
	if at < -length || at >= allowed {
		n.fail("input %d (%s) is position %d of a sequence of %d", i, n.in[i].name, at, length)
	}
	if at < 0 {
		at += length
	}
	return at
}

// splitToSequence is SplitToSequence. A scalar is the size of all parts but the last.
func splitToSequence(n *node) []*value {
	x := n.x(0)
	axis := n.axis(n.int("axis", 0), x.Type.Rank())
	d := x.Type.Shape[axis]
	if !d.IsStatic() {
		n.fail("axis %d of its input has an open size, so the number of tensors is not known", axis)
	}
	whole, each := int(d.Const), 1
	var parts []int
	if n.has(1) && n.typeOf(1).Rank() == 1 {
		parts = n.ints(1)
	} else {
		if n.has(1) {
			each = n.oneInt(1)
		}
		for left := whole; left > 0 && each > 0; left -= each {
			parts = append(parts, min(each, left))
		}
	}
	sum := 0
	for _, p := range parts {
		if p < 0 || p > whole-sum {
			n.fail("split is %v; want the parts of %d", parts, whole)
		}
		sum += p
	}
	if sum != whole {
		n.fail("split is %v; want the parts of %d", parts, whole)
	}
	var list []*value
	at := 0
	for _, p := range parts {
		y := op.Narrow(x, axis, at, p)
		if !n.has(1) && n.int("keepdims", 1) == 0 {
			y = op.Reshape(y, slices.Delete(slices.Clone(y.Type.Shape), axis, axis+1))
		}
		list, at = append(list, one(y)...), at+p
	}
	return sequence(list)
}
