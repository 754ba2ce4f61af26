package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Im2ColAttrs are the attributes of im2col. Pairs are height, width. An empty list means the default.
type Im2ColAttrs struct {
	Kernel   []int `attr:"kernel"`   // size of a patch
	Stride   []int `attr:"stride"`   // default 1
	Padding  []int `attr:"padding"`  // zeros on both sides, default 0
	Dilation []int `attr:"dilation"` // default 1
}

// Geometry returns the attributes with defaults filled in.
func (a Im2ColAttrs) Geometry() (g Geometry, err error) {
	if err := g.setLayout(NCHW, 2); err != nil {
		return g, err
	}
	return g, g.setWindows(
		window{name: "kernel", list: a.Kernel, to: &g.Kernel, least: 1, required: true},
		window{name: "stride", list: a.Stride, to: &g.Stride, least: 1, fallback: ones},
		window{name: "padding", list: a.Padding, to: &g.Padding},
		window{name: "dilation", list: a.Dilation, to: &g.Dilation, least: 1, fallback: ones},
	)
}

// OutSizes returns the number of patches along the spatial axes of an image.
func (g *Geometry) OutSizes(size [3]int) (out [3]int) {
	for i := range out {
		out[i] = (size[i]+2*g.Padding[i]-g.Dilation[i]*(g.Kernel[i]-1)-1)/g.Stride[i] + 1
	}
	return out
}

// Im2ColDef lists the patches that a convolution reads.
var Im2ColDef = ir.Define(ir.Def[Im2ColAttrs]{
	Name: "im2col",
	Doc: "The patches of x [N, C, H, W] that a convolution sees, as the rows of a matrix [N*Ho*Wo, C*kh*kw]: rows in the order n, ho, wo, columns " +
		"in the order c, kh, kw, with Ho and Wo as in conv2d. Elements outside the image are zero. Values are copied as they are.",
	Operands: "x",
	Infer: func(s ir.Sig[Im2ColAttrs]) (ir.Type, error) {
		g, err := s.Attrs.Geometry()
		if err != nil {
			return ir.Type{}, err
		}
		x := s.In[0]
		if err := g.checkRank(x); err != nil {
			return ir.Type{}, err
		}
		size, err := g.outSizes(x, g.Kernel, s.Syms)
		if err != nil {
			return ir.Type{}, err
		}
		rows, ok := size[1].Mul(size[2])
		if ok {
			rows, ok = x.Shape[0].Mul(rows)
		}
		if !ok {
			return ir.Type{}, fmt.Errorf("%v patches of %v by %v are more than a dim may be", x.Shape[0], size[1],
				size[2])
		}
		columns, ok := x.Shape[1].Mul(ir.Static(int64(g.Kernel[1]) * int64(g.Kernel[2])))
		if !ok {
			return ir.Type{}, fmt.Errorf("patches of %v channels by %d by %d are larger than a dim may be", x.Shape[1],
				g.Kernel[1], g.Kernel[2])
		}
		return ir.Type{DType: x.DType, Shape: ir.Shape{rows, columns}}, nil
	},
	Eval: func(a Im2ColAttrs, in []*tensor.Array, out *tensor.Array) error {
		g, _ := a.Geometry()
		x := in[0]
		batch, channels, size := g.Sizes(x.Shape)
		xn, xc, xs := g.places(x.Shape)
		y := 0
		for n := range batch {
			each(g.OutSizes(size), func(at [3]int) {
				for c := range channels {
					each([3]int{1, g.Kernel[1], g.Kernel[2]}, func(t [3]int) {
						if from, inside := g.source(at, t, size); inside {
							take(out, y, x, n*xn+c*xc+offset(from, xs))
						}
						y++
					})
				}
			})
		}
		return nil
	},
	FLOPs: noFLOPs[Im2ColAttrs],
	Tol:   exact[Im2ColAttrs],
	Cases: func() []ir.Case[Im2ColAttrs] {
		c := func(t ir.Type, a Im2ColAttrs) ir.Case[Im2ColAttrs] {
			return ir.Case[Im2ColAttrs]{Attrs: a, In: []ir.Type{t}}
		}
		cases := []ir.Case[Im2ColAttrs]{
			c(f32(1, 1, 1, 1), Im2ColAttrs{Kernel: []int{1, 1}}),
			c(f32(0, 2, 4, 4), Im2ColAttrs{Kernel: []int{2, 2}}),
			c(f32(2, 0, 4, 4), Im2ColAttrs{Kernel: []int{2, 2}}),
			c(f32(2, 3, 5, 7), Im2ColAttrs{Kernel: []int{3, 3}, Padding: []int{1, 1}}),
			c(
				f32(1, 2, 9, 8),
				Im2ColAttrs{Kernel: []int{3, 2}, Stride: []int{2, 3}, Padding: []int{0, 2}, Dilation: []int{2, 1}}),
			c(f32(1, 3, 16, 12), Im2ColAttrs{Kernel: []int{4, 4}, Stride: []int{4, 4}}),
			c(f32(1, 1, 0, 3), Im2ColAttrs{Kernel: []int{3, 1}, Padding: []int{2, 0}}),
		}
		for _, d := range []dtype.DType{dtype.F16, dtype.F64, dtype.U8, dtype.I32, dtype.Bool} {
			cases = append(
				cases, c(ir.TypeOf(d, 1, 2, 5, 5),
					Im2ColAttrs{Kernel: []int{3, 3}, Stride: []int{2, 2}, Padding: []int{1, 1}}))
		}
		return cases
	},
})

// Im2Col adds the patches of x.
func Im2Col(x *ir.Node, attrs Im2ColAttrs) *ir.Node { return x.Graph.Add(Im2ColDef, attrs, x) }
