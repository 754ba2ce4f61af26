package kernels

import (
	"sync"

	"github.com/rlx-go/rlx/core/quant"
)

// SchemeWeights is a matrix [K, N] of weights in few bits, row by row, with scales beside them: weight i of a column is (value - zero) scale, or
// value scale where there is no zero.
type SchemeWeights struct {
	Values string // int8, int4 (two's complement), e2m1, e4m3, e5m2: those of four bits are two in a byte, the low half first
	Data   []byte
	N      int
	Block  int       // rows that have one scale for each column; 0: all
	Scale  []float32 // [ceil(K/Block), N]; nil: 1
	Zero   []float32 // likewise; nil: 0

	Small  []byte // in place of Scale, e4m3 times Global
	Global float32
}

// schemeRoutines are for whole vectors of columns. Rows of w are ld bytes apart. zero is nil but for int8_asym.
type schemeRoutines struct {
	dot    func(dst []float32, w []byte, ld, rows int, x, scale, zero []float32)             // dst += scale (x·(w - zero))
	decode func(dst []float32, ldd int, w []byte, ld, rows, cols int, scale, zero []float32) // dst[r] = scale (w[r] - zero)
}

const (
	schemeStrip   = 1024 // columns of a task, at most
	schemeRows    = 32   // at a time
	schemeWidened = 256  // columns, at most; see widenedColumns
)

// values are those of a byte, or of half a byte.
func (w *SchemeWeights) values() *[256]float32 { return schemeValues()[w.Values] }

var schemeValues = sync.OnceValue(func() map[string]*[256]float32 {
	m := map[string]*[256]float32{}
	for name, f := range map[string]func(q byte) float32{
		"int8": func(q byte) float32 { return float32(int8(q)) }, "int4": func(q byte) float32 { return float32(int8(q<<4) >> 4) },
		"e2m1": quant.E2M1, "e4m3": quant.E4M3, "e5m2": quant.E5M2,
	} {
		m[name] = new([256]float32)
		for q := range m[name] {
			m[name][q] = f(byte(q))
		}
	}
	return m
})

func (w *SchemeWeights) nibbles() bool { return w.Values == "int4" || w.Values == "e2m1" }

// at is the value of weight i of all.
func (w *SchemeWeights) at(values *[256]float32, i int) float32 {
	if w.nibbles() {
		return values[w.Data[i/2]>>(i%2*4)&15]
	}
	return values[w.Data[i]]
}

// routines are those of a set for the columns from j on, the bytes of the weights from row r on, and the bytes of a row. They are nil where
// rows do not begin with a byte.
func (w *SchemeWeights) routines(s *isa, r, j int) (f schemeRoutines, data []byte, ld int) {
	name, at := w.Values, r*w.N+j
	if w.Zero != nil {
		name = "int8_asym" // a constant: a sum of strings would be allocated
	}
	if !w.nibbles() {
		return s.schemes[name], w.Data[at:], w.N
	}
	if w.N%2 != 0 || j%2 != 0 {
		return f, nil, 0
	}
	return s.schemes[name], w.Data[at/2:], w.N / 2
}

// dot adds to dst, columns from j on, the product of x and rows from r on, which have one scale.
func (w *SchemeWeights) dot(s *isa, dst []float32, r, j int, x, scale, zero []float32) {
	done := 0
	if f, data, ld := w.routines(s, r, j); f.dot != nil {
		if done = len(dst) / s.lanes * s.lanes; done > 0 {
			f.dot(dst[:done], data, ld, len(x), x, scale, zero)
		}
	}
	values := w.values()
	for c := done; c < len(dst); c++ {
		var sum, less float32
		if zero != nil {
			less = zero[c]
		}
		for i, v := range x {
			sum += v * (w.at(values, (r+i)*w.N+j+c) - less)
		}
		dst[c] += scale[c] * sum
	}
}

// decode sets rows of dst, ldd apart, to cols columns from j on of rows from r on, which have one scale.
func (w *SchemeWeights) decode(s *isa, dst []float32, ldd, r, rows, j, cols int, scale, zero []float32) {
	done := 0
	if f, data, ld := w.routines(s, r, j); f.decode != nil {
		if done = cols / s.lanes * s.lanes; done > 0 {
			f.decode(dst, ldd, data, ld, rows, done, scale, zero)
		}
	}
	values := w.values()
	for i := range rows {
		for c := done; c < cols; c++ {
			v := w.at(values, (r+i)*w.N+j+c)
			if zero != nil {
				v -= zero[c]
			}
			dst[i*ldd+c] = scale[c] * v
		}
	}
}

// blocks calls f for rows [r, r+rows) that have one scale, at most schemeRows of them at a time, from row first to row end, and the columns
// [j, j+cols), at most schemeStrip.
func (w *SchemeWeights) blocks(s *isa, sc *scratch, first, end, j, cols int, f func(r, rows int, scale, zero []float32)) {
	buf, all := sc.floats(cols), sc.floats(cols)
	fillWith(all, 1)
	if w.Small != nil {
		fillWith(all, w.Global)
	}
	small := SchemeWeights{Values: "e4m3", Data: w.Small, N: w.N}
	last := -1 // the block of which buf has the scales
	for r := first; r < end; {
		rows, b := min(schemeRows, end-r), 0
		if w.Block > 0 {
			b = r / w.Block
			rows = min(rows, (b+1)*w.Block-r)
		}
		scale, zero := all, []float32(nil)
		switch {
		case w.Scale != nil:
			scale = w.Scale[b*w.N+j:][:cols]
		case w.Small != nil:
			if scale = buf; b != last {
				small.decode(s, buf, cols, b, 1, j, cols, all, nil)
				last = b
			}
		}
		if w.Zero != nil {
			zero = w.Zero[b*w.N+j:][:cols]
		}
		f(r, rows, scale, zero)
		r += rows
	}
}

