package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// DotGeneralAttrs are the attributes of dot_general: axes of a, and the axes of b that they are paired with.
type DotGeneralAttrs struct {
	ABatch    []int `attr:"a_batch"`
	AContract []int `attr:"a_contract"`
	BBatch    []int `attr:"b_batch"`
	BContract []int `attr:"b_contract"`
}

// DotGeneralDef defines the product over any axes. It is a block: transposes, views and one matmul.
var DotGeneralDef = ir.Define(ir.Def[DotGeneralAttrs]{
	Name: "dot_general",
	Doc: "The sum over the paired axes a_contract and b_contract of the products of a and b, for each place on the paired axes a_batch and b_batch. " +
		"The result has the batch axes in the order given, then the other axes of a, then those of b, each in their order (StableHLO's dot_general). Types are those of matmul.",
	Block:    true,
	Operands: "a, b",
	Infer: func(s ir.Sig[DotGeneralAttrs]) (ir.Type, error) {
		a, x, y := s.Attrs, s.In[0], s.In[1]
		if err := weightDType(x, y); err != nil {
			return ir.Type{}, err
		}
		for _, p := range []struct {
			name string
			x, y []int
		}{{"batch", a.ABatch, a.BBatch}, {"contract", a.AContract, a.BContract}} {
			if len(p.x) != len(p.y) {
				return ir.Type{}, fmt.Errorf("a_%s is %v and b_%s %v; want pairs of axes", p.name, p.x, p.name, p.y)
			}
			for i := range p.x {
				if err := checkAxis(p.x[i], x.Rank()); err != nil {
					return ir.Type{}, fmt.Errorf("a_%s: %w", p.name, err)
				}
				if err := checkAxis(p.y[i], y.Rank()); err != nil {
					return ir.Type{}, fmt.Errorf("b_%s: %w", p.name, err)
				}
				if d, e := x.Shape[p.x[i]], y.Shape[p.y[i]]; d != e {
					return ir.Type{},
						ir.Differ(d, e, "axis %d of %v is paired with axis %d of %v; want equal sizes", p.x[i], x,
							p.y[i], y)
				}
			}
		}
		var shape ir.Shape
		for _, axis := range a.ABatch {
			shape = append(shape, x.Shape[axis])
		}
		for _, side := range []struct {
			name string
			t    ir.Type
			used []int
		}{{"a", x, slices.Concat(a.ABatch, a.AContract)}, {"b", y, slices.Concat(a.BBatch, a.BContract)}} {
			for i, axis := range side.used {
				if slices.Contains(side.used[:i], axis) {
					return ir.Type{}, fmt.Errorf("axis %d of %s is paired twice", axis, side.name)
				}
			}
			for _, axis := range others(side.t.Rank(), side.used) {
				shape = append(shape, side.t.Shape[axis])
			}
		}
		return ir.Type{DType: x.DType, Shape: shape}, nil
	},
	Eval: func(a DotGeneralAttrs, in []*tensor.Array, out *tensor.Array) error {
		x, y := in[0], in[1]
		batch, k := len(a.ABatch), len(a.AContract)
		left := others(len(x.Shape), slices.Concat(a.ABatch, a.AContract))
		right := others(len(y.Shape), slices.Concat(a.BBatch, a.BContract))
		// Walk over the axes of the result and the contracted axes at once.
		shape := slices.Clone(out.Shape)
		to, from, by := tensor.Strides(out.Shape), make([]int, len(shape)+k), make([]int, len(shape)+k)
		to = append(to, make([]int, k)...)
		xs, ys := tensor.Strides(x.Shape), tensor.Strides(y.Shape)
		for i := range batch {
			from[i], by[i] = xs[a.ABatch[i]], ys[a.BBatch[i]]
		}
		for i, axis := range left {
			from[batch+i] = xs[axis]
		}
		for i, axis := range right {
			by[batch+len(left)+i] = ys[axis]
		}
		for i := range k {
			shape = append(shape, x.Shape[a.AContract[i]])
			from[len(out.Shape)+i], by[len(out.Shape)+i] = xs[a.AContract[i]], ys[a.BContract[i]]
		}
		tensor.Walk(shape, [][]int{to, from, by}, func(_ int, p []int) {
			out.Floats[p[0]] += x.Floats[p[1]] * y.Floats[p[2]]
		})
		return nil
	},
	FLOPs: func(a DotGeneralAttrs, in []ir.Type, out ir.Type) int64 { return 2 * numel(out) * contracted(a, in[0]) },
	Tol: func(a DotGeneralAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		return summed(out.DType, contracted(a, in[0]))
	},
	Cases: func() []ir.Case[DotGeneralAttrs] {
		c := func(x, y ir.Type, aBatch, bBatch, aContract, bContract []int) ir.Case[DotGeneralAttrs] {
			return ir.Case[DotGeneralAttrs]{Attrs: DotGeneralAttrs{aBatch, aContract, bBatch, bContract},
				In: []ir.Type{x, y}}
		}
		ax := func(axes ...int) []int { return axes }
		return []ir.Case[DotGeneralAttrs]{
			c(f32(5), f32(5), nil, nil, ax(0), ax(0)), c(f32(3), f32(4), nil, nil, nil, nil),
			c(f32(3, 5), f32(5, 4), nil, nil, ax(1), ax(0)),
			c(f32(3, 5), f32(4, 5), nil, nil, ax(1), ax(1)), c(f32(5, 3), f32(5, 4), nil, nil, ax(0), ax(0)),
			c(f32(2, 3, 5), f32(2, 5, 4), ax(0), ax(0), ax(2), ax(1)),
			c(f32(3, 2, 5), f32(5, 4, 2), ax(1), ax(2), ax(2), ax(0)),
			c(f32(2, 3, 4, 5), f32(4, 6, 5, 2), ax(0), ax(3), ax(2, 3), ax(0, 2)),
			c(f32(0, 3), f32(3, 2), nil, nil, ax(1), ax(0)),
			c(f32(2, 0), f32(0, 3), nil, nil, ax(1), ax(0)), c(f32(2, 3), f32(3, 2), ax(1, 0), ax(0, 1), nil, nil),
			c(f16(3, 5), f16(5, 4), nil, nil, ax(1), ax(0)),
			c(f32(3, 5), bf16(4, 5), nil, nil, ax(1), ax(1)), c(f64(2, 3, 5), f64(2, 5), ax(0), ax(0), ax(2), ax(1)),
		}
	},
})

