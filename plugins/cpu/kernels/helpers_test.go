package kernels

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// sets returns the instruction sets on which a test runs: all, unless RLX_CONFORMANCE is a number. Then it returns two
// sets in assembly, or one with -short, for emulators, which are slow. The number and the test's name choose the sets.
// CI derives the number from the commit, so that every set is tested at times. The set generic is left to machines
// without assembly.
func sets(t testing.TB) []string {
	names, chosen := isa.Features(), os.Getenv("RLX_CONFORMANCE")
	if chosen == "all" || chosen == "" && !testing.Short() || len(names) == 1 {
		return names
	}
	n := 2
	if testing.Short() {
		n = 1
	}
	seed, _ := strconv.ParseUint(chosen, 10, 64)
	h := fnv.New64a()
	h.Write([]byte(t.Name()))
	own := slices.Clone(names[1:])
	rand.New(rand.NewPCG(seed, h.Sum64())).Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
	return own[:min(n, len(own))]
}

// eachPool runs f for every instruction set that sets returns, with three threads.
func eachPool(t *testing.T, f func(t *testing.T, p *Pool)) {
	t.Helper()
	eachSet(t, 3, f)
	withoutTiles(t, f)
}

// eachSet is eachPool with the given number of threads, and without pools that emulate instructions.
func eachSet(t *testing.T, threads int, f func(t *testing.T, p *Pool)) {
	t.Helper()
	for _, name := range sets(t) {
		t.Run(name, func(t *testing.T) { f(t, newPool(t, threads, name)) })
	}
}

// some returns how many of n random cases to try: fewer under an emulator.
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

// sameForAnyThreads checks that f gives the same bits for 1 to 16 threads.
func sameForAnyThreads(t *testing.T, f func(p *Pool) []float32) {
	t.Helper()
	numbers := []int{1, 2, 3, 4, 8, 16}
	if testing.Short() {
		numbers = []int{1, 3, 16}
	}
	for _, name := range sets(t) {
		var want []float32
		for _, n := range numbers {
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

// randoms returns n numbers, uniform in [-1, 1).
func randoms(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	return x
}

const guardBits = 0x7fa5a5a5 // a NaN that no kernel produces

// guarded returns a slice of n floats, all guard values, with guards before and after it. check fails if an outer guard
// was overwritten or an inner one was not.
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

// near reports whether got is within abs + rel*|want| of want. NaN and infinities are equal to themselves only.
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
