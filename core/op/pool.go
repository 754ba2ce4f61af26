package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// PoolAttrs are the attributes of pool. Lists have a number for each of the one to three spatial axes. Stride and
// Padding may be empty.
type PoolAttrs struct {
	Kind    string `attr:"kind"`    // max, mean, min, prod or sum
	Kernel  []int  `attr:"kernel"`  // size of the window
	Stride  []int  `attr:"stride"`  // default: the kernel, so that windows are adjacent
	Padding []int  `attr:"padding"` // elements on both sides, default 0
	Layout  string `attr:"layout"`  // layout of x and the result: ncw or nwc, nchw or nhwc, ncdhw or ndhwc
}

// ImageLayout implements ImageAttrs.
func (a PoolAttrs) ImageLayout() string { return a.Layout }

// WithImageLayout implements ImageAttrs.
func (a PoolAttrs) WithImageLayout(layout string) ImageAttrs {
	a.Layout = layout
	return a
}

// Geometry returns the attributes with defaults filled in.
func (a PoolAttrs) Geometry() (g Geometry, err error) {
	if err := g.setLayout(a.Layout, len(a.Kernel)); err != nil {
		return g, err
	}
	g.Dilation = ones
	err = g.setWindows(window{name: "kernel", list: a.Kernel, to: &g.Kernel, least: 1, required: true})
	if err == nil {
		err = g.setWindows(window{name: "stride", list: a.Stride, to: &g.Stride, least: 1, fallback: g.Kernel},
			window{name: "padding", list: a.Padding, to: &g.Padding})
	}
	return g, err
}

// Window returns the range [lo, hi) of input elements, without padding, in the window of output element o of spatial
// axis i.
func (g *Geometry) Window(i, o, size int) (lo, hi int) {
	lo = o*g.Stride[i] - g.Padding[i]
	return max(lo, 0), min(lo+g.Kernel[i], size)
}

