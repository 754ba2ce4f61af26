package op

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// KNNAttrs are the attributes of knn.
type KNNAttrs struct {
	K int `attr:"k"`
}

// KNNDef finds the nearest neighbours of each point.
var KNNDef = ir.DefineTuple(ir.TupleDef[KNNAttrs]{
	Name: "knn",
	Doc: "The k nearest neighbours of each point, by the distances [n,n] between points (f32): the other points of the row, the nearest first and equally near ones in the order of their indices. " +
		"k is 1 to n-1. A distance that is NaN is passed over; where there are too few others, index n and the largest number of f32 take the places that are left.",
	Results:  "indices i32[n,k], distances [n,k]",
	Operands: "distances",
	Infer: func(s ir.Sig[KNNAttrs]) ([]ir.Type, error) {
		x, k := s.In[0], s.Attrs.K
		if x.Rank() != 2 || x.DType != dtype.F32 {
			return nil, fmt.Errorf("distances are %v; want f32[n,n]", x)
		}
		if x.Shape[0] != x.Shape[1] {
			return nil, ir.Differ(x.Shape[0], x.Shape[1], "distances are %v; want f32[n,n]", x)
		}
		least, _ := s.Syms.Bounds(x.Shape[0])
		if k < 1 || int64(k) >= least {
			return nil, fmt.Errorf("k is %d; want 1 to %d, less than the least number of points of %v", k, least-1, x)
		}
		shape := ir.Shape{x.Shape[0], ir.Static(int64(k))}
		return []ir.Type{{DType: dtype.I32, Shape: shape}, {DType: dtype.F32, Shape: shape}},
			checkIndex(dtype.I32, x, x.Rank()-1, s.Syms)
	},
	Eval: func(a KNNAttrs, in, out []*tensor.Array) error {
		n := in[0].Shape[0]
		order := make([]int, n)
		for row := range n {
			x, near := in[0].Floats[row*n:][:n], order[:0]
			for i, d := range x {
				if i != row && !math.IsNaN(d) {
					near = append(near, i)
				}
			}
			slices.SortStableFunc(near, func(i, j int) int {
				switch {
				case x[i] < x[j]:
					return -1
				case x[i] > x[j]:
					return 1
				}
				return 0
			})
			for j := range a.K {
				i, d := n, float64(math.MaxFloat32)
				if j < len(near) {
					i, d = near[j], x[near[j]]
				}
				out[0].Ints[row*a.K+j], out[1].Floats[row*a.K+j] = int64(i), d
			}
		}
		return nil
	},
	Memory: func(s ir.Sig[KNNAttrs], _ []ir.Type) int64 {
		_, n := s.Syms.Bounds(s.In[0].Shape[0])
		return 8 * n
	},
	Tol: exactAll[KNNAttrs],
	Cases: func() []ir.Case[KNNAttrs] {
		c := func(n int64, k int, fill ir.Range) ir.Case[KNNAttrs] {
			return ir.Case[KNNAttrs]{Attrs: KNNAttrs{k}, In: []ir.Type{f32(n, n)}, Fill: []ir.Range{fill}}
		}
		far, equal := ir.Range{Lo: 0, Hi: 9}, ir.Range{Lo: 1, Hi: 1}
		return []ir.Case[KNNAttrs]{c(2, 1, far), c(5, 4, far), c(33, 7, far), c(9, 3, equal),
			c(70, 15, ir.Range{Lo: -1, Hi: 1})}
	},
})

// KNN adds the k nearest neighbours of each point.
func KNN(distances *ir.Node, k int) (indices, near *ir.Node) {
	r := distances.Graph.AddResults(2, KNNDef, KNNAttrs{k}, distances)
	return r[0], r[1]
}

// The lowering is top_k of the negative distances. The diagonal is NaN, which top_k puts last.
var _ = ir.LowerTuple(KNNDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	x := in[0]
	index := ir.Type{DType: dtype.I32, Shape: x.Type.Shape}
	number := func(v float64) *ir.Node { return Const(g, v, ir.TypeOf(dtype.F32)) }
	near, at := TopK(Where(Eq(Iota(g, 0, index), Iota(g, 1, index)), number(math.NaN()), Neg(x)), n.Attrs.(KNNAttrs).K)
	missing := Ne(near, near)
	// The number of points is the largest index plus one.
	points := Add(ReduceMax(Iota(g, 0, index), true, 0, 1), Const(g, 1, ir.TypeOf(dtype.I32)))
	return []*ir.Node{Where(missing, points, at), Where(missing, number(math.MaxFloat32), Neg(near))}
})
