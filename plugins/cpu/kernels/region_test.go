package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
)

// regionCase is a random region over operations whose results are exact or rounded once, so that it can be evaluated one
// element at a time in float64, rounding after each step.
type regionCase struct {
	bools []bool
	steps []RegionStep
}

func randomRegion(r *rand.Rand, inputs, steps int) regionCase {
	c := regionCase{}
	for range inputs {
		c.bools = append(c.bools, r.IntN(4) == 0)
	}
	c.bools[0] = false
	bit := make([]bool, 0, steps)
	pick := func(want bool) RegionRef {
		for range 40 {
			switch i := r.IntN(8); {
			case i < 4:
				if k := r.IntN(inputs); c.bools[k] == want {
					return RegionRef{Kind: RegionInput, Index: k}
				}
			case i < 7 && len(bit) > 0:
				k := len(bit) - 1 - r.IntN(min(3, len(bit)))
				if bit[k] == want {
					return RegionRef{Kind: RegionResult, Index: k}
				}
			case i == 7 && !want:
				return RegionRef{Kind: RegionNumber, Value: float32(r.IntN(5)) - 2}
			}
		}
		return RegionRef{Kind: RegionInput, Index: -1}
	}
	ops := []string{"where", "where"}
	for _, op := range Unaries() {
		if f := functions[op.id]; f.ulp == 0 && f.params == 0 {
			ops = append(ops, op.String())
		}
	}
	for _, op := range Binaries() {
		if op.TakesFloats() {
			ops = append(ops, op.String())
		}
	}
	for _, op := range Compares() {
		ops = append(ops, op.String())
	}
	for len(c.steps) < steps {
		st := RegionStep{Op: ops[r.IntN(len(ops))]}
		isBool := false
		switch _, binary := ParseBinary(st.Op); {
		case st.Op == "where":
			isBool = r.IntN(3) == 0
			st.In = []RegionRef{pick(true), pick(isBool), pick(isBool)}
		case binary:
			st.In = []RegionRef{pick(false), pick(false)}
		default:
			if _, relation := ParseCompare(st.Op); relation {
				of := r.IntN(3) == 0
				isBool, st.In = true, []RegionRef{pick(of), pick(of)}
			} else {
				st.In = []RegionRef{pick(false)}
			}
		}
		ok := true
		for _, ref := range st.In {
			ok = ok && ref.Index >= 0
		}
		if ok {
			c.steps, bit = append(c.steps, st), append(bit, isBool)
		}
	}
	return c
}

func (c regionCase) types() (types []dtype.DType) {
	for _, isBool := range c.bools {
		types = append(types, regionTypes[bit(isBool)])
	}
	return types
}

// eval is element i by the definition; bools are 0 and 1.
func (c regionCase) eval(in []RegionValue, i int) float64 {
	results := make([]float64, len(c.steps))
	for s, st := range c.steps {
		var x [3]float64
		for k, ref := range st.In {
			switch ref.Kind {
			case RegionInput:
				v := in[ref.Index]
				if v.Bytes != nil {
					if v.Bytes[i%len(v.Bytes)] != 0 {
						x[k] = 1
					}
				} else {
					x[k] = float64(v.F32[i%len(v.F32)])
				}
			case RegionResult:
				x[k] = results[ref.Index]
			case RegionNumber:
				x[k] = float64(ref.Value)
			}
		}
		b, binary := ParseBinary(st.Op)
		switch u, unary := ParseUnary(st.Op); {
		case unary:
			results[s] = float64(float32(reference64(u, x[0])))
		case binary:
			results[s] = float64(float32(binary64(b, x[0], x[1])))
		case st.Op == "where" && x[0] != 0:
			results[s] = x[1]
		case st.Op == "where":
			results[s] = x[2]
		default:
			if st.Op == "eq" && x[0] == x[1] || st.Op == "ne" && x[0] != x[1] || st.Op == "lt" && x[0] < x[1] || st.Op == "le" && x[0] <= x[1] ||
				st.Op == "gt" && x[0] > x[1] || st.Op == "ge" && x[0] >= x[1] {
				results[s] = 1
			}
		}
	}
	return results[len(results)-1]
}

func (c regionCase) values(r *rand.Rand, n int, periods []int) []RegionValue {
	in := make([]RegionValue, len(c.bools))
	for i, isBool := range c.bools {
		m := n
		if p := periods[r.IntN(len(periods))]; i > 0 && n%p == 0 && r.IntN(2) == 0 {
			m = p
		}
		if isBool {
			in[i].Bytes, in[i].Type = make([]uint8, m), dtype.Bool
			for j := range in[i].Bytes {
				in[i].Bytes[j] = uint8(max(0, r.IntN(4)-1))
			}
			continue
		}
		in[i].F32 = randoms(r, m)
		for range 1 + m/10 {
			in[i].F32[r.IntN(m)] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0, 1e-40}[r.IntN(5)]
		}
	}
	return in
}

