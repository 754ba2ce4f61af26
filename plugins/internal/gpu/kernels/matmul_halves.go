package kernels

import (
	_ "embed"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

//go:embed matmul_halves.wgsl
var matmulHalvesWGSL string

// halfOperand tells how the kernel of halves reads A or B, in vectors of four elements of a line.
type halfOperand struct {
	Name string
	// WGSL of the number of rows (the rows of B are the columns of the result), and of the first row of the tile
	Rows, Base string
	Across     bool // lines are values of K, each with an element per row; otherwise lines are rows
	Lines, Row int  // lines of a tile, and the vectors in each
}

// Line is the number of vectors from one line to the next in workgroup memory. One is padding, so that the lines of a
// matrix lie in different banks.
func (o halfOperand) Line() int { return o.Row + 1 }

// Size is the number of vectors in workgroup memory.
func (o halfOperand) Size() int { return o.Lines * o.Line() }

// At returns the offset in elements of the matrix at row 8*i and value 8*k of K from the first of a block.
func (o halfOperand) At(i, k int) int {
	if o.Across {
		return k*32*o.Line() + i*8
	}
	return i*32*o.Line() + k*8
}

// First returns the factor of the block's first row.
func (o halfOperand) First() int {
	if o.Across {
		return 1
	}
	return 4 * o.Line()
}

// halves has the constants of the product of f16 by f16.
type halves struct {
	tiled
	X, W         halfOperand
	HasBias, Add bool
	Act          string
}

func (h halves) Both() []halfOperand { return []halfOperand{h.X, h.W} }

// halvesTile is the shape of the tile. It has not been timed.
var halvesTile = Tile{BlocksM: 2, BlocksN: 2, LanesM: 4, TM: 8, TN: 4, Depth: 32, Matrices: true}

// matmulHalves returns the shader for a product of f16 by f16 with matrices. A product of two halves is exact in f32,
// so the operands need not be widened.
func matmulHalves(n *ir.Node, a productForm, l Limits) (s Shader, ok bool) {
	half := func(x *ir.Node) bool {
		return x.Type.DType == dtype.F16 && x.Type.Rank() >= 2 && fours(x.Type.Shape[x.Type.Rank()-1])
	}
	if !l.Matrices || !half(n.In[0]) || !half(n.In[1]) || !half(n) || !allAligned(n.In) {
		return s, false
	}
	c := halves{tiled: tiled{Tile: halvesTile}, HasBias: a.HasBias, Add: a.HasResidual, Act: a.Act}
	operand := func(name, rows, base string, across bool, size int) halfOperand {
		o := halfOperand{name, rows, base, across, size, c.Depth / 4}
		if across {
			o.Lines, o.Row = c.Depth, size/4
		}
		return o
	}
	c.X, c.W = operand("a", "P.m_size", "row0", a.TransA, c.TileM()),
		operand("b", "P.n_size", "col0", !a.TransB, c.TileN())
	s = Shader{Name: n.Op.Name, Body: matmulHalvesWGSL, Consts: c,
		Fields: []string{"groups", "m_size", "n_size", "k_size", "batch:8", "a_batch:8", "b_batch:8"}}
	add := func(name string, at int) {
		s.Bindings = append(s.Bindings, Binding{Name: name, Operand: at, Vec: 4, DType: dtype.F16})
	}
	add("a", 0)
	add("b", 1)
	if a.HasBias {
		add("bias", a.Bias())
	}
	if a.HasResidual {
		add("residual", a.Residual())
	}
	add("y", Out)
	s.Groups = func(call *Call) int { return c.groups(called(a, call)) }
	s.Loops = func(call *Call) int { return c.loops(called(a, call).k) + 4*loop(c.Depth, 0) }
	s.Params = func(call *Call) []uint32 {
		if numel(call.Out.Shape) == 0 {
			return nil
		}
		p := called(a, call)
		return slices.Concat([]uint32{uint32(c.groups(p)), uint32(p.m), uint32(p.n), uint32(p.k)}, p.batch, p.aBatch,
			p.bBatch)
	}
	return s, true
}
