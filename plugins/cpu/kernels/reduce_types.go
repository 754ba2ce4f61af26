package kernels

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
)

// singles is a reduction of f32, f16 or bf16.
type singles struct {
	reducing[float64]
	op       ReduceOp
	dst, src Weights
	p        *Pool
}

func (g *singles) start() float64 { return startOf[float64](g.op) }

func (g *singles) merge(a, b float64) float64 { return foldOne(g.op, a, b) }

func (g *singles) finish(i int, a float64, count int) {
	if g.op == Mean {
		a /= float64(count)
	}
	if g.dst.kind == dtype.F32 {
		g.dst.f32[i] = float32(a)
	} else {
		g.dst.half[i] = narrow(g.dst.kind, a)
	}
}

// vector is the routine that folds vectors of f32.
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
	return g.p.isa.binary[op]
}

func (g *singles) run(a float64, at, n, worker int) float64 {
	s, sc := g.p.isa, g.p.scratch(worker)
	used, need := sc.used, sc.need
	buf, lanes := g.src.buffer(sc, min(n, reduceBlock)), sc.floats(reduceLanes)
	for ; n > 0; n -= reduceBlock {
		x := g.src.row(s, at, min(n, reduceBlock), buf)
		at += len(x)
		if g.op == Sum || g.op == Mean {
			a += float64(s.sum(x))
			continue
		}
		a = foldOne(g.op, a, g.across(x, lanes))
	}
	sc.giveBack(used, need)
	return a
}

// across folds a block: vectors of it into lanes, then the lanes in halves.
func (g *singles) across(x, lanes []float32) float64 {
	w := len(lanes)
	for w > 8 && 2*w > len(x) {
		w /= 2
	}
	if len(x) < w {
		a := g.start()
		for _, v := range x {
			a = foldOne(g.op, a, float64(v))
		}
		return a
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
	a := float64(lanes[0])
	for _, v := range lanes[1:w] {
		a = foldOne(g.op, a, float64(v))
	}
	return a
}

func (g *singles) columns(acc []float64, at, rows, stride, worker int) {
	s, sc := g.p.isa, g.p.scratch(worker)
	used, need := sc.used, sc.need
	w := len(acc)
	buf, sums, f := g.src.buffer(sc, w), sc.floats(w), g.vector()
	for ; rows > 0; rows -= reduceRows {
		copy(sums, g.src.row(s, at, w, sums))
		at += stride
		for range min(rows, reduceRows) - 1 {
			f(sums, sums, g.src.row(s, at, w, buf))
			at += stride
		}
		for i, v := range sums {
			acc[i] = foldOne(g.op, acc[i], float64(v))
		}
	}
	sc.giveBack(used, need)
}

// numeric is a reduction of f64 or integers. Integers are folded in their own type, where they wrap as the result does.
type numeric[T float64 | Integer] struct {
	reducing[T]
	op       ReduceOp
	dst, src []T
}

func (g *numeric[T]) start() T { return startOf[T](g.op) }

func (g *numeric[T]) merge(a, b T) T { return foldOne(g.op, a, b) }

func (g *numeric[T]) finish(i int, a T, count int) {
	if g.op == Mean {
		a = T(float64(a) / float64(count))
	}
	g.dst[i] = a
}

// run keeps four accumulators, so that an addition need not wait for the one before.
func (g *numeric[T]) run(a T, at, n, _ int) T {
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
		x := g.src[at : at+len(acc)]
		switch g.op {
		case ReduceMax:
			for i, v := range x {
				acc[i] = larger(acc[i], v)
			}
		case ReduceMin:
			for i, v := range x {
				acc[i] = smaller(acc[i], v)
			}
		case Prod:
			for i, v := range x {
				acc[i] *= v
			}
		default:
			for i, v := range x {
				acc[i] += v
			}
		}
		at += stride
	}
}

// smaller is the minimum; NaN if either is.
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

// startOf is the reduction of nothing, but for Mean.
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

// lowest is -Inf, or the least integer of a type.
func lowest[T Number]() T {
	if isFloat[T]() {
		inf := math.Inf(-1)
		return T(inf)
	}
	var least int64
	switch any(T(0)).(type) {
	case int8:
		least = math.MinInt8
	case int16:
		least = math.MinInt16
	case int32:
		least = math.MinInt32
	case int64:
		least = math.MinInt64
	}
	return T(least)
}

// highest is +Inf, or the largest integer of a type.
func highest[T Number]() T {
	low := lowest[T]()
	if isFloat[T]() {
		return -low
	}
	return -(low + 1) // in two's complement, of unsigned integers too
}

// bools is a reduction of truth values; any byte but 0 is true.
type bools struct {
	reducing[uint8]
	all      bool
	dst, src []uint8
}

func (g *bools) start() uint8 { return bit(g.all) }

func (g *bools) merge(a, b uint8) uint8 {
	if g.all {
		return a & b
	}
	return a | b
}

func (g *bools) finish(i int, a uint8, _ int) { g.dst[i] = a }

func (g *bools) run(a uint8, at, n, _ int) uint8 {
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
			acc[i] = g.merge(acc[i], bit(x[i] != 0))
		}
		at += stride
	}
}

// trueBytes makes each byte but 0 a 1.
func trueBytes(w uint64) uint64 {
	const low = 0x7f7f7f7f7f7f7f7f
	return ((w&low + low) | w) >> 7 & 0x0101010101010101
}
