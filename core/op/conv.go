package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// ConvAttrs are the attributes of conv1d, conv2d and conv3d. Lists have a number for each spatial axis: width; height,
// width; or depth, height, width. An empty list and 0 groups mean the default.
type ConvAttrs struct {
	Stride   []int  `attr:"stride"`   // default 1
	Padding  []int  `attr:"padding"`  // zeros on both sides, default 0
	Dilation []int  `attr:"dilation"` // default 1
	Groups   int    `attr:"groups"`   // 0 means 1
	Layout   string `attr:"layout"`   // layout of x and the result: ncw or nwc, nchw or nhwc, ncdhw or ndhwc
}

// ImageLayout implements ImageAttrs.
func (a ConvAttrs) ImageLayout() string { return a.Layout }

// WithImageLayout implements ImageAttrs.
func (a ConvAttrs) WithImageLayout(layout string) ImageAttrs {
	a.Layout = layout
	return a
}

// Geometry returns the attributes with defaults filled in.
func (a ConvAttrs) Geometry() (Geometry, error) {
	return convGeometry(a.Layout, len(a.Layout)-2, a.Stride, a.Padding, nil, a.Dilation, a.Groups)
}

// convGeometry fills in defaults and checks ranges.
func convGeometry(layout string, axes int, stride, padding, outputPadding, dilation []int, groups int) (
	g Geometry, err error) {
	if groups < 0 {
		return g, fmt.Errorf("groups is %d; want 1 or more", groups)
	}
	if err := g.setLayout(layout, axes); err != nil {
		return g, err
	}
	g.Groups = max(groups, 1)
	return g, g.setWindows(
		window{name: "stride", list: stride, to: &g.Stride, least: 1, fallback: ones},
		window{name: "padding", list: padding, to: &g.Padding},
		window{name: "output_padding", list: outputPadding, to: &g.OutputPadding},
		window{name: "dilation", list: dilation, to: &g.Dilation, least: 1, fallback: ones},
	)
}

// taps names the sizes of a kernel in messages, by the number of spatial axes.
var taps = [4]string{1: "kw", 2: "kh, kw", 3: "kd, kh, kw"}

// ConvBias is the index of the optional operand of convolutions and transposed convolutions.
const ConvBias = 2

// conv defines the convolution with the given number of spatial axes.
func conv(axes int, cases func() []ir.Case[ConvAttrs]) *ir.OpDef {
	return ir.Define(ir.Def[ConvAttrs]{
		Name: fmt.Sprintf("conv%dd", axes),
		Doc: "Cross-correlation (the kernel is not flipped) of x with w [Cout, Cin/groups, " + taps[axes] +
			"], plus bias [Cout] if given: " +
			"out = floor((in + 2*padding - dilation*(k-1) - 1) / stride) + 1, which must be at least 1. Taps that fall on padding take no part: they add nothing, not even where w is Inf or NaN. Output " +
			"channel o reads group floor(o / (Cout/groups)). w may be f16 or bf16 while x is f32; the bias has x's type.",
		Operands: "x, w, bias?",
		Infer: func(s ir.Sig[ConvAttrs]) (ir.Type, error) {
			a := s.Attrs
			g, err := convGeometry(a.Layout, axes, a.Stride, a.Padding, nil, a.Dilation, a.Groups)
			if err != nil {
				return ir.Type{}, err
			}
			return inferConv(g, s.In, s.Syms)
		},
		Eval: evalConv,
		FLOPs: func(_ ConvAttrs, in []ir.Type, out ir.Type) int64 {
			return 2 * numel(out) * convDepth(in[1])
		},
		Tol: func(_ ConvAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
			return summed(out.DType, convDepth(in[1]))
		},
		Cases: cases,
	})
}

// convCase is a case of a convolution.
func convCase(a ConvAttrs, in ...ir.Type) ir.Case[ConvAttrs] {
	return ir.Case[ConvAttrs]{Attrs: a, In: in}
}

