package onnx

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file has Fourier transforms and what belongs to them. ONNX has complex numbers as pairs on the last axis.

// The ranks of inputs.
var (
	_ = ranks("2+ one one", "DFT")
	_ = ranks("2-3 one 1 one", "STFT")
	_ = ranks("one one one one one", "MelWeightMatrix", "HannWindow", "HammingWindow", "BlackmanWindow")
)

var (
	_ = on("DFT", 17, dft)
	_ = on("STFT", 17, stft)
	_ = on("HannWindow", 17, window3(0.5, 0.5, 0))
	_ = on("HammingWindow", 17, window3(25.0/46, 21.0/46, 0))
	_ = on("BlackmanWindow", 17, window3(0.42, 0.5, 0.08))
	_ = on("MelWeightMatrix", 17, melWeights)
	_ = decide(candidates{2, true, transformedAxes}, "DFT")
	_ = decide(candidates{1, false, func(n *node) [][]ir.Dim {
		shape, ok := n.declaredShape(0)
		if !ok || len(shape) != n.typeOf(0).Rank() || n.int("onesided", 0) != 0 && n.int("inverse", 0) == 0 {
			return nil
		}
		return [][]ir.Dim{{shape[n.dftAxis()]}}
	}}, "DFT")
	_ = decide(candidates{3, false, frameLengths}, "STFT")
	_ = decide(candidates{1, false, func(n *node) [][]ir.Dim {
		var out [][]ir.Dim
		for _, s := range n.frameSteps(n.frameLength()) {
			out = append(out, []ir.Dim{ir.Static(s)})
		}
		return out
	}}, "STFT")
	_ = decide(candidates{0, false, func(n *node) [][]ir.Dim {
		shape, ok := n.declaredShape(0)
		if !ok || len(shape) != 2 {
			return nil
		}
		return [][]ir.Dim{{shape[1]}}
	}}, "MelWeightMatrix")
	_ = decide(candidates{1, false, func(n *node) [][]ir.Dim {
		shape, ok := n.declaredShape(0)
		if !ok || len(shape) != 2 || !shape[0].IsStatic() {
			return nil
		}
		return halves(shape[0].Const)
	}}, "MelWeightMatrix")
)

// halves returns the numbers n for which n/2+1, with n/2 rounded down, is bins.
func halves(bins int64) [][]ir.Dim {
	if bins < 2 {
		return [][]ir.Dim{{ir.Static(1)}}
	}
	return [][]ir.Dim{{ir.Static(2 * (bins - 1))}, {ir.Static(2*(bins-1) + 1)}}
}

// dftAxis returns the axis of a transform.
func (n *node) dftAxis() int {
	rank := n.typeOf(0).Rank()
	if n.version < 20 {
		return n.axis(n.int("axis", 1), rank)
	}
	if n.has(2) {
		return n.axis(n.oneInt(2), rank)
	}
	return n.axis(-2, rank)
}

// transformedAxes returns the axes that a transform can have if the declared type is right.
func transformedAxes(n *node) (out [][]ir.Dim) {
	shape, ok := n.declaredShape(0)
	x := n.typeOf(0).Shape
	if !ok || len(shape) != len(x) {
		return nil
	}
	known := n.has(1)
	for a := range len(x) - 1 {
		fits := true
		for i := range len(x) - 1 {
			if i != a {
				fits = fits && x[i] == shape[i]
				continue
			}
			if known || !x[i].IsStatic() {
				continue
			}
			want := x[i].Const
			switch {
			case n.int("onesided", 0) == 0:
			case n.int("inverse", 0) == 0:
				want = want/2 + 1
			default:
				want = 2 * (want - 1)
			}
			fits = fits && shape[i].Is(want)
		}
		if fits {
			out = append(out, []ir.Dim{ir.Static(int64(a))})
		}
	}
	return out
}

// dft is DFT: a product with a matrix of sines and cosines along an axis.
func dft(n *node) []*value {
	axis := n.dftAxis()
	x := n.x(0)
	rank := x.Type.Rank()
	size := x.Type.Shape[axis]
	parts := x.Type.Shape[rank-1]
	inverse, onesided := n.int("inverse", 0) != 0, n.int("onesided", 0) != 0
	if !size.IsStatic() || axis == rank-1 || !parts.Is(1) && !parts.Is(2) {
		n.fail("input is %v; want a size that is known on axis %d, and 1 or 2 on the last one", x.Type, axis)
	}
	length := size.Const
	if inverse && onesided {
		length = 2 * (length - 1)
	}
	if n.has(1) {
		length = int64(n.oneInt(1))
	}
	if length < 1 {
		n.fail("dft_length is %d; want 1 or more", length)
	}
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = i
	}
	perm[axis], perm[rank-2] = rank-2, axis
	x = op.Transpose(x, perm...)
	y := n.transform(x, int(length), inverse, onesided)
	return one(op.Transpose(y, perm...))
}

