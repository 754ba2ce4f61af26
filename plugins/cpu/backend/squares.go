package backend

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// Between two products of bfloat16 a value need not be float32: where the processor multiplies in tiles, what only products read is
// stored rounded, in squares (see package kernels). The numbers are those of the product that rounds its operand, but for a gelu, which
// is computed with fewer digits where it is rounded at once.

// chooseSquares marks the calls that hand a value on in squares.
func (x *executable) chooseSquares(b *program.Bound, calls []call) {
	if !x.pool.TakesSquares(x.precision) {
		return
	}
	type use struct{ node, operand int }
	uses := map[int][]use{}
	for _, n := range x.p.Graph.Nodes {
		for i, in := range n.In {
			uses[in.ID] = append(uses[in.ID], use{n.ID, i})
		}
	}
	for _, o := range x.p.Graph.Outputs {
		uses[o.Node.ID] = append(uses[o.Node.ID], use{node: -1})
	}
	steps := map[int]*call{}
	for i, s := range b.Steps {
		steps[s.Node.ID] = &calls[i]
	}
	for i, s := range b.Steps {
		makes := registry[s.Node.Op.Name].makesSquares
		if makes == nil || !calls[i].native || !makes(&calls[i]) || overlaps(s) {
			continue
		}
		all := true
		for _, u := range uses[s.Node.ID] {
			c := steps[u.node] // nil for views and outputs
			all = all && c != nil && u.operand == 0 && takesSquares(c)
		}
		if !all {
			continue
		}
		calls[i].outSquares = true
		for _, u := range uses[s.Node.ID] {
			steps[u.node].inSquares = true
		}
	}
}

func takesSquares(c *call) bool {
	takes := registry[c.node.Op.Name].takesSquares
	return takes != nil && c.native && takes(c)
}

// overlaps reports whether a result shares memory with an operand: in squares, an element lies elsewhere.
func overlaps(s program.BoundStep) bool {
	out := s.Outs[0] // ops with several results make none in squares
	for _, o := range s.In {
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
