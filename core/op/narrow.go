package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// NarrowAttrs are the attributes of narrow.
type NarrowAttrs struct {
	Axis  int `attr:"axis"`
	Start int `attr:"start"`
	Len   int `attr:"len"`
}

// NarrowDef cuts a range from one axis.
var NarrowDef = ir.Define(ir.Def[NarrowAttrs]{
	Name: "narrow",
	Doc: "Elements start to start+len-1 of one axis. len may be 0. A view where every dim before the axis is 1 and those " +
		"after it are static (or start is 0).",
	Operands: "x", Packed: true,
	View: func(a NarrowAttrs, in, _ ir.Type) (int64, bool) {
		for _, d := range in.Shape[:a.Axis] {
			if !d.Is(1) {
				return 0, false
			}
		}
		row, ok := in.Shape[a.Axis+1:].Numel()
		if a.Start == 0 {
			return 0, true
		}
		return int64(a.Start) * row.Const * int64(in.DType.Size()), ok && row.IsStatic()
	},
	Infer: func(s ir.Sig[NarrowAttrs]) (ir.Type, error) {
		a, x := s.Attrs, s.In[0]
		if err := checkAxis(a.Axis, x.Rank()); err != nil {
			return ir.Type{}, err
		}
		lo, _ := s.Syms.Bounds(x.Shape[a.Axis])
		if a.Start < 0 || a.Len < 0 || int64(a.Start) > lo || int64(a.Len) > lo-int64(a.Start) {
			err := fmt.Errorf("start %d and len %d do not lie in axis %d of %v, which has at least %d", a.Start,
				a.Len, a.Axis, x, lo)
			if a.Start >= 0 && a.Len >= 0 && int64(a.Len) <= math.MaxInt64-int64(a.Start) {
				err = &ir.TooSmall{Dim: x.Shape[a.Axis], Least: int64(a.Start) + int64(a.Len), Err: err}
			}
			return ir.Type{}, err
		}
		out := append(ir.Shape{}, x.Shape...)
		out[a.Axis] = ir.Static(int64(a.Len))
		return ir.Type{DType: x.DType, Shape: out}, nil
	},
	Eval: func(a NarrowAttrs, in []*tensor.Array, out *tensor.Array) error {
		narrow(in[0], out, a.Axis, a.Start, a.Len)
		return nil
	},
	FLOPs: noFLOPs[NarrowAttrs],
	Tol:   exact[NarrowAttrs],
	Cases: func() []ir.Case[NarrowAttrs] {
		c := func(t ir.Type, axis, start, n int) ir.Case[NarrowAttrs] {
			return ir.Case[NarrowAttrs]{Attrs: NarrowAttrs{axis, start, n}, In: []ir.Type{t}}
		}
		cases := []ir.Case[NarrowAttrs]{
			c(f32(7), 0, 2, 3), c(f32(7), 0, 7, 0), c(f32(3, 9), 1, 4, 5), c(f32(3, 9), 1, 0, 9),
			c(f32(4, 3, 5), 1, 1, 1),
			c(f32(1, 4, 5), 1, 1, 2), c(f32(0, 4), 1, 1, 2), c(f32(2, 3, 12), 2, 4, 4),
		}
		for _, d := range []dtype.DType{dtype.Q8_0, dtype.Q6_K} {
			cases = append(cases, c(ir.TypeOf(d, 5, 3), 0, 1, 3), c(ir.TypeOf(d, 2, 5), 1, 2, 2))
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(ir.TypeOf(d, 3, 7), 1, 3, 3), c(ir.TypeOf(d, 3, 7), 0, 1, 2))
		}
		return cases
	},
})

// Narrow adds the elements start to start+n-1 of an axis.
func Narrow(x *ir.Node, axis, start, n int) *ir.Node {
	return x.Graph.Add(NarrowDef, NarrowAttrs{fromEnd(axis, x), start, n}, x)
}

// narrow copies n elements of an axis, beginning at start.
func narrow(in, out *tensor.Array, axis, start, n int) {
	inner := tensor.Numel(out.Shape[axis+1:])
	from, size := in.Shape[axis]*inner, n*inner
	for o := range tensor.Numel(out.Shape[:axis]) {
		copyRange(out, o*size, in, o*from+start*inner, size)
	}
}

func copyRange(out *tensor.Array, i int, in *tensor.Array, j, n int) {
	if out.Floats != nil {
		copy(out.Floats[i:i+n], in.Floats[j:j+n])
	} else if out.Ints != nil {
		copy(out.Ints[i:i+n], in.Ints[j:j+n])
	} else if size := out.DType.Size(); out.Bytes != nil {
		copy(out.Bytes[i*size:(i+n)*size], in.Bytes[j*size:])
	}
}

var _ = gradient(NarrowDef, func(n *ir.Node, a NarrowAttrs, dy *ir.Node) []*ir.Node {
	return []*ir.Node{surround(dy, a.Axis, a.Start, n.In[0].Type.Shape[a.Axis])}
})
