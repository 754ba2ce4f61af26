package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// ResizeAttrs are the attributes of resize.
type ResizeAttrs struct {
	Mode   string `attr:"mode"`   // ResizeNearest or ResizeLinear
	Coords string `attr:"coords"` // HalfPixel, AlignCorners or Asymmetric
	Layout string `attr:"layout"` // "" for images [..., h, w], or hwc: channels last
}

// Modes and coordinates of resize.
const (
	ResizeNearest = "nearest"
	ResizeLinear  = "linear"

	HalfPixel    = "half_pixel"
	AlignCorners = "align_corners"
	Asymmetric   = "asymmetric"

	HWC = "hwc" // images [..., height, width, channels], channels last
)

// maxResized is the largest size that an axis is resized from or to. Devices compute coordinates as fractions of 32-bit
// integers.
const maxResized = 1 << 15

// Along maps the elements of an axis of m elements to coordinates on an axis of n: element i is at (Step*i + First) /
// Den, but not below 0 and, in linear mode, not above n-1. The fraction is exact.
type Along struct{ Step, First, Den int }

// Along returns the coordinates for an axis of n elements that is resized to m elements. Both must be 1 or more.
func (a ResizeAttrs) Along(n, m int) Along {
	switch {
	case a.Coords == AlignCorners:
		return Along{n - 1, 0, max(m-1, 1)}
	case a.Coords == Asymmetric:
		return Along{n, 0, m}
	case a.Mode == ResizeNearest:
		return Along{2 * n, n, 2 * m}
	}
	return Along{2 * n, n - m, 2 * m}
}

// At returns the element k at or before the coordinate of element i, and the distance of the coordinate from k, from 0
// to below 1. n is the number of elements on the axis.
func (l Along) At(i, n int) (k int, share float64) {
	p := max(l.Step*i+l.First, 0)
	if k = p / l.Den; k >= n-1 {
		return n - 1, 0
	}
	return k, float64(p%l.Den) / float64(l.Den)
}

// height returns the index of the axis of heights of a tensor of the given rank. That of widths follows it.
func (a ResizeAttrs) height(rank int) int {
	if a.Layout == HWC {
		return rank - 3
	}
	return rank - 2
}

// Split returns the number of images before the axes that are resized, their sizes, and the number of elements after
// these axes.
func (a ResizeAttrs) Split(shape []int) (count, h, w, inner int) {
	at := a.height(len(shape))
	return tensor.Numel(shape[:at]), shape[at], shape[at+1], tensor.Numel(shape[at+2:])
}

