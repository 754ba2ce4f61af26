package backend

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// Between two products of bfloat16 a value need not be float32: where the processor multiplies in tiles, what only products read is
// stored rounded, in squares (see package kernels). The numbers are those of the product that rounds its operand, but for a gelu, which
// is computed with fewer digits where it is rounded at once.

// readers are, for the step of each number, the steps that read its first result and as which operand; nil if anything else
// does: a view, an output.
type reader struct{ step, operand int }

func readersOf(p *program.Program) [][]reader {
	steps, other := make([]int, len(p.Graph.Nodes)), make([]bool, len(p.Graph.Nodes)) // by node
	for i := range steps {
		steps[i] = -1
	}
	for i, s := range p.Steps {
		steps[s.Node] = i
	}
	out := make([][]reader, len(p.Steps))
	for _, n := range p.Graph.Nodes {
		for k, x := range n.In {
			switch by, of := steps[n.ID], steps[x.ID]; {
			case by < 0:
				other[x.ID] = true
			case of >= 0:
				out[of] = append(out[of], reader{by, k})
			}
		}
	}
	for _, o := range p.Graph.Outputs {
		other[o.Node.ID] = true
	}
	for i, s := range p.Steps {
		if other[s.Node] {
			out[i] = nil
		}
	}
	return out
}

// chooseSquares marks the calls that hand a value on in squares.
func (x *executable) chooseSquares(b *binding) {
	if !x.pool.TakesSquares(x.precision) {
		return
	}
	if x.readers == nil {
		x.readers = readersOf(x.p)
	}
	for i := range b.calls {
		c, readers := &b.calls[i], x.readers[i]
		makes := registry[c.node.Op.Name].makesSquares
		if makes == nil || !c.native || !makes(c) || len(readers) == 0 || b.overlaps(c.node) {
			continue
		}
		if slices.ContainsFunc(readers, func(r reader) bool { return r.operand != 0 || !takesSquares(&b.calls[r.step]) }) {
			continue
		}
		c.outSquares = true
		for _, r := range readers {
			b.calls[r.step].inSquares = true
		}
	}
}

func takesSquares(c *call) bool {
	takes := registry[c.node.Op.Name].takesSquares
	return takes != nil && c.native && takes(c)
}

// overlaps reports whether a result shares memory with an operand: in squares, an element lies elsewhere. Ops with several
// results make none in squares.
func (b *binding) overlaps(n *ir.Node) bool {
	out := &b.values.Operands[n.ID]
	for _, x := range n.In {
		o := &b.values.Operands[x.ID]
		if o.Space == out.Space && o.Offset < out.Offset+out.Bytes && out.Offset < o.Offset+o.Bytes {
			return true
		}
	}
	return false
}

// squareSide is what the columns of a matrix in squares are a multiple of, and the fewest rows that have room for the padding.
const squareSide = 32

// fitsSquares reports whether a value of this many rows and columns can be stored in squares in its place.
func fitsSquares(rows, cols int) bool { return rows >= squareSide && cols > 0 && cols%squareSide == 0 }

// param follows views to a parameter, which never changes; nil if the value is no parameter.
func param(n *ir.Node) *ir.Node {
	for {
		if _, view := n.View(); !view {
			break
		}
		n = n.In[0]
	}
	if n.Op.Name != "param" {
		return nil
	}
	return n
}
