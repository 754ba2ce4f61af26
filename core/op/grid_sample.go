package op

import (
	"cmp"
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// GridSampleAttrs are the attributes of grid_sample.
type GridSampleAttrs struct {
	Mode    string `attr:"mode"`    // nearest, linear or cubic
	Padding string `attr:"padding"` // zeros, border or reflection
	Corners bool   `attr:"corners"` // -1 and 1 are the centres of the outer elements, and not their outer ends
}

// Modes and paddings of grid_sample.
const (
	GridCubic = "cubic"

	GridZeros      = "zeros"
	GridBorder     = "border"
	GridReflection = "reflection"
)

// GridFar limits positions. In f32, larger ones have no halves.
const GridFar = 1 << 22

// Taps returns how many elements along each axis a position reads.
func (a GridSampleAttrs) Taps() int {
	switch a.Mode {
	case ResizeNearest:
		return 1
	case ResizeLinear:
		return 2
	}
	return 4
}

// GridSampleDef defines samples of images at the positions of a grid.
var GridSampleDef = ir.Define(ir.Def[GridSampleAttrs]{
	Name: "grid_sample",
	Doc: "Takes images x [N,C,sizes...] of K axes and grid (f32, f64 if x is f64) [N,out...,K], and makes [N,C,out...]: samples of the images at the positions of the " +
		"grid (ONNX GridSample, PyTorch's grid_sample). The last axis of grid has a coordinate g for each axis of the images, the last one first. Its position is p = (g+1)/2 * (size-1) " +
		"with corners, else ((g+1)*size - 1)/2, and mode nearest rounds p, halves to even. The image ends at 0 and size-1 with corners, else at -1/2 and size - 1/2. If p is not " +
		"between the ends, padding border limits it to 0 to size-1, and reflection reflects it at the ends until it is. With reflection a p that is not between -2^22 and 2^22 becomes 0, with border NaN becomes 0, and " +
		"with zeros either reads nothing. Mode nearest reads element floor(p), linear floor(p) and the next with weights 1-t and t, where t = p - floor(p), and cubic the four " +
		"elements from floor(p)-1 on, with the weights of R. Keys for a = -0.75. A sample is the sum of the elements at all combinations, each multiplied by its weights. An element outside the image " +
		"adds nothing (zeros), or is the nearest one (border), or the one at the reflected position, limited to the image (reflection).",
	Operands:      "x, grid",
	Discontinuous: func(a GridSampleAttrs, _ ir.Type) bool { return a.Mode == ResizeNearest },
	Infer: func(s ir.Sig[GridSampleAttrs]) (ir.Type, error) {
		x, grid, a := s.In[0], s.In[1], s.Attrs
		if err := cmp.Or(isFloat("x", x), isAmong("mode", a.Mode, ResizeNearest, ResizeLinear, GridCubic),
			isAmong("padding", a.Padding, GridZeros, GridBorder, GridReflection)); err != nil {
			return ir.Type{}, err
		}
		rank := x.Rank()
		if rank < 3 {
			return ir.Type{}, fmt.Errorf("x is %v; want [N,C,sizes...]", x)
		}
		for _, d := range x.Shape[2:] {
			if lo, hi := s.Syms.Bounds(d); lo < 1 || hi > GridFar {
				return ir.Type{}, fmt.Errorf("x is %v; want images of 1 to %d elements along each axis", x, GridFar)
			}
		}
		if grid.DType != positionType(x.DType) || grid.Rank() != rank || !grid.Shape[rank-1].Is(int64(rank-2)) {
			return ir.Type{}, fmt.Errorf("grid is %v; want %v [N,out...,%d] of rank %d", grid, positionType(x.DType),
				rank-2, rank)
		}
		if x.Shape[0] != grid.Shape[0] {
			return ir.Type{}, ir.Differ(x.Shape[0], grid.Shape[0], "x is %v and grid %v; want one N", x, grid)
		}
		shape := append(ir.Shape{}, x.Shape[:2]...)
		return ir.Type{DType: x.DType, Shape: append(shape, grid.Shape[1:rank-1]...)}, nil
	},
	Eval: evalGridSample,
	Memory: func(s ir.Sig[GridSampleAttrs], _ ir.Type) int64 {
		return 16 * int64(s.Attrs.reads(s.In[0].Rank()-2))
	},
	FLOPs: func(a GridSampleAttrs, in []ir.Type, out ir.Type) int64 {
		return numel(out) * 2 * int64(a.reads(in[0].Rank()-2))
	},
	// A position has an error in proportion to the image's size, and the result changes with it.
	Tol: func(_ GridSampleAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		most := int64(1)
		for _, d := range in[0].Shape[2:] {
			most = max(most, d.Const)
		}
		return forDType(out.DType, 1e-5+2e-6*float64(most), 1e-5)
	},
	Cases: gridSampleCases,
})

// isAmong returns an error unless an attribute has one of the values.
func isAmong(name, v string, allowed ...string) error {
	for _, a := range allowed {
		if v == a {
			return nil
		}
	}
	return fmt.Errorf("%s is %q; allowed are %q", name, v, allowed)
}

// position returns the position of coordinate g on an axis, after padding, and the ends of the image.
func (a GridSampleAttrs) position(g float64, size int) (p, lo, span float64) {
	lo, span = -0.5, float64(size)
	if a.Corners {
		lo, span = 0, float64(size-1)
		p = (g + 1) / 2 * span
	} else {
		p = ((g+1)*span - 1) / 2
	}
	if a.Mode == ResizeNearest {
		p = math.RoundToEven(p)
	}
	switch {
	case a.Padding == GridBorder && math.IsNaN(p):
		p = 0
	case a.Padding == GridBorder && (p < lo || p > lo+span):
		p = min(max(p, 0), float64(size-1))
	case a.Padding == GridReflection && !(math.Abs(p) < GridFar):
		p = 0
	case a.Padding == GridReflection:
		p = reflected(p, lo, span)
	}
	return p, lo, span
}

// reflected reflects p at lo and lo+span until it is between them.
func reflected(p, lo, span float64) float64 {
	switch {
	case p >= lo && p <= lo+span:
		return p
	case span == 0:
		return lo
	}
	t := modOf(p-lo, 2*span)
	return min(t, 2*span-t) + lo
}

// along returns the elements that coordinate g reads along an axis, and their weights, of which there are Taps. An
// element that adds nothing is -1.
func (a GridSampleAttrs) along(g float64, size int) (at [4]int, weight [4]float64) {
	p, lo, span := a.position(g, size)
	first := math.Floor(p)
	t := p - first
	switch a.Mode {
	case ResizeNearest:
		weight[0] = 1
	case ResizeLinear:
		weight[0], weight[1] = 1-t, t
	default:
		first--
		weight = [4]float64{keysFar(t + 1), keysNear(t), keysNear(1 - t), keysFar(2 - t)}
	}
	for i := range a.Taps() {
		e := first + float64(i)
		switch inside := e >= 0 && e <= float64(size-1); {
		case a.Padding == GridZeros && !(inside && math.Abs(p) < GridFar):
			at[i] = -1
			continue
		case a.Padding == GridReflection:
			e = reflected(e, lo, span)
		}
		at[i] = int(min(max(e, 0), float64(size-1)))
	}
	return at, weight
}

// keys is the coefficient of PyTorch and ONNX for cubic weights. R. Keys, "Cubic convolution interpolation for digital
// image processing", 1981.
const keys = -0.75

// keysNear is the weight of an element at a distance of 0 to 1, and keysFar at 1 to 2.
func keysNear(x float64) float64 { return ((keys+2)*x-(keys+3))*x*x + 1 }
func keysFar(x float64) float64  { return ((keys*x-5*keys)*x+8*keys)*x - 4*keys }

// reads returns how many elements a position reads.
func (a GridSampleAttrs) reads(axes int) int {
	n := 1
	for range axes {
		n *= a.Taps()
	}
	return n
}

func evalGridSample(a GridSampleAttrs, in []*tensor.Array, out *tensor.Array) error {
	x, grid := in[0], in[1]
	channels, size := x.Shape[1], x.Shape[2:]
	k, area, positions, taps := len(size), tensor.Numel(size), tensor.Numel(out.Shape[2:]), a.Taps()
	at, weight := make([]int, a.reads(k)), make([]float64, a.reads(k))
	for i := range x.Shape[0] * positions {
		for j := range at {
			at[j], weight[j] = 0, 1
		}
		each := len(at) // combinations for each tap of the axis; the last axis changes fastest
		for axis, n := range size {
			each /= taps
			places, weights := a.along(grid.Floats[i*k+k-1-axis], n)
			for j := range at {
				l := j / each % taps
				weight[j] *= weights[l]
				place := at[j]*n + places[l]
				if at[j] < 0 || places[l] < 0 {
					place = -1
				}
				at[j] = place
			}
		}
		image, position := i/positions, i%positions
		for c := range channels {
			plane := x.Floats[(image*channels+c)*area:]
			for j, place := range at {
				if place >= 0 {
					out.Floats[(image*channels+c)*positions+position] += plane[place] * weight[j]
				}
			}
		}
	}
	return nil
}

func gridSampleCases() []ir.Case[GridSampleAttrs] {
	c := func(x ir.Type, mode, padding string, corners bool, out ...int64) ir.Case[GridSampleAttrs] {
		shape := append(append([]int64{x.Shape[0].Const}, out...), int64(len(out)))
		return ir.Case[GridSampleAttrs]{Attrs: GridSampleAttrs{mode, padding, corners},
			In:   []ir.Type{x, ir.TypeOf(positionType(x.DType), shape...)},
			Fill: []ir.Range{{Lo: -2, Hi: 2}, {Lo: -1.6, Hi: 1.6}}}
	}
	var cases []ir.Case[GridSampleAttrs]
	for i, mode := range []string{ResizeLinear, ResizeNearest, GridCubic} {
		for j, padding := range []string{GridZeros, GridBorder, GridReflection} {
			corners := (i+j)%2 == 1
			cases = append(cases, c(f32(2, 3, 5, 7), mode, padding, corners, 4, 3),
				c(f32(1, 9, 6, 5), mode, padding, !corners, 3, 7))
		}
		cases = append(cases, c(f32(2, 2, 9), mode, GridZeros, false, 11),
			c(f32(1, 2, 3, 4, 5), mode, GridBorder, i == 1, 2, 3, 2),
			c(f32(1, 1, 1, 1), mode, GridReflection, true, 2, 2), c(f16(1, 3, 4, 5), mode, GridZeros, true, 3, 2),
			c(f64(2, 3, 4, 5), mode, GridReflection, false, 3, 2), c(bf16(1, 2, 4, 3), mode, GridBorder, false, 2, 3))
	}
	return append(cases, c(f32(1, 19, 12, 13), ResizeLinear, GridZeros, false, 17, 33),
		c(f32(2, 0, 5, 7), ResizeLinear, GridZeros, false, 4, 3),
		c(f32(2, 3, 5, 7), ResizeLinear, GridZeros, false, 0, 3))
}

// GridSample adds samples of the images x at the positions of grid. The comment on GridSampleDef has the types.
func GridSample(x, grid *ir.Node, a GridSampleAttrs) *ir.Node {
	return x.Graph.Add(GridSampleDef, a, x, grid)
}

// The elements of all samples are gathered and weighted.
var _ = ir.Lower(GridSampleDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(GridSampleAttrs)
	x, grid := in[0], in[1]
	s, d := x.Type.Shape, grid.Type.DType
	k := len(s) - 2
	positions, _ := grid.Type.Shape[1 : k+1].Numel()
	var at, weight, inside *ir.Node // [N, positions, combinations]; inside is nil if all are
	count := int64(1)
	for i := range k {
		p := Reshape(Narrow(grid, k+1, k-1-i, 1), ir.Shape{s[0], positions, ir.Static(1)})
		places, weights, within := a.lowered(p, Cast(sizeOf(g, s[2+i]), d))
		if at == nil {
			at, weight, inside = places, weights, within
		} else {
			shape := append(append(ir.Shape{}, places.Type.Shape[:2]...), ir.Static(1), ir.Static(int64(a.Taps())))
			before := ir.Shape{s[0], positions, ir.Static(count), ir.Static(1)}
			all := ir.Shape{s[0], positions, ir.Static(count * int64(a.Taps()))}
			outer := func(f func(a, b *ir.Node) *ir.Node, a, b *ir.Node) *ir.Node {
				return Reshape(f(Reshape(a, before), Reshape(b, shape)), all)
			}
			at = outer(Add, Mul(at, sizeOf(g, s[2+i])), places)
			weight = outer(Mul, weight, weights)
			if within != nil {
				inside = outer(And, inside, within)
			}
		}
		count *= int64(a.Taps())
	}
	area, _ := s[2:].Numel()
	reads, _ := ir.Shape{positions, ir.Static(count)}.Numel()
	table := Transpose(Reshape(x, ir.Shape{s[0], s[1], area}), 0, 2, 1) // [N,sizes,C]
	values := Cast(GatherBatched(table, Reshape(at, ir.Shape{s[0], reads}), 1), d)
	each := ir.Shape{s[0], positions, ir.Static(count), ir.Static(1)}
	y := Mul(Reshape(values, ir.Shape{s[0], positions, ir.Static(count), s[1]}), Reshape(weight, each))
	if inside != nil {
		y = Where(Reshape(inside, each), y, number(0, y))
	}
	y = Transpose(ReduceSum(y, false, 2), 0, 2, 1) // [N,C,positions]
	return Cast(Reshape(y, n.Type.Shape), n.Type.DType)
})