// transform transforms the complex numbers of [..,size,1 or 2] along the axis before the last one, which is cut or
// continued by zeros to length. It returns [..,bins,2], or [..,length,1] for an inverse one of half a spectrum.
func (n *node) transform(x *ir.Node, length int, inverse, onesided bool) *ir.Node {
	rank := x.Type.Rank()
	size := int(x.Type.Shape[rank-2].Const)
	want := length
	if inverse && onesided {
		want = length/2 + 1
	}
	if size > want {
		x = op.Narrow(x, rank-2, 0, want)
	}
	size = min(size, want)
	d := x.Type.DType
	if d != dtype.F64 {
		x = cast(x, dtype.F32)
	}
	part := func(i int) *ir.Node {
		v := op.Narrow(x, rank-1, i, 1)
		return op.Reshape(v, v.Type.Shape[:rank-1])
	}
	re := part(0)
	var im *ir.Node
	if x.Type.Shape[rank-1].Is(2) {
		im = part(1)
	}
	bins := length
	if onesided && !inverse {
		bins = length/2 + 1
	}
	if size*bins > maxTable {
		n.fail("transforms %d numbers to %d; allowed are up to %d in their product", size, bins, maxTable)
	}
	table := func(f func(angle float64) float64, weigh bool) *ir.Node {
		rows := make([]float64, size*bins)
		for k := range size {
			w := 1.0
			if inverse {
				w /= float64(length)
			}
			if weigh && k > 0 && 2*k != length { // also stands for its conjugate
				w *= 2
			}
			for j := range bins {
				rows[k*bins+j] = w * f(2*math.Pi*float64(k*j%length)/float64(length))
			}
		}
		return n.b.at(made(arrayOf(x.Type.DType, rows, size, bins)))
	}
	half := inverse && onesided
	cos, sin := table(math.Cos, half), table(math.Sin, half)
	mul := func(v, t *ir.Node) *ir.Node { return op.MatMul(v, t, op.MatMulAttrs{}) }
	// (re + i*im) * (cos - i*sin), or + for the inverse
	if !inverse {
		sin = op.Neg(sin)
	}
	realPart := mul(re, cos)
	if im != nil {
		realPart = op.Sub(realPart, mul(im, sin))
	}
	if half {
		return cast(op.Reshape(realPart, append(append(ir.Shape{}, realPart.Type.Shape...), ir.Static(1))), d)
	}
	imagPart := mul(re, sin)
	if im != nil {
		imagPart = op.Add(imagPart, mul(im, cos))
	}
	return cast(op.Stack(realPart.Type.Rank(), realPart, imagPart), d)
}

// frameLength returns the length of the frames of STFT.
func (n *node) frameLength() int64 {
	switch {
	case n.has(3):
		return int64(n.oneInt(3))
	case n.has(2):
		return n.typeOf(2).Shape[0].Const
	}
	return n.typeOf(0).Shape[1].Const
}

// frameSteps returns the steps with which frames of a length give the declared number of them.
func (n *node) frameSteps(length int64) (out []int64) {
	shape, ok := n.declaredShape(0)
	size := n.typeOf(0).Shape[1]
	if !ok || len(shape) != 4 || !size.IsStatic() || size.Const > maxTable {
		return nil
	}
	for step := int64(1); step <= size.Const; step++ {
		if length <= size.Const && shape[1].Is((size.Const-length)/step+1) {
			out = append(out, step)
		}
	}
	return out
}

// frameLengths returns the lengths that give the declared number of bins.
func frameLengths(n *node) (out [][]ir.Dim) {
	shape, ok := n.declaredShape(0)
	if !ok || len(shape) != 4 || !shape[2].IsStatic() {
		return nil
	}
	list := [][]ir.Dim{{shape[2]}}
	switch {
	case n.has(2):
		list = [][]ir.Dim{{n.typeOf(2).Shape[0]}}
	case n.int("onesided", 1) != 0:
		list = halves(shape[2].Const)
	}
	for _, l := range list {
		if n.isKnown(1) || len(n.frameSteps(l[0].Const)) > 0 {
			out = append(out, l)
		}
	}
	return out
}

