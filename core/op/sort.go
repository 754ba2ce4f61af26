package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// SortAttrs are the attributes of sort.
type SortAttrs struct {
	Axis       int         `attr:"axis"`
	Descending bool        `attr:"descending"`
	IndexDType dtype.DType `attr:"index_dtype"` // type of the indices: i32 (the default), i64, u32 or f32
}

// Index returns the element type of the indices.
func (a SortAttrs) Index() dtype.DType { return indexType(a.IndexDType) }

// SortDef orders the elements along an axis.
var SortDef = ir.DefineTuple(ir.TupleDef[SortAttrs]{
	Name: "sort",
	Doc: "The elements of x in order along an axis, the smallest first, or the largest if descending is set, and the indices on the axis that they had. " +
		"Equal elements, as 0 and -0 are, stay in the order of their indices. NaN counts as less than -Inf, as in top_k: it comes first, or last if descending.",
	Results:  "values of x's type, indices",
	Operands: "x",
	Infer: func(s ir.Sig[SortAttrs]) ([]ir.Type, error) {
		x := s.In[0]
		if x.Rank() == 0 || x.DType == dtype.Bool {
			return nil, fmt.Errorf("x is %v; want numbers of rank 1 or more", x)
		}
		if err := checkAxis(s.Attrs.Axis, x.Rank()); err != nil {
			return nil, err
		}
		return []ir.Type{x, {DType: s.Attrs.Index(), Shape: x.Shape}},
			checkIndex(s.Attrs.Index(), x, s.Attrs.Axis, s.Syms)
	},
	Eval: func(a SortAttrs, in, out []*tensor.Array) error {
		x, n, inner := in[0], in[0].Shape[a.Axis], tensor.Numel(in[0].Shape[a.Axis+1:])
		order := make([]int, n)
		for o := range tensor.Numel(x.Shape[:a.Axis]) {
			for i := range inner {
				at := func(k int) int { return (o*n+k)*inner + i }
				for k := range order {
					order[k] = k
				}
				slices.SortStableFunc(order, func(j, k int) int {
					if a.Descending {
						return descending(x, at(j), at(k))
					}
					return descending(x, at(k), at(j))
				})
				for k, from := range order {
					copyRange(out[0], at(k), x, at(from), 1)
					setIndex(out[1], at(k), from)
				}
			}
		}
		return nil
	},
	Memory: func(s ir.Sig[SortAttrs], _ []ir.Type) int64 {
		_, n := s.Syms.Bounds(s.In[0].Shape[s.Attrs.Axis])
		return 8 * n
	},
	Tol: exactAll[SortAttrs],
	Cases: func() []ir.Case[SortAttrs] {
		c := func(axis int, x ir.Type, descending bool) ir.Case[SortAttrs] {
			return ir.Case[SortAttrs]{Attrs: SortAttrs{Axis: axis, Descending: descending}, In: []ir.Type{x}}
		}
		ties := func(axis int, x ir.Type, descending bool, hi float64) ir.Case[SortAttrs] {
			t := c(axis, x, descending)
			t.Fill = []ir.Range{{Lo: 0, Hi: hi}}
			return t
		}
		cases := []ir.Case[SortAttrs]{
			c(0, f32(1), false), c(0, f32(7), true), c(1, f32(3, 33), false), c(0, f32(33, 3), true),
			c(1, f32(2, 65, 3), false), c(1, f32(0, 4), true),
			c(0, f32(0, 4), true), c(1, f32(5, 1), false), c(1, f32(2, 300), true), c(0, f32(5000), false),
			ties(1, f32(2, 90), true, 0),
			ties(1, i32(3, 700), false, 3), ties(0, u8(300, 2), true, 255), ties(0, i64(2, 2100), false, 9),
		}
		for _, d := range dtype.All() {
			if d != dtype.Bool {
				cases = append(cases, c(1, ir.TypeOf(d, 3, 5), d.Size()%4 == 0))
			}
		}
		for _, d := range []dtype.DType{dtype.I32, dtype.I64, dtype.U32, dtype.F32} {
			cases = append(
				cases, ir.Case[SortAttrs]{Attrs: SortAttrs{Axis: 1, IndexDType: d}, In: []ir.Type{f32(3, 20)}})
		}
		return cases
	},
})

// Sort adds the elements along an axis in order, the smallest first or, if descending is set, the largest first, and
// their indices along the axis of x, as i32.
func Sort(x *ir.Node, axis int, descending bool) (values, indices *ir.Node) {
	r := x.Graph.AddResults(2, SortDef, SortAttrs{Axis: fromEnd(axis, x), Descending: descending}, x)
	return r[0], r[1]
}

// ArgSort returns only the indices of Sort.
func ArgSort(x *ir.Node, axis int, descending bool) *ir.Node {
	_, indices := Sort(x, axis, descending)
	return indices
}

// The order of the indices is the inverse of the permutation that they are.
var _ = ir.Gradient(SortDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	if dy[0] == nil { // float indices have no gradient
		return nil, nil
	}
	axis, rank := n.Attrs.(SortAttrs).Axis, n.In[0].Type.Rank()
	y, idx := dy[0], n.Values()[1]
	perm := swapped(axis, rank-1, rank)
	if perm != nil {
		y, idx = Transpose(y, perm...), Transpose(idx, perm...)
	}
	back := ArgSort(idx, -1, false)
	if rank == 1 {
		y = Gather(y, back, 0)
	} else {
		y = GatherBatched(y, back, rank-1)
	}
	if perm != nil {
		y = Transpose(y, perm...)
	}
	return []*ir.Node{y}, nil
})
