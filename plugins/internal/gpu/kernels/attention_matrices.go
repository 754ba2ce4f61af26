package kernels

import (
	_ "embed"
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
)

//go:embed attention_matrices.wgsl
var attentionMatricesWGSL string

// AttentionMatrices is a shape of tiled attention on devices with matrices (see Limits). A workgroup has Blocks x 32
// invocations. Each block has Rows x 8 queries, and all blocks share tiles of Keys keys.
type AttentionMatrices struct {
	Blocks int
	Rows   int // 1, 2 or 4
	Keys   int // a multiple of 16
}

// Queries is the number of queries of a workgroup.
func (t AttentionMatrices) Queries() int { return 8 * t.Rows * t.Blocks }

// Threads is the number of invocations in a workgroup.
func (t AttentionMatrices) Threads() int { return 32 * t.Blocks }

// String returns the numbers of queries and keys, and of a block's queries: 32x32/8.
func (t AttentionMatrices) String() string {
	return fmt.Sprintf("%dx%d/%d", t.Queries(), t.Keys, 8*t.Rows)
}

// attentionMatrices are the shapes to choose from. As long as no shape has been timed, there is only one.
var attentionMatrices = []AttentionMatrices{{Blocks: 4, Rows: 1, Keys: 32}}

// AttentionMatrixTiles returns the shapes of tiled attention of devices with matrices.
func AttentionMatrixTiles() []AttentionMatrices { return slices.Clone(attentionMatrices) }

// attentionMatrixConsts has the constants for attention_matrices.wgsl. Of the embedded attentionShape only D is set.
type attentionMatrixConsts struct {
	attentionConsts
	AttentionMatrices
}

// DP is the head dim, padded so that matrices divide it. Cols is the number of matrices in a row of it.
func (c attentionMatrixConsts) DP() int   { return ceilDiv(c.D, 8) * 8 }
func (c attentionMatrixConsts) Cols() int { return c.DP() / 8 }

// Row is the number of vectors in a row of k, v or the result, and Line the number from one row to the next in
// workgroup memory. RowS and LineS are those of scores, whose rows have a value per query. One vector of a line is
// padding, so that the rows of a matrix lie in different banks.
func (c attentionMatrixConsts) Row() int   { return c.DP() / 4 }
func (c attentionMatrixConsts) Line() int  { return c.Row() + 1 }
func (c attentionMatrixConsts) RowS() int  { return c.Queries() / 4 }
func (c attentionMatrixConsts) LineS() int { return c.RowS() + 1 }

// Lines is the number of rows of tile_kv, which has keys, then values, and at times the result.
func (c attentionMatrixConsts) Lines() int { return max(c.Keys, c.Queries()) }

// Own is the number of vectors of four queries in a block. Sharers is the number of invocations that share such a
// vector. Scores is the number of keys for which an invocation has the scores of these queries.
func (c attentionMatrixConsts) Own() int     { return 2 * c.AttentionMatrices.Rows }
func (c attentionMatrixConsts) Sharers() int { return 32 / c.Own() }
func (c attentionMatrixConsts) Scores() int  { return c.Keys / c.Sharers() }

// Units is the number of vectors of the result per invocation. Some invocations have one fewer.
func (c attentionMatrixConsts) Units() int { return ceilDiv(c.Queries()*c.Row(), c.Threads()) }

// matrixMoves has what the template needs to copy the results to or from workgroup memory.
type matrixMoves struct {
	Consts attentionMatrixConsts
	Move   string // the function
}

// Stores and Loads copy the results to workgroup memory and back.
func (c attentionMatrixConsts) Stores() matrixMoves { return matrixMoves{c, "rlx_matrix_store"} }
func (c attentionMatrixConsts) Loads() matrixMoves  { return matrixMoves{c, "rlx_matrix_load"} }

// bytes is the size of workgroup memory, without the table of key offsets.
func (c attentionMatrixConsts) bytes() int {
	return 16*(c.Lines()*c.Line()+c.Keys*c.LineS()+c.Threads()+c.RowS()) + 8
}

// mostMatrices bounds the matrices that a block holds: those of its queries and of their results. Each takes two
// registers of each invocation.
const mostMatrices = 48

// withMatrices returns the constants of the kernel with matrices, for a number of keys or 0 if that is not static. ok
// is false if the device has no matrices, or the head dim needs too much memory.
func (c attentionConsts) withMatrices(d, keys int, l Limits) (m attentionMatrixConsts, ok bool) {
	if !l.Matrices {
		return m, false
	}
	m = attentionMatrixConsts{c, attentionMatrices[0]}
	if l.AttentionMatrices != nil {
		m.AttentionMatrices = *l.AttentionMatrices
	}
	m.attentionShape = attentionShape{D: d}
	m.TailK = keys == 0 || keys%m.Keys != 0
	return m, d%4 == 0 && m.bytes() <= l.WorkgroupStorage && 2*m.AttentionMatrices.Rows*m.Cols() <= mostMatrices
}

// loops is Shader.Loops for that number of keys.
func (c attentionMatrixConsts) loops(keys int) int {
	units := loop(ceilDiv(c.Lines()*c.Row(), c.Threads()), 0)
	values := loop(c.Units(), 0) + c.Units()*loop(c.Keys, 0) // NaN and infinite values
	return 2*units + loop(ceilDiv(keys, c.Keys), 3*units+loop(c.Keys/8, 0)+values)
}

// shader returns the shader without parameters and groups, whose bindings are of a node's operands. body has the
// functions of attention_rows.wgsl.
func (c attentionMatrixConsts) shader(n *ir.Node, body string, operands []Binding) Shader {
	return Shader{Name: n.Op.Name, Body: body, Consts: c,
		Bindings: append(operands, Binding{Name: "y", Operand: Out, Vec: 4, DType: n.Type.DType})}
}