// convDepth returns the number of products in one element of the output.
func convDepth(w ir.Type) int64 { return numel(ir.Type{Shape: w.Shape[1:]}) }

// checkConv checks the kernel and the operands' ranks and element types. It returns the sizes of the kernel.
func (g *Geometry) checkConv(in []ir.Type) (kernel [3]int, err error) {
	x, w := in[0], in[1]
	if err := weightDType(x, w); err != nil {
		return kernel, err
	}
	if rank := g.Axes + 2; x.Rank() != rank || w.Rank() != rank || !w.Shape.IsStatic() {
		return kernel, fmt.Errorf("operands are %v and %v; want rank %d and a static weight", x, w, rank)
	}
	for _, k := range w.Shape[2:] {
		if k.Const < 1 || k.Const > maxWindow {
			return kernel, fmt.Errorf("kernel of %v; want sizes from 1 to %d", w, maxWindow)
		}
	}
	if groups := int64(g.Groups); w.Shape[0].Const%groups != 0 || w.Shape[0].Const == 0 {
		return kernel, fmt.Errorf("axis 0 of the weight %v is not a positive multiple of groups %d", w, groups)
	}
	return g.Kernels(w.Shape.Eval(nil)), nil
}

func inferConv(g Geometry, in []ir.Type, syms ir.Syms) (ir.Type, error) {
	kernel, err := g.checkConv(in)
	if err != nil {
		return ir.Type{}, err
	}
	x, w := in[0], in[1]
	have := x.Shape[g.channels()]
	cin, ok := w.Shape[1].Mul(ir.Static(int64(g.Groups)))
	if !ok {
		return ir.Type{}, fmt.Errorf("weight %v with %d groups is too large", w, g.Groups)
	}
	if have != cin {
		return ir.Type{}, ir.Differ(have, cin, "x is %v, of %v channels; the weight %v with %d groups wants %v", x,
			have, w, g.Groups, cin)
	}
	size, err := g.outSizes(x, kernel, syms)
	if err != nil {
		return ir.Type{}, err
	}
	return g.result(in, w.Shape[0], size)
}

// result returns the type of a convolution with the given number of output channels. It checks the bias if the node has
// one.
func (g *Geometry) result(in []ir.Type, channels ir.Dim, size [3]ir.Dim) (ir.Type, error) {
	x := in[0]
	if bias := in[ConvBias]; bias.Present() {
		if err := vectorOf("bias", bias, x.DType, channels); err != nil {
			return ir.Type{}, err
		}
	}
	return ir.Type{DType: x.DType, Shape: g.shape(x.Shape[0], channels, size)}, nil
}

func evalConv(a ConvAttrs, in []*tensor.Array, out *tensor.Array) error {
	g, _ := a.Geometry()
	x, w := in[0], in[1]
	batch, _, size := g.Sizes(x.Shape)
	_, cout, made := g.Sizes(out.Shape)
	kernel, cin := g.Kernels(w.Shape), w.Shape[1]
	xn, xc, xs := g.places(x.Shape)
	yn, yc, ys := g.places(out.Shape)
	for n := range batch {
		for o := range cout {
			c0 := o / (cout / g.Groups) * cin
			each(made, func(at [3]int) {
				sum, tap := 0.0, 0
				each(kernel, func(t [3]int) {
					from, inside := g.source(at, t, size)
					for c := 0; inside && c < cin; c++ {
						sum += x.Floats[n*xn+(c0+c)*xc+
							offset(from, xs)] * w.Floats[(o*cin+c)*kernel[0]*kernel[1]*kernel[2]+tap]
					}
					tap++
				})
				if bias := in[ConvBias]; bias != nil {
					sum += bias.Floats[o]
				}
				out.Floats[n*yn+o*yc+offset(at, ys)] = sum
			})
		}
	}
	return nil
}
