// Package kerneltest has what the tests of several packages of kernels share.
package kerneltest

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"unsafe"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// Sets returns the instruction sets on which a test runs: all, unless RLX_CONFORMANCE is a number. Then it returns two
// sets in assembly or, with -short, for emulators, which are slow, one; and it skips every other test. The number and
// the test's name choose the sets and the tests. CI derives the number from the commit, so that each is tried at times.
// The set generic is left to machines without assembly.
func Sets(t testing.TB) []string {
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
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	if testing.Short() && rng.IntN(2) == 0 {
		t.Skipf("other values of RLX_CONFORMANCE than %s choose this test; so does all", chosen)
	}
	own := slices.Clone(names[1:])
	rng.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
	return own[:min(n, len(own))]
}

// EachPool runs f for every instruction set that sets returns, and for more, with three threads.
func EachPool(t *testing.T, f func(t *testing.T, p *pool.Pool), more ...*isa.Set) {
	t.Helper()
	EachSet(t, 3, f, more...)
}

// EachSet is EachPool with the given number of threads.
func EachSet(t *testing.T, threads int, f func(t *testing.T, p *pool.Pool), more ...*isa.Set) {
	t.Helper()
	for _, name := range Sets(t) {
		t.Run(name, func(t *testing.T) { f(t, NewPool(t, threads, name)) })
	}
	for _, s := range more {
		t.Run(s.Name, func(t *testing.T) {
			f(t, PoolOn(t, threads, s))
		})
	}
}

// Sample returns which of n cases to try: all, unless RLX_CONFORMANCE is a number. Then the number and the test's name
// choose a third of the cases or, with -short, for emulators, a tenth.
func Sample(t testing.TB, n int) []int {
	t.Helper()
	chosen := os.Getenv("RLX_CONFORMANCE")
	seed, _ := strconv.ParseUint(chosen, 10, 64)
	h := fnv.New64a()
	h.Write([]byte(t.Name()))
	order := rand.New(rand.NewPCG(seed, h.Sum64()+1)).Perm(n)
	switch {
	case chosen == "all" || chosen == "" && !testing.Short():
	case testing.Short():
		order = order[:(n+9)/10]
	default:
		order = order[:(n+2)/3]
	}
	slices.Sort(order)
	return order
}

// Some returns how many of n random cases to try: fewer under an emulator.
func Some(n int) int {
	if testing.Short() {
		return (n + 3) / 4
	}
	return n
}