// SchemeProduct is a product of rows with SchemeWeights. It keeps memory from call to call.
type SchemeProduct struct {
	Rounds bool // activations are rounded to 8 bits, see quant.RoundActivations

	rounding PackedProduct
	widened  []float32 // some columns
}

// SchemeScratch is what a SchemeProduct needs for up to m rows of k values and n columns.
func SchemeScratch(p *Pool, m, k, n int, precision Precision) ScratchSize {
	g := GemmArgs{M: m, N: min(n, widenedColumns(k)), K: k, Precision: precision}
	strip := min(n, schemeStrip)
	own := ScratchSize{Worker: floats(strip, strip, strip, schemeRows*strip), Other: sizeOf[float32](g.N*k+m*k) + int64(m*k)*5/4}
	return own.With(g.ScratchSize(p, false))
}

// widenedColumns is how many columns of k weights are widened at a time for a product of many rows: about 2 MB.
func widenedColumns(k int) int { return min(schemeWidened, max(32, (1<<19)/max(1, k)/32*32)) }

// Multiply computes C = A·w for rows of A and C, as g has them.
func (x *SchemeProduct) Multiply(p *Pool, g *GemmArgs, w *SchemeWeights) {
	one := *g
	if one.M == 0 || one.N == 0 {
		return
	}
	if x.Rounds && one.K > 0 {
		x.rounding.round(p, &one)
	}
	if one.M <= packedDotRows || one.K == 0 {
		strip := one.N / (4 * len(p.workers)) / 128 * 128 // several tasks for each worker, if they are not too narrow
		strip = min(schemeStrip, max(128, strip))
		split(p, (one.N+strip-1)/strip, 1, schemeStrips{p, one, w, strip})
		return
	}
	for cols, j := widenedColumns(one.K), 0; j < g.N; j += cols {
		one.N = min(cols, g.N-j)
		one.LDB, one.C = one.N, g.C[j:]
		x.widened = grown(x.widened, one.K*one.N)
		split(p, (one.K+schemeRows-1)/schemeRows, 1+elementGrain/(schemeRows*one.N), schemeDecoding{p, w, x.widened, one.K, j, one.N})
		one.B = F32(x.widened)
		Gemm(p, &one)
	}
}

// schemeStrips is for few rows.
type schemeStrips struct {
	p     *Pool
	g     GemmArgs
	w     *SchemeWeights
	strip int // columns of a task: whole vectors, so that the cuts do not change what is computed
}

func (x *schemeStrips) do(lo, hi, worker int) {
	s, g, w, sc := x.p.isa, &x.g, x.w, x.p.scratch(worker)
	for t := lo; t < hi; t++ {
		j := t * x.strip
		cols := min(x.strip, g.N-j)
		used, need := sc.used, sc.need
		for m := range g.M {
			clear(g.C[m*g.LDC+j:][:cols])
		}
		w.blocks(s, sc, 0, g.K, j, cols, func(r, rows int, scale, zero []float32) {
			for m := range g.M {
				w.dot(s, g.C[m*g.LDC+j:][:cols], r, j, g.A[m*g.LDA+r:][:rows], scale, zero)
			}
		})
		sc.giveBack(used, need)
		for m := range g.M {
			if c := g.C[m*g.LDC+j:][:cols]; !allFinite(s, c) {
				x.widen(c, g.A[m*g.LDA:][:g.K], j, sc)
				sc.giveBack(used, need)
			}
		}
	}
}

// widen computes the elements of c that are not finite again, from scaled weights: the scale of a sum may be infinite, or the sum may overflow, where
// no product with a scaled weight does. It leaves the others as they are, since which ones lie beside each other depends on the number of threads.
func (x *schemeStrips) widen(c, a []float32, j int, sc *scratch) {
	n := len(c)
	wide, sums := sc.floats(schemeRows*n), sc.floats(n)
	clear(sums)
	x.w.blocks(x.p.isa, sc, 0, len(a), j, n, func(r, rows int, scale, zero []float32) {
		x.w.decode(x.p.isa, wide, n, r, rows, j, n, scale, zero)
		for i := range rows {
			for k, v := range wide[i*n : (i+1)*n] {
				sums[k] += a[r+i] * v
			}
		}
	})
	for k, v := range c {
		if v-v != 0 {
			c[k] = sums[k]
		}
	}
}

// schemeDecoding widens blocks of rows of n columns.
type schemeDecoding struct {
	p       *Pool
	w       *SchemeWeights
	dst     []float32
	k, j, n int
}

func (x *schemeDecoding) do(lo, hi, worker int) {
	s := x.p.isa
	x.w.blocks(s, x.p.scratch(worker), lo*schemeRows, min(x.k, hi*schemeRows), x.j, x.n, func(r, rows int, scale, zero []float32) {
		x.w.decode(s, x.dst[r*x.n:], x.n, r, rows, x.j, x.n, scale, zero)
	})
}
