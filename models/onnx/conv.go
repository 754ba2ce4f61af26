package onnx

import (
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// layouts have the channels before the spatial axes, by the number of these: one to three.
var layouts = []string{"", "ncw", "nchw", "ncdhw"}

// window is the geometry of a convolution or pool.
type window struct {
	kernel, stride, dilation, before, after []int
}

// window reads the attributes of a convolution or pool over spatial axes with the given sizes.
func (n *node) window(x ir.Shape, kernel []int) window {
	k := len(kernel)
	if len(x) != k+2 || k < 1 || k > 3 {
		n.fail("has an input of rank %d and a kernel of %d axes; allowed are 1 to 3 spatial axes", len(x), k)
	}
	w := window{kernel: kernel, stride: n.spatial("strides", k, 1), dilation: n.spatial("dilations", k, 1),
		before: make([]int, k), after: make([]int, k)}
	switch auto := n.str("auto_pad", "NOTSET"); auto {
	case "NOTSET", "":
		w.before, w.after = n.pads(k)
	case "VALID":
	case "SAME_UPPER", "SAME_LOWER":
		for i := range k {
			size := x[i+2]
			if !size.IsStatic() && w.stride[i] != 1 {
				n.fail("auto_pad is %s with stride %d; want a size that is known, or explicit pads", auto, w.stride[i])
			}
			total := w.dilation[i] * (kernel[i] - 1)
			if size.IsStatic() {
				s := int(size.Const)
				total = max(0, ((s+w.stride[i]-1)/w.stride[i]-1)*w.stride[i]+w.dilation[i]*(kernel[i]-1)+1-s)
			}
			w.before[i], w.after[i] = total/2, total-total/2
			if auto == "SAME_LOWER" {
				w.before[i], w.after[i] = w.after[i], w.before[i]
			}
		}
	default:
		n.fail("auto_pad is %q; allowed are NOTSET, VALID, SAME_UPPER and SAME_LOWER", auto)
	}
	return w
}

// pads returns the attribute pads, for the two ends of k axes.
func (n *node) pads(k int) (before, after []int) {
	l, ok := n.list("pads")
	if !ok || len(l) == 0 {
		return make([]int, k), make([]int, k)
	}
	if len(l) != 2*k {
		n.fail("pads has %d numbers; want %d", len(l), 2*k)
	}
	return l[:k], l[k:]
}

// symmetric pads x where the padding differs at the ends of an axis, and returns the padding that is left for the op.
func (w window) symmetric(x *ir.Node, fill float64) (*ir.Node, []int) {
	same, negative := true, false
	for i := range w.before {
		same = same && w.before[i] == w.after[i]
		negative = negative || w.before[i] < 0
	}
	if same && !negative {
		return x, w.before
	}
	before, after := append([]int{0, 0}, w.before...), append([]int{0, 0}, w.after...)
	return op.Pad(x, before, after, fill), make([]int, len(w.before))
}

// kernelOf returns the spatial sizes of a weight.
func (n *node) kernelOf(w ir.Type) []int {
	if l, ok := n.list("kernel_shape"); ok && len(l) > 0 {
		return l
	}
	var out []int
	for _, d := range w.Shape[min(2, len(w.Shape)):] {
		if !d.IsStatic() {
			n.fail("the weight is %v; want sizes that are known", w)
		}
		out = append(out, int(d.Const))
	}
	return out
}

// The ranks of inputs.
var (
	_ = ranks("3-5 3-5 1", "Conv", "ConvTranspose")
	_ = ranks("3-5 3-5 0-1 0-1", "ConvInteger")
	_ = ranks("3-5", "AveragePool", "LpPool", "MaxPool")
	_ = ranks("2+", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")
)

var (
	_ = on("Conv", 1, func(n *node) []*value { return one(n.conv(n.x(0), n.x(1), n.maybe(2))) })
	_ = on("ConvInteger", 10, func(n *node) []*value {
		x, w := n.x(0), n.x(1)
		y := n.conv(n.centred(x, n.maybe(2), 1), n.centred(w, n.maybe(3), 0), nil)
		return one(op.Cast(y, dtype.I32))
	})
	_ = on("ConvTranspose", 1, convTranspose)
	_ = on("MaxPool", 1, maxPool)
	_ = on("AveragePool", 1, func(n *node) []*value { return one(n.averagePool(n.x(0))) })
	_ = on("LpPool", 1, func(n *node) []*value {
		x, p := n.x(0), n.int("p", 2)
		k, ok := n.list("kernel_shape")
		if !ok {
			n.fail("kernel_shape is missing")
		}
		y := n.pooled(n.power(x, p), n.ceiled(x.Type.Shape, n.window(x.Type.Shape, k)), "sum", 0)
		return one(n.root(y, p))
	})
	_ = on(
		"GlobalAveragePool", 1,
		global(func(x *ir.Node, axes ...int) *ir.Node { return op.ReduceMean(x, true, axes...) }))
	_ = on("GlobalMaxPool", 1, global(func(x *ir.Node, axes ...int) *ir.Node { return op.ReduceMax(x, true, axes...) }))
	_ = on("GlobalLpPool", 1, func(n *node) []*value {
		p := n.int("p", 2)
		return global(func(x *ir.Node, axes ...int) *ir.Node {
			return n.root(op.ReduceSum(n.power(x, p), true, axes...), p)
		})(n)
	})
)

func (n *node) power(x *ir.Node, p int) *ir.Node {
	switch p {
	case 1:
		return op.Abs(x)
	case 2:
		return op.Square(x)
	}
	return op.Pow(op.Abs(x), number(float64(p), x))
}

func (n *node) root(x *ir.Node, p int) *ir.Node {
	switch p {
	case 1:
		return x
	case 2:
		return op.Sqrt(x)
	}
	return op.Pow(x, number(1/float64(p), x))
}

// global converts a reduction over the spatial axes.
func global(f func(x *ir.Node, axes ...int) *ir.Node) func(n *node) []*value {
	return func(n *node) []*value {
		x := n.x(0)
		var axes []int
		for a := 2; a < x.Type.Rank(); a++ {
			axes = append(axes, a)
		}
		return one(f(x, axes...))
	}
}

// conv is a convolution.
func (n *node) conv(x, w, bias *ir.Node) *ir.Node {
	win := n.window(x.Type.Shape, n.kernelOf(w.Type))
	x, pad := win.symmetric(x, 0)
	a := op.ConvAttrs{Stride: win.stride, Padding: pad, Dilation: win.dilation, Groups: n.int("group", 1),
		Layout: layouts[len(win.kernel)]}
	switch len(win.kernel) {
	case 1:
		return op.Conv1D(x, w, bias, a)
	case 2:
		return op.Conv2D(x, w, bias, a)
	}
	return op.Conv3D(x, w, bias, a)
}

// transposedPads returns the numbers of elements that are cut at the ends of the axes of a transposed convolution, and
// those that are added at their ends. output_shape and auto_pad decide if they are given.
func (n *node) transposedPads(x ir.Shape, kernel, stride, dilation []int) (before, after, extra []int) {
	k := len(kernel)
	extra = slices.Clone(n.spatial("output_padding", k, 0))
	before, after = n.pads(k)
	auto := n.str("auto_pad", "NOTSET")
	want, given := n.list("output_shape")
	if given && len(want) > k {
		want = want[len(want)-k:]
	}
	if given && len(want) != k {
		n.fail("output_shape has %d numbers; want %d", len(want), k)
	}
	if !given && auto != "SAME_UPPER" && auto != "SAME_LOWER" {
		return before, after, extra
	}
	for i := range k {
		size := x[i+2]
		if !size.IsStatic() {
			n.fail("axis %d has size %v; want a size that is known, or explicit pads", i+2, size)
		}
		target := int(size.Const) * stride[i]
		if given {
			target = want[i]
		}
		total := stride[i]*(int(size.Const)-1) + extra[i] + (kernel[i]-1)*dilation[i] + 1 - target
		if total < 0 {
			extra[i], total = extra[i]-total, 0
		}
		before[i], after[i] = total-total/2, total/2
		if auto == "SAME_UPPER" {
			before[i], after[i] = after[i], before[i]
		}
	}
	return before, after, extra
}

// convTranspose is ConvTranspose.
func convTranspose(n *node) []*value {
	x, w, bias := n.x(0), n.x(1), n.maybe(2)
	kernel := n.kernelOf(w.Type)
	k := len(kernel)
	if k < 1 || k > 3 || x.Type.Rank() != k+2 {
		n.fail("has an input of rank %d and a kernel of %d axes; allowed are 1 to 3 spatial axes", x.Type.Rank(), k)
	}
	a := op.ConvTransposeAttrs{Stride: n.spatial("strides", k, 1), Dilation: n.spatial("dilations", k, 1),
		Padding: make([]int, k), Groups: n.int("group", 1), Layout: layouts[k]}
	before, after, extra := n.transposedPads(x.Type.Shape, kernel, a.Stride, a.Dilation)
	// op conv_transpose adds less than a stride at the ends. What exceeds that has only zeros and the bias.
	fits := true
	for i := range k {
		a.Padding[i] = min(before[i], after[i])
		fits = fits && (extra[i] < a.Stride[i] || extra[i] < a.Dilation[i])
	}
	b := bias
	a.OutputPadding = extra
	if !fits {
		a.OutputPadding, b = make([]int, k), nil
	}
	y := [...]func(x, w, bias *ir.Node, a op.ConvTransposeAttrs) *ir.Node{op.ConvTranspose1D, op.ConvTranspose2D,
		op.ConvTranspose3D}[k-1](x, w, b, a)
	if !fits {
		y = op.Pad(y, make([]int, k+2), append([]int{0, 0}, extra...), 0)
		if bias != nil {
			y = op.Add(y, channels(bias, y.Type.Rank()))
		}
	}
	for i := range k {
		y = n.cutEnds(y, i+2, before[i]-a.Padding[i], after[i]-a.Padding[i])
	}
	return one(y)
}

// cutEnds takes elements off the ends of an axis.
func (n *node) cutEnds(y *ir.Node, axis, lo, hi int) *ir.Node {
	if lo+hi == 0 {
		return y
	}
	size := y.Type.Shape[axis]
	if size.IsStatic() {
		return op.Narrow(y, axis, lo, max(0, int(size.Const)-lo-hi))
	}
	rest := n.plus(size, -int64(lo+hi))
	if least, _ := n.b.g.Syms.Bounds(rest); least < 0 {
		n.needs(rest, "cuts %d elements off axis %d of size %v", lo+hi, axis, size)
	}
	return n.cutAxis(y, cut{axis, ir.Static(int64(lo)), n.plus(size, -int64(hi)), 1})
}

// ceiled returns the window with the padding that ceil_mode adds at the end of axes, so that the last window is whole.
// A window that would begin in the padding at the end is left out.
func (n *node) ceiled(x ir.Shape, w window) window {
	if n.int("ceil_mode", 0) == 0 {
		return w
	}
	after := append([]int{}, w.after...)
	for i := range w.kernel {
		size := x[i+2]
		if !size.IsStatic() {
			if w.dilation[i]*(w.kernel[i]-1)+1 < w.after[i]+w.stride[i] {
				n.fail("has ceil_mode, stride %d and an axis of size %v whose last window may be in the padding; want a size that "+
					"is fixed with --size", w.stride[i], size)
			}
			after[i] = w.after[i] + w.stride[i] - 1 // no window begins in the padding, so it only rounds up
			continue
		}
		s, span := int(size.Const), w.dilation[i]*(w.kernel[i]-1)+1
		out := (s+w.before[i]+w.after[i]-span+w.stride[i]-1)/w.stride[i] + 1
		if (out-1)*w.stride[i] >= s+w.before[i] {
			out--
		}
		after[i] = max(w.after[i], (out-1)*w.stride[i]+span-s-w.before[i])
		if (out-1)*w.stride[i]+span < s+w.before[i]+w.after[i] &&
			s+w.before[i]+w.after[i]-span-(out-1)*w.stride[i] >= w.stride[i] {
			after[i] = (out-1)*w.stride[i] + span - s - w.before[i] // the window that would begin in the padding
		}
	}
	w.after = after
	return w
}

// pooled pools x, padding it with fill. Dilations become a gather.
func (n *node) pooled(x *ir.Node, w window, kind string, fill float64) *ir.Node {
	k := len(w.kernel)
	dilated := false
	for i := range k {
		dilated = dilated || w.dilation[i] != 1
	}
	fits := true
	for i := range k {
		fits = fits && w.before[i] == w.after[i] && w.before[i] >= 0 && w.before[i] < w.kernel[i]
	}
	pad := w.before
	if !fits || dilated {
		x = op.Pad(x, append([]int{0, 0}, w.before...), append([]int{0, 0}, w.after...), fill)
		pad = make([]int, k)
	}
	if !dilated {
		return op.Pool(
			x, op.PoolAttrs{Kind: kind, Kernel: w.kernel, Stride: w.stride, Padding: pad, Layout: layouts[k]})
	}
	// A dilated window is a window over the elements that it takes, laid out one after the other.
	stride := append([]int{}, w.stride...)
	for i := range k {
		if w.dilation[i] == 1 {
			continue
		}
		room := n.plus(x.Type.Shape[i+2], -int64(w.dilation[i]*(w.kernel[i]-1)+1))
		steps, ok := room.FloorDiv(int64(w.stride[i]))
		if lo, _ := n.b.g.Syms.Bounds(room); !ok || lo < 0 {
			n.needs(room, "axis %d of size %v is smaller than the window", i+2, x.Type.Shape[i+2])
			n.fail("axis %d of size %v may be smaller than the window", i+2, x.Type.Shape[i+2])
		}
		t := ir.Type{DType: dtype.I32, Shape: ir.Shape{n.plus(steps, 1), ir.Static(int64(w.kernel[i]))}}
		o, j := op.Iota(n.b.g, 0, t), op.Iota(n.b.g, 1, t)
		at := op.Add(op.Mul(o, number(float64(w.stride[i]), o)), op.Mul(j, number(float64(w.dilation[i]), j)))
		x = op.Gather(x, n.flat(at), i+2)
		stride[i] = w.kernel[i]
	}
	return op.Pool(x, op.PoolAttrs{Kind: kind, Kernel: w.kernel, Stride: stride, Padding: pad, Layout: layouts[k]})
}

// maxPool is MaxPool, with indices if they are wanted.
func maxPool(n *node) []*value {
	x := n.x(0)
	k, ok := n.list("kernel_shape")
	if !ok {
		n.fail("kernel_shape is missing")
	}
	w := n.ceiled(x.Type.Shape, n.window(x.Type.Shape, k))
	least := math.Inf(-1)
	if !x.Type.DType.IsFloat() {
		lo, _ := x.Type.DType.IntRange()
		least = float64(lo)
	}
	y := n.pooled(x, w, "max", least)
	if len(n.p.GetOutput()) < 2 || n.p.GetOutput()[1] == "" {
		return one(y)
	}
	return many(y, n.maxIndices(x, w, y, least))
}

// maxIndices returns the positions, in the flat tensor, of the largest elements of windows. It gathers all windows.
func (n *node) maxIndices(x *ir.Node, w window, y *ir.Node, least float64) *ir.Node {
	s := x.Type.Shape
	k := len(w.kernel)
	// positions of the elements of x in their channel, -1 for padding, in the windows [outputs..., taps...]
	before, after := append([]int{0, 0}, w.before...), make([]int, k+2)
	var at *ir.Node // flat position in the padded channel
	shape := make(ir.Shape, 2*k)
	for i := range shape {
		shape[i] = ir.Static(1)
	}
	padded := append(ir.Shape{}, s[:2]...)
	for i := range k {
		out := y.Type.Shape[i+2]
		if !out.IsStatic() || !s[i+2].IsStatic() {
			n.fail("returns indices and has an axis of size %v; want a size that is known", s[i+2])
		}
		need := (int(out.Const)-1)*w.stride[i] + w.dilation[i]*(w.kernel[i]-1) + 1
		after[i+2] = max(w.after[i], need-int(s[i+2].Const)-w.before[i])
		padded = append(padded, ir.Static(s[i+2].Const+int64(w.before[i]+after[i+2])))
	}
	for i := range k {
		so, sk := append(ir.Shape{}, shape...), append(ir.Shape{}, shape...)
		so[i], sk[k+i] = y.Type.Shape[i+2], ir.Static(int64(w.kernel[i]))
		o := op.Iota(n.b.g, i, ir.Type{DType: dtype.I64, Shape: so})
		j := op.Iota(n.b.g, k+i, ir.Type{DType: dtype.I64, Shape: sk})
		c := op.Add(op.Mul(o, number(float64(w.stride[i]), o)), op.Mul(j, number(float64(w.dilation[i]), j)))
		c = op.Mul(c, number(float64(n.product(padded[i+3:]).Const), c))
		if at == nil {
			at = c
		} else {
			at = op.Add(at, c)
		}
	}
	outs, taps := n.product(y.Type.Shape[2:]), int64(1)
	for _, t := range w.kernel {
		taps *= int64(t)
	}
	at = op.Reshape(at, ir.Shape{outs, ir.Static(taps)})
	flatten := func(v *ir.Node, fill float64) *ir.Node {
		v = op.Pad(v, before, after, fill)
		return op.Reshape(v, ir.Shape{v.Type.Shape[0], v.Type.Shape[1], n.product(padded[2:])})
	}
	values := op.Gather(flatten(x, least), op.Reshape(at, ir.Shape{n.product(at.Type.Shape)}), 2)
	values = op.Reshape(values, ir.Shape{s[0], s[1], outs, ir.Static(taps)})
	best := op.Cast(op.ArgMax(values, 3, false), dtype.I64) // [N,C,outs], the first of equals
	// position of each tap in x as stored: row-major, or column-major over the spatial axes
	column := n.int("storage_order", 0) != 0 && k == 2
	var spatial *ir.Node
	for i := range k {
		step := n.product(s[i+3:])
		if column {
			step = n.product(s[2 : i+2])
		}
		c := op.Mul(n.along(append(ir.ShapeOf(1, 1), s[2:]...), i+2), n.sizeNode(step, dtype.I64))
		if spatial == nil {
			spatial = c
		} else {
			spatial = op.Add(spatial, c)
		}
	}
	spatial = op.Expand(spatial, append(ir.ShapeOf(1, 1), s[2:]...))
	flat := flatten(spatial, 0)
	where := op.Gather(op.Reshape(flat, ir.Shape{flat.Type.Shape[2]}),
		op.Reshape(at, ir.Shape{n.product(at.Type.Shape)}), 0)
	row := op.Iota(n.b.g, 2, ir.Type{DType: dtype.I64, Shape: ir.Shape{ir.Static(1), ir.Static(1), outs}})
	pick := op.Add(op.Mul(row, number(float64(taps), row)), best)
	idx := op.Reshape(op.Gather(where, n.flat(pick), 0), y.Type.Shape)
	base := op.Add(op.Mul(n.along(y.Type.Shape, 0), n.sizeNode(s[1], dtype.I64)), n.along(y.Type.Shape, 1))
	return op.Add(idx, op.Mul(base, n.sizeNode(n.product(s[2:]), dtype.I64)))
}

// averagePool is AveragePool. Padding counts only with count_include_pad; elements that ceil_mode adds never count.
func (n *node) averagePool(x *ir.Node) *ir.Node {
	k, ok := n.list("kernel_shape")
	if !ok {
		n.fail("kernel_shape is missing")
	}
	given := n.window(x.Type.Shape, k)
	w := n.ceiled(x.Type.Shape, given)
	include := n.int("count_include_pad", 0) != 0
	padded, plain := false, true
	for i := range k {
		padded = padded || w.before[i] != 0 || w.after[i] != 0
		plain = plain && w.dilation[i] == 1 && w.after[i] == given.after[i]
	}
	if plain && (include || !padded) {
		return n.pooled(x, w, "mean", 0)
	}
	total := n.pooled(x, w, "sum", 0)
	ones := op.Const(n.b.g, 1, ir.Type{DType: x.Type.DType, Shape: append(ir.ShapeOf(1, 1), x.Type.Shape[2:]...)})
	if include {
		after := append([]int{0, 0}, given.after...)
		for i := range k {
			after[i+2] = min(given.after[i], w.after[i])
			w.after[i] -= after[i+2]
		}
		ones = op.Pad(ones, append([]int{0, 0}, w.before...), after, 1)
		w.before = make([]int, len(k))
	}
	return op.Div(total, n.pooled(ones, w, "sum", 0))
}

// centred returns integers less their zero point as floats of 64 bits, whose products and sums are exact.
func (n *node) centred(x, zero *ir.Node, axis int) *ir.Node {
	y := op.Cast(x, dtype.F64)
	if zero == nil {
		return y
	}
	z := op.Cast(zero, dtype.F64)
	if z.Type.Rank() == 1 && !z.Type.Shape[0].Is(1) {
		z = n.at(z, axis, x.Type.Rank())
	} else {
		z = op.Reshape(z, ir.Shape{})
	}
	return op.Sub(y, z)
}
