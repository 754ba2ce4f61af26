package kernels

import (
	"bytes"
	"encoding/binary"

	"github.com/rlx-go/rlx/core/dtype"
)

// singles reduces f32, f16 or bf16.
type singles struct {
	reducing[float64]
	op       ReduceOp
	dst, src Weights
	p        *Pool
}

func (g *singles) start() float64 { return startOf[float64](g.op) }

func (g *singles) merge(dst, src []float64) { foldInto(g.op, dst, src) }

func (g *singles) finish(at int, acc []float64, count int) {
	for i, a := range acc {
		if g.op == Mean {
			a /= float64(count)
		}
		if g.dst.kind == dtype.F32 {
			g.dst.f32[at+i] = float32(a)
		} else {
			g.dst.half[at+i] = narrow(g.dst.kind, a)
		}
	}
}

// vector returns the binary routine that folds f32.
func (g *singles) vector() func(dst, a, b []float32) {
	op := Add
	switch g.op {
	case ReduceMax:
		op = Max
	case ReduceMin:
		op = Min
	case Prod:
		op = Mul
	}
	return elemOn(g.p.Set).binary[op]
}

func (g *singles) run(a float64, at, n, worker int) float64 {
	s, sc := g.p.Set, g.p.scratch(worker)
	var f func(x *float32, n int) float64
	if reduceOn(s).folds != nil {
		f = reduceOn(s).folds.row[g.op]
	}
	if x := g.src.f32; x != nil && n <= reduceBlock { // nothing to widen
		switch x = x[at : at+n]; {
		case g.op == Sum || g.op == Mean:
			return a + float64(reduceOn(s).sum(x))
		case f != nil && n > 0:
			return foldOne(g.op, a, f(&x[0], n))
		}
	}
	mark := sc.mark()
	buf, lanes := g.src.buffer(sc, min(n, reduceBlock)), sc.floats(reduceLanes)
	for ; n > 0; n -= reduceBlock {
		x := g.src.row(s, at, min(n, reduceBlock), buf)
		at += len(x)
		if g.op == Sum || g.op == Mean {
			a += float64(reduceOn(s).sum(x))
		} else if f != nil {
			a = foldOne(g.op, a, f(&x[0], len(x)))
		} else {
			a = foldOne(g.op, a, g.across(x, lanes))
		}
	}
	sc.release(mark)
	return a
}

func (g *singles) runs(acc []float64, at, n, ld, worker int) {
	s, sc := g.p.Set, g.p.scratch(worker)
	if reduceOn(s).folds == nil || reduceOn(s).folds.each[g.op] == nil || g.src.f32 == nil || n > reduceBlock {
		for i := range acc {
			acc[i] = g.run(acc[i], at+i*ld, n, worker)
		}
		return
	}
	mark := sc.mark()
	each, x := sc.floats(len(acc)), g.src.f32[at:]
	_ = x[(len(acc)-1)*ld+n-1]
	reduceOn(s).folds.each[g.op](&each[0], &x[0], n, ld, len(acc))
	foldInto(g.op, acc, each)
	sc.release(mark)
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
	s, sc := g.p.Set, g.p.scratch(worker)
	mark := sc.mark()
	w, op, block := len(acc), g.op, reduceRows
	if op == Mean {
		op = Sum
	}
	if op == ReduceMax || op == ReduceMin {
		block = rows // maxima need no rounding
	}
	buf, sums, f := g.src.buffer(sc, w), sc.floats(w), g.vector()
	for ; rows > 0; rows -= block {
		copy(sums, g.src.row(s, at, w, sums))
		at += stride
		n := min(rows, block) - 1
		if reduceOn(s).folds != nil && buf == nil && n > 0 {
			x := g.src.f32[at:]
			_ = x[(n-1)*stride+w-1]
			reduceOn(s).folds.rows[op](&sums[0], &x[0], w, stride, n)
			at += n * stride
			n = 0
		}
		for range n {
			f(sums, sums, g.src.row(s, at, w, buf))
			at += stride
		}
		foldInto(op, acc, sums)
	}
	sc.release(mark)
}

// numeric reduces f64 or integers. Integers are folded in their own type, in which they wrap as the result must.
type numeric[T float64 | Integer] struct {
	reducing[T]
	op       ReduceOp
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
	case ReduceMax, ReduceMin:
		if g.op == ReduceMax {
			for ; len(x) >= 4; x = x[4:] {
				a, b, c, d = larger(a, x[0]), larger(b, x[1]), larger(c, x[2]), larger(d, x[3])
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
func foldInto[A, T Number](op ReduceOp, acc []A, x []T) {
	x = x[:len(acc)]
	switch op {
	case ReduceMax:
		for i, v := range x {
			acc[i] = larger(acc[i], A(v))
		}
	case ReduceMin:
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
func foldAll[A, T Number](op ReduceOp, a A, x []T) A {
	switch op {
	case ReduceMax:
		for _, v := range x {
			a = larger(a, A(v))
		}
	case ReduceMin:
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
func smaller[T Number](a, x T) T {
	if x < a || x != x {
		return x
	}
	return a
}

func foldOne[T Number](op ReduceOp, a, x T) T {
	switch op {
	case ReduceMax:
		return larger(a, x)
	case ReduceMin:
		return smaller(a, x)
	case Prod:
		return a * x
	}
	return a + x
}

// startOf returns the reduction of no elements. For Mean it is that of Sum.
func startOf[T Number](op ReduceOp) T {
	switch op {
	case ReduceMax:
		return lowest[T]()
	case ReduceMin:
		return highest[T]()
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

func (g *bools) start() uint8 { return bit(g.all) }

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

func (g *bools) runs(acc []uint8, at, n, ld, _ int) {
	for i := range acc {
		acc[i] = g.run(acc[i], at+i*ld, n)
	}
}

func (g *bools) run(a uint8, at, n int) uint8 {
	x := g.src[at : at+n]
	if g.all {
		return a & bit(bytes.IndexByte(x, 0) < 0)
	}
	var words uint64
	for ; len(x) >= 8; x = x[8:] {
		words |= binary.LittleEndian.Uint64(x)
	}
	for _, v := range x {
		words |= uint64(v)
	}
	return a | bit(words != 0)
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
			acc[i] = g.both(acc[i], bit(x[i] != 0))
		}
		at += stride
	}
}

// trueBytes replaces each byte that is not 0 by 1.
func trueBytes(w uint64) uint64 {
	const low = 0x7f7f7f7f7f7f7f7f
	return ((w&low + low) | w) >> 7 & 0x0101010101010101
}
