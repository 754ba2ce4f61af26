// Package program defines compiled programs, which the compiler makes, files store and devices run. A program is a
// graph, the place of each value, and the steps that compute the values. A program from a file must not be trusted
// before package format has verified it.
//
// It imports core/ir and what that imports.
package program

import (
	"strings"

	"github.com/rlx-go/rlx/core/ir"
)

// Space is a kind of memory.
type Space uint8

const (
	Weights Space = iota // the artifact's weights section, mapped, read-only
	Arena                // one block per loaded program; content is undefined between runs
	IO                   // inputs and outputs, shared between host and device
	State                // data that outlives a run; each copy of a model's state is one block
)

func (s Space) String() string { return [...]string{"weights", "arena", "io", "state"}[s] }

// Align is the alignment of every value, in bytes. It is the alignment that WebGPU requires of offsets of storage
// buffers.
const Align = 256

// AlignUp rounds n up to a multiple of Align.
func AlignUp(n int64) int64 { return (n + Align - 1) &^ (Align - 1) }

// Place is the memory of a node's value. Size is in bytes, with the symbols at their upper bounds. A run uses the first
// bytes of the place, as many as its shape needs.
type Place struct {
	Space        Space
	Offset, Size int64
	// Parent is the node whose storage this one shares, or -1. For a view it is the operand, and Offset lies inside the
	// parent's range. For an in-place op it is the operand that is overwritten, and both ranges begin at the same
	// offset.
	Parent int
}

// Overlaps reports whether two places share bytes.
func (p Place) Overlaps(q Place) bool {
	return p.Space == q.Space && p.Offset < q.Offset+q.Size && q.Offset < p.Offset+p.Size
}

// Step runs one node. For an op with several results it writes all of them.
type Step struct{ Node int }

// Program is one method compiled for one target.
type Program struct {
	Method string // such as "encode"
	Target string // such as "cpu" or "portable"
	Graph  *ir.Graph
	Places []Place // one per node; NoPlace for a tuple node
	Steps  []Step  // every node for which IsStep is true, once, after its operands
	Loops  []Loop  // of the nodes whose graphs are programs of their own, by node
	// ArenaSize, IOSize and StateSize are in bytes and multiples of Align.
	ArenaSize, IOSize, StateSize int64

	// Rewritten and Reference are for reports. Rewritten counts the ops of the model that the target lacks and that
	// were expressed by others. Reference counts the ops of the graph that the target runs only by their definitions.
	// Both are sorted by op.
	Rewritten, Reference []OpCount
}

// OpCount is a number of nodes of one op.
type OpCount struct {
	Op    string
	Count int
}

// Lowering returns Rewritten and Reference as text, such as "rewritten: softmax (4); by reference: cast (1)". The text
// is empty if both lists are.
func (p *Program) Lowering() string {
	var parts []string
	for _, l := range []struct {
		what string
		ops  []OpCount
	}{{"rewritten", p.Rewritten}, {"by reference", p.Reference}} {
		if len(l.ops) > 0 {
			parts = append(parts, l.what+": "+listed(l.ops))
		}
	}
	return strings.Join(parts, "; ")
}

// WeightsExtent returns the end of the last weight that the program uses, in bytes. Code that maps the weights must
// check that they are at least that long.
func (p *Program) WeightsExtent() int64 {
	var end int64
	for _, x := range p.Places {
		if x.Space == Weights {
			end = max(end, x.Offset+x.Size)
		}
	}
	return end
}

// NoPlace is the place of a tuple node, which has no value.
var NoPlace = Place{Space: Arena, Parent: -1}

// IsStep reports whether a node needs a step. Inputs, params, states and views need none. For an op with several
// results, the tuple node has the step and the result nodes have none.
func IsStep(n *ir.Node) bool { return IsComputed(n) && n.Op != ir.ResultDef || n.Op.Tuple }

// IsComputed reports whether a step writes the value of a node. Inputs, params, states and views are not written, and
// tuple nodes have no value.
func IsComputed(n *ir.Node) bool {
	_, view := n.View()
	return !n.Op.Effects && !view && !n.Op.Tuple
}
