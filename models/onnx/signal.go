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
	open := !size.IsStatic()
	if open && n.has(1) {
		open = n.oneDim(1) == size
	}
	if !size.IsStatic() && (!open || inverse && onesided) || axis == rank-1 || !parts.Is(1) && !parts.Is(2) {
		n.fail("input is %v; want 1 or 2 on the last axis, and on axis %d a size that is fixed with --size, or a transform of "+
			"all of it that is not the inverse of half a spectrum", x.Type, axis)
	}
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = i
	}
	perm[axis], perm[rank-2] = rank-2, axis
	x = op.Transpose(x, perm...)
	if open {
		return one(op.Transpose(n.openTransform(x, inverse, onesided), perm...))
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
	return one(op.Transpose(n.transform(x, int(length), inverse, onesided), perm...))
}

// openTransform transforms the complex numbers of [..,size,1 or 2] along the axis before the last one, whose size is
// open, to [..,bins,2]. The program computes the sines and cosines.
func (n *node) openTransform(x *ir.Node, inverse, onesided bool) *ir.Node {
	size := x.Type.Shape[x.Type.Rank()-2]
	bins := size
	if onesided {
		half, ok := size.FloorDiv(2)
		if !ok {
			n.fail("half of the size %v is too large a formula", size)
		}
		bins = n.plus(half, 1)
	}
	shape := ir.Shape{size, bins}
	count := n.sizeNode(size, dtype.I64)
	turn := op.Mod(op.Mul(n.along(shape, 0), n.along(shape, 1)), count)
	angle := cast(turn, dtype.F64)
	angle = op.Div(op.Mul(angle, number(2*math.Pi, angle)), cast(count, dtype.F64))
	d := x.Type.DType
	if d != dtype.F64 {
		x = cast(x, dtype.F32)
	}
	table := func(t *ir.Node) *ir.Node {
		if inverse {
			t = op.Div(t, cast(count, dtype.F64))
		}
		return cast(t, x.Type.DType)
	}
	return n.turned(x, table(op.Cos(angle)), table(op.Sin(angle)), inverse, d)
}

// turned multiplies the complex numbers of [..,size,1 or 2] by cos-i*sin, or cos+i*sin for the inverse, both
// [size,bins], and returns the sums [..,bins,2] as d.
func (n *node) turned(x, cos, sin *ir.Node, inverse bool, d dtype.DType) *ir.Node {
	rank := x.Type.Rank()
	part := func(i int) *ir.Node {
		v := op.Narrow(x, rank-1, i, 1)
		return op.Reshape(v, v.Type.Shape[:rank-1])
	}
	mul := func(v, t *ir.Node) *ir.Node { return op.MatMul(v, t, op.MatMulAttrs{}) }
	if !inverse {
		sin = op.Neg(sin)
	}
	re, im := mul(part(0), cos), mul(part(0), sin)
	if x.Type.Shape[rank-1].Is(2) {
		re, im = op.Sub(re, mul(part(1), sin)), op.Add(im, mul(part(1), cos))
	}
	return cast(op.Stack(rank-1, re, im), d)
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
	y := n.turned(x, cos, sin, inverse, d)
	if half { // the imaginary parts are 0
		return op.Narrow(y, rank-1, 0, 1)
	}
	return y
}

// frameLength returns the length of the frames of STFT.
func (n *node) frameLength() int64 {
	switch {
	case n.has(3):
		return int64(n.oneInt(3))
	case n.has(2):
		return n.typeOf(2).Shape[0].Const
	}
	if size := n.typeOf(0).Shape[1]; size.IsStatic() {
		return size.Const
	}
	return 0
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
	step, length := n.oneInt(1), n.frameLength()
	if len(s) != 3 || step < 1 || length < 1 {
		n.fail("signal is %v, frame_length %d and frame_step %d; want [N,L] or [N,L,1 or 2], and frames of a length that is "+
			"known", x.Type, length, step)
	}
	room := n.plus(s[1], -length)
	frames, ok := room.FloorDiv(int64(step))
	if lo, _ := n.b.g.Syms.Bounds(room); !ok || lo < 0 {
		n.needs(room, "a signal of %v elements may be shorter than a frame of %d", s[1], length)
		n.fail("signal is %v and frame_length %d; want frames in it, for which --size gives a range", x.Type, length)
	}
	t := ir.Shape{n.plus(frames, 1), ir.Static(length)}
	f := n.along(t, 0)
	at := n.flat(op.Expand(op.Add(op.Mul(f, number(float64(step), f)), n.along(t, 1)), t))
	y := op.Reshape(op.Gather(x, at, 1), ir.Shape{s[0], t[0], t[1], s[2]})
	if n.has(2) {
		w := n.x(2)
		if !w.Type.Shape[0].Is(length) {
			n.fail("the window is %v; want as many elements as frame_length, %d", w.Type, length)
		}
		y = op.Mul(y, op.Reshape(w, ir.ShapeOf(length, 1)))
	}
	return one(n.transform(y, int(length), false, n.int("onesided", 1) != 0))
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
