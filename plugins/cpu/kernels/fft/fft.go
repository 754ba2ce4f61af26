// Package fft computes Fourier transforms.
package fft

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Kind is a kind of Fourier transform. A row of complex numbers is stored as all real parts followed by all
// imaginary parts.
type Kind uint8

// The transforms.
const (
	Forward Kind = iota // n complex numbers to n
	Inverse
	Real        // n real numbers to n/2+1 complex ones
	RealInverse // n/2+1 complex numbers to n real ones
)

// Spec describes a transform. N is the number of complex numbers, or of real ones, and Scale a factor of the result.
type Spec struct {
	Kind  Kind
	N     int
	Scale float64
}

// sizes returns the number of values in a row of the operand and of the result.
func (s Spec) sizes() (in, out int) {
	switch bins := s.N/2 + 1; s.Kind {
	case Real:
		return s.N, 2 * bins
	case RealInverse:
		return 2 * bins, s.N
	}
	return 2 * s.N, 2 * s.N
}

func (s Spec) real() bool     { return s.Kind >= Real }
func (s Spec) backward() bool { return s.Kind == Inverse || s.Kind == RealInverse }

// halved reports whether a real transform is computed by a complex one of half as many numbers.
func (s Spec) halved() bool { return s.real() && s.N%2 == 0 }

// fftPlan says how a transform is computed, and holds its tables.
//
// The core is a complex transform of n numbers. If n has a prime factor that is not in radices, the core is a
// convolution (Bluestein, 1970), computed by transforms of m numbers; otherwise m is n. Transforms of m numbers are
// computed in one of two ways. Neither reorders the lanes of vectors:
//
//   - Short ones take a row per lane, so as many rows at a time as a vector has lanes.
//   - Long ones view a row as a matrix [a, b]. They transform its columns, multiply by roots of unity, transpose, and
//     transform the columns again (Bailey, 1990). Threads share blocks of columns, which fit the caches.
type fftPlan[T float32 | float64] struct {
	Spec
	f      *routines[T]
	n, m   int       // numbers of the core, and of the transforms that compute it
	chirp  planes[T] // e^(-pi i j^2/n), for the convolution; nil if m is n
	filter planes[T] // the transform of the conjugate of chirp, over m
	out    planes[T] // chirp times the scale
	long   bool
	a, b   *columnFFT[T] // b is for long transforms only
	roots  planes[T]     // roots of unity to multiply by between a and b, in blocks of columns

	halves planes[T] // roots of unity for routines.split and halves, if the transform is halved
}

const (
	// longFFT is the least length of a long transform.
	longFFT = 256
	// Threads share rows longer than sharedFFT. Of shorter rows, each thread takes whole ones if there are enough.
	sharedFFT = 1 << 16
)

// planFFT returns the pool's plan of a transform. It is made once.
func planFFT[T float32 | float64](p *pool.Pool, spec Spec) *fftPlan[T] {
	plans := pool.Keep[map[Spec]*fftPlan[T]](p)
	plan := (*plans)[spec]
	if plan == nil {
		if *plans == nil {
			*plans = map[Spec]*fftPlan[T]{}
		}
		plan = newFFTPlan(routinesOf[T](p.Set), spec)
		(*plans)[spec] = plan
	}
	return plan
}

// routinesOf returns the routines of an instruction set, or loops in Go.
func routinesOf[T float32 | float64](s *isa.Set) *routines[T] {
	if f, ok := any(table.On(s)).(*routines[T]); ok {
		return f
	}
	return inGo[T]()
}

func newFFTPlan[T float32 | float64](f *routines[T], spec Spec) *fftPlan[T] {
	t := &fftPlan[T]{Spec: spec, f: f, n: spec.N}
	if spec.halved() {
		t.n = spec.N / 2
		h := t.n
		w := func(k int) (re, im float64) { // with the factors that split expects
			re, im = root(k, 2*h)
			if spec.Kind == RealInverse {
				return -re * spec.Scale, im * spec.Scale
			}
			return re * spec.Scale / 2, im * spec.Scale / 2
		}
		t.halves = newPlanes[T](h/2 + 1)
		for k := range t.halves.re {
			re, im := w(k)
			t.halves.re[k], t.halves.im[k] = T(re), T(im)
		}
	}
	t.m = t.n
	if _, ok := factors(t.n); !ok {
		t.m = convolutionLength(2*t.n - 1)
	}
	a := divide(t.m, f.lanes)
	t.long = t.m >= longFFT && a > 0
	if t.long {
		t.a, t.b = newColumnFFT[T](a), newColumnFFT[T](t.m/a)
		t.roots = t.makeRoots(t.rootScale())
	} else {
		t.a = newColumnFFT[T](t.m)
	}
	if t.m != t.n {
		t.convolution()
	}
	return t
}

