package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// ConvTransposeAttrs are the attributes of conv_transpose1d, conv_transpose2d and conv_transpose3d, written as those of
// ConvAttrs.
type ConvTransposeAttrs struct {
	Stride        []int  `attr:"stride"`         // default 1
	Padding       []int  `attr:"padding"`        // elements cut from both ends of each axis, default 0
	OutputPadding []int  `attr:"output_padding"` // elements added at the end of each axis, default 0
	Dilation      []int  `attr:"dilation"`       // default 1
	Groups        int    `attr:"groups"`         // 0 means 1
	Layout        string `attr:"layout"`         // layout of x and the result: ncw or nwc, nchw or nhwc, ncdhw or ndhwc
}

// ImageLayout implements ImageAttrs.
func (a ConvTransposeAttrs) ImageLayout() string { return a.Layout }

// WithImageLayout implements ImageAttrs.
func (a ConvTransposeAttrs) WithImageLayout(layout string) ImageAttrs {
	a.Layout = layout
	return a
}

// Geometry returns the attributes with defaults filled in.
func (a ConvTransposeAttrs) Geometry() (Geometry, error) { return a.geometry(len(a.Layout) - 2) }

func (a ConvTransposeAttrs) geometry(axes int) (Geometry, error) {
	return convGeometry(a.Layout, axes, a.Stride, a.Padding, a.OutputPadding, a.Dilation, a.Groups)
}

// convTranspose defines the transposed convolution with the given number of spatial axes.
func convTranspose(axes int, cases func() []ir.Case[ConvTransposeAttrs]) *ir.OpDef {
	return ir.Define(ir.Def[ConvTransposeAttrs]{
		Name: fmt.Sprintf("conv_transpose%dd", axes),
		Doc: fmt.Sprintf(
			"The transpose of conv%dd: every element of x adds its multiple of w [Cin, Cout/groups, %s] to the result at "+
				"stride*position + dilation*tap - padding, plus bias [Cout] if given. out = (in-1)*stride - 2*padding + "+
				"dilation*(k-1) + output_padding + 1, which must be at least 1; output_padding is less than stride or dilation. w may "+
				"be f16 or bf16 while x is f32; the bias has x's type.", axes, taps[axes]),
		Operands: "x, w, bias?",
		Infer: func(s ir.Sig[ConvTransposeAttrs]) (ir.Type, error) {
			g, err := s.Attrs.geometry(axes)
			if err != nil {
				return ir.Type{}, err
			}
			return inferConvTranspose(g, s.In, s.Syms)
		},
		Eval: evalConvTranspose,
		FLOPs: func(_ ConvTransposeAttrs, in []ir.Type, _ ir.Type) int64 {
			return 2 * numel(in[0]) * convDepth(in[1])
		},
		Tol: func(_ ConvTransposeAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
			w := in[1].Shape
			return summed(out.DType, w[0].Const*numel(ir.Type{Shape: w[2:]}))
		},
		Cases: cases,
	})
}

// convTransposeCase is a case of a transposed convolution.
func convTransposeCase(a ConvTransposeAttrs, in ...ir.Type) ir.Case[ConvTransposeAttrs] {
	return ir.Case[ConvTransposeAttrs]{Attrs: a, In: in}
}

func inferConvTranspose(g Geometry, in []ir.Type, syms ir.Syms) (ir.Type, error) {
	kernel, err := g.checkConv(in)
	if err != nil {
		return ir.Type{}, err
	}
	x, w := in[0], in[1]
	if have := x.Shape[g.channels()]; have != w.Shape[0] {
		return ir.Type{}, ir.Differ(have, w.Shape[0], "x is %v, of %v channels; the weight %v wants %v", x, have, w,
			w.Shape[0])
	}
	var size [3]ir.Dim
	for i := 3 - g.Axes; i < 3; i++ {
		axis := g.axis(i)
		if op := g.OutputPadding[i]; op > 0 && op >= max(g.Stride[i], g.Dilation[i]) {
			return ir.Type{},
				fmt.Errorf("output_padding is %d; want less than stride %d or dilation %d", op, g.Stride[i],
					g.Dilation[i])
		}
		tail := int64(g.Dilation[i])*int64(kernel[i]-1) + int64(g.OutputPadding[i]-2*g.Padding[i]-g.Stride[i]) + 1
		d, ok := x.Shape[axis].Mul(ir.Static(int64(g.Stride[i])))
		if ok {
			size[i], ok = d.Add(ir.Static(tail))
		}
		if !ok {
			return ir.Type{}, fmt.Errorf("axis %d of %v at stride %d is too large", axis, x, g.Stride[i])
		}
		err := syms.AtLeast(size[i], 1, "axis %d of the result is %v for %v and weight %v; want 1 or more", axis,
			size[i], x, w)
		if err != nil {
			return ir.Type{}, err
		}
	}
	cout, ok := w.Shape[1].Mul(ir.Static(int64(g.Groups)))
	if !ok {
		return ir.Type{}, fmt.Errorf("weight %v with %d groups is too large", w, g.Groups)
	}
	return g.result(in, cout, size)
}

func evalConvTranspose(a ConvTransposeAttrs, in []*tensor.Array, out *tensor.Array) error {
	g, _ := a.Geometry()
	x, w := in[0], in[1]
	batch, cin, size := g.Sizes(x.Shape)
	_, channels, made := g.Sizes(out.Shape)
	kernel, cout := g.Kernels(w.Shape), w.Shape[1]
	xn, xc, xs := g.places(x.Shape)
	yn, yc, ys := g.places(out.Shape)
	if bias := in[ConvBias]; bias != nil {
		for i := range out.Floats {
			out.Floats[i] = bias.Floats[i/yc%channels]
		}
	}
	for n := range batch {
		for c := range cin {
			o0 := c / (cin / g.Groups) * cout
			each(size, func(at [3]int) {
				v, tap := x.Floats[n*xn+c*xc+offset(at, xs)], 0
				each(kernel, func(t [3]int) {
					to, inside := g.source(at, t, made)
					for o := 0; inside && o < cout; o++ {
						out.Floats[n*yn+(o0+o)*yc+
							offset(to, ys)] += v * w.Floats[(c*cout+o)*kernel[0]*kernel[1]*kernel[2]+tap]
					}
					tap++
				})
			})
		}
	}
	return nil
}
