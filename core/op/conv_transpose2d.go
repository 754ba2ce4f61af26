package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// ConvTranspose2DAttrs are the attributes of conv_transpose2d. Pairs are height, width; empty ones and 0 groups read as
// the default.
type ConvTranspose2DAttrs struct {
	Stride        []int  `attr:"stride"`         // default 1
	Padding       []int  `attr:"padding"`        // rows and columns cut from every side, default 0
	OutputPadding []int  `attr:"output_padding"` // rows and columns added at the end, default 0
	Dilation      []int  `attr:"dilation"`       // default 1
	Groups        int    `attr:"groups"`         // default 1
	Layout        string `attr:"layout"`         // of x and the result: nchw or nhwc
}

// Geometry gives the attributes with defaults filled in.
func (a ConvTranspose2DAttrs) Geometry() (ConvGeometry, error) {
	return geometry(a.Stride, a.Padding, a.OutputPadding, a.Dilation, a.Groups, a.Layout)
}

// ConvTranspose2DDef is the transpose (gradient) of a 2-D convolution.
var ConvTranspose2DDef = ir.Define(ir.Def[ConvTranspose2DAttrs]{
	Name: "conv_transpose2d",
	Doc: "The transpose of conv2d: every element of x adds its multiple of w [Cin, Cout/groups, kh, kw] to the result at " +
		"stride*position + dilation*tap - padding, plus bias [Cout] if given. out = (in-1)*stride - 2*padding + " +
		"dilation*(k-1) + output_padding + 1, which must be at least 1; output_padding is less than stride or dilation. w may " +
		"be f16 or bf16 while x is f32; the bias has x's type.",
	MinIn: 2, MaxIn: 3,
	Infer: inferConvTranspose2D,
	Eval:  evalConvTranspose2D,
	FLOPs: func(_ ConvTranspose2DAttrs, in []ir.Type, _ ir.Type) int64 {
		return 2 * numel(in[0]) * convDepth(in[1])
	},
	Tol: func(_ ConvTranspose2DAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		w := in[1].Shape
		return summed(out.DType, w[0].B*w[2].B*w[3].B)
	},
	Cases: func() []ir.Case[ConvTranspose2DAttrs] {
		c := func(a ConvTranspose2DAttrs, in ...ir.Type) ir.Case[ConvTranspose2DAttrs] {
			return ir.Case[ConvTranspose2DAttrs]{Attrs: a, In: in}
		}
		two := []int{2, 2}
		return []ir.Case[ConvTranspose2DAttrs]{
			c(ConvTranspose2DAttrs{Layout: NCHW}, f32(1, 1, 1, 1), f32(1, 1, 1, 1)),
			c(ConvTranspose2DAttrs{Layout: NCHW, Stride: two}, f32(1, 3, 4, 5), f32(3, 2, 2, 2), f32(2)),
			c(ConvTranspose2DAttrs{Layout: NHWC, Stride: two}, f32(1, 4, 5, 3), f32(3, 2, 2, 2), f32(2)),
			c(ConvTranspose2DAttrs{Layout: NHWC, Stride: two}, f32(2, 3, 3, 17), f32(17, 19, 2, 2)),
			c(ConvTranspose2DAttrs{Layout: NHWC, Stride: two}, f32(0, 3, 3, 2), f32(2, 3, 2, 2)),
			c(ConvTranspose2DAttrs{Layout: NCHW, Stride: []int{2, 3}, Padding: []int{1, 0}, OutputPadding: []int{1, 2}}, f32(1, 2, 4, 3), f32(2, 3, 3, 3), f32(3)),
			c(ConvTranspose2DAttrs{Layout: NCHW, Dilation: []int{2, 1}, Padding: []int{1, 1}}, f32(1, 2, 4, 4), f32(2, 3, 2, 3)),
			c(ConvTranspose2DAttrs{Layout: NHWC, Groups: 2, Stride: two}, f32(1, 3, 3, 4), f32(4, 3, 2, 2), f32(6)),
			c(ConvTranspose2DAttrs{Layout: NHWC, Stride: two}, f32(1, 3, 3, 4), bf16(4, 3, 2, 2), f32(3)),
			c(ConvTranspose2DAttrs{Layout: NCHW, Stride: two}, f16(1, 4, 3, 3), f16(4, 3, 2, 2)),
		}
	},
})

