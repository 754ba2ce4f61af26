package op

import (
	"cmp"
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// RoiAlignAttrs are the attributes of roi_align.
type RoiAlignAttrs struct {
	Output []int   `attr:"output"` // bins along y and x
	Ratio  int     `attr:"ratio"`  // samples of a bin along each axis
	Scale  float64 `attr:"scale"`  // from the coordinates of boxes to elements of x
	Half   bool    `attr:"half"`   // element i is at i + 1/2, and boxes may be of any size
	Max    bool    `attr:"max"`    // the maximum instead of the mean
}

// RoiAxis maps the bins of a box along one axis to elements.
type RoiAxis struct {
	Bins, Ratio, Size int
	Start, Bin        float64 // in elements
}

// Axis returns the samples along an axis of the given size, 0 for y and 1 for x. lo and hi are the ends of the box.
func (a RoiAlignAttrs) Axis(axis, size int, lo, hi float64) RoiAxis {
	lo, hi = lo*a.Scale, hi*a.Scale
	if a.Half {
		lo, hi = lo-0.5, hi-0.5
	}
	length := hi - lo
	if !a.Half {
		length = max(length, 1)
	}
	return RoiAxis{a.Output[axis], a.Ratio, size, lo, length / float64(a.Output[axis])}
}

// At returns the two elements of sample k and their weights, which are 0 for a sample outside of the image.
func (x RoiAxis) At(k int) (low, high int, first, second float64) {
	bin, in := k/x.Ratio, k%x.Ratio
	p := x.Start + float64(bin)*x.Bin + (float64(in)+0.5)/float64(x.Ratio)*x.Bin
	inside := p >= -1 && p <= float64(x.Size)
	if !(p > 0) { // also NaN
		p = 0
	}
	p = min(p, float64(x.Size-1))
	low = int(p)
	high = min(low+1, x.Size-1)
	if !inside {
		return low, high, 0, 0
	}
	t := p - float64(low)
	return low, high, 1 - t, t
}

// RoiAlignDef defines samples of images in boxes.
var RoiAlignDef = ir.Define(ir.Def[RoiAlignAttrs]{
	Name: "roi_align",
	Doc: "Takes images x [N,C,H,W], boxes [R,4] as (x1, y1, x2, y2) in f32 (f64 if x is f64), and image (i32, i64 or u32) [R], the image of each box, and makes " +
		"[R,C,output...] (RoIAlign, He et al. 2017). Coordinates are multiplied by scale and then, with half, moved by -1/2; without half, a box is at least 1 wide and high. " +
		"A box is cut into output bins, and each bin has ratio x ratio samples, at (i+1/2)/ratio of its height and width. A sample is at position p along each axis. If p is not in [-1, size], both " +
		"of its weights are 0. p is then limited to [0, size-1] (NaN becomes 0); the weights of elements floor(p) and min(floor(p)+1, size-1) are 1-t and t, with t = p - floor(p). A sample is the " +
		"sum of its four elements of x, each multiplied by the product of its weights; a bin is the mean of its samples, or with max the largest of all products. An image outside 0 to N-1 is a run error.",
	Operands: "x, boxes, image",
	Checked:  []ir.Checked{{Operand: 2, Safe: 0}},
	Infer: func(s ir.Sig[RoiAlignAttrs]) (ir.Type, error) {
		x, boxes, image, a := s.In[0], s.In[1], s.In[2], s.Attrs
		if err := cmp.Or(isFloat("x", x), isIndex("image", image), isNumber("scale", a.Scale)); err != nil {
			return ir.Type{}, err
		}
		if len(a.Output) != 2 || min(a.Output[0], a.Output[1], a.Ratio) < 1 ||
			max(a.Output[0], a.Output[1], a.Ratio) > maxWindow {
			return ir.Type{}, fmt.Errorf("output is %v and ratio %d; want two sizes and a ratio from 1 to %d", a.Output,
				a.Ratio, maxWindow)
		}
		if x.Rank() != 4 {
			return ir.Type{}, fmt.Errorf("x is %v; want [N,C,H,W]", x)
		}
		for _, d := range x.Shape[2:] {
			if lo, _ := s.Syms.Bounds(d); lo < 1 {
				return ir.Type{}, fmt.Errorf("x is %v; want images of 1 or more elements", x)
			}
		}
		if image.Rank() != 1 {
			return ir.Type{}, fmt.Errorf("image is %v; want rank 1", image)
		}
		want := ir.Type{DType: positionType(x.DType), Shape: ir.Shape{image.Shape[0], ir.Static(4)}}
		if !boxes.Equal(want) {
			return ir.Type{}, ir.TypesDiffer(boxes, want, "boxes are %v; want %v", boxes, want)
		}
		return ir.Type{DType: x.DType, Shape: ir.Shape{image.Shape[0], x.Shape[1], ir.Static(int64(a.Output[0])),
			ir.Static(int64(a.Output[1]))}}, nil
	},
	Eval: evalRoiAlign,
	FLOPs: func(a RoiAlignAttrs, _ []ir.Type, out ir.Type) int64 {
		return numel(out) * int64(a.Ratio*a.Ratio) * 8
	},
	// A position has an error in proportion to the image's size, and the result changes with it.
	Tol: func(_ RoiAlignAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		return forDType(out.DType, 1e-5+2e-6*float64(max(in[0].Shape[2].Const, in[0].Shape[3].Const)), 1e-5)
	},
	Cases: roiAlignCases,
})

// positionType is the type of positions in images of type d.
func positionType(d dtype.DType) dtype.DType {
	if d == dtype.F64 {
		return d
	}
	return dtype.F32
}

func evalRoiAlign(a RoiAlignAttrs, in []*tensor.Array, out *tensor.Array) error {
	x, boxes, image := in[0], in[1].Floats, in[2].Ints
	n, channels, h, w := x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
	at := 0
	for r, b := range image {
		if b < 0 || b >= int64(n) {
			return fmt.Errorf("image %d of box %d is out of range 0 to %d", b, r, n-1)
		}
		box := boxes[4*r:]
		ys, xs := a.Axis(0, h, box[1], box[3]), a.Axis(1, w, box[0], box[2])
		for c := range channels {
			plane := x.Floats[(int(b)*channels+c)*h*w:]
			for bin := range a.Output[0] * a.Output[1] {
				by, bx := bin/a.Output[1], bin%a.Output[1]
				sum, most := 0.0, math.Inf(-1)
				for k := range a.Ratio * a.Ratio {
					y0, y1, v0, v1 := ys.At(by*a.Ratio + k/a.Ratio)
					x0, x1, u0, u1 := xs.At(bx*a.Ratio + k%a.Ratio)
					for _, p := range []float64{plane[y0*w+x0] * (v0 * u0), plane[y0*w+x1] * (v0 * u1),
						plane[y1*w+x0] * (v1 * u0), plane[y1*w+x1] * (v1 * u1)} {
						sum += p
						most = max(most, p)
					}
				}
				out.Floats[at] = sum / float64(a.Ratio*a.Ratio)
				if a.Max {
					out.Floats[at] = most
				}
				at++
			}
		}
	}
	return nil
}

func roiAlignCases() []ir.Case[RoiAlignAttrs] {
	c := func(x, image ir.Type, a RoiAlignAttrs, far float64) ir.Case[RoiAlignAttrs] {
		boxes := ir.Type{DType: positionType(x.DType), Shape: ir.Shape{image.Shape[0], ir.Static(4)}}
		return ir.Case[RoiAlignAttrs]{Attrs: a, In: []ir.Type{x, boxes, image},
			Fill: []ir.Range{{Lo: -2, Hi: 2}, {Lo: -far / 4, Hi: far}, {Lo: 0, Hi: float64(x.Shape[0].Const - 1)}}}
	}
	a := func(h, w, ratio int, scale float64, half, largest bool) RoiAlignAttrs {
		return RoiAlignAttrs{[]int{h, w}, ratio, scale, half, largest}
	}
	return []ir.Case[RoiAlignAttrs]{
		c(f32(1, 1, 1, 1), i64(1), a(1, 1, 1, 1, true, false), 2),
		c(f32(2, 3, 5, 7), i64(4), a(2, 3, 2, 0.5, true, false), 18),
		c(f32(2, 3, 5, 7), i32(4), a(2, 3, 2, 0.5, false, true), 18),
		c(f32(1, 5, 16, 13), i64(3), a(4, 4, 2, 0.25, true, false), 60),
		c(f32(3, 2, 9, 40), i64(7), a(7, 7, 3, 1, false, false), 40),
		c(f32(1, 2, 33, 70), u32(2), a(3, 1, 1, 1, true, true), 70),
		c(f32(1, 17, 8, 8), i64(9), a(7, 7, 2, 0.125, true, false), 70),
		c(f32(2, 0, 5, 7), i64(4), a(2, 3, 2, 0.5, true, false), 18),
		c(f32(2, 3, 5, 7), i64(0), a(2, 3, 2, 0.5, true, false), 18),
		c(f16(2, 3, 5, 7), i64(4), a(2, 3, 2, 0.5, true, false), 18),
		c(bf16(1, 3, 5, 7), i64(4), a(2, 2, 1, 0.5, true, true), 18),
		c(f64(2, 3, 5, 7), i64(4), a(2, 3, 2, 0.5, false, false), 18),
	}
}

// RoiAlign adds samples of the images x in boxes. The comment on RoiAlignDef has the types.
func RoiAlign(x, boxes, image *ir.Node, a RoiAlignAttrs) *ir.Node {
	return x.Graph.Add(RoiAlignDef, a, x, boxes, image)
}

// The elements of all samples are gathered and weighted.
var _ = ir.Lower(RoiAlignDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(RoiAlignAttrs)
	x, boxes := in[0], in[1]
	d := boxes.Type.DType
	boxes = Mul(boxes, Const(g, a.Scale, ir.TypeOf(d)))
	if a.Half {
		boxes = Sub(boxes, number(0.5, boxes))
	}
	s, count, ratio := x.Type.Shape, boxes.Type.Shape[0], int64(a.Ratio)
	samples := func(axis int) ir.Dim { return ir.Static(int64(a.Output[axis]) * ratio) }
	grid := ir.Shape{count, samples(0), samples(1)}
	var at, weight [2][2]*ir.Node // by axis and tap: [R,h,1] and [R,1,w]
	for i := range 2 {
		lows, highs := a.taps(boxes, i, Cast(sizeOf(g, s[2+i]), d))
		shape := ir.Shape{count, samples(0), ir.Static(1)}
		if i == 1 {
			shape = ir.Shape{count, ir.Static(1), samples(1)}
		}
		for j := range 2 {
			at[i][j], weight[i][j] = Reshape(Cast(lows[j], dtype.I64), shape), Reshape(highs[j], shape)
		}
	}
	area, _ := s[2:].Numel()
	channels := s[1]
	table := Gather(Transpose(Reshape(x, ir.Shape{s[0], s[1], area}), 0, 2, 1), in[2], 0) // [R,H*W,C]
	positions, _ := grid[1:].Numel()
	bins := ir.Shape{count, ir.Static(int64(a.Output[0])), ir.Static(ratio), ir.Static(int64(a.Output[1])),
		ir.Static(ratio), channels}
	var y *ir.Node
	for k := range 4 {
		place := Add(Mul(at[0][k/2], sizeOf(g, s[3])), at[1][k%2])
		values := Cast(GatherBatched(table, Reshape(place, ir.Shape{count, positions}), 1), d)
		by := Reshape(Mul(weight[0][k/2], weight[1][k%2]), ir.Shape{count, positions, ir.Static(1)})
		products := Reshape(Mul(values, by), bins)
		switch {
		case y == nil:
			y = products
		case a.Max:
			y = Max(y, products)
		default:
			y = Add(y, products)
		}
	}
	if a.Max {
		y = ReduceMax(y, false, 2, 4)
	} else {
		y = Div(ReduceSum(y, false, 2, 4), number(float64(ratio*ratio), y))
	}
	return Cast(Transpose(y, 0, 3, 1, 2), n.Type.DType)
})