// stft is STFT: frames of the signal, times the window, transformed.
func stft(n *node) []*value {
	x := n.x(0)
	if x.Type.Rank() == 2 {
		x = op.Reshape(x, append(append(ir.Shape{}, x.Type.Shape...), ir.Static(1)))
	}
	s := x.Type.Shape
	step, length := n.oneInt(1), int(n.frameLength())
	if len(s) != 3 || !s[1].IsStatic() || step < 1 || length < 1 || int64(length) > s[1].Const {
		n.fail("signal is %v, frame_length %d and frame_step %d; want a length that is known, and frames in it", x.Type,
			length, step)
	}
	frames := (int(s[1].Const)-length)/step + 1
	t := ir.ShapeOf(int64(frames), int64(length))
	f := n.along(t, 0)
	at := n.flat(op.Expand(op.Add(op.Mul(f, number(float64(step), f)), n.along(t, 1)), t))
	y := op.Reshape(op.Gather(x, at, 1), ir.Shape{s[0], t[0], t[1], s[2]})
	if n.has(2) {
		w := n.x(2)
		if !w.Type.Shape[0].Is(int64(length)) {
			n.fail("the window is %v; want as many elements as frame_length, %d", w.Type, length)
		}
		y = op.Mul(y, op.Reshape(w, ir.ShapeOf(int64(length), 1)))
	}
	return one(n.transform(y, length, false, n.int("onesided", 1) != 0))
}

// window3 is a window a - b*cos(2*pi*n/N) + c*cos(4*pi*n/N).
func window3(a, b, c float64) func(n *node) []*value {
	return func(n *node) []*value {
		size := n.oneDim(0)
		i := op.Iota(n.b.g, 0, ir.Type{DType: dtype.F64, Shape: ir.Shape{size}})
		total := n.sizeNode(size, dtype.F64)
		if n.int("periodic", 1) == 0 {
			total = op.Max(op.Sub(total, number(1, total)), number(1, total))
		}
		angle := op.Div(op.Mul(i, number(2*math.Pi, i)), total)
		y := op.Sub(number(a, i), op.Mul(op.Cos(angle), number(b, i)))
		if c != 0 {
			y = op.Add(y, op.Mul(op.Cos(op.Mul(angle, number(2, i))), number(c, i)))
		}
		return one(cast(y, n.dtype(n.int("output_datatype", 1))))
	}
}

// melWeights is MelWeightMatrix, [bins of the transform, mel bins]: triangles between neighbours of frequencies that
// are equally far apart on the mel scale, 2595*log10(1+f/700).
func melWeights(n *node) []*value {
	bands, length := n.oneInt(0), n.oneInt(1)
	num := func(v float64) *ir.Node { return op.Const(n.b.g, v, ir.TypeOf(dtype.F64)) }
	given := func(i int) *ir.Node { return op.Reshape(cast(n.x(i), dtype.F64), ir.Shape{}) }
	mel := func(f *ir.Node) *ir.Node {
		return op.Mul(op.Log1p(op.Div(f, num(700))), num(2595/math.Ln10))
	}
	low, high := mel(given(3)), mel(given(4))
	count := int64(bands + 2)
	i := op.Iota(n.b.g, 0, ir.TypeOf(dtype.F64, count))
	at := op.Add(op.Mul(i, op.Div(op.Sub(high, low), num(float64(count)))), low)
	hertz := op.Mul(op.Expm1(op.Mul(at, num(math.Ln10/2595))), num(700))
	bin := op.Floor(op.Div(op.Mul(hertz, num(float64(length+1))), given(2)))
	column := func(k int) *ir.Node {
		return op.Reshape(op.Narrow(bin, 0, k, bands), ir.ShapeOf(1, int64(bands)))
	}
	lower, centre, upper := column(0), column(1), column(2)
	j := op.Iota(n.b.g, 0, ir.TypeOf(dtype.F64, int64(length/2+1), 1))
	between := func(lo, hi *ir.Node) *ir.Node { return op.And(op.Ge(j, lo), op.Lt(j, hi)) }
	ratio := func(a, b *ir.Node) *ir.Node { return op.Div(a, op.Max(b, num(1))) }
	rise := op.Where(between(lower, centre), ratio(op.Sub(j, lower), op.Sub(centre, lower)), num(0))
	fall := op.Where(between(centre, upper), ratio(op.Sub(upper, j), op.Sub(upper, centre)), num(0))
	y := op.Where(op.Eq(j, centre), num(1), op.Add(rise, fall))
	return one(cast(y, n.dtype(n.int("output_datatype", 1))))
}