// ConvTranspose2D adds a transposed convolution of x with w; bias may be nil.
func ConvTranspose2D(x, w, bias *ir.Node, attrs ConvTranspose2DAttrs) *ir.Node {
	return x.Graph.Add(ConvTranspose2DDef, attrs, withOptional(bias, x, w)...)
}

func inferConvTranspose2D(s ir.Sig[ConvTranspose2DAttrs]) (ir.Type, error) {
	g, err := s.Attrs.Geometry()
	if err != nil {
		return ir.Type{}, err
	}
	if err := g.checkConv(s.In); err != nil {
		return ir.Type{}, err
	}
	x, w := s.In[0], s.In[1]
	if x.Shape[g.C] != w.Shape[0] {
		return ir.Type{}, ir.Differ(x.Shape[g.C], w.Shape[0], "operand %v has %v channels; the weight %v wants %v", x, x.Shape[g.C], w, w.Shape[0])
	}
	var size [2]ir.Dim
	for i, axis := range []int{g.H, g.W} {
		if op := g.OutputPadding[i]; op > 0 && op >= max(g.Stride[i], g.Dilation[i]) {
			return ir.Type{}, fmt.Errorf("output_padding is %d; want less than stride %d or dilation %d", op, g.Stride[i], g.Dilation[i])
		}
		tail := int64(g.Dilation[i])*(w.Shape[2+i].B-1) + int64(g.OutputPadding[i]-2*g.Padding[i]-g.Stride[i]) + 1
		d, ok := x.Shape[axis].Mul(ir.Static(int64(g.Stride[i])))
		if !ok {
			return ir.Type{}, fmt.Errorf("axis %d of %v at stride %d is too large", axis, x, g.Stride[i])
		}
		size[i], _ = d.Add(ir.Static(tail))
		if lo, _ := s.Syms.Bounds(size[i]); lo < 1 {
			return ir.Type{}, fmt.Errorf("axis %d of the result is %v for %v and weight %v; want 1 or more", axis, size[i], x, w)
		}
	}
	cout, ok := w.Shape[1].Mul(ir.Static(int64(g.Groups)))
	if !ok {
		return ir.Type{}, fmt.Errorf("weight %v with %d groups is too large", w, g.Groups)
	}
	if len(s.In) == 3 {
		if err := vectorOf("bias", s.In[2], x.DType, cout); err != nil {
			return ir.Type{}, err
		}
	}
	return ir.Type{DType: x.DType, Shape: g.shape(x.Shape[0], cout, size[0], size[1])}, nil
}

func evalConvTranspose2D(a ConvTranspose2DAttrs, in []*tensor.Array, out *tensor.Array) error {
	g, _ := a.Geometry()
	x, w := in[0], in[1]
	sx, sy := tensor.Strides(x.Shape), tensor.Strides(out.Shape)
	cin, cout, kh, kw := w.Shape[0], w.Shape[1], w.Shape[2], w.Shape[3]
	if len(in) == 3 {
		for i := range out.F {
			out.F[i] = in[2].F[i/sy[g.C]%out.Shape[g.C]]
		}
	}
	for n := range x.Shape[0] {
		for c := range cin {
			o0 := c / (cin / g.Groups) * cout
			for i := range x.Shape[g.H] {
				for j := range x.Shape[g.W] {
					v := x.F[n*sx[0]+c*sx[g.C]+i*sx[g.H]+j*sx[g.W]]
					for o := range cout {
						for p := range kh {
							for q := range kw {
								h, u := i*g.Stride[0]+p*g.Dilation[0]-g.Padding[0], j*g.Stride[1]+q*g.Dilation[1]-g.Padding[1]
								if h >= 0 && h < out.Shape[g.H] && u >= 0 && u < out.Shape[g.W] {
									out.F[n*sy[0]+(o0+o)*sy[g.C]+h*sy[g.H]+u*sy[g.W]] += v * w.F[((c*cout+o)*kh+p)*kw+q]
								}
							}
						}
					}
				}
			}
		}
	}
	return nil
}
