package elementwise

import "github.com/rlx-go/rlx/plugins/cpu/kernels/pool"

// Predicate is a test of one float.
type Predicate uint8

// The predicates.
const (
	IsNaN Predicate = iota
	IsInf           // either sign
	IsFinite
	predicateCount
)

var predicates = [predicateCount]struct {
	name string // the op's
	f    func(x float64, _ params) float64
}{
	{"isnan", formula("isnan")},
	{"isinf", formula("isinf")},
	{"isfinite", formula("isfinite")},
}

// Predicates lists the predicates.
func Predicates() []Predicate { return []Predicate{IsNaN, IsInf, IsFinite} }

func (op Predicate) String() string { return predicates[op].name }

// ParsePredicate finds a predicate by its name.
func ParsePredicate(name string) (Predicate, bool) {
	for i, f := range predicates {
		if f.name == name {
			return Predicate(i), true
		}
	}
	return 0, false
}

// TestF32 is dst[i] = op(src[i]), 1 or 0.
func TestF32(p *pool.Pool, op Predicate, dst []uint8, src []float32) {
	pool.Split(p, len(src), pool.Grain, mapping[uint8, float32]{On(p.Set).test[op], dst[:len(src)], src})
}

// TestF64 is dst[i] = op(src[i]), 1 or 0.
func TestF64(p *pool.Pool, op Predicate, dst []uint8, src []float64) {
	pool.Split(p, len(src), pool.Grain, mapping[uint8, float64]{testLoops64[op], dst[:len(src)], src})
}

var testLoops64 = func() (loops [predicateCount]func([]uint8, []float64)) {
	for i := range loops {
		loops[i] = testLoop[float64](Predicate(i))
	}
	return loops
}()

func testLoop[T float32 | float64](op Predicate) func(dst []uint8, src []T) {
	f := predicates[op].f
	return func(dst []uint8, src []T) {
		dst = dst[:len(src)]
		for i, x := range src {
			dst[i] = uint8(f(float64(x), params{}))
		}
	}
}

func Bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
