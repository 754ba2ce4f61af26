package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// OneHotAttrs are the attributes of one_hot.
type OneHotAttrs struct {
	Depth int         `attr:"depth"`
	DType dtype.DType `attr:"dtype"` // type of the result; default f32
}

// OneHotDef turns each index into a row with a single 1. It is a block that compares with iota.
var OneHotDef = ir.Define(ir.Def[OneHotAttrs]{
	Name: "one_hot",
	Doc: "Takes idx (i32, i64 or u32). The result has a new last axis of size depth, with 1 at the position of the index and 0 elsewhere, in any element type. " +
		"An index outside 0 to depth-1 gives zeros.",
	Block:    true,
	Operands: "idx",
	Infer: func(s ir.Sig[OneHotAttrs]) (ir.Type, error) {
		idx, a := s.In[0], s.Attrs
		if err := isIndex("index", idx); err != nil {
			return ir.Type{}, err
		}
		if a.Depth < 0 || int64(a.Depth) > maxIndex[dtype.I32] {
			return ir.Type{}, fmt.Errorf("depth is %d; want 0 to %d", a.Depth, maxIndex[dtype.I32])
		}
		return ir.Type{DType: a.result(), Shape: append(slices.Clone(idx.Shape), ir.Static(int64(a.Depth)))}, nil
	},
	Eval: func(a OneHotAttrs, in []*tensor.Array, out *tensor.Array) error {
		for i, x := range in[0].Ints {
			switch {
			case x < 0 || x >= int64(a.Depth):
			case out.Floats != nil:
				out.Floats[i*a.Depth+int(x)] = 1
			default:
				out.Ints[i*a.Depth+int(x)] = 1
			}
		}
		return nil
	},
	FLOPs: noFLOPs[OneHotAttrs],
	Tol:   exact[OneHotAttrs],
	Cases: func() []ir.Case[OneHotAttrs] {
		c := func(depth int, d dtype.DType, t ir.Type) ir.Case[OneHotAttrs] {
			fill := ir.Range{Lo: -2, Hi: float64(depth + 1)}
			if t.DType == dtype.U32 {
				fill.Lo = 0
			}
			return ir.Case[OneHotAttrs]{Attrs: OneHotAttrs{depth, d}, In: []ir.Type{t}, Fill: []ir.Range{fill}}
		}
		cases := []ir.Case[OneHotAttrs]{
			c(5, dtype.Invalid, i32()), c(1, dtype.F32, i64(4)), c(0, dtype.F32, i32(3)), c(7, dtype.F32, u32(2, 3)),
			c(3, dtype.F32, i32(0)),
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(4, d, i32(6)))
		}
		return cases
	},
})

func (a OneHotAttrs) result() dtype.DType {
	if a.DType == dtype.Invalid {
		return dtype.F32
	}
	return a.DType
}

// isIndex checks the element type of an operand of indices.
func isIndex(name string, t ir.Type) error {
	if d := t.DType; d != dtype.I32 && d != dtype.I64 && d != dtype.U32 {
		return fmt.Errorf("%s is %v; want i32, i64 or u32", name, t)
	}
	return nil
}

var _ = ir.Lower(OneHotDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, idx := n.Attrs.(OneHotAttrs), in[0]
	places := Iota(g, 0, ir.TypeOf(idx.Type.DType, int64(a.Depth)))
	return Cast(Eq(Reshape(idx, append(slices.Clone(idx.Type.Shape), ir.Static(1))), places), a.result())
})

// OneHot adds rows of size depth with a 1 at the index that idx has.
func OneHot(idx *ir.Node, depth int, d dtype.DType) *ir.Node {
	return idx.Graph.Add(OneHotDef, OneHotAttrs{depth, d}, idx)
}