func NewPool(t testing.TB, n int, features string) *pool.Pool {
	t.Helper()
	p, err := pool.NewFor(n, features)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// PoolOn returns a pool for a set, which may be one that package isa has extended.
func PoolOn(t testing.TB, n int, s *isa.Set) *pool.Pool {
	t.Helper()
	p := NewPool(t, n, "")
	p.Set = s
	return p
}

// SameForAnyThreads checks that f gives the same bits for 1 to 16 threads.
func SameForAnyThreads(t *testing.T, f func(p *pool.Pool) []float32) {
	t.Helper()
	numbers := []int{1, 2, 3, 4, 8, 16}
	if testing.Short() {
		numbers = []int{1, 3, 16}
	}
	for _, name := range Sets(t) {
		var want []float32
		for _, n := range numbers {
			got := f(NewPool(t, n, name))
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

func RNG(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// Randoms returns n numbers, uniform in [-1, 1).
func Randoms(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	return x
}

const GuardBits = 0x7fa5a5a5 // a NaN that no kernel produces

// Guarded returns a slice of n floats, all guard values, with guards before and after it. check fails if an outer guard
// was overwritten or an inner one was not.
func Guarded(n int) (inner []float32, check func(t *testing.T, what string)) {
	const pad = 67
	all := make([]float32, n+2*pad)
	for i := range all {
		all[i] = math.Float32frombits(GuardBits)
	}
	inner = all[pad : pad+n : pad+n]
	return inner, func(t *testing.T, what string) {
		t.Helper()
		for i, x := range all {
			outside := i < pad || i >= pad+n
			if outside != IsGuard(x) {
				t.Fatalf("%s: element %d of %d (outside: %v) is %v", what, i-pad, n, outside, x)
			}
		}
	}
}

func IsGuard(x float32) bool { return math.Float32bits(x) == GuardBits }

// Near reports whether got is within abs + rel*|want| of want. NaN and infinities are equal to themselves only.
func Near(got float32, want, abs, rel float64) bool {
	g := float64(got)
	if math.IsNaN(want) || math.IsInf(want, 0) {
		return math.IsNaN(want) == math.IsNaN(g) && (math.IsNaN(want) || g == want)
	}
	return math.Abs(g-want) <= abs+rel*math.Abs(want)
}

func Compare(t *testing.T, what string, got []float32, want []float64, abs, rel float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !Near(got[i], want[i], abs, rel) {
			t.Fatalf("%s: element %d of %d is %v, want %v", what, i, len(want), got[i], want[i])
		}
	}
}

// Fits checks that a kernel has used no more memory than Reserve allocated. other is what it keeps beside that.
func Fits(t *testing.T, p *pool.Pool, r pool.Size, other int64, what string) {
	t.Helper()
	used := p.Used()
	if used.Shared > r.Shared {
		t.Errorf("%s: the workers share %d bytes; ScratchSize says %d", what, used.Shared, r.Shared)
	}
	if used.Worker > r.Worker {
		t.Errorf("%s: a worker needs %d bytes; ScratchSize says %d", what, used.Worker, r.Worker)
	}
	if used.Alone > r.Alone {
		t.Errorf("%s: the pool of a worker needs %d bytes; ScratchSize says %d", what, used.Alone, r.Alone)
	}
	if other > r.Other+r.Other/4+8192 { // see Bytes
		t.Errorf("%s: %d bytes are kept; ScratchSize says %d", what, other, r.Other)
	}
}

func Reserve(t *testing.T, p *pool.Pool, r pool.Size) {
	t.Helper()
	if err := p.Reserve(r, func(n int64) ([]float32, error) { return make([]float32, n), nil }); err != nil {
		t.Fatal(err)
	}
}

// EachNewPool runs f with new pools of one and of three threads, for each instruction set.
func EachNewPool(t *testing.T, f func(t *testing.T, p *pool.Pool)) {
	for _, name := range Sets(t) {
		for _, threads := range []int{1, 3} {
			f(t, NewPool(t, threads, name))
		}
	}
}

// CheckTable checks that no set in assembly lacks a routine, except for optional ones. on returns the set's routines.
// If one were missing from a table by mistake, slow loops in Go would silently replace it.
func CheckTable(t *testing.T, on func(s *isa.Set) any, optional ...string) {
	t.Helper()
	var lacks func(name string, v reflect.Value) []string
	lacks = func(name string, v reflect.Value) (names []string) {
		switch v.Kind() {
		case reflect.Func:
			if v.IsNil() && !slices.Contains(optional, name) {
				names = append(names, name)
			}
		case reflect.Array, reflect.Slice:
			for i := range v.Len() {
				names = append(names, lacks(fmt.Sprintf("%s[%d]", name, i), v.Index(i))...)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				field := v.Type().Field(i).Name
				if name != "" {
					field = name + "." + field
				}
				names = append(names, lacks(field, v.Field(i))...)
			}
		}
		return names
	}
	for _, s := range isa.Available()[1:] {
		if names := lacks("", reflect.ValueOf(on(s))); len(names) > 0 {
			t.Errorf("%s lacks %v", s.Name, names)
		}
	}
}

func RandomBytes[T int8 | uint8](r *rand.Rand, n int) []T {
	x := make([]T, n)
	for i := range x {
		x[i] = T(r.IntN(256))
		if r.IntN(4) == 0 { // the ends of the range, whose products are the largest
			x[i] = T([...]int{0, 127, 128, 255}[r.IntN(4)])
		}
	}
	return x
}

// Finished turns a sum of products into a result, by the definition.
func Finished[T int8 | uint8](acc int32, mult float32, zero int) T {
	least, most := 0.0, 255.0
	if T(0)-1 < 0 {
		least, most = -128, 127
	}
	v := math.RoundToEven(float64(float32(acc)*mult)) + float64(zero)
	if v != v {
		return 0
	}
	return T(int(min(max(v, least), most)))
}

func RandomZero[T int8 | uint8](r *rand.Rand) int {
	if r.IntN(2) == 0 {
		return 0
	}
	return int(T(r.IntN(256)))
}

// Multipliers returns either one or n scales. Some are special values.
func Multipliers(r *rand.Rand, n int) []float32 {
	m := make([]float32, []int{1, n}[r.IntN(2)])
	for i := range m {
		m[i] = r.Float32() * 0.001
		if r.IntN(12) == 0 {
			m[i] = [...]float32{0, -0.01, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1e30,
				1e-40}[r.IntN(7)]
		}
	}
	return m
}

func Biases(r *rand.Rand, n int) []int32 {
	if r.IntN(2) == 0 {
		return nil
	}
	b := make([]int32, n)
	for i := range b {
		b[i] = int32(r.Uint32()) >> r.IntN(32)
	}
	return b
}

// At returns which element of a tensor of the given shape is read for an index of the broadcast result.
func At(shape, index []int) int {
	n := 0
	for i, d := range shape {
		x := index[len(index)-len(shape)+i]
		if d == 1 {
			x = 0
		}
		n = n*d + x
	}
	return n
}

// Each calls f for every index of shape in order.
func Each(shape []int, f func(n int, index []int)) {
	index := make([]int, len(shape))
	for n := range count(shape) {
		rest := n
		for i := len(shape) - 1; i >= 0; i-- {
			index[i] = rest % shape[i]
			rest /= shape[i]
		}
		f(n, index)
	}
}

func RandomShape(r *rand.Rand) []int {
	shape := make([]int, r.IntN(5))
	for i := range shape {
		shape[i] = []int{1, 2, 3, 5, 8, 33, 0}[min(6, r.IntN(40)%7)]
	}
	if count(shape) > 20000 {
		return shape[:len(shape)/2]
	}
	return shape
}

func DescribeShape(what string, shape, extra []int) string {
	return fmt.Sprint(what, " ", shape, " ", extra)
}

// At2 is at without broadcast.
func At2(shape, index []int) int {
	n := 0
	for i, d := range shape {
		n = n*d + index[i]
	}
	return n
}

// RandomPairs returns n pairs of random bfloat16.
func RandomPairs(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		lo, hi := math.Float32bits(r.Float32()-0.5)>>16, math.Float32bits(r.Float32()-0.5)&^0xffff
		x[i] = math.Float32frombits(hi | lo)
	}
	return x
}

func RandomWeights(r *rand.Rand, kind dtype.DType, n int) stored.Values {
	x := Randoms(r, n)
	half := make([]uint16, n)
	for i, v := range x {
		if kind == dtype.F16 {
			half[i] = dtype.F32ToF16(v)
		} else {
			half[i] = dtype.F32ToBF16(v)
		}
	}
	switch kind {
	case dtype.F16:
		return stored.F16(half)
	case dtype.BF16:
		return stored.BF16(half)
	}
	return stored.F32(x)
}

func WeightAt(w stored.Values, i int) float32 {
	switch w.Kind {
	case dtype.F16:
		return dtype.F16ToF32(w.Halves[i])
	case dtype.BF16:
		return dtype.BF16ToF32(w.Halves[i])
	}
	return w.Floats[i]
}

// Lines returns n floats, aligned to a cache line.
func Lines(n int) []float32 {
	x := make([]float32, n+16)
	for uintptr(unsafe.Pointer(&x[0]))%64 != 0 {
		x = x[1:]
	}
	return x[:n]
}

// count returns the number of elements of a tensor.
func count(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