// lowered returns the elements that coordinates read along an axis of so many elements, as i64, and their weights:
// [N, positions, taps]. within says which elements are inside, and is nil if all are.
func (a GridSampleAttrs) lowered(g, size *ir.Node) (at, weight, within *ir.Node) {
	num := func(v float64) *ir.Node { return number(v, g) }
	last := Sub(size, num(1))
	lo, span := num(-0.5), size
	var p *ir.Node
	if a.Corners {
		lo, span = num(0), last
		p = Mul(Div(Add(g, num(1)), num(2)), last)
	} else {
		p = Div(Sub(Mul(Add(g, num(1)), size), num(1)), num(2))
	}
	if a.Mode == ResizeNearest {
		p = Round(p)
	}
	limited := func(p *ir.Node) *ir.Node { return Min(Max(p, num(0)), last) }
	ends := func(p *ir.Node) *ir.Node { return Or(Lt(p, lo), Gt(p, Add(lo, span))) }
	mirrored := func(p *ir.Node) *ir.Node {
		period := Mul(Max(span, num(1e-6)), num(2)) // an axis of one element has a span of 0
		t := Mod(Sub(p, lo), period)
		return Where(ends(p), Add(Min(t, Sub(period, t)), lo), p)
	}
	near := Lt(Abs(p), num(GridFar)) // not NaN
	switch a.Padding {
	case GridZeros:
		p = Where(near, p, num(-4)) // where nothing is inside
	case GridBorder:
		p = Where(Eq(p, p), p, num(0))
		p = Where(ends(p), limited(p), p)
	default:
		p = mirrored(Where(near, p, num(0)))
	}
	first := Floor(p)
	t := Sub(p, first)
	var weights []*ir.Node
	switch a.Mode {
	case ResizeNearest:
		weights = []*ir.Node{Expand(num(1), p.Type.Shape)}
	case ResizeLinear:
		weights = []*ir.Node{Sub(num(1), t), t}
	default:
		first = Sub(first, num(1))
		weights = keysWeights(t)
	}
	var ats, insides []*ir.Node
	for i := range weights {
		e := Add(first, num(float64(i)))
		switch a.Padding {
		case GridZeros:
			insides = append(insides, And(Ge(e, num(0)), Le(e, last)))
		case GridReflection:
			e = mirrored(e)
		}
		ats = append(ats, Cast(limited(e), dtype.I64))
	}
	if insides != nil {
		within = Concat(2, insides...)
	}
	return Concat(2, ats...), Concat(2, weights...), within
}

// keysWeights returns the weights of four elements, of which the second one is t before the position.
func keysWeights(t *ir.Node) []*ir.Node {
	num := func(v float64) *ir.Node { return number(v, t) }
	near := func(x *ir.Node) *ir.Node {
		return Add(Mul(Mul(Sub(Mul(num(keys+2), x), num(keys+3)), x), x), num(1))
	}
	far := func(x *ir.Node) *ir.Node {
		return Sub(Mul(Add(Mul(Sub(Mul(num(keys), x), num(5*keys)), x), num(8*keys)), x), num(4*keys))
	}
	return []*ir.Node{far(Add(t, num(1))), near(t), near(Sub(num(1), t)), far(Sub(num(2), t))}
}
