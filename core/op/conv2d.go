package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Conv2DAttrs are the attributes of conv2d. Pairs are height, width; empty ones and 0 groups read as the default.
type Conv2DAttrs struct {
	Stride   []int  `attr:"stride"`   // default 1
	Padding  []int  `attr:"padding"`  // zeros on both sides, default 0
	Dilation []int  `attr:"dilation"` // default 1
	Groups   int    `attr:"groups"`   // default 1
	Layout   string `attr:"layout"`   // of x and the result: nchw or nhwc
}

// Geometry gives the attributes with defaults filled in.
func (a Conv2DAttrs) Geometry() (ConvGeometry, error) {
	return geometry(a.Stride, a.Padding, nil, a.Dilation, a.Groups, a.Layout)
}

// Conv2DDef is the 2-D convolution of neural networks.
var Conv2DDef = ir.Define(ir.Def[Conv2DAttrs]{
	Name: "conv2d",
	Doc: "Cross-correlation (the kernel is not flipped) of x with w [Cout, Cin/groups, kh, kw], plus bias [Cout] if given: " +
		"out = floor((in + 2*padding - dilation*(k-1) - 1) / stride) + 1, which must be at least 1. Padding is zeros. Output " +
		"channel o reads group floor(o / (Cout/groups)). w may be f16 or bf16 while x is f32; the bias has x's type.",
	MinIn: 2, MaxIn: 3,
	Infer: inferConv2D,
	Eval:  evalConv2D,
	FLOPs: func(_ Conv2DAttrs, in []ir.Type, out ir.Type) int64 {
		return 2 * numel(out) * convDepth(in[1])
	},
	Tol: func(_ Conv2DAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		return summed(out.DType, convDepth(in[1]))
	},
	Cases: func() []ir.Case[Conv2DAttrs] {
		c := func(a Conv2DAttrs, in ...ir.Type) ir.Case[Conv2DAttrs] { return ir.Case[Conv2DAttrs]{Attrs: a, In: in} }
		return []ir.Case[Conv2DAttrs]{
			c(Conv2DAttrs{Layout: NCHW}, f32(1, 1, 1, 1), f32(1, 1, 1, 1)),
			c(Conv2DAttrs{Layout: NCHW}, f32(0, 2, 5, 5), f32(3, 2, 3, 3)),
			c(Conv2DAttrs{Layout: NCHW, Padding: []int{1, 1}}, f32(2, 3, 7, 5), f32(4, 3, 3, 3), f32(4)),
			c(Conv2DAttrs{Layout: NHWC, Padding: []int{1, 1}}, f32(2, 7, 5, 3), f32(4, 3, 3, 3)),
			c(Conv2DAttrs{Layout: NHWC, Padding: []int{1, 1}}, f32(1, 9, 8, 19), f32(17, 19, 3, 3), f32(17)),
			c(Conv2DAttrs{Layout: NCHW, Stride: []int{4, 4}}, f32(1, 3, 16, 12), f32(5, 3, 4, 4), f32(5)),
			c(Conv2DAttrs{Layout: NHWC, Stride: []int{2, 3}, Padding: []int{0, 2}, Dilation: []int{2, 1}}, f32(1, 11, 9, 2), f32(3, 2, 3, 4)),
			c(Conv2DAttrs{Layout: NCHW, Groups: 2}, f32(1, 4, 5, 5), f32(6, 2, 2, 2), f32(6)),
			c(Conv2DAttrs{Layout: NHWC, Groups: 6, Padding: []int{1, 1}}, f32(1, 5, 5, 6), f32(6, 1, 3, 3), f32(6)),
			c(Conv2DAttrs{Layout: NHWC}, f32(1, 3, 5, 7), bf16(4, 7, 1, 1), f32(4)),
			c(Conv2DAttrs{Layout: NCHW}, f32(1, 2, 5, 5), f16(3, 2, 2, 2)),
			c(Conv2DAttrs{Layout: NCHW}, f16(1, 2, 5, 5), f16(3, 2, 2, 2)),
		}
	},
})

