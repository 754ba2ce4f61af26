package backend

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// A value that only products of bfloat16 read need not be float32. Where the processor multiplies in tiles, such a value is rounded
// when it is written, and stored in the blocked layout of package kernels. The product would round it anyway, so results stay the
// same, but for a gelu, which is less precise when its result is rounded at once.

// reader is a step and the operand as which it reads a value. readersOf lists the readers of the first result of each step, or nil
// where a view or an output of the program reads it too.
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

// chooseBlocked picks the layout of every value: blocked where the step that writes it and all that read it can use that.
func (x *executable) chooseBlocked() {
	if !x.pool.TakesBlocked(x.precision) {
		return
	}
	if x.readers == nil {
		x.readers = readersOf(x.p)
	}
	for i := range x.calls {
		c, readers := &x.calls[i], x.readers[i]
		makes := registry[c.node.Op.Name].makesBlocked
		if makes == nil || !c.native || !makes(c) || len(readers) == 0 || x.overlaps(c.node) {
			continue
		}
		if slices.ContainsFunc(readers, func(r reader) bool { return r.operand != 0 || !takesBlocked(&x.calls[r.step]) }) {
			continue
		}
		c.outBlocked = true
		for _, r := range readers {
			x.calls[r.step].inBlocked = true
		}
	}
}

func takesBlocked(c *call) bool {
	takes := registry[c.node.Op.Name].takesBlocked
	return takes != nil && c.native && takes(c)
}

// overlaps reports whether the result of a node shares memory with an operand. Such a result cannot be blocked: an element would
// overwrite another that is not read yet. Ops with several results make no blocked values.
func (x *executable) overlaps(n *ir.Node) bool {
	out := &x.values.Operands[n.ID]
	for _, in := range n.In {
		o := &x.values.Operands[in.ID]
		if o.Space == out.Space && o.Offset < out.Offset+out.Bytes && out.Offset < o.Offset+o.Bytes {
			return true
		}
	}
	return false
}

// blockSide is the number of rows and columns of a block. With fewer rows, the padding would not fit in the place of the value.
const blockSide = 32

// fitsBlocked reports whether a value of this many rows and columns can be stored blocked in its place.
func fitsBlocked(rows, cols int) bool { return rows >= blockSide && cols > 0 && cols%blockSide == 0 }

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
