package fft

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// fftLengths covers the ways to compute a transform: short and long, smooth lengths and primes, even and odd.
var fftLengths = []int{1, 2, 3, 4, 6, 7, 9, 10, 14, 16, 17, 22, 30, 31, 49, 64, 101, 127, 202, 255, 256, 257, 343, 360,
	400, 514, 625, 686, 720, 1000, 1009, 1024, 2018, 2048, 3125, 4096, 6561, 9973}

// TestFFT compares some numbers of each transform with sums in float64.
func TestFFT(t *testing.T) {
	kerneltest.EachSet(t, 2, func(t *testing.T, p *pool.Pool) {
		for i, n := range fftLengths {
			if testing.Short() && i%4 > 0 {
				continue
			}
			for _, rows := range []int{1, 33} {
				if n*rows < 100_000 {
					testFFT(t, p, n, rows)
				}
			}
		}
		testFFT(t, p, 1<<15, 1)
		testFFT(t, p, 50_021, 2)
	})
}

func testFFT(t *testing.T, p *pool.Pool, n, rows int) {
	t.Helper()
	for kind := Forward; kind <= RealInverse; kind++ {
		spec := Spec{Kind: kind, N: n, Scale: 1 / math.Sqrt(float64(n))}
		checkFFT[float32](t, p, spec, rows, 3e-6)
		if n <= 4096 {
			checkFFT[float64](t, p, spec, rows, 1e-13)
		}
	}
}

func checkFFT[T float32 | float64](t *testing.T, p *pool.Pool, spec Spec, rows int, tol float64) {
	t.Helper()
	in, out := spec.sizes()
	src, dst := make([]T, rows*in), make([]T, rows*out+16)
	r := rand.New(rand.NewPCG(uint64(spec.N), 1))
	for i := range src {
		src[i] = T(r.NormFloat64())
	}
	for i := range dst {
		dst[i] = 7
	}
	Transform(p, spec, dst[:rows*out], src, rows)
	for _, v := range dst[rows*out:] {
		if v != 7 {
			t.Fatalf("%+v in %d rows: wrote past the result", spec, rows)
		}
	}
	for _, row := range []int{rows / 2} {
		x, y := src[row*in:][:in], dst[row*out:][:out]
		for _, k := range []int{1, spec.N / 2, r.IntN(spec.N)} {
			if k >= spec.N {
				continue
			}
			re, im, isReal := sumOfFFT(spec, x, k)
			gotRe, gotIm := 0.0, 0.0
			switch {
			case isReal:
				gotRe = float64(y[k])
			case k < out/2:
				gotRe, gotIm = float64(y[k]), float64(y[out/2+k])
			default:
				continue
			}
			if d := math.Hypot(gotRe-re, gotIm-im); !(d <= tol) {
				t.Fatalf("%T %+v in %d rows: number %d of row %d is %v, %v; want %v, %v", tol, spec, rows, k, row,
					gotRe, gotIm, re, im)
			}
		}
	}
}

// sumOfFFT computes number k of a transform by its definition.
func sumOfFFT[T float32 | float64](s Spec, x []T, k int) (re, im float64, isReal bool) {
	n, sign := s.N, 1.0
	if s.backward() {
		sign = -1
	}
	for j := range n {
		var a, b float64
		switch bins := n/2 + 1; {
		case s.Kind == Real:
			a = float64(x[j])
		case s.Kind == RealInverse && j < bins:
			a, b = float64(x[j]), float64(x[bins+j])
			if 2*j%n == 0 {
				b = 0
			}
		case s.Kind == RealInverse:
			a, b = float64(x[n-j]), -float64(x[bins+n-j])
		default:
			a, b = float64(x[j]), float64(x[n+j])
		}
		sin, cos := math.Sincos(-sign * 2 * math.Pi * float64(j*k%n) / float64(n))
		re, im = re+a*cos-b*sin, im+a*sin+b*cos
	}
	return re * s.Scale, im * s.Scale, s.Kind == RealInverse
}

