package ir

import "errors"

// GradientRule adds nodes to n's graph that compute the gradient of a number L with respect to the operands of n. dy
// has the gradient with respect to each of n's results, with the result's shape and element type. Nil stands for a
// gradient of zero; at least one element is not nil. The rule returns one node for each operand, in the order of n.In,
// with the operand's shape and element type. It returns nil for a gradient of zero, as that of an absent operand, of
// indices and of a mask; a list may end early instead. It returns NoGradient for a gradient that it cannot compute,
// which is an error only if the gradient is wanted. An error says which attributes or types the rule does not cover.
// The error ErrExpand says that the node is to be differentiated through its expansion.
//
// A rule need not ask which gradients are wanted: nodes that nothing reads are removed later. It may use n and n.In,
// whose values the forward pass computes anyway.
type GradientRule func(n *Node, dy []*Node) ([]*Node, error)

// NoGradient stands, in the result of a rule, for a gradient that the rule cannot compute.
var NoGradient = &Node{}

// ErrExpand is the error of a rule that leaves a node to the op's expansion (see Lower), as if the op had no rule.
var ErrExpand = errors.New("is differentiated through its expansion")

// Gradient registers the gradient rule of an op. An op without one, and without a lowering to ops that have one, has
// no gradient. Like Lower, it is separate from Define and returns a value.
func Gradient(def *OpDef, rule GradientRule) struct{} {
	if def.gradient != nil {
		panic("BUG: op " + def.Name + " has two gradient rules")
	}
	def.gradient = rule
	return struct{}{}
}

// GradientThrough says that an op is differentiated through an expansion that serves no other purpose. Unlike the one
// of Lower, this expansion may be too slow to run in place of the op. It may also refuse nodes, with an error that says
// which attributes or types it does not cover. It adds nodes that compute n's results from in.
func GradientThrough(def *OpDef, expansion func(n *Node, in []*Node) ([]*Node, error)) struct{} {
	def.through = expansion
	return Gradient(def, func(*Node, []*Node) ([]*Node, error) { return nil, ErrExpand })
}

// ExpandForGradient adds the expansion through which n is differentiated, of GradientThrough or Lower, to n's graph. ok
// is false if the op has neither.
func (n *Node) ExpandForGradient() (results []*Node, ok bool, err error) {
	switch d := n.Op; {
	case d.through != nil:
		results, err = d.through(n, n.In)
	case d.CanLower():
		results = d.LowerTo(n.Graph, n, n.In)
	default:
		return nil, false, nil
	}
	return results, true, err
}

// GradientOf returns the rule that Gradient registered, or nil.
func (d *OpDef) GradientOf() GradientRule { return d.gradient }