// PoolDef combines the elements in a window that moves over one, two or three axes.
var PoolDef = ir.Define(ir.Def[PoolAttrs]{
	Name: "pool",
	Doc: "The sum, mean, maximum, minimum or product of the elements of each channel under a window that moves " +
		"over the spatial axes: out = floor((in + 2*padding - kernel) / stride) + 1, which must be at least " +
		"1. Padding does not count in a maximum or minimum, is 0 in a sum and 1 in a product; a mean divides " +
		"by the size of the kernel and so counts it as 0. A window that contains only padding gives the " +
		"reduction of that kind over no elements; the mean gives 0. NaN propagates; integers wrap, and have " +
		"no mean.",
	Operands: "x",
	Infer: func(s ir.Sig[PoolAttrs]) (ir.Type, error) {
		g, err := s.Attrs.Geometry()
		if err != nil {
			return ir.Type{}, err
		}
		x := s.In[0]
		if _, err := findReduction(s.Attrs.Kind, x); err != nil {
			return ir.Type{}, err
		}
		if err := g.checkRank(x); err != nil {
			return ir.Type{}, err
		}
		size, err := g.outSizes(x, g.Kernel, s.Syms)
		return ir.Type{DType: x.DType, Shape: g.shape(x.Shape[0], x.Shape[g.channels()], size)}, err
	},
	Eval: func(a PoolAttrs, in []*tensor.Array, out *tensor.Array) error {
		g, _ := a.Geometry()
		r := reductions[a.Kind]
		g.foldWindows(r, in[0], out, g.Window, func([3]int) float64 {
			return float64(g.Kernel[0]) * float64(g.Kernel[1]) * float64(g.Kernel[2])
		})
		return nil
	},
	FLOPs: func(a PoolAttrs, in []ir.Type, out ir.Type) int64 { return numel(out) * a.most(in[0]) },
	Tol: func(a PoolAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		if a.Kind == "max" || a.Kind == "min" {
			return ir.Tolerance{}
		}
		return summed(out.DType, a.most(in[0]))
	},
	Cases: func() (cases []ir.Case[PoolAttrs]) {
		c := func(t ir.Type, a PoolAttrs) {
			cases = append(cases, ir.Case[PoolAttrs]{Attrs: a, In: []ir.Type{t}, Fill: reductions[a.Kind].fill})
		}
		three := []int{3, 3}
		for _, kind := range []string{"max", "mean", "min", "prod", "sum"} {
			c(
				f32(2, 3, 7, 9),
				PoolAttrs{Kind: kind, Kernel: three, Stride: []int{2, 2}, Padding: []int{1, 1}, Layout: NCHW})
			c(
				f32(1, 6, 7, 5),
				PoolAttrs{Kind: kind, Kernel: three, Stride: []int{1, 2}, Padding: []int{1, 1}, Layout: NHWC})
			c(f32(1, 2, 5, 6), PoolAttrs{Kind: kind, Kernel: []int{2, 2}, Layout: NCHW})
			c(f32(1, 2, 37), PoolAttrs{Kind: kind, Kernel: []int{5}, Stride: []int{1}, Padding: []int{4}, Layout: NCW})
			c(
				f32(1, 2, 3, 5, 7),
				PoolAttrs{Kind: kind, Kernel: []int{2, 3, 2}, Stride: []int{1, 2, 3}, Padding: []int{1, 0, 1},
					Layout: NCDHW})
		}
		c(f32(1, 1, 1), PoolAttrs{Kind: "max", Kernel: []int{1}, Layout: NCW})
		c(f32(0, 2, 4, 4), PoolAttrs{Kind: "mean", Kernel: []int{2, 2}, Layout: NCHW})
		c(f32(1, 4, 4, 0), PoolAttrs{Kind: "sum", Kernel: []int{2, 2}, Layout: NHWC})
		// padding alone
		c(f32(1, 2, 0, 3), PoolAttrs{Kind: "min", Kernel: []int{2, 1}, Padding: []int{2, 0}, Layout: NCHW})
		c(f32(1, 1, 40, 9), PoolAttrs{Kind: "mean", Kernel: []int{33, 9}, Stride: []int{3, 1}, Layout: NCHW})
		c(f32(1, 9, 20), PoolAttrs{Kind: "max", Kernel: []int{4}, Stride: []int{3}, Layout: NWC})
		c(f32(1, 2, 3, 4, 5), PoolAttrs{Kind: "sum", Kernel: []int{2, 2, 2}, Layout: NDHWC})
		for _, d := range []dtype.DType{dtype.F16, dtype.BF16, dtype.F64} {
			c(ir.TypeOf(d, 1, 3, 5, 5), PoolAttrs{Kind: "mean", Kernel: three, Padding: []int{1, 1}, Layout: NCHW})
			c(ir.TypeOf(d, 1, 7, 3), PoolAttrs{Kind: "max", Kernel: []int{3}, Stride: []int{2}, Layout: NWC})
		}
		for _, d := range []dtype.DType{dtype.I8, dtype.I16, dtype.I32, dtype.I64, dtype.U8, dtype.U32} {
			c(ir.TypeOf(d, 1, 2, 5, 6), PoolAttrs{Kind: "max", Kernel: three, Stride: []int{2, 2}, Padding: []int{1, 1},
				Layout: NCHW})
			c(ir.TypeOf(d, 1, 5, 6, 3), PoolAttrs{Kind: "sum", Kernel: []int{2, 2}, Layout: NHWC})
		}
		return cases
	},
})

// most returns the largest number of elements in a window.
func (a PoolAttrs) most(x ir.Type) int64 {
	g, _ := a.Geometry()
	n := int64(1)
	for i := 3 - g.Axes; i < 3; i++ {
		n *= max(1, min(int64(g.Kernel[i]), x.Shape[g.axis(i)].Const))
	}
	return n
}

// foldWindows combines the elements of x in the window of each element of out. window returns the range of the window
// along spatial axis i for index o. A mean is divided by divisor, a function of the sizes of the window.
func (g *Geometry) foldWindows(r reduction, x, out *tensor.Array, window func(i, o, size int) (lo, hi int),
	divisor func(sizes [3]int) float64) {
	batch, channels, size := g.Sizes(x.Shape)
	_, _, made := g.Sizes(out.Shape)
	xn, xc, xs := g.places(x.Shape)
	yn, yc, ys := g.places(out.Shape)
	r.begin(out)
	for n := range batch {
		for c := range channels {
			each(made, func(at [3]int) {
				y, first, count := n*yn+c*yc+offset(at, ys), n*xn+c*xc, ones
				for i := 3 - g.Axes; i < 3; i++ {
					lo, hi := window(i, at[i], size[i])
					first += lo * xs[i]
					count[i] = max(0, hi-lo)
				}
				each(count, func(k [3]int) { r.fold(out, y, x, first+offset(k, xs)) })
				if r.mean {
					out.Floats[y] /= divisor(count)
				}
			})
		}
	}
}

// Pool adds a pooling of x.
func Pool(x *ir.Node, attrs PoolAttrs) *ir.Node { return x.Graph.Add(PoolDef, attrs, x) }