// Conv2D adds a convolution of x with w; bias may be nil.
func Conv2D(x, w, bias *ir.Node, attrs Conv2DAttrs) *ir.Node {
	return x.Graph.Add(Conv2DDef, attrs, withOptional(bias, x, w)...)
}

// withOptional appends last to in where there is one.
func withOptional(last *ir.Node, in ...*ir.Node) []*ir.Node {
	if last != nil {
		in = append(in, last)
	}
	return in
}

// convDepth is the number of products in one output element.
func convDepth(w ir.Type) int64 { return w.Shape[1].B * w.Shape[2].B * w.Shape[3].B }

func inferConv2D(s ir.Sig[Conv2DAttrs]) (ir.Type, error) {
	g, err := s.Attrs.Geometry()
	if err != nil {
		return ir.Type{}, err
	}
	if err := g.checkConv(s.In); err != nil {
		return ir.Type{}, err
	}
	x, w := s.In[0], s.In[1]
	if cin := w.Shape[1].B * int64(g.Groups); !x.Shape[g.C].Is(cin) {
		return ir.Type{}, ir.Differ(x.Shape[g.C], ir.Static(cin), "operand %v has %v channels; the weight %v with %d groups wants %d", x, x.Shape[g.C], w, g.Groups, cin)
	}
	var size [2]ir.Dim
	for i, axis := range []int{g.H, g.W} {
		window := int64(g.Dilation[i])*(w.Shape[2+i].B-1) + 1
		room, _ := x.Shape[axis].Add(ir.Static(int64(2*g.Padding[i]) - window))
		if lo, _ := s.Syms.Bounds(room); lo < 0 {
			return ir.Type{}, fmt.Errorf("axis %d of %v with padding %d is smaller than the kernel, which covers %d", axis, x, g.Padding[i], window)
		}
		d, ok := room.FloorDiv(int64(g.Stride[i]))
		if !ok {
			return ir.Type{}, fmt.Errorf("size of axis %d of %v at stride %d is beyond the limits of a dim", axis, x, g.Stride[i])
		}
		size[i], _ = d.Add(ir.Static(1))
	}
	if len(s.In) == 3 {
		if err := vectorOf("bias", s.In[2], x.DType, w.Shape[0]); err != nil {
			return ir.Type{}, err
		}
	}
	return ir.Type{DType: x.DType, Shape: g.shape(x.Shape[0], w.Shape[0], size[0], size[1])}, nil
}

func evalConv2D(a Conv2DAttrs, in []*tensor.Array, out *tensor.Array) error {
	g, _ := a.Geometry()
	x, w := in[0], in[1]
	sx, sy := tensor.Strides(x.Shape), tensor.Strides(out.Shape)
	cout, cin, kh, kw := w.Shape[0], w.Shape[1], w.Shape[2], w.Shape[3]
	for n := range out.Shape[0] {
		for o := range cout {
			c0 := o / (cout / g.Groups) * cin
			for i := range out.Shape[g.H] {
				for j := range out.Shape[g.W] {
					var sum float64
					for c := range cin {
						for p := range kh {
							for q := range kw {
								h, v := i*g.Stride[0]-g.Padding[0]+p*g.Dilation[0], j*g.Stride[1]-g.Padding[1]+q*g.Dilation[1]
								if h >= 0 && h < x.Shape[g.H] && v >= 0 && v < x.Shape[g.W] {
									sum += x.F[n*sx[0]+(c0+c)*sx[g.C]+h*sx[g.H]+v*sx[g.W]] * w.F[((o*cin+c)*kh+p)*kw+q]
								}
							}
						}
					}
					if len(in) == 3 {
						sum += in[2].F[o]
					}
					out.F[n*sy[0]+o*sy[g.C]+i*sy[g.H]+j*sy[g.W]] = sum
				}
			}
		}
	}
	return nil
}
