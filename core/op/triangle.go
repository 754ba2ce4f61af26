package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// TriangleAttrs are the attributes of tril and triu.
type TriangleAttrs struct {
	Diagonal int `attr:"diagonal"` // 0 is the main diagonal, 1 the one above it
}

// TrilDef and TriuDef keep a triangle of matrices. They are blocks: a where whose condition compares row and column
// indices.
var (
	TrilDef = triangle("tril", "lower", "j - i <= diagonal", func(d, diagonal int) bool { return d <= diagonal })
	TriuDef = triangle("triu", "upper", "j - i >= diagonal", func(d, diagonal int) bool { return d >= diagonal })
)

func triangle(name, which, where string, kept func(d, diagonal int) bool) *ir.OpDef {
	return ir.Define(ir.Def[TriangleAttrs]{
		Name: name,
		Doc: fmt.Sprintf(
			"The %s triangle of the matrices that the last two axes of x hold: the element at row i and column j where %s, and 0 elsewhere. "+
				"NaN outside of the triangle does not show.", which, where),
		Block:    true,
		Operands: "x",
		Infer: func(s ir.Sig[TriangleAttrs]) (ir.Type, error) {
			x, k := s.In[0], s.Attrs.Diagonal
			if x.Rank() < 2 {
				return ir.Type{}, fmt.Errorf("x is %v; want rank 2 or more", x)
			}
			if k < -math.MaxInt32 || k > math.MaxInt32 {
				return ir.Type{}, fmt.Errorf("diagonal is %d; want %d to %d", k, -math.MaxInt32, math.MaxInt32)
			}
			for _, d := range x.Shape[x.Rank()-2:] {
				if _, hi := s.Syms.Bounds(d); hi >= math.MaxInt32 {
					return ir.Type{},
						fmt.Errorf("x is %v; want matrices of fewer than %d rows and columns", x, math.MaxInt32)
				}
			}
			return x, nil
		},
		Eval: func(a TriangleAttrs, in []*tensor.Array, out *tensor.Array) error {
			cols, rows := out.Shape[len(out.Shape)-1], out.Shape[len(out.Shape)-2]
			for i := range out.Len() {
				if kept(i%cols-i/cols%rows, a.Diagonal) {
					take(out, i, in[0], i)
				}
			}
			return nil
		},
		FLOPs: noFLOPs[TriangleAttrs],
		Tol:   exact[TriangleAttrs],
		Cases: func() []ir.Case[TriangleAttrs] {
			c := func(diagonal int, t ir.Type) ir.Case[TriangleAttrs] {
				return ir.Case[TriangleAttrs]{Attrs: TriangleAttrs{diagonal}, In: []ir.Type{t}}
			}
			cases := []ir.Case[TriangleAttrs]{
				c(0, f32(1, 1)), c(0, f32(5, 5)), c(1, f32(3, 7)), c(-2, f32(2, 7, 4)), c(9, f32(3, 4)),
				c(-9, f32(3, 4)), c(0, f32(0, 3)), c(0, f32(2, 3, 0)),
			}
			for _, d := range elementTypes() {
				cases = append(cases, c(0, ir.TypeOf(d, 2, 3, 4)))
			}
			return cases
		},
	})
}

// lowerTriangle registers a lowering that compares the index of each column with that of the row plus the diagonal.
func lowerTriangle(def *ir.OpDef, kept func(col, limit *ir.Node) *ir.Node) struct{} {
	return ir.Lower(def, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
		x := in[0]
		last := x.Type.Rank() - 1
		row := Iota(g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{x.Type.Shape[last-1], ir.Static(1)}})
		col := Iota(g, 0, ir.Type{DType: dtype.I32, Shape: x.Type.Shape[last:]})
		limit := Add(row, Const(g, float64(n.Attrs.(TriangleAttrs).Diagonal), ir.TypeOf(dtype.I32)))
		return Where(kept(col, limit), x, number(0, x))
	})
}

var _ = []struct{}{lowerTriangle(TrilDef, Le), lowerTriangle(TriuDef, Ge)}

// Tril adds the lower triangles of the matrices in x, up to the diagonal.
func Tril(x *ir.Node, diagonal int) *ir.Node {
	return x.Graph.Add(TrilDef, TriangleAttrs{diagonal}, x)
}

// Triu adds the upper triangles of the matrices in x, from the diagonal on.
func Triu(x *ir.Node, diagonal int) *ir.Node {
	return x.Graph.Add(TriuDef, TriangleAttrs{diagonal}, x)
}
