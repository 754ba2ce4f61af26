package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// TransposeAttrs are the attributes of transpose.
type TransposeAttrs struct {
	Perm []int `attr:"perm"` // axis i of the result is axis perm[i] of x
}

// TransposeDef permutes axes.
var TransposeDef = ir.Define(ir.Def[TransposeAttrs]{
	Name:     "transpose",
	Doc:      "The axes of x in another order: axis i of the result is axis perm[i] of x. perm is a permutation of all axes.",
	Operands: "x",
	Infer: func(s ir.Sig[TransposeAttrs]) (ir.Type, error) {
		x, perm := s.In[0], s.Attrs.Perm
		seen := make([]bool, x.Rank())
		out := make(ir.Shape, len(perm))
		for i, p := range perm {
			if p < 0 || p >= x.Rank() || seen[p] {
				return ir.Type{}, fmt.Errorf("perm %v is not a permutation of the %d axes of %v", perm, x.Rank(), x)
			}
			seen[p], out[i] = true, x.Shape[p]
		}
		if len(perm) != x.Rank() {
			return ir.Type{}, fmt.Errorf("perm %v is not a permutation of the %d axes of %v", perm, x.Rank(), x)
		}
		return ir.Type{DType: x.DType, Shape: out}, nil
	},
	Eval: func(a TransposeAttrs, in []*tensor.Array, out *tensor.Array) error {
		from := tensor.Strides(in[0].Shape)
		to := make([]int, len(from))
		for i, p := range a.Perm {
			to[i] = from[p]
		}
		tensor.Walk(out.Shape, [][]int{to}, func(i int, p []int) { take(out, i, in[0], p[0]) })
		return nil
	},
	FLOPs: noFLOPs[TransposeAttrs],
	Tol:   exact[TransposeAttrs],
	Cases: func() []ir.Case[TransposeAttrs] {
		c := func(t ir.Type, perm ...int) ir.Case[TransposeAttrs] {
			return ir.Case[TransposeAttrs]{Attrs: TransposeAttrs{perm}, In: []ir.Type{t}}
		}
		cases := []ir.Case[TransposeAttrs]{
			c(f32()), c(f32(5), 0), c(f32(3, 5), 1, 0), c(f32(3, 5), 0, 1), c(f32(0, 4), 1, 0),
			c(f32(2, 3, 5), 2, 0, 1),
			c(f32(2, 3, 4, 5), 0, 2, 1, 3), c(f32(2, 3, 4, 5), 0, 3, 1, 2), c(f32(33, 65), 1, 0),
			c(f32(2, 1, 3, 2, 3, 2), 0, 1, 3, 2, 4, 5),
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(ir.TypeOf(d, 3, 7), 1, 0))
		}
		return cases
	},
})

// Transpose adds a permutation of the axes: axis i of the result is axis perm[i] of x.
func Transpose(x *ir.Node, perm ...int) *ir.Node {
	return x.Graph.Add(TransposeDef, TransposeAttrs{perm}, x)
}

// swapped returns the permutation that exchanges two axes, or nil if they are the same.
func swapped(a, b, rank int) []int {
	if a == b {
		return nil
	}
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = i
	}
	perm[a], perm[b] = b, a
	return perm
}

var _ = gradient(TransposeDef, func(_ *ir.Node, a TransposeAttrs, dy *ir.Node) []*ir.Node {
	inverse := make([]int, len(a.Perm))
	for i, p := range a.Perm {
		inverse[p] = i
	}
	return []*ir.Node{Transpose(dy, inverse...)}
})
