package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

// eachPool runs a test for every instruction set of this machine, with three threads.
func eachPool(t *testing.T, f func(t *testing.T, p *Pool)) {
	t.Helper()
	eachSet(t, 3, f)
	withoutTiles(t, f)
}

// eachSet is eachPool with another number of threads, and without emulated instructions.
func eachSet(t *testing.T, threads int, f func(t *testing.T, p *Pool)) {
	t.Helper()
	for i, name := range Features() {
		if i == 0 && testing.Short() {
			continue // the loops in Go, under an emulator: other machines run them faster
		}
		t.Run(name, func(t *testing.T) { f(t, newPool(t, threads, name)) })
	}
}

// some is how many of n random cases to try: fewer under an emulator.
func some(n int) int {
	if testing.Short() {
		return (n + 3) / 4
	}
	return n
}

func newPool(t testing.TB, n int, features string) *Pool {
	t.Helper()
	p, err := NewPoolFor(n, features)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// sameForAnyThreads checks that f gives the same bits for 1 to 16 threads on every instruction set.
func sameForAnyThreads(t *testing.T, f func(p *Pool) []float32) {
	t.Helper()
	for _, name := range Features() {
		var want []float32
		for _, n := range []int{1, 2, 3, 4, 8, 16} {
			got := f(newPool(t, n, name))
			if want == nil {
				want = got
			}
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%s: element %d is %v with %d threads, %v with one", name, i, got[i], n, want[i])
				}
			}
		}
	}
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// randoms is n numbers uniform in [-1, 1).
func randoms(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	return x
}

const guardBits = 0x7fa5a5a5 // a NaN that no kernel produces

// guarded is a slice of n floats that are all guard values, with guards around it; check reports a guard that was overwritten.
func guarded(n int) (inner []float32, check func(t *testing.T, what string)) {
	const pad = 67
	all := make([]float32, n+2*pad)
	for i := range all {
		all[i] = math.Float32frombits(guardBits)
	}
	inner = all[pad : pad+n : pad+n]
	return inner, func(t *testing.T, what string) {
		t.Helper()
		for i, x := range all {
			outside := i < pad || i >= pad+n
			if outside != isGuard(x) {
				t.Fatalf("%s: element %d of %d (outside: %v) is %v", what, i-pad, n, outside, x)
			}
		}
	}
}

func isGuard(x float32) bool { return math.Float32bits(x) == guardBits }

// near reports whether got is within abs + rel*|want|, with NaN and infinities equal to themselves only.
func near(got float32, want, abs, rel float64) bool {
	g := float64(got)
	if math.IsNaN(want) || math.IsInf(want, 0) {
		return math.IsNaN(want) == math.IsNaN(g) && (math.IsNaN(want) || g == want)
	}
	return math.Abs(g-want) <= abs+rel*math.Abs(want)
}

func compare(t *testing.T, what string, got []float32, want []float64, abs, rel float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !near(got[i], want[i], abs, rel) {
			t.Fatalf("%s: element %d of %d is %v, want %v", what, i, len(want), got[i], want[i])
		}
	}
}
