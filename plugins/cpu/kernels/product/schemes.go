package product

import (
	"sync"

	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// SchemeWeights is a row-major matrix [K, N] of quantised weights whose scales are separate tensors. A weight is
// (value - zero) * scale.
type SchemeWeights struct {
	// int8, int4 (two's complement), e2m1, e4m3 or e5m2; of 4-bit values, a byte holds two, the low half first
	Values string
	Data   []byte
	N      int
	Block  int       // consecutive rows of a column that share a scale and zero; 0: all
	Scale  []float32 // [ceil(K/Block), N]; nil: 1
	Zero   []float32 // [ceil(K/Block), N]; nil: 0

	Small  []byte // replaces Scale: e4m3 [ceil(K/Block), N], to be multiplied by Global
	Global float32
}

// schemeRoutines compute whole vectors of columns. Rows of w are ld bytes apart. zero is nil except for int8_asym.
type schemeRoutines struct {
	// dst += scale (x·(w - zero))
	dot func(dst []float32, w []byte, ld, rows int, x, scale, zero []float32)
	// dst[r] = scale (w[r] - zero)
	decode func(dst []float32, ldd int, w []byte, ld, rows, cols int, scale, zero []float32)
}

const (
	schemeStrip   = 1024 // maximum number of columns of a task
	schemeRows    = 32   // maximum number of rows that are decoded at a time
	schemeWidened = 256  // maximum number of columns that are widened at a time; see widenedColumns
)

// values returns the table of values, by byte or by half a byte.
func (w *SchemeWeights) values() *[256]float32 { return schemeValues()[w.Values] }

var schemeValues = sync.OnceValue(func() map[string]*[256]float32 {
	m := map[string]*[256]float32{}
	for name, f := range map[string]func(q byte) float32{
		"int8": func(q byte) float32 { return float32(int8(q)) }, "int4": func(q byte) float32 {
			return float32(int8(q<<4) >> 4)
		},
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

// at returns the value of weight i, counted row by row.
func (w *SchemeWeights) at(values *[256]float32, i int) float32 {
	if w.nibbles() {
		return values[w.Data[i/2]>>(i%2*4)&15]
	}
	return values[w.Data[i]]
}

// routines returns the set's routines, the data of the weights from row r and column j on, and the distance of rows in
// bytes. The routines are nil if rows do not begin at whole bytes.
func (w *SchemeWeights) routines(s *isa.Set, r, j int) (f schemeRoutines, data []byte, ld int) {
	name, at := w.Values, r*w.N+j
	if w.Zero != nil {
		name = "int8_asym" // a constant, since concatenation would allocate
	}
	if !w.nibbles() {
		return On(s).schemes[name], w.Data[at:], w.N
	}
	if w.N%2 != 0 || j%2 != 0 {
		return f, nil, 0
	}
	return On(s).schemes[name], w.Data[at/2:], w.N / 2
}

// dot adds to dst, which are columns from j on, the product of x and rows [r, r+len(x)), which share a scale.
func (w *SchemeWeights) dot(s *isa.Set, dst []float32, r, j int, x, scale, zero []float32) {
	done := 0
	if f, data, ld := w.routines(s, r, j); f.dot != nil {
		if done = len(dst) / s.Lanes * s.Lanes; done > 0 {
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

// decode stores columns [j, j+cols) of rows [r, r+rows), which share a scale, in rows of dst, ldd apart.
func (w *SchemeWeights) decode(s *isa.Set, dst []float32, ldd, r, rows, j, cols int, scale, zero []float32) {
	done := 0
	if f, data, ld := w.routines(s, r, j); f.decode != nil {
		if done = cols / s.Lanes * s.Lanes; done > 0 {
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

// blocks divides rows [first, end) into pieces of at most schemeRows rows that share scales, and calls f for each with
// the scales and zeros of columns [j, j+cols); cols <= schemeStrip.
func (w *SchemeWeights) blocks(s *isa.Set, sc *pool.Scratch, first, end, j, cols int,
	f func(r, rows int, scale, zero []float32)) {
	buf, all := sc.Floats(cols), sc.Floats(cols)
	vec.Fill(all, 1)
	if w.Small != nil {
		vec.Fill(all, w.Global)
	}
	small := SchemeWeights{Values: "e4m3", Data: w.Small, N: w.N}
	last := -1 // the block whose scales are in buf
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
			scale = buf
			if b != last {
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

// SchemeProduct is a product with SchemeWeights. It keeps memory between calls.
type SchemeProduct struct {
	Rounds bool // round activations to 8 bits first; see quant.RoundActivations

	widened []float32 // some columns of the weights
}

// SchemeScratch returns what a SchemeProduct needs for up to m rows of k activations and n columns.
func SchemeScratch(p *pool.Pool, m, k, n int, precision Precision) pool.Size {
	g := GemmArgs{M: m, N: min(n, widenedColumns(k)), K: k, Precision: precision}
	strip := min(n, schemeStrip)
	own := pool.Size{Worker: pool.FloatBytes(strip, strip, strip, schemeRows*strip),
		Other: pool.SizeOf[float32](g.N*k+m*k) + int64(m*k)*5/4}
	return own.With(g.ScratchSize(p))
}

// widenedColumns returns how many columns of k weights a product with many rows widens at a time: about 2 MB.
func widenedColumns(k int) int { return min(schemeWidened, max(32, (1<<19)/max(1, k)/32*32)) }

// Multiply computes C = A·w. It reads M, N, K, A, LDA, C, LDC and Precision of g.
func (x *SchemeProduct) Multiply(p *pool.Pool, g *GemmArgs, w *SchemeWeights) {
	one := *g
	if one.M == 0 || one.N == 0 {
		return
	}
	if x.Rounds && one.K > 0 {
		pool.Keep[rounding](p).round(p, &one)
	}
	if one.M <= packedDotRows || one.K == 0 {
		strip := one.N / (4 * p.Threads()) / 128 * 128 // several tasks per worker, unless they become too narrow
		strip = min(schemeStrip, max(128, strip))
		pool.Split(p, (one.N+strip-1)/strip, 1, schemeStrips{p, one, w, strip})
		return
	}
	for cols, j := widenedColumns(one.K), 0; j < g.N; j += cols {
		one.N = min(cols, g.N-j)
		one.LDB, one.C = one.N, g.C[j:]
		x.widened = pool.Sized(x.widened, one.K*one.N)
		pool.Split(p, (one.K+schemeRows-1)/schemeRows, 1+pool.Grain/(schemeRows*one.N),
			schemeDecoding{p, w, x.widened, one.K, j, one.N})
		one.B = stored.F32(x.widened)
		Gemm(p, &one)
	}
}

// schemeStrips computes products with few rows: it decodes weights as it multiplies.
type schemeStrips struct {
	p     *pool.Pool
	g     GemmArgs
	w     *SchemeWeights
	strip int // columns of a task: whole vectors, so that results do not depend on the number of tasks
}

func (x *schemeStrips) Do(lo, hi, worker int) {
	s, g, w, sc := x.p.Set, &x.g, x.w, x.p.Scratch(worker)
	for t := lo; t < hi; t++ {
		j := t * x.strip
		cols := min(x.strip, g.N-j)
		mark := sc.Mark()
		for m := range g.M {
			clear(g.C[m*g.LDC+j:][:cols])
		}
		w.blocks(s, sc, 0, g.K, j, cols, func(r, rows int, scale, zero []float32) {
			for m := range g.M {
				w.dot(s, g.C[m*g.LDC+j:][:cols], r, j, g.A[m*g.LDA+r:][:rows], scale, zero)
			}
		})
		sc.Release(mark)
		for m := range g.M {
			if c := g.C[m*g.LDC+j:][:cols]; !reduce.AllFinite(s, c) {
				x.widen(c, g.A[m*g.LDA:][:g.K], j, sc)
				sc.Release(mark)
			}
		}
	}
}

// widen recomputes the elements of c that are not finite, from scaled weights. dot scales the sum of a block, and that
// sum may overflow, or the scale be infinite, when products with scaled weights are finite. Elements that are finite
// stay as they are: which ones share a strip with them depends on the number of threads.
func (x *schemeStrips) widen(c, a []float32, j int, sc *pool.Scratch) {
	n := len(c)
	wide, sums := sc.Floats(schemeRows*n), sc.Floats(n)
	clear(sums)
	x.w.blocks(x.p.Set, sc, 0, len(a), j, n, func(r, rows int, scale, zero []float32) {
		x.w.decode(x.p.Set, wide, n, r, rows, j, n, scale, zero)
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

// schemeDecoding widens blocks of schemeRows rows of n columns.
type schemeDecoding struct {
	p       *pool.Pool
	w       *SchemeWeights
	dst     []float32
	k, j, n int
}

func (x *schemeDecoding) Do(lo, hi, worker int) {
	s := x.p.Set
	x.w.blocks(s, x.p.Scratch(worker), lo*schemeRows, min(x.k, hi*schemeRows), x.j, x.n,
		func(r, rows int, scale, zero []float32) {
			x.w.decode(s, x.dst[r*x.n:], x.n, r, rows, x.j, x.n, scale, zero)
		})
}
