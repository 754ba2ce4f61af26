package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Layouts of images, by the number of their spatial axes.
const (
	NCW   = "ncw"   // [batch, channels, width]
	NWC   = "nwc"   // [batch, width, channels], channels last
	NCHW  = "nchw"  // [batch, channels, height, width]
	NHWC  = "nhwc"  // [batch, height, width, channels], channels last
	NCDHW = "ncdhw" // [batch, channels, depth, height, width]
	NDHWC = "ndhwc" // [batch, depth, height, width, channels], channels last
)

// layouts are the layouts by number of spatial axes: channels first, channels last.
var layouts = [4][2]string{1: {NCW, NWC}, 2: {NCHW, NHWC}, 3: {NCDHW, NDHWC}}

// ImageAttrs are the attributes of an op that reads images as operand 0 and returns images: a convolution or a pooling.
type ImageAttrs interface {
	// ImageLayout returns the layout of operand 0 and of the result.
	ImageLayout() string
	// WithImageLayout returns the attributes with another layout.
	WithImageLayout(layout string) ImageAttrs
}

// ChannelsLast returns the layout with channels last in place of one with channels first, and "" for other layouts.
func ChannelsLast(layout string) string {
	for _, l := range layouts[1:] {
		if l[0] == layout {
			return l[1]
		}
	}
	return ""
}

// Geometry describes the windows of a convolution or a pooling, with defaults filled in. There are always three axes:
// depth, height and width. Axes that an op does not have come first and have size 1.
type Geometry struct {
	Axes int  // number of axes that the op has: 1, 2 or 3
	Last bool // channels are the last axis

	Kernel                                   [3]int // only for ops that have it as an attribute
	Stride, Padding, OutputPadding, Dilation [3]int
	Groups                                   int
}

// maxWindow limits strides, paddings, dilations and kernels, so that no size computed from them overflows.
const maxWindow = 1 << 20

// window is an attribute with a number for each spatial axis.
type window struct {
	name     string
	list     []int
	to       *[3]int
	least    int
	fallback [3]int // used if the list is empty
	required bool
}

var ones = [3]int{1, 1, 1}

// setLayout sets the layout of an op with the given number of spatial axes.
func (g *Geometry) setLayout(layout string, axes int) error {
	if axes < 1 || axes > 3 {
		return fmt.Errorf("%d spatial axes; want 1 to 3", axes)
	}
	first, last := layouts[axes][0], layouts[axes][1]
	if layout != first && layout != last {
		return fmt.Errorf("layout is %q; want %q or %q", layout, first, last)
	}
	g.Axes, g.Last = axes, layout == last
	return nil
}

// setWindows checks attributes and fills in defaults.
func (g *Geometry) setWindows(windows ...window) error {
	for _, w := range windows {
		if len(w.list) == 0 && !w.required {
			*w.to = w.fallback
			continue
		}
		if len(w.list) != g.Axes {
			return fmt.Errorf("%s is %v; want %d numbers, one for each spatial axis", w.name, w.list, g.Axes)
		}
		*w.to = [3]int{w.least, w.least, w.least}
		for i, v := range w.list {
			if v < w.least || v > maxWindow {
				return fmt.Errorf("%s is %v; want numbers from %d to %d", w.name, w.list, w.least, maxWindow)
			}
			w.to[3-g.Axes+i] = v
		}
	}
	return nil
}

// axis returns the index of spatial axis i, from 0 to 2, in a tensor of the layout.
func (g *Geometry) axis(i int) int {
	if g.Last {
		return i - (3 - g.Axes) + 1
	}
	return i - (3 - g.Axes) + 2
}

// channels returns the index of the axis of channels. The batch is axis 0.
func (g *Geometry) channels() int {
	if g.Last {
		return g.Axes + 1
	}
	return 1
}

// Sizes returns batch, channels and spatial sizes of a shape in the layout.
func (g *Geometry) Sizes(shape []int) (n, c int, size [3]int) {
	size = ones
	for i := 3 - g.Axes; i < 3; i++ {
		size[i] = shape[g.axis(i)]
	}
	return shape[0], shape[g.channels()], size
}

// Kernels returns the spatial sizes of a weight.
func (g *Geometry) Kernels(weight []int) (kernel [3]int) {
	kernel = ones
	copy(kernel[3-g.Axes:], weight[2:])
	return kernel
}

// places returns the strides, in elements, of batch, channels and the spatial axes.
func (g *Geometry) places(shape []int) (n, c int, at [3]int) {
	s := tensor.Strides(shape)
	for i := 3 - g.Axes; i < 3; i++ {
		at[i] = s[g.axis(i)]
	}
	return s[0], s[g.channels()], at
}

// shape returns a shape in the order of the layout.
func (g *Geometry) shape(n, c ir.Dim, size [3]ir.Dim) ir.Shape {
	s := make(ir.Shape, g.Axes+2)
	s[0], s[g.channels()] = n, c
	for i := 3 - g.Axes; i < 3; i++ {
		s[g.axis(i)] = size[i]
	}
	return s
}

// checkRank checks that x has an axis for each letter of the layout.
func (g *Geometry) checkRank(x ir.Type) error {
	if x.Rank() != g.Axes+2 {
		return fmt.Errorf("x is %v; want rank %d", x, g.Axes+2)
	}
	return nil
}

// outSizes returns floor((in + 2*padding - dilation*(kernel-1) - 1) / stride) + 1 for each spatial axis of x.
func (g *Geometry) outSizes(x ir.Type, kernel [3]int, syms ir.Syms) (size [3]ir.Dim, err error) {
	for i := 3 - g.Axes; i < 3; i++ {
		axis := g.axis(i)
		window := int64(g.Dilation[i])*int64(kernel[i]-1) + 1
		room, ok := x.Shape[axis].Add(ir.Static(int64(2*g.Padding[i]) - window))
		if !ok {
			return size, fmt.Errorf("axis %d of %v with padding %d is too large", axis, x, g.Padding[i])
		}
		err = syms.AtLeast(room, 0, "axis %d of %v with padding %d is smaller than the kernel, which covers %d", axis, x,
			g.Padding[i], window)
		if err != nil {
			return size, err
		}
		d, ok := room.FloorDiv(int64(g.Stride[i]))
		if ok {
			size[i], ok = d.Add(ir.Static(1))
		}
		if !ok {
			return size, fmt.Errorf("size of axis %d of %v at stride %d is beyond the limits of a dim", axis, x,
				g.Stride[i])
		}
	}
	return size, nil
}

// source returns the input element for tap t of the window of output element at. inside reports whether it lies in an
// input of the given size.
func (g *Geometry) source(at, t, size [3]int) (from [3]int, inside bool) {
	inside = true
	for i := range from {
		from[i] = at[i]*g.Stride[i] - g.Padding[i] + t[i]*g.Dilation[i]
		inside = inside && from[i] >= 0 && from[i] < size[i]
	}
	return from, inside
}

// each calls f for all indices below size, in order.
func each(size [3]int, f func(at [3]int)) {
	for i := range size[0] {
		for j := range size[1] {
			for k := range size[2] {
				f([3]int{i, j, k})
			}
		}
	}
}

// offset returns the position of an index in memory.
func offset(at, strides [3]int) int { return at[0]*strides[0] + at[1]*strides[1] + at[2]*strides[2] }
