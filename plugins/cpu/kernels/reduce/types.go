package reduce

import (
	"bytes"
	"encoding/binary"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// singles reduces f32, f16 or bf16.
type singles struct {
	reducing[float64]
	op       Op
	dst, src stored.Values
	p        *pool.Pool
}

func (g *singles) start() float64 { return startOf[float64](g.op) }

func (g *singles) merge(dst, src []float64) { foldInto(g.op, dst, src) }

func (g *singles) finish(at int, acc []float64, count int) {
	for i, a := range acc {
		if g.op == Mean {
			a /= float64(count)
		}
		if g.dst.Kind == dtype.F32 {
			g.dst.Floats[at+i] = float32(a)
		} else {
			g.dst.Halves[at+i] = elementwise.Narrow(g.dst.Kind, a)
		}
	}
}

// vector returns the binary routine that folds f32.
func (g *singles) vector() func(dst, a, b []float32) {
	op := elementwise.Add
	switch g.op {
	case Max:
		op = elementwise.Max
	case Min:
		op = elementwise.Min
	case Prod:
		op = elementwise.Mul
	}
	return elementwise.On(g.p.Set).Binary[op]
}

func (g *singles) run(a float64, at, n, worker int) float64 {
	s, sc := g.p.Set, g.p.Scratch(worker)
	var f func(x *float32, n int) float64
	if On(s).Folds != nil {
		f = On(s).Folds.Row[g.op]
	}
	if x := g.src.Floats; x != nil && n <= Block { // nothing to widen
		switch x = x[at : at+n]; {
		case g.op == Sum || g.op == Mean:
			return a + float64(On(s).Sum(x))
		case f != nil && n > 0:
			return foldOne(g.op, a, f(&x[0], n))
		}
	}
	mark := sc.Mark()
	buf, lanes := g.src.Buffer(sc, min(n, Block)), sc.Floats(reduceLanes)
	for ; n > 0; n -= Block {
		x := g.src.Row(s, at, min(n, Block), buf)
		at += len(x)
		if g.op == Sum || g.op == Mean {
			a += float64(On(s).Sum(x))
		} else if f != nil {
			a = foldOne(g.op, a, f(&x[0], len(x)))
		} else {
			a = foldOne(g.op, a, g.across(x, lanes))
		}
	}
	sc.Release(mark)
	return a
}

func (g *singles) runs(acc []float64, at, n, ld, worker int) {
	s, sc := g.p.Set, g.p.Scratch(worker)
	if On(s).Folds == nil || On(s).Folds.Each[g.op] == nil || g.src.Floats == nil || n > Block {
		for i := range acc {
			acc[i] = g.run(acc[i], at+i*ld, n, worker)
		}
		return
	}
	mark := sc.Mark()
	each, x := sc.Floats(len(acc)), g.src.Floats[at:]
	_ = x[(len(acc)-1)*ld+n-1]
	On(s).Folds.Each[g.op](&each[0], &x[0], n, ld, len(acc))
	foldInto(g.op, acc, each)
	sc.Release(mark)
}

// across folds a block x: first into len(lanes) accumulators, by vectors, then these into one.
func (g *singles) across(x, lanes []float32) float64 {
	w := len(lanes)
	for w > 8 && 2*w > len(x) {
		w /= 2
	}
	if len(x) < w {
		return foldAll(g.op, g.start(), x)
	}
	f, lanes := g.vector(), lanes[:w]
	copy(lanes, x)
	for x = x[w:]; len(x) > 0; x = x[min(w, len(x)):] {
		n := min(w, len(x))
		f(lanes[:n], lanes[:n], x[:n])
	}
	for ; w > 8; w /= 2 {
		f(lanes[:w/2], lanes[:w/2], lanes[w/2:w])
	}
	return foldAll(g.op, float64(lanes[0]), lanes[1:w])
}

func (g *singles) columns(acc []float64, at, rows, stride, worker int) {
	s, sc := g.p.Set, g.p.Scratch(worker)
	mark := sc.Mark()
	w, op, block := len(acc), g.op, Rows
	if op == Mean {
		op = Sum
	}
	if op == Max || op == Min {
		block = rows // maxima need no rounding
	}
	buf, sums, f := g.src.Buffer(sc, w), sc.Floats(w), g.vector()
	for ; rows > 0; rows -= block {
		copy(sums, g.src.Row(s, at, w, sums))
		at += stride
		n := min(rows, block) - 1
		if On(s).Folds != nil && buf == nil && n > 0 {
			x := g.src.Floats[at:]
			_ = x[(n-1)*stride+w-1]
			On(s).Folds.rows[op](&sums[0], &x[0], w, stride, n)
			at += n * stride
			n = 0
		}
		for range n {
			f(sums, sums, g.src.Row(s, at, w, buf))
			at += stride
		}
		foldInto(op, acc, sums)
	}
	sc.Release(mark)
}

// few reduces columns of f32 that are added up without float64 in between, in the memory of the results.
func (g *singles) few(at, from, n, worker int) bool {
	x, rows, stride := g.src.Floats, g.count, g.cutStride[0]
	if g.dst.Kind != dtype.F32 || x == nil || rows == 0 || rows > Rows {
		return false
	}
	s, dst, op := g.p.Set, g.dst.Floats[at:][:n], g.op
	if op == Mean {
		op = Sum
	}
	x = x[from:][:(rows-1)*stride+n]
	copy(dst, x)
	if rows > 1 && On(s).Folds != nil {
		On(s).Folds.rows[op](&dst[0], &x[stride], n, stride, rows-1)
	} else {
		f := g.vector()
		for r := 1; r < rows; r++ {
			f(dst, dst, x[r*stride:][:n])
		}
	}
	if g.op == Mean {
		sc := g.p.Scratch(worker)
		mark := sc.Mark()
		count := sc.Floats(min(n, divisors))
		vec.Fill(count, float32(rows))
		for ; len(dst) > 0; dst = dst[min(divisors, len(dst)):] {
			d := dst[:min(divisors, len(dst))]
			elementwise.On(s).Binary[elementwise.Div](d, d, count[:len(d)])
		}
		sc.Release(mark)
	}
	return true
}

// numeric reduces f64 or integers. Integers are folded in their own type, in which they wrap as the result must.
type numeric[T float64 | elementwise.Integer] struct {
	reducing[T]
	op       Op
	dst, src []T
}

func (g *numeric[T]) start() T { return startOf[T](g.op) }

func (g *numeric[T]) merge(dst, src []T) { foldInto(g.op, dst, src) }

func (g *numeric[T]) finish(at int, acc []T, count int) {
	copy(g.dst[at:], acc)
	if g.op == Mean {
		for i, a := range acc {
			g.dst[at+i] = T(float64(a) / float64(count))
		}
	}
}

func (g *numeric[T]) few(_, _, _, _ int) bool { return false }

func (g *numeric[T]) runs(acc []T, at, n, ld, _ int) {
	for i := range acc {
		acc[i] = g.run(acc[i], at+i*ld, n)
	}
}

// run keeps four accumulators, so that an addition does not wait for the previous one.
func (g *numeric[T]) run(a T, at, n int) T {
	x := g.src[at : at+n]
	b, c, d := g.start(), g.start(), g.start()
	switch g.op {
	case Max, Min:
		if g.op == Max {
			for ; len(x) >= 4; x = x[4:] {
				a, b, c, d = elementwise.Larger(a, x[0]), elementwise.Larger(b, x[1]), elementwise.Larger(c, x[2]),
					elementwise.Larger(d, x[3])
			}
		} else {
			for ; len(x) >= 4; x = x[4:] {
				a, b, c, d = smaller(a, x[0]), smaller(b, x[1]), smaller(c, x[2]), smaller(d, x[3])
			}
		}
	case Prod:
		for ; len(x) >= 4; x = x[4:] {
			a, b, c, d = a*x[0], b*x[1], c*x[2], d*x[3]
		}
	default:
		for ; len(x) >= 4; x = x[4:] {
			a, b, c, d = a+x[0], b+x[1], c+x[2], d+x[3]
		}
	}
	for _, v := range x {
		a = foldOne(g.op, a, v)
	}
	return foldOne(g.op, foldOne(g.op, a, b), foldOne(g.op, c, d))
}

func (g *numeric[T]) columns(acc []T, at, rows, stride, _ int) {
	for range rows {
		foldInto(g.op, acc, g.src[at:at+len(acc)])
		at += stride
	}
}

// foldInto folds each element of x into the element of acc at its index.
func foldInto[A, T elementwise.Number](op Op, acc []A, x []T) {
	x = x[:len(acc)]
	switch op {
	case Max:
		for i, v := range x {
			acc[i] = elementwise.Larger(acc[i], A(v))
		}
	case Min:
		for i, v := range x {
			acc[i] = smaller(acc[i], A(v))
		}
	case Prod:
		for i, v := range x {
			acc[i] *= A(v)
		}
	default:
		for i, v := range x {
			acc[i] += A(v)
		}
	}
}

// foldAll folds x into a.
func foldAll[A, T elementwise.Number](op Op, a A, x []T) A {
	switch op {
	case Max:
		for _, v := range x {
			a = elementwise.Larger(a, A(v))
		}
	case Min:
		for _, v := range x {
			a = smaller(a, A(v))
		}
	case Prod:
		for _, v := range x {
			a *= A(v)
		}
	default:
		for _, v := range x {
			a += A(v)
		}
	}
	return a
}

// smaller returns the minimum; NaN if either is NaN.
func smaller[T elementwise.Number](a, x T) T {
	if x < a || x != x {
		return x
	}
	return a
}

func foldOne[T elementwise.Number](op Op, a, x T) T {
	switch op {
	case Max:
		return elementwise.Larger(a, x)
	case Min:
		return smaller(a, x)
	case Prod:
		return a * x
	}
	return a + x
}

// startOf returns the reduction of no elements. For Mean it returns that of Sum.
func startOf[T elementwise.Number](op Op) T {
	switch op {
	case Max:
		return elementwise.Lowest[T]()
	case Min:
		return elementwise.Highest[T]()
	case Prod:
		return 1
	}
	return 0
}

// bools reduces bools. Any byte but 0 is true.
type bools struct {
	reducing[uint8]
	all      bool
	dst, src []uint8
}

func (g *bools) start() uint8 { return elementwise.Bit(g.all) }

func (g *bools) both(a, b uint8) uint8 {
	if g.all {
		return a & b
	}
	return a | b
}

func (g *bools) merge(dst, src []uint8) {
	for i, b := range src {
		dst[i] = g.both(dst[i], b)
	}
}

func (g *bools) finish(at int, acc []uint8, _ int) { copy(g.dst[at:], acc) }

func (g *bools) few(_, _, _, _ int) bool { return false }

func (g *bools) runs(acc []uint8, at, n, ld, _ int) {
	for i := range acc {
		acc[i] = g.run(acc[i], at+i*ld, n)
	}
}

func (g *bools) run(a uint8, at, n int) uint8 {
	x := g.src[at : at+n]
	if g.all {
		return a & elementwise.Bit(bytes.IndexByte(x, 0) < 0)
	}
	var words uint64
	for ; len(x) >= 8; x = x[8:] {
		words |= binary.LittleEndian.Uint64(x)
	}
	for _, v := range x {
		words |= uint64(v)
	}
	return a | elementwise.Bit(words != 0)
}

func (g *bools) columns(acc []uint8, at, rows, stride, _ int) {
	for range rows {
		x, i := g.src[at:at+len(acc)], 0
		for ; i+8 <= len(x); i += 8 {
			a, v := acc[i:i+8:i+8], trueBytes(binary.LittleEndian.Uint64(x[i:]))
			if w := binary.LittleEndian.Uint64(a); g.all {
				binary.LittleEndian.PutUint64(a, w&v)
			} else {
				binary.LittleEndian.PutUint64(a, w|v)
			}
		}
		for ; i < len(x); i++ {
			acc[i] = g.both(acc[i], elementwise.Bit(x[i] != 0))
		}
		at += stride
	}
}

// trueBytes replaces each byte that is not 0 by 1.
func trueBytes(w uint64) uint64 {
	const low = 0x7f7f7f7f7f7f7f7f
	return ((w&low + low) | w) >> 7 & 0x0101010101010101
}
