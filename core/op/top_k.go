package op

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// TopKAttrs are the attributes of top_k.
type TopKAttrs struct {
	K          int         `attr:"k"`
	IndexDType dtype.DType `attr:"index_dtype"` // type of the indices: i32 (the default), i64, u32 or f32
}

// Index returns the element type of the indices.
func (a TopKAttrs) Index() dtype.DType { return indexType(a.IndexDType) }

// indexType returns d, or i32 if no type of indices is given.
func indexType(d dtype.DType) dtype.DType {
	if d == dtype.Invalid {
		return dtype.I32
	}
	return d
}

// checkIndex returns an error if indices cannot have the type, or if the axis of x may have more elements than such
// indices can tell apart.
func checkIndex(index dtype.DType, x ir.Type, axis int, syms ir.Syms) error {
	_, most := syms.Bounds(x.Shape[axis])
	if limit, ok := maxIndex[index]; !ok {
		return fmt.Errorf("index_dtype is %v; want i32, i64, u32 or f32", index)
	} else if most > limit {
		return fmt.Errorf("axis %d of %v has up to %d elements; indices of type %v tell %d apart", axis, x, most, index,
			limit)
	}
	return nil
}

// setIndex sets element at of indices to i.
func setIndex(indices *tensor.Array, at, i int) {
	if indices.Floats != nil {
		indices.Floats[at] = float64(i)
	} else {
		indices.Ints[at] = int64(i)
	}
}

// maxIndex has the number of elements that indices of each type can tell apart.
var maxIndex = map[dtype.DType]int64{dtype.I32: 1 << 31, dtype.I64: ir.MaxDim, dtype.U32: 1 << 32, dtype.F32: 1 << 24}

// TopKDef finds the largest elements of each row.
var TopKDef = ir.DefineTuple(ir.TupleDef[TopKAttrs]{
	Name: "top_k",
	Doc: "The k largest elements of each row of x along the last axis, the largest first, and their indices in the row. k is 1 to the size of " +
		"the axis. Equal elements, as 0 and -0 are, stand in the order of their indices. NaN counts as less than -Inf, so that it comes last; " +
		"where there are too few numbers, NaN are among the values.",
	Results:  "values of x's type, indices",
	Operands: "x",
	Infer: func(s ir.Sig[TopKAttrs]) ([]ir.Type, error) {
		x, k := s.In[0], s.Attrs.K
		if x.Rank() == 0 || x.DType == dtype.Bool {
			return nil, fmt.Errorf("x is %v; want numbers of rank 1 or more", x)
		}
		last := x.Shape[x.Rank()-1]
		least, _ := s.Syms.Bounds(last)
		if k < 1 || int64(k) > least {
			err := fmt.Errorf("k is %d; want 1 to %d, the least size of the last axis of %v", k, least, x)
			if k >= 1 {
				err = &ir.TooSmall{Dim: last, Least: int64(k), Err: err}
			}
			return nil, err
		}
		index := s.Attrs.Index()
		if err := checkIndex(index, x, x.Rank()-1, s.Syms); err != nil {
			return nil, err
		}
		shape := slices.Concat(x.Shape[:x.Rank()-1], ir.Shape{ir.Static(int64(k))})
		return []ir.Type{{DType: x.DType, Shape: shape}, {DType: index, Shape: shape}}, nil
	},
	Eval: func(a TopKAttrs, in, out []*tensor.Array) error {
		x, values, indices := in[0], out[0], out[1]
		n := x.Shape[len(x.Shape)-1]
		order := make([]int, n)
		for row := range tensor.Numel(x.Shape[:len(x.Shape)-1]) {
			for i := range order {
				order[i] = i
			}
			slices.SortStableFunc(order, func(i, j int) int { return descending(x, row*n+i, row*n+j) })
			for j, i := range order[:a.K] {
				at := row*a.K + j
				copyRange(values, at, x, row*n+i, 1)
				setIndex(indices, at, i)
			}
		}
		return nil
	},
	Memory: func(s ir.Sig[TopKAttrs], _ []ir.Type) int64 {
		_, n := s.Syms.Bounds(s.In[0].Shape[s.In[0].Rank()-1])
		return 8 * n
	},
	Tol: exactAll[TopKAttrs],
	Cases: func() []ir.Case[TopKAttrs] {
		c := func(k int, x ir.Type) ir.Case[TopKAttrs] {
			return ir.Case[TopKAttrs]{Attrs: TopKAttrs{K: k}, In: []ir.Type{x}}
		}
		ties := func(k int, x ir.Type, hi float64) ir.Case[TopKAttrs] {
			t := c(k, x)
			t.Fill = []ir.Range{{Lo: 0, Hi: hi}}
			return t
		}
		cases := []ir.Case[TopKAttrs]{
			c(1, f32(1)), c(3, f32(7)), c(7, f32(7)), c(2, f32(3, 9)), c(5, f32(2, 3, 8)), c(1, f32(4, 33)),
			c(40, f32(3, 300)), c(2, f32(0, 4)),
			ties(9, f32(2, 9), 0), ties(20, i32(5, 64), 3), ties(3, u8(2, 300), 255),
		}
		for _, d := range dtype.All() {
			if d != dtype.Bool {
				cases = append(cases, c(3, ir.TypeOf(d, 3, 5)))
			}
		}
		for _, d := range []dtype.DType{dtype.I32, dtype.I64, dtype.U32, dtype.F32} {
			cases = append(cases, ir.Case[TopKAttrs]{Attrs: TopKAttrs{K: 4, IndexDType: d}, In: []ir.Type{f32(3, 20)}})
		}
		return cases
	},
})

// descending compares elements i and j of x for sorting: the largest element comes first, NaN last. It returns a
// negative number if i comes first.
func descending(x *tensor.Array, i, j int) int {
	if x.Floats == nil {
		return cmp.Compare(x.Ints[j], x.Ints[i])
	}
	a, b := x.Floats[i], x.Floats[j]
	switch {
	case math.IsNaN(a) && math.IsNaN(b), a == b:
		return 0
	case a > b, math.IsNaN(b):
		return -1
	}
	return 1
}

// TopK adds the k largest elements of each row along the last axis, the largest first, and their indices as i32.
func TopK(x *ir.Node, k int) (values, indices *ir.Node) {
	r := x.Graph.AddResults(2, TopKDef, TopKAttrs{K: k}, x)
	return r[0], r[1]
}

// Element i of a row gets the gradients of the values whose index is i, which is at most one.
var _ = ir.Gradient(TopKDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	if dy[0] == nil { // float indices have no gradient
		return nil, nil
	}
	x, idx := n.In[0].Type, n.Values()[1]
	picked := append(slices.Clone(idx.Type.Shape), ir.Static(1)) // [..., k, 1]
	at := Iota(n.Graph, 0, ir.Type{DType: idx.Type.DType, Shape: x.Shape[x.Rank()-1:]})
	each := Where(Eq(Reshape(idx, picked), at), Reshape(dy[0], picked), number(0, dy[0]))
	return []*ir.Node{ReduceSum(each, false, x.Rank()-1)}, nil
})