// taps returns the two elements of each sample along an axis of size elements, as floats, and their weights:
// [R, samples].
func (a RoiAlignAttrs) taps(boxes *ir.Node, axis int, size *ir.Node) (at, weight [2]*ir.Node) {
	num := func(v float64) *ir.Node { return number(v, boxes) }
	start, end := Narrow(boxes, 1, 1-axis, 1), Narrow(boxes, 1, 3-axis, 1) // [R,1]
	length := Sub(end, start)
	if !a.Half {
		length = Max(length, num(1))
	}
	bin := Div(length, num(float64(a.Output[axis])))
	k := Iota(boxes.Graph, 1, ir.TypeOf(boxes.Type.DType, 1, int64(a.Output[axis]*a.Ratio)))
	bins := Floor(Div(k, num(float64(a.Ratio))))
	inner := Div(Add(Sub(k, Mul(bins, num(float64(a.Ratio)))), num(0.5)), num(float64(a.Ratio)))
	p := Add(start, Add(Mul(bins, bin), Mul(inner, bin)))
	inside := And(Ge(p, num(-1)), Le(p, size))
	p = Min(Where(Gt(p, num(0)), p, num(0)), Sub(size, num(1)))
	low := Floor(p)
	t := Sub(p, low)
	return [2]*ir.Node{low, Min(Add(low, num(1)), Sub(size, num(1)))},
		[2]*ir.Node{Where(inside, Sub(num(1), t), num(0)), Where(inside, t, num(0))}
}