// TestFFTNotFinite checks that one NaN or infinity makes its row NaN and leaves other rows alone.
func TestFFTNotFinite(t *testing.T) {
	kerneltest.EachSet(t, 2, func(t *testing.T, p *pool.Pool) {
		for _, n := range []int{1, 2, 4, 8, 31, 256, 512, 1009} {
			for kind := Forward; kind <= RealInverse; kind++ {
				spec := Spec{Kind: kind, N: n, Scale: 1}
				in, out := spec.sizes()
				for at := range in {
					if in > 32 && at%37 != 0 {
						continue
					}
					const rows = 3
					src, dst := make([]float32, rows*in), make([]float32, rows*out)
					for i := range src {
						src[i] = float32(i%7) - 3
					}
					src[in+at] = float32(math.Inf(1 - 2*(at%2)))
					Transform(p, spec, dst, src, rows)
					unused := kind == RealInverse && at >= in/2 && 2*(at-in/2)%n == 0
					for i, v := range dst {
						if bad := i/out == 1 && !unused; (v != v) != bad {
							t.Fatalf("%+v with an infinity at %d: element %d of row %d is %v", spec, at, i%out, i/out,
								v)
						}
					}
				}
			}
		}
	})
}

// TestFFTThreads checks that results have the same bits for any number of threads, also if threads share a row.
func TestFFTThreads(t *testing.T) {
	for _, c := range []struct{ n, rows int }{{60, 70}, {1024, 1}, {1024, 2}, {1024, 9}, {10007, 1}, {1 << 17, 2}} {
		if testing.Short() && c.n > 1<<16 {
			continue // slow under an emulator; how work is divided does not depend on the instruction set
		}
		for kind := Forward; kind <= RealInverse; kind++ {
			spec := Spec{Kind: kind, N: c.n, Scale: 0.5}
			in, out := spec.sizes()
			src := make([]float32, c.rows*in)
			for i := range src {
				src[i] = float32(math.Sin(float64(i * i)))
			}
			var first []float32
			for _, threads := range []int{1, 2, 3} {
				p, err := pool.New(threads)
				if err != nil {
					t.Fatal(err)
				}
				dst := make([]float32, c.rows*out)
				Transform(p, spec, dst, src, c.rows)
				p.Close()
				if first == nil {
					first = dst
				}
				for i, v := range dst {
					if v != first[i] {
						t.Fatalf("%+v in %d rows: %d threads give other bits than 1", spec, c.rows, threads)
					}
				}
			}
		}
	}
}

func BenchmarkFFT(b *testing.B) {
	for _, c := range []struct{ n, rows int }{{1 << 10, 1}, {1 << 12, 1}, {1 << 14, 1}, {1 << 16, 1}, {1 << 18, 1},
		{1 << 20, 1}, {64, 4096}, {256, 1024}, {400, 1024}, {1024, 256}, {4096, 64},
		{1000, 1}, {10007, 1}, {65537, 1}, {59049, 1}, {100000, 1}, {1009, 64}, {343, 64}} {
		for _, kind := range []Kind{Forward, Real, RealInverse} {
			b.Run(fmt.Sprintf("%s/%dx%d", []string{"fft", "ifft", "rfft", "irfft"}[kind], c.rows, c.n),
				func(b *testing.B) {
					spec := Spec{Kind: kind, N: c.n, Scale: 1}
					p, err := pool.New(2)
					if err != nil {
						b.Fatal(err)
					}
					defer p.Close()
					in, out := spec.sizes()
					src, dst := make([]float32, c.rows*in), make([]float32, c.rows*out)
					for i := range src {
						src[i] = float32(i%13) - 6
					}
					Transform(p, spec, dst, src, c.rows) // makes the plan
					for b.Loop() {
						Transform(p, spec, dst, src, c.rows)
					}
				})
		}
	}
}

func TestFFTScratch(t *testing.T) {
	for _, n := range []int{7, 60, 97, 400, 1009, 3000, 10007, 1 << 17} {
		for _, rows := range []int{1, 40} {
			for kind := Forward; kind <= RealInverse && n*rows < kerneltest.Some(500_000); kind++ {
				spec := Spec{Kind: kind, N: n, Scale: 1}
				in, out := spec.sizes()
				kerneltest.EachNewPool(t, func(t *testing.T, p *pool.Pool) {
					need := Scratch[float32](p, spec)
					kerneltest.Reserve(t, p, need)
					Transform(p, spec, make([]float32, rows*out), make([]float32, rows*in), rows)
					kerneltest.Fits(
						t, p, need, 0, fmt.Sprintf("%s with %d threads: %d rows of %+v", p.Features(), p.Threads(),
							rows,
							spec))
				})
			}
		}
	}
}