func TestRegion(t *testing.T) {
	eachPool(t, func(t *testing.T, p *Pool) {
		r := rng(1)
		for _, n := range []int{1, 3, 17, 300, regionBlock, regionBlock + 1, 3 * 7 * 2500, 4 * elementGrain} {
			for try := range some(4 + 20000/(n+1000)) {
				c := randomRegion(r, 1+r.IntN(5), []int{1, 2, 5, 12, 32}[r.IntN(5)])
				region, err := NewRegion(c.types(), c.steps)
				if err != nil {
					t.Fatal(err)
				}
				in := c.values(r, n, []int{1, 3, 7, 256, 2500, 4 * regionBlock})
				want := make([]float64, n)
				for i := range want {
					want[i] = c.eval(in, i)
				}
				what := fmt.Sprintf("%d elements, try %d: %v", n, try, c)
				if region.steps[len(c.steps)-1].typ == dtype.Bool {
					dst := make([]uint8, n+1)
					dst[n] = 99
					region.Run(p, RegionValue{Bytes: dst[:n], Type: dtype.Bool}, in)
					for i, w := range want {
						if (dst[i] != 0) != (w != 0) {
							t.Fatalf("%s: element %d is %d, want %v", what, i, dst[i], w)
						}
					}
					if dst[n] != 99 {
						t.Fatal("overrun")
					}
					continue
				}
				dst, check := guarded(n)
				region.Run(p, RegionValue{F32: dst}, in)
				check(t, what)
				compare(t, what, dst, want, 0, 0)
				// And over an input.
				region.Run(p, in[0], in)
				compare(t, what+", in place", in[0].F32, want, 0, 0)
			}
		}
	})
}

func TestRegionActivation(t *testing.T) {
	eachPool(t, func(t *testing.T, p *Pool) {
		r := rng(2)
		region, err := NewRegion([]dtype.DType{dtype.F32, dtype.F32}, []RegionStep{
			{Op: "add", In: []RegionRef{{Index: 0}, {Index: 1}}}, {Op: "gelu", In: []RegionRef{{Kind: RegionResult}}},
			{Op: "mul", In: []RegionRef{{Kind: RegionResult, Index: 1}, {Kind: RegionNumber, Value: 2}}}})
		if err != nil {
			t.Fatal(err)
		}
		x, b := randoms(r, 70*768), randoms(r, 768)
		dst := make([]float32, len(x))
		region.Run(p, RegionValue{F32: dst}, []RegionValue{{F32: x}, {F32: b}})
		want := make([]float64, len(x))
		for i := range want {
			want[i] = 2 * reference64(Gelu, float64(x[i])+float64(b[i%768]))
		}
		compare(t, "gelu", dst, want, 1e-6, 1e-6)
	})
}

func TestRegionThreads(t *testing.T) {
	sameForAnyThreads(t, func(p *Pool) []float32 {
		c := regionCase{bools: []bool{false, false}, steps: []RegionStep{{Op: "exp", In: []RegionRef{{Index: 0}}}, {Op: "mul", In: []RegionRef{{Kind: RegionResult}, {Index: 1}}}}}
		region, err := NewRegion(c.types(), c.steps)
		if err != nil {
			t.Fatal(err)
		}
		r := rng(3)
		dst := make([]float32, 9*10007)
		region.Run(p, RegionValue{F32: dst}, []RegionValue{{F32: randoms(r, len(dst))}, {F32: randoms(r, 10007)}})
		return dst
	})
}

func TestRegionRefusesUnknown(t *testing.T) {
	for _, st := range []RegionStep{{Op: "gather", In: []RegionRef{{}}}, {Op: "add", In: []RegionRef{{Index: 1}, {Index: 1}}}, {Op: "gelu", In: []RegionRef{{Index: 1}}}, {Op: "where", In: []RegionRef{{}, {}, {}}}} {
		if _, err := NewRegion([]dtype.DType{dtype.F32, dtype.Bool}, []RegionStep{st}); err == nil || !strings.Contains(err.Error(), st.Op) {
			t.Errorf("%v: %v", st, err)
		}
	}
}

func BenchmarkRegion(b *testing.B) {
	p := newPool(b, 0, "")
	region, err := NewRegion([]dtype.DType{dtype.F32, dtype.F32, dtype.F32}, []RegionStep{
		{Op: "add", In: []RegionRef{{Index: 0}, {Index: 1}}}, {Op: "mul", In: []RegionRef{{Kind: RegionResult}, {Index: 2}}}, {Op: "relu", In: []RegionRef{{Kind: RegionResult, Index: 1}}}})
	if err != nil {
		b.Fatal(err)
	}
	r := rng(1)
	n := 4096 * 768
	dst, x, y, z := make([]float32, n), randoms(r, n), randoms(r, n), randoms(r, 768)
	for b.Loop() {
		region.Run(p, RegionValue{F32: dst}, []RegionValue{{F32: x}, {F32: y}, {F32: z}})
	}
	b.SetBytes(int64(n) * 12)
}
