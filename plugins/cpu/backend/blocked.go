package backend

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// A value that is read only by bfloat16 products need not be stored as float32. On processors with matrix tiles (AMX),
// the step that writes such a value rounds it to bfloat16 and stores it in the blocked layout of package product
// (kernels/product/blocked.go). Results do not change, because the product would round the value anyway. The exception
// is gelu, which is less precise if it is rounded at once.

// reader is an operand of a step.
type reader struct{ step, operand int }

// readersOf lists, for each step, the operands that read its first result. The list is nil if a view or an output of
// the program reads the result too.
func readersOf(p *program.Program) [][]reader {
	steps, other := make([]int, len(p.Graph.Nodes)), make([]bool, len(p.Graph.Nodes)) // by node ID
	for i := range steps {
		steps[i] = -1
	}
	for i, s := range p.Steps {
		steps[s.Node] = i
	}
	out := make([][]reader, len(p.Steps))
	for _, n := range p.Graph.Nodes {
		for k, x := range n.Operands() {
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

// chooseBlocked picks the layout of every value: blocked if the step that writes it and all steps that read it support
// that.
func (x *executable) chooseBlocked() {
	if !product.TakesBlocked(x.pool, x.precision) {
		return
	}
	if x.readers == nil {
		x.readers = readersOf(x.program)
	}
	for i := range x.calls {
		c, readers := &x.calls[i], x.readers[i]
		makes := registry[c.node.Op.Name].makesBlocked
		if makes == nil || !c.native || !makes(c) || len(readers) == 0 || x.overlaps(c.node) {
			continue
		}
		if slices.ContainsFunc(
			readers, func(r reader) bool { return r.operand != 0 || !takesBlocked(&x.calls[r.step]) }) {
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

// overlaps reports whether the result of a node shares memory with an operand. Such a result cannot be blocked: it
// would overwrite elements that are not read yet. Only the first result is checked, since ops with several results make
// no blocked values.
func (x *executable) overlaps(n *ir.Node) bool {
	out := x.runner.Operand(n)
	for _, in := range n.Operands() {
		o := x.runner.Operand(in)
		if o.Space == out.Space && o.Offset < out.Offset+out.Bytes && out.Offset < o.Offset+o.Bytes {
			return true
		}
	}
	return false
}

// blockSide is the number of rows and columns of a block. Rows are padded to a multiple of it. bfloat16 halves the
// size. So if the value has at least blockSide rows, the padded value fits the place that was planned for float32.
const blockSide = 32

// fitsBlocked reports whether a [rows, cols] value can be stored blocked in the memory planned for it.
func fitsBlocked(rows, cols int) bool { return rows >= blockSide && cols > 0 && cols%blockSide == 0 }

// param returns the parameter that n is, or of which n is a view; otherwise nil. A parameter changes only when
// SetWeights replaces it, so it can be packed once.
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