// rootScale returns the factor of roots. A long transform is scaled by its roots, so that it needs no extra pass.
func (t *fftPlan[T]) rootScale() float64 {
	if t.m != t.n || t.halved() {
		return 1
	}
	return t.Scale
}

// divide returns the factor of n that is closest to its square root from above, or 0 if that or its cofactor is below
// least.
func divide(n, least int) int {
	for a := int(math.Sqrt(float64(n))); a >= max(least, 2); a-- {
		if n%a == 0 {
			return n / a
		}
	}
	return 0
}

// convolutionLength returns the least length from n on that has few small factors.
func convolutionLength(n int) int {
	best := math.MaxInt
	for _, odd := range []int{1, 3, 5, 9, 15, 25, 27, 45, 75} {
		m := odd * 4
		for m < n {
			m *= 2
		}
		best = min(best, m)
	}
	return best
}

func newPlanes[T float32 | float64](n int) planes[T] {
	both := make([]T, 2*n)
	return planes[T]{both[:n:n], both[n:]}
}

// blocks divides n columns into count blocks of width columns. The last block also has the rest, so fewer than 2*width.
func (t *fftPlan[T]) blocks(n, rows int) (count, width int) {
	width = 2 * t.f.lanes
	if rows > 256 {
		width = t.f.lanes
	}
	return max(1, n/width), width
}

func block(i, count, width, n int) (at, w int) {
	if i == count-1 {
		return i * width, n - i*width
	}
	return i * width, width
}

func (t *fftPlan[T]) makeRoots(scale float64) planes[T] {
	out, i := newPlanes[T](t.m), 0
	count, width := t.blocks(t.b.n, t.a.n)
	for k := range count {
		at, w := block(k, count, width, t.b.n)
		for row := range t.a.n {
			for c := at; c < at+w; c++ {
				re, im := root(row*c, t.m)
				out.re[i], out.im[i] = T(re*scale), T(im*scale)
				i++
			}
		}
	}
	return out
}

// convolution makes the tables of a convolution. It transforms the filter in float64.
func (t *fftPlan[T]) convolution() {
	lanes := 1
	if !t.long {
		lanes = t.f.lanes // each number is repeated in every lane
	}
	t.chirp, t.out, t.filter = newPlanes[T](t.n*lanes), newPlanes[T](t.n*lanes), newPlanes[T](t.m*lanes)
	filter := newPlanes[float64](t.m)
	scale := t.Scale
	if t.halved() {
		scale = 1
	}
	for j := range t.n {
		re, im := root(j*j%(2*t.n), 2*t.n)
		for i := range lanes {
			t.chirp.re[j*lanes+i], t.chirp.im[j*lanes+i] = T(re), T(im)
			t.out.re[j*lanes+i], t.out.im[j*lanes+i] = T(re*scale), T(im*scale)
		}
		for _, at := range []int{j, (t.m - j) % t.m} {
			filter.re[at], filter.im[at] = re, -im
		}
	}
	c := newColumnFFT[float64](t.m)
	c.run(inGo[float64](), filter, 1, filter, 1, 1, newPlanes[float64](t.m), newPlanes[float64](t.m))
	for j := range t.m {
		for i := range lanes {
			t.filter.re[j*lanes+i], t.filter.im[j*lanes+i] = T(filter.re[j]/float64(t.m)), T(filter.im[j]/float64(t.m))
		}
	}
}

// bytes returns the size of the tables.
func (t *fftPlan[T]) bytes() int64 {
	n := t.a.size() + 2*(len(t.halves.re)+len(t.chirp.re)+len(t.filter.re)+len(t.out.re)+len(t.roots.re))
	if t.b != nil {
		n += t.b.size()
	}
	return pool.SizeOf[T](n)
}

