package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// TileAttrs are the attributes of tile.
type TileAttrs struct {
	Repeats []int `attr:"repeats"` // number of repeats of each axis
}

// TileDef repeats a tensor as a whole. It is a block: an expand between reshapes.
var TileDef = ir.Define(ir.Def[TileAttrs]{
	Name:     "tile",
	Doc:      "x repeated repeats[i] times along axis i, as a whole: [a b] twice is [a b a b]. repeats has a number, 0 or more, for each axis.",
	Block:    true,
	Operands: "x",
	Infer: func(s ir.Sig[TileAttrs]) (ir.Type, error) {
		x, r := s.In[0], s.Attrs.Repeats
		if len(r) != x.Rank() {
			return ir.Type{}, fmt.Errorf("repeats are %v; want one number for each axis of %v", r, x)
		}
		out := make(ir.Shape, len(r))
		for i, d := range x.Shape {
			n, err := times(d, fmt.Sprintf("repeats[%d]", i), r[i])
			if err != nil {
				return ir.Type{}, err
			}
			out[i] = n
		}
		return ir.Type{DType: x.DType, Shape: out}, nil
	},
	Eval: func(a TileAttrs, in []*tensor.Array, out *tensor.Array) error {
		x := in[0]
		from := tensor.Strides(x.Shape)
		tensor.Walk(out.Shape, [][]int{tensor.Strides(out.Shape)}, func(i int, _ []int) {
			at, rest := 0, i
			for k := len(out.Shape) - 1; k >= 0; k-- {
				at += rest % out.Shape[k] % x.Shape[k] * from[k]
				rest /= out.Shape[k]
			}
			take(out, i, x, at)
		})
		return nil
	},
	FLOPs: noFLOPs[TileAttrs],
	Tol:   exact[TileAttrs],
	Cases: func() []ir.Case[TileAttrs] {
		c := func(t ir.Type, repeats ...int) ir.Case[TileAttrs] {
			return ir.Case[TileAttrs]{Attrs: TileAttrs{repeats}, In: []ir.Type{t}}
		}
		cases := []ir.Case[TileAttrs]{
			c(f32()), c(f32(3), 1), c(f32(3), 4), c(f32(3), 0), c(f32(2, 0), 2, 3), c(f32(2, 3), 3, 1),
			c(f32(2, 3), 2, 2), c(f32(2, 1, 3), 1, 5, 2),
			c(f32(1, 2, 1, 3, 2), 2, 3, 2, 1, 2),
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(ir.TypeOf(d, 2, 3), 2, 3))
		}
		return cases
	},
})

// times returns the size n*d. name is the attribute that has n.
func times(d ir.Dim, name string, n int) (ir.Dim, error) {
	if err := checkSize(name, n, 0); err != nil {
		return ir.Dim{}, err
	}
	out, ok := d.Mul(ir.Static(int64(n)))
	if !ok {
		return ir.Dim{}, fmt.Errorf("%s is %d; %d times %v is beyond the limits of a dim", name, n, n, d)
	}
	return out, nil
}

// If the rank allows it, the lowering repeats all axes at once: it inserts an axis of size 1 before each repeated one,
// expands it, and merges the two. Otherwise it repeats one axis after another, beginning with the outermost.
var _ = ir.Lower(TileDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	x := in[0]
	var one, wide ir.Shape
	repeats := n.Attrs.(TileAttrs).Repeats
	for axis, r := range repeats {
		d := x.Type.Shape[axis]
		if r != 1 {
			one, wide = append(one, ir.Static(1)), append(wide, ir.Static(int64(r)))
		}
		one, wide = append(one, d), append(wide, d)
	}
	if rank := len(wide); rank > x.Type.Rank() && rank <= ir.MaxRank {
		return Reshape(Expand(Reshape(x, one), wide), n.Type.Shape)
	}
	for axis, r := range repeats {
		if r != 1 {
			x = repeated(x, axis, axis, r)
		}
	}
	return x
})

// repeated repeats an axis n times. It inserts an axis of size n at index at and merges it with the repeated axis. at
// is axis to repeat the axis as a whole, and axis+1 to repeat each of its slices.
func repeated(x *ir.Node, axis, at, n int) *ir.Node {
	var one, wide, out ir.Shape
	for i := range x.Type.Rank() + 1 {
		if i == at {
			one, wide = append(one, ir.Static(1)), append(wide, ir.Static(int64(n)))
		}
		if i < x.Type.Rank() {
			d := x.Type.Shape[i]
			one, wide, out = append(one, d), append(wide, d), append(out, d)
		}
	}
	out[axis], _ = out[axis].Mul(ir.Static(int64(n)))
	return Reshape(Expand(Reshape(x, one), wide), out)
}

// Tile adds x repeated repeats[i] times along axis i, as a whole.
func Tile(x *ir.Node, repeats ...int) *ir.Node { return x.Graph.Add(TileDef, TileAttrs{repeats}, x) }