// others returns the axes of a tensor of the given rank that are not in used.
func others(rank int, used []int) (rest []int) {
	for axis := range rank {
		if !slices.Contains(used, axis) {
			rest = append(rest, axis)
		}
	}
	return rest
}

// contracted returns the number of products in one element of the result.
func contracted(a DotGeneralAttrs, x ir.Type) int64 {
	n := int64(1)
	for _, axis := range a.AContract {
		n *= x.Shape[axis].Const
	}
	return n
}

var _ = ir.Lower(DotGeneralDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(DotGeneralAttrs)
	batch := len(a.ABatch)
	// arrange gives x the shape batch, outer, contracted, and reports whether the last two are the other way round in
	// memory.
	arrange := func(x *ir.Node, b, k []int, contractedLast bool) (*ir.Node, bool) {
		outer := others(x.Type.Rank(), slices.Concat(b, k))
		perm := slices.Concat(b, outer, k)
		other := slices.Concat(b, k, outer)
		swapped := !contractedLast
		if swapped {
			perm, other = other, perm
		}
		if !slices.IsSorted(perm) && slices.IsSorted(other) { // in place
			perm, swapped = other, !swapped
		}
		if !slices.IsSorted(perm) {
			x = Transpose(x, perm...)
		}
		first := len(outer)
		if swapped {
			first = len(k)
		}
		s := x.Type.Shape
		one, _ := s[batch : batch+first].Numel()
		two, _ := s[batch+first:].Numel()
		return Reshape(x, append(slices.Clone(s[:batch]), one, two)), swapped
	}
	x, transA := arrange(in[0], a.ABatch, a.AContract, true)
	y, transB := arrange(in[1], a.BBatch, a.BContract, false)
	return Reshape(MatMul(x, y, MatMulAttrs{TransA: transA, TransB: !transB}), n.Type.Shape)
})

// DotGeneral adds the product of x and y over pairs of axes.
func DotGeneral(x, y *ir.Node, a DotGeneralAttrs) *ir.Node {
	return x.Graph.Add(DotGeneralDef, a, x, y)
}