// Scratch returns what Transform needs. It makes the plan with its tables.
func Scratch[T float32 | float64](p *pool.Pool, spec Spec) pool.Size {
	t := planFFT[T](p, spec)
	r := pool.Size{Packed: t.bytes()}
	if !t.long {
		r.Worker = t.shortScratch()
		return r
	}
	r.Shared = t.rowScratch()
	r.Worker = t.blockScratch()
	if t.m <= sharedFFT {
		r.Worker += t.rowScratch()
	}
	return r
}

// planesBytes returns the size in bytes of planes of these lengths in scratch memory.
func planesBytes[T float32 | float64](lengths ...int) (n int64) {
	for _, l := range lengths {
		n += 2 * pool.FloatBytes(l*int(unsafe.Sizeof(T(0)))/4)
	}
	return n
}

func planesIn[T float32 | float64](s *pool.Scratch, n int) planes[T] {
	return planes[T]{pool.Numbers[T](s, n), pool.Numbers[T](s, n)}
}

// Transform transforms the rows of src to those of dst.
func Transform[T float32 | float64](p *pool.Pool, spec Spec, dst, src []T, rows int) {
	in, out := spec.sizes()
	if spec.N < 1 || len(src) < rows*in || len(dst) < rows*out {
		panic(fmt.Sprintf("BUG: fft of %d in %d rows: a slice is short", spec.N, rows))
	}
	t := planFFT[T](p, spec)
	switch {
	case rows == 0:
	case !t.long:
		groups := (rows + t.f.lanes - 1) / t.f.lanes
		pool.Split(p, groups, 1+pool.Grain/(in*t.f.lanes), shortFFT[T]{t, p, dst, src, rows})
	case t.m <= sharedFFT && rows >= p.Threads():
		pool.Split(p, rows, 1+pool.Grain/in, rowsFFT[T]{t, p, dst, src})
	default:
		r := pool.Keep[longRun[T]](p)
		p.Shared.Reset()
		mark := p.Shared.Mark()
		for row := range rows {
			p.Shared.Release(mark)
			r.row = t.newRow(p, &p.Shared, dst[row*out:][:out], src[row*in:][:in])
			for r.step = 0; r.step < r.row.steps(); r.step++ {
				p.Share(r.row.items(r.step), 1, r)
			}
			t.finish(dst[row*out:][:out], src[row*in:][:in])
		}
		*r = longRun[T]{}
	}
}

// rowsFFT computes whole rows with long transforms.
type rowsFFT[T float32 | float64] struct {
	t        *fftPlan[T]
	p        *pool.Pool
	dst, src []T
}

func (r *rowsFFT[T]) Do(lo, hi, worker int) {
	in, out := r.t.sizes()
	s := r.p.Scratch(worker)
	mark := s.Mark()
	for i := lo; i < hi; i++ {
		dst, src := r.dst[i*out:][:out], r.src[i*in:][:in]
		row := r.t.newRow(r.p, s, dst, src)
		for step := range row.steps() {
			row.do(step, 0, row.items(step), s)
		}
		r.t.finish(dst, src)
		s.Release(mark)
	}
}

// longRun is a step of a long transform that the workers share.
type longRun[T float32 | float64] struct {
	row  fftRow[T]
	step int
}

func (r *longRun[T]) Do(lo, hi, worker int) { r.row.do(r.step, lo, hi, r.row.p.Scratch(worker)) }

// finish makes a row NaN if its operand has a NaN or an infinity. It looks for one only if the first numbers of the
// result are not finite: they are sums over the whole row.
func (t *fftPlan[T]) finish(dst, src []T) {
	suspect := dst[0] - dst[0]
	if t.Kind == RealInverse {
		suspect += dst[min(1, t.N-1)] - dst[min(1, t.N-1)]
	} else {
		suspect += dst[len(dst)/2] - dst[len(dst)/2]
	}
	if suspect == 0 {
		return
	}
	for i, x := range src {
		if t.Kind == RealInverse && i >= len(src)/2 {
			if k := i - len(src)/2; 2*k%t.N == 0 {
				continue // the transform ignores the imaginary parts of numbers 0 and N/2
			}
		}
		if x-x != 0 {
			for i := range dst {
				dst[i] = T(math.NaN())
			}
			return
		}
	}
}
