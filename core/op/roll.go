package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// RollAttrs are the attributes of roll.
type RollAttrs struct {
	Axes   []int `attr:"axes"`   // ascending
	Shifts []int `attr:"shifts"` // one for each axis
}

// RollDef shifts elements along axes. Elements that leave at one end enter at the other.
var RollDef = ir.Define(ir.Def[RollAttrs]{
	Name: "roll",
	Doc: "x shifted round along each of the axes: the element at index i goes to i + shift, modulo the size of the axis. Shifts may be negative, and larger than the axis. " +
		"NumPy's and PyTorch's roll.",
	Operands: "x",
	Infer: func(s ir.Sig[RollAttrs]) (ir.Type, error) {
		a := s.Attrs
		if len(a.Axes) != len(a.Shifts) {
			return ir.Type{}, fmt.Errorf("axes are %v and shifts %v; want a shift for each axis", a.Axes, a.Shifts)
		}
		for i, by := range a.Shifts {
			if by < -ir.MaxDim || by > ir.MaxDim {
				return ir.Type{}, fmt.Errorf("shifts[%d] is %d; want %d to %d", i, by, -ir.MaxDim, ir.MaxDim)
			}
		}
		return s.In[0], checkAxes(a.Axes, s.In[0].Rank())
	},
	Eval: func(a RollAttrs, in []*tensor.Array, out *tensor.Array) error {
		moved(out, in[0], func(axis, k, n int) int {
			for i, x := range a.Axes {
				if x == axis {
					return ((k-a.Shifts[i])%n + n) % n
				}
			}
			return k
		})
		return nil
	},
	FLOPs: noFLOPs[RollAttrs],
	Tol:   exact[RollAttrs],
	Cases: func() []ir.Case[RollAttrs] {
		c := func(x ir.Type, axes, shifts []int) ir.Case[RollAttrs] {
			return ir.Case[RollAttrs]{Attrs: RollAttrs{axes, shifts}, In: []ir.Type{x}}
		}
		cases := []ir.Case[RollAttrs]{
			c(f32(1), []int{0}, []int{3}), c(f32(7), []int{0}, []int{2}), c(f32(7), []int{0}, []int{-3}),
			c(f32(7), []int{0}, []int{700001}), c(f32(0, 3), []int{0, 1}, []int{1, 1}),
			c(f32(3, 5), []int{0}, []int{1}), c(f32(3, 5), []int{1}, []int{4}),
			c(f32(1, 8, 8, 3), []int{1, 2}, []int{-3, -3}), c(f32(2, 3, 4), []int{0, 2}, []int{0, 1}),
			c(f32(2, 3, 4), nil, nil),
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(ir.TypeOf(d, 3, 5), []int{0, 1}, []int{1, -2}))
		}
		return cases
	},
})

// Roll adds x shifted along each of the axes: the element at index i moves to i + shift, modulo the size of the axis.
func Roll(x *ir.Node, axes, shifts []int) *ir.Node {
	a := RollAttrs{Axes: sortedAxes(axes, x), Shifts: make([]int, len(shifts))}
	for i, axis := range a.Axes {
		for k := range min(len(axes), len(shifts)) {
			if fromEnd(axes[k], x) == axis {
				a.Shifts[i] = shifts[k]
			}
		}
	}
	return x.Graph.Add(RollDef, a, x)
}

var _ = gradient(RollDef, func(_ *ir.Node, a RollAttrs, dy *ir.Node) []*ir.Node {
	back := make([]int, len(a.Shifts))
	for i, s := range a.Shifts {
		back[i] = -s
	}
	return []*ir.Node{Roll(dy, a.Axes, back)}
})