// ResizeDef scales images to another size.
var ResizeDef = ir.Define(ir.Def[ResizeAttrs]{
	Name: "resize",
	Doc: "x [..., h, w] as images of the declared type [..., H, W], without antialiasing. Element i of a " +
		"resized axis has the position, among the elements of x, (i + 1/2) h/H - 1/2 (coords half_pixel), i " +
		"(h-1) / (H-1) (align_corners; 0 where H is 1) or i h/H (asymmetric), limited to 0 to h-1. Mode " +
		"linear interpolates between the two elements on each axis; it takes floats. Mode nearest takes the " +
		"element at or before i h/H (asymmetric: PyTorch's nearest) or (i + 1/2) h/H (half_pixel: its " +
		"nearest-exact), computed exactly. Sizes are 1 to 32768. With layout hwc, x is [..., h, w, c].",
	Operands: "x", Declared: true,
	Infer: func(s ir.Sig[ResizeAttrs]) (ir.Type, error) {
		a, x, y := s.Attrs, s.In[0], s.Declared
		switch {
		case a.Mode != ResizeNearest && a.Mode != ResizeLinear:
			return ir.Type{}, fmt.Errorf("mode is %q; want %q or %q", a.Mode, ResizeNearest, ResizeLinear)
		case a.Coords != HalfPixel && a.Coords != Asymmetric && (a.Coords != AlignCorners || a.Mode == ResizeNearest):
			return ir.Type{}, fmt.Errorf("coords of mode %s is %q; want %q, %q, or in mode linear %q", a.Mode, a.Coords,
				HalfPixel, Asymmetric, AlignCorners)
		case a.Layout != "" && a.Layout != HWC:
			return ir.Type{}, fmt.Errorf("layout is %q; want \"\" or %q", a.Layout, HWC)
		case a.height(x.Rank()) < 0 || y.Rank() != x.Rank() || y.DType != x.DType:
			return ir.Type{}, fmt.Errorf("%v cannot be resized to %v; want one element type and rank, 2 or more, or 3 with channels last", x, y)
		}
		if a.Mode == ResizeLinear {
			if err := isFloat("operand", x); err != nil {
				return ir.Type{}, err
			}
		}
		at := a.height(x.Rank())
		for i, d := range x.Shape {
			if d != y.Shape[i] && (i < at || i > at+1) {
				return ir.Type{},
					ir.Differ(d, y.Shape[i], "%v cannot be resized to %v; want the same sizes but on axes %d and %d",
						x, y, at, at+1)
			}
		}
		for _, t := range []ir.Type{x, y} {
			for _, d := range t.Shape[at : at+2] {
				const want = "%v cannot be resized to %v; want heights and widths of 1 to %d"
				if _, hi := s.Syms.Bounds(d); hi > maxResized {
					return ir.Type{}, fmt.Errorf(want, x, y, maxResized)
				}
				if err := s.Syms.AtLeast(d, 1, want, x, y, maxResized); err != nil {
					return ir.Type{}, err
				}
			}
		}
		return y, nil
	},
	Eval: func(a ResizeAttrs, in []*tensor.Array, out *tensor.Array) error {
		x := in[0]
		_, h, w, inner := a.Split(x.Shape)
		_, toH, toW, _ := a.Split(out.Shape)
		rows, cols := a.Along(h, toH), a.Along(w, toW)
		for i := range out.Len() {
			pixel := i / inner
			r, dr := rows.At(pixel/toW%toH, h)
			c, dc := cols.At(pixel%toW, w)
			image := pixel / (toW * toH) * h * w
			if a.Mode == ResizeNearest {
				take(out, i, x, (image+r*w+c)*inner+i%inner)
				continue
			}
			at := func(r, c int) float64 { return x.Floats[(image+min(r, h-1)*w+min(c, w-1))*inner+i%inner] }
			out.Floats[i] = lerp(lerp(at(r, c), at(r, c+1), dc), lerp(at(r+1, c), at(r+1, c+1), dc), dr)
		}
		return nil
	},
	FLOPs: func(a ResizeAttrs, _ []ir.Type, out ir.Type) int64 {
		if a.Mode == ResizeNearest {
			return 0
		}
		return 6 * numel(out)
	},
	Tol: func(a ResizeAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		if a.Mode == ResizeNearest {
			return ir.Tolerance{}
		}
		return rounded(a, in, out)
	},
	Cases: func() []ir.Case[ResizeAttrs] {
		c := func(mode, coords string, in, out ir.Type) ir.Case[ResizeAttrs] {
			return ir.Case[ResizeAttrs]{Attrs: ResizeAttrs{Mode: mode, Coords: coords}, In: []ir.Type{in}, Out: out}
		}
		last := func(mode, coords string, in, out ir.Type) ir.Case[ResizeAttrs] {
			return ir.Case[ResizeAttrs]{Attrs: ResizeAttrs{mode, coords, HWC}, In: []ir.Type{in}, Out: out}
		}
		var cases []ir.Case[ResizeAttrs]
		for _, a := range []ResizeAttrs{{Mode: ResizeNearest, Coords: HalfPixel},
			{Mode: ResizeNearest, Coords: Asymmetric}, {Mode: ResizeLinear, Coords: HalfPixel},
			{Mode: ResizeLinear, Coords: Asymmetric}, {Mode: ResizeLinear, Coords: AlignCorners}} {
			cases = append(cases, c(a.Mode, a.Coords, f32(1, 1), f32(3, 2)), c(a.Mode, a.Coords, f32(3, 5), f32(1, 1)),
				c(a.Mode, a.Coords, f32(1, 2, 3, 4), f32(1, 2, 6, 8)),
				c(a.Mode, a.Coords, f32(2, 7, 5), f32(2, 3, 13)), c(a.Mode, a.Coords, f32(4, 9), f32(4, 9)),
				c(a.Mode, a.Coords, f32(0, 2, 3), f32(0, 4, 3)),
				c(a.Mode, a.Coords, f32(1, 3, 9, 33), f32(1, 3, 20, 40)),
				c(a.Mode, a.Coords, f16(2, 3, 4), f16(2, 5, 7)), c(a.Mode, a.Coords, bf16(2, 3, 4), bf16(2, 5, 7)),
				c(a.Mode, a.Coords, f64(3, 4), f64(5, 7)),
				last(a.Mode, a.Coords, f32(2, 3, 4, 5), f32(2, 6, 8, 5)),
				last(a.Mode, a.Coords, f32(7, 5, 33), f32(3, 13, 33)),
				last(a.Mode, a.Coords, f32(2, 1, 1, 3), f32(2, 3, 2, 3)),
				last(a.Mode, a.Coords, f32(1, 9, 4, 1), f32(1, 9, 4, 1)),
				last(a.Mode, a.Coords, f32(1, 3, 2, 0), f32(1, 2, 2, 0)),
				last(a.Mode, a.Coords, f16(1, 3, 2, 4), f16(1, 5, 3, 4)))
		}
		for _, d := range elementTypes() {
			cases = append(cases, last(ResizeNearest, HalfPixel, ir.TypeOf(d, 2, 3, 3), ir.TypeOf(d, 5, 4, 3)))
			cases = append(cases, c(ResizeNearest, Asymmetric, ir.TypeOf(d, 2, 3, 4), ir.TypeOf(d, 2, 6, 5)))
		}
		return cases
	},
})

// lerp interpolates between a, for t = 0, and b. It does not use b if t is 0, because 0 times infinity is NaN.
func lerp(a, b, t float64) float64 {
	if t == 0 {
		return a
	}
	return a*(1-t) + b*t
}

// The plainer form has the images on the last two axes.
var _ = ir.Plainer(ResizeDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(ResizeAttrs)
	if a.Layout == "" {
		return nil
	}
	a.Layout = ""
	last := n.Type.Rank() - 1
	first, back := make([]int, last+1), make([]int, last+1) // channels before the images, and back
	for i := range back {
		first[i], back[i] = i, i
	}
	first[last-2], first[last-1], first[last] = last, last-2, last-1
	back[last-2], back[last-1], back[last] = last-1, last, last-2
	s := n.Type.Shape
	return Transpose(Resize(Transpose(in[0], first...), s[last-2], s[last-1], a), back...)
})

// Resize adds the images of x scaled to another height and width.
func Resize(x *ir.Node, height, width ir.Dim, a ResizeAttrs) *ir.Node {
	out := ir.Type{DType: x.Type.DType, Shape: append(ir.Shape{}, x.Type.Shape...)}
	if at := a.height(out.Rank()); at >= 0 {
		out.Shape[at], out.Shape[at+1] = height, width
	}
	return x.Graph.AddDeclared(ResizeDef, a, out, x)
}
