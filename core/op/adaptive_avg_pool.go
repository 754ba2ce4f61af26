package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// AdaptiveAvgPoolAttrs are the attributes of adaptive_avg_pool.
type AdaptiveAvgPoolAttrs struct {
	Output []int  `attr:"output"` // sizes of the result's spatial axes, one to three
	Layout string `attr:"layout"` // layout of x and the result: ncw or nwc, nchw or nhwc, ncdhw or ndhwc
}

// ImageLayout implements ImageAttrs.
func (a AdaptiveAvgPoolAttrs) ImageLayout() string { return a.Layout }

// WithImageLayout implements ImageAttrs.
func (a AdaptiveAvgPoolAttrs) WithImageLayout(layout string) ImageAttrs {
	a.Layout = layout
	return a
}

// Geometry returns the layout of x and the result.
func (a AdaptiveAvgPoolAttrs) Geometry() (g Geometry, err error) {
	if err := g.setLayout(a.Layout, len(a.Output)); err != nil {
		return g, err
	}
	for _, n := range a.Output {
		if n < 1 || n > maxWindow {
			return g, fmt.Errorf("output is %v; want sizes from 1 to %d", a.Output, maxWindow)
		}
	}
	return g, nil
}

// AdaptiveWindow returns the range [lo, hi) of an axis of the given size that is averaged for position o of made
// positions.
func AdaptiveWindow(o, size, made int) (lo, hi int) {
	return o * size / made, ((o+1)*size + made - 1) / made
}

// AdaptiveAvgPoolDef defines the mean over windows that are chosen to give a result of the given sizes.
var AdaptiveAvgPoolDef = ir.Define(ir.Def[AdaptiveAvgPoolAttrs]{
	Name: "adaptive_avg_pool",
	Doc: "The mean of the elements of each channel under windows that cover the spatial axes and give a result of the sizes output: element o " +
		"sees [floor(o*in/out), ceil((o+1)*in/out)) along an axis, as in PyTorch, so that windows overlap where out does not divide in. The " +
		"spatial axes of x have at least one element. Floats only.",
	Operands: "x",
	Infer: func(s ir.Sig[AdaptiveAvgPoolAttrs]) (ir.Type, error) {
		g, err := s.Attrs.Geometry()
		if err != nil {
			return ir.Type{}, err
		}
		x := s.In[0]
		if err := isFloat("operand", x); err != nil {
			return ir.Type{}, err
		}
		if err := g.checkRank(x); err != nil {
			return ir.Type{}, err
		}
		var size [3]ir.Dim
		for i, n := range s.Attrs.Output {
			i += 3 - g.Axes
			axis := g.axis(i)
			err := s.Syms.AtLeast(x.Shape[axis], 1, "axis %d of %v has size %v; want 1 or more", axis, x, x.Shape[axis])
			if err != nil {
				return ir.Type{}, err
			}
			size[i] = ir.Static(int64(n))
		}
		return ir.Type{DType: x.DType, Shape: g.shape(x.Shape[0], x.Shape[g.channels()], size)}, nil
	},
	Eval: func(a AdaptiveAvgPoolAttrs, in []*tensor.Array, out *tensor.Array) error {
		g, _ := a.Geometry()
		_, _, made := g.Sizes(out.Shape)
		g.foldWindows(reductions["mean"], in[0], out, func(i, o, size int) (lo, hi int) {
			return AdaptiveWindow(o, size, made[i])
		},
			func(n [3]int) float64 { return float64(n[0] * n[1] * n[2]) })
		return nil
	},
	FLOPs: func(a AdaptiveAvgPoolAttrs, in []ir.Type, out ir.Type) int64 { return numel(out) * a.most(in[0]) },
	Tol: func(a AdaptiveAvgPoolAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		return summed(out.DType, a.most(in[0]))
	},
	Cases: func() []ir.Case[AdaptiveAvgPoolAttrs] {
		c := func(t ir.Type, layout string, output ...int) ir.Case[AdaptiveAvgPoolAttrs] {
			return ir.Case[AdaptiveAvgPoolAttrs]{Attrs: AdaptiveAvgPoolAttrs{output, layout}, In: []ir.Type{t}}
		}
		return []ir.Case[AdaptiveAvgPoolAttrs]{
			c(f32(1, 1, 1), NCW, 1), c(f32(2, 3, 7, 7), NCHW, 1, 1), c(f32(2, 7, 7, 33), NHWC, 1, 1),
			c(f32(1, 3, 10, 13), NCHW, 4, 7),
			c(f32(1, 10, 13, 5), NHWC, 3, 5), c(f32(0, 3, 4, 4), NCHW, 2, 2), c(f32(1, 2, 3), NCW, 7),
			c(f32(1, 5, 3, 4), NHWC, 5, 5),
			c(f32(1, 2, 5, 6, 7), NCDHW, 2, 3, 4), c(f32(1, 4, 5, 6, 3), NDHWC, 2, 2, 3),
			c(f32(1, 1, 60, 50), NCHW, 1, 1),
			c(f16(1, 3, 8, 8), NCHW, 3, 3), c(bf16(1, 9, 4), NWC, 2), c(f64(1, 3, 5, 5), NCHW, 2, 2),
		}
	},
})

// most returns a bound for the number of elements in a window.
func (a AdaptiveAvgPoolAttrs) most(x ir.Type) int64 {
	g, _ := a.Geometry()
	n := int64(1)
	for i, out := range a.Output {
		size := x.Shape[g.axis(3-g.Axes+i)].Const
		n *= min(size, size/int64(out)+2)
	}
	return n
}

// AdaptiveAvgPool adds the mean over windows that give a result with the sizes output.
func AdaptiveAvgPool(x *ir.Node, layout string, output ...int) *ir.Node {
	return x.Graph.Add(AdaptiveAvgPoolDef, AdaptiveAvgPoolAttrs{output, layout}, x)
}
