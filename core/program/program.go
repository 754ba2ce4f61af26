// Package program is the contract between compiler, file and device: a final graph, the place of each value, and the
// steps that compute them. Everything that a device needs is resolved. Nothing in it is trusted before package format has verified
// it.
//
// It imports core/ir and below.
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

// Align is the alignment of every value, in bytes: WebGPU's storage-offset alignment.
const Align = 256

// AlignUp rounds n up to a multiple of Align.
func AlignUp(n int64) int64 { return (n + Align - 1) &^ (Align - 1) }

// Place is the memory of a node's value. Offset and size hold for every value of the symbols: Size is the size in bytes
// at the symbols' upper bounds. At run time the value takes the first bytes of it.
type Place struct {
	Space        Space
	Offset, Size int64
	// Parent is the node whose storage this one shares: the operand of a view (then Offset is inside the parent's
	// range), or the operand that an in-place op overwrites (then the two ranges begin at the same offset). -1 for none.
	Parent int
}

// Overlaps reports whether two places share bytes.
func (p Place) Overlaps(q Place) bool {
	return p.Space == q.Space && p.Offset < q.Offset+q.Size && q.Offset < p.Offset+p.Size
}

// Step runs one node, and for a tuple node writes the values of all of its selectors.
type Step struct{ Node int }

// Program is one method compiled for one target.
type Program struct {
	Method string // "encode"
	Target string // "cpu", "portable"
	Graph  *ir.Graph
	Places []Place // one per node; a tuple node's is NoPlace
	Steps  []Step  // every node for which IsStep holds, once, in an order that respects the graph
	// ArenaSize, IOSize and StateSize are in bytes and multiples of Align.
	ArenaSize, IOSize, StateSize int64

	// What the compiler did for the target, for reports. Rewritten counts the ops of the model that the target lacks and that others
	// express, Reference those of the graph that it runs only by their definitions. Both are sorted by op.
	Rewritten, Reference []OpCount
}

// OpCount is a number of nodes of one op.
type OpCount struct {
	Op    string
	Count int
}

// Lowering is Rewritten and Reference as text, "rewritten: softmax (4); by reference: cast (1)", or empty.
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

// WeightsExtent is the end of the last weight that the program uses, in bytes. Code that maps the weights checks it against their
// size.
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

// IsStep reports whether a node needs a step: inputs, params, states and views need none, and the step of a tuple node computes
// the values of its selectors.
func IsStep(n *ir.Node) bool { return IsComputed(n) && n.Op != ir.ResultDef || n.Op.Tuple }

// IsComputed reports whether a step writes the value of a node: not of inputs, params, states and views, nor of tuple nodes, which have
// none.
func IsComputed(n *ir.Node) bool {
	_, view := n.View()
	return !n.Op.Effects && !view && !n.Op.Tuple
}
