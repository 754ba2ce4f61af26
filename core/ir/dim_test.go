package ir_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
)

// expr is a dim as text, and a simple evaluation of it.
type expr struct {
	dim  ir.Dim
	eval func(syms map[string]int64) *big.Int
	ok   bool
}

var dimSymbols = []string{"N", "M", "S"}

// randomExpr returns a random expression. It combines parts in random order, so the canonical form cannot depend on the
// order.
func randomExpr(rng *rand.Rand, depth int) expr {
	if depth == 0 || rng.IntN(4) == 0 {
		if rng.IntN(2) == 0 {
			n := rng.Int64N(19) - 9
			return expr{ir.Static(n), func(map[string]int64) *big.Int { return big.NewInt(n) }, true}
		}
		name := dimSymbols[rng.IntN(len(dimSymbols))]
		return expr{ir.Named(name), func(syms map[string]int64) *big.Int { return big.NewInt(syms[name]) }, true}
	}
	x, y := randomExpr(rng, depth-1), randomExpr(rng, depth-1)
	out := expr{ok: x.ok && y.ok}
	if !out.ok {
		return out
	}
	two := func(op func(z, a, b *big.Int) *big.Int) {
		out.eval = func(syms map[string]int64) *big.Int { return op(new(big.Int), x.eval(syms), y.eval(syms)) }
	}
	switch n := 1 + rng.Int64N(12); rng.IntN(6) {
	case 0, 1:
		out.dim, out.ok = x.dim.Add(y.dim)
		two((*big.Int).Add)
	case 2:
		out.dim, out.ok = x.dim.Sub(y.dim)
		two((*big.Int).Sub)
	case 3:
		out.dim, out.ok = x.dim.Mul(y.dim)
		two((*big.Int).Mul)
	case 4:
		out.dim, out.ok = x.dim.FloorDiv(n)
		out.eval = func(syms map[string]int64) *big.Int { // big.Int.Div rounds down for positive divisors
			return new(big.Int).Div(x.eval(syms), big.NewInt(n))
		}
	case 5:
		out.dim, out.ok = x.dim.CeilDiv(n)
		out.eval = func(syms map[string]int64) *big.Int {
			q := new(big.Int).Div(new(big.Int).Neg(x.eval(syms)), big.NewInt(n))
			return q.Neg(q)
		}
	}
	return out
}

func randomValues(rng *rand.Rand) map[string]int64 {
	syms := map[string]int64{}
	for _, name := range dimSymbols {
		syms[name] = rng.Int64N(40)
	}
	return syms
}

// TestDimArithmetic checks that dims have the values of the expressions that made them, and that printing and parsing
// gives the same dim.
func TestDimArithmetic(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	divisions, products := 0, 0
	for range 5000 {
		e := randomExpr(rng, 4)
		if !e.ok {
			continue
		}
		for range 5 {
			syms := randomValues(rng)
			if got, want := big.NewInt(e.dim.Eval(syms)), e.eval(syms); got.Cmp(want) != 0 {
				t.Fatalf("%v is %v at %v; want %v", e.dim, got, syms, want)
			}
		}
		text := e.dim.String()
		if back, err := ir.ParseDim(text); err != nil || back != e.dim || back.String() != text {
			t.Fatalf("%s is read as %v (%v)", text, back, err)
		}
		if strings.Contains(text, "/") {
			divisions++
		}
		if strings.Contains(text, "N*S") || strings.Contains(text, "M*N") {
			products++
		}
	}
	if divisions < 200 || products < 200 {
		t.Errorf("%d dims with divisions and %d with products", divisions, products)
	}
}

// TestDimCanonical checks that dims that are computed in another order or written in another way are the same and print
// the same.
func TestDimCanonical(t *testing.T) {
	for text, want := range map[string]string{
		"S*B": "B*S", "3+N*2": "2*N+3", "N-N": "0", "0*N+4": "4", "N+1+N+1": "2*N+2", "-(N-3)": "-N+3",
		"(N+M)*(N-M)":       "-M*M+N*N",
		"M+B*S+S*B*2+N*N*N": "N*N*N+3*B*S+M", "N/1": "N", "8*N/8": "N", "(8*N+M+9)/8": "N+(M+1)/8+1",
		"(2*N+3)/4": "(N+1)/2",
		"(N/2+1)/3": "(N+2)/6", "((N+7)/8+3)/4": "(N+31)/32", "-N/2": "-(N/2)", "(-N)/2": "-N+N/2",
		"(N+7)/8*64": "64*((N+7)/8)", "2*N/8": "N/4",
		"S*((N+7)/8)*B": "B*S*((N+7)/8)", "(B*S)/4": "(B*S)/4", "(-5)/2": "-3", "7/2": "3", "N/2+N/2": "2*(N/2)",
		"N/3*(N/2)": "(N/2)*(N/3)",
		"N-(M+1)/2": "N-(M+1)/2", "(N+12)/8": "(N+4)/8+1", "(N-1)/8": "(N+7)/8-1",
	} {
		d, err := ir.ParseDim(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if w := ir.MustDim(want); d != w || d.String() != want {
			t.Errorf("%s is %v; want %v", text, d, w)
		}
	}
	// Sums of products in any order.
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		parts := make([]ir.Dim, 2+rng.IntN(4))
		for i := range parts {
			for parts[i] = (ir.Dim{}); parts[i] == (ir.Dim{}); {
				if e := randomExpr(rng, 2); e.ok {
					parts[i] = e.dim
				}
			}
		}
		sum := func(order []int) (s ir.Dim, ok bool) {
			ok = true
			for _, i := range order {
				if ok {
					s, ok = s.Add(parts[i])
				}
			}
			return s, ok
		}
		product := func(order []int) (p ir.Dim, ok bool) {
			p, ok = ir.Static(1), true
			for _, i := range order {
				if ok {
					p, ok = p.Mul(parts[i])
				}
			}
			return p, ok
		}
		for _, f := range []func([]int) (ir.Dim, bool){sum, product} {
			a, ok := f(rng.Perm(len(parts)))
			b, ok2 := f(rng.Perm(len(parts)))
			if ok && ok2 && (a != b || a.String() != b.String()) {
				t.Fatalf("%v in two orders: %v and %v", parts, a, b)
			}
		}
	}
}

// TestDimDiv checks that a product divided by one of its factors gives the other.
func TestDimDiv(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	done := 0
	for range 5000 {
		x, y := randomExpr(rng, 3), randomExpr(rng, 3)
		if !x.ok || !y.ok || y.dim == (ir.Dim{}) {
			continue
		}
		p, ok := x.dim.Mul(y.dim)
		if !ok {
			continue
		}
		if q, ok := p.Div(y.dim); !ok || q != x.dim {
			t.Fatalf("(%v) * (%v) = %v, divided by the latter: %v, %v", x.dim, y.dim, p, q, ok)
		}
		if off, ok := p.Add(ir.Static(1)); ok && !y.dim.Is(1) && !y.dim.Is(-1) {
			if q, ok := off.Div(y.dim); ok {
				if back, ok := q.Mul(y.dim); !ok || back != off {
					t.Fatalf("(%v) / (%v) = %v, which is not exact", off, y.dim, q)
				}
			}
		}
		done++
	}
	if done < 1000 {
		t.Errorf("%d divisions", done)
	}
	if _, ok := ir.Named("N").Div(ir.Static(0)); ok {
		t.Error("N can be divided by 0")
	}
}

// TestDimLimits checks that no dim exceeds the limits and that no number wraps in between.
func TestDimLimits(t *testing.T) {
	for _, d := range []ir.Dim{ir.Static(1 << 62), ir.Static(-1 << 63), ir.MustDim("1099511627776*N+1")} {
		if p, ok := d.Mul(ir.Static(1 << 40)); ok {
			t.Errorf("%v * 2^40 = %v", d, p)
		}
		for _, e := range []ir.Dim{ir.Static(1 << 62), ir.Static(1<<63 - 1)} {
			if s, ok := d.Add(e); ok && d.IsStatic() && s.Const != d.Const+e.Const {
				t.Errorf("%v + %v = %v", d, e, s)
			}
		}
	}
	nested := "N" // a factor, so that the divisions are not merged
	for range ir.MaxDimNesting {
		nested = "(2*(" + nested + ")/3*5+M)/7"
	}
	long := make([]string, ir.MaxDimFactors+1)
	for i := range long {
		long[i] = fmt.Sprint("S", i)
	}
	for text, ok := range map[string]bool{
		strings.Join(long, "+"):                       false,
		strings.Join(long[1:], "+"):                   true,
		"N" + strings.Repeat("*N", ir.MaxDimDegree-1): true,
		"N" + strings.Repeat("*N", ir.MaxDimDegree):   false,
		fmt.Sprint(int64(ir.MaxCoef), "*N"):           true,
		fmt.Sprint(int64(ir.MaxCoef+1), "*N"):         false,
		fmt.Sprint("2*", int64(ir.MaxCoef), "*N"):     false,
		"N/" + fmt.Sprint(int64(ir.MaxCoef)):          true,
		"N/" + fmt.Sprint(int64(ir.MaxCoef+1)):        false,
		"N/0":                                         false,
		"N/-2":                                        false,
		"N/M":                                         false,
		nested:                                        false,
		strings.Repeat("(", 17) + "N" + strings.Repeat(")", 17): false,
		strings.Repeat("(", 9) + "N" + strings.Repeat(")", 9):   true,
		"N+" + strings.Repeat("0+", 4096) + "1":                 false,
		"":                                                      false, "N+": false, "+N": false, "N N": false,
		"2N": false, "N**2": false, "(N": false, "N)": false,
		"N--1": false, "*N": false, "é": false, strings.Repeat("x", ir.MaxSymbol): true,
		strings.Repeat("x", ir.MaxSymbol+1): false,
	} {
		if d, err := ir.ParseDim(text); (err == nil) != ok {
			t.Errorf("%.60s: %v, %v", text, d, err)
		}
	}
}

// TestBounds checks that sizes are within the bounds for all values of the symbols, and that the bounds of monotone
// dims are reached.
func TestBounds(t *testing.T) {
	syms := ir.Syms{{Name: "N", Min: 2, Max: 5}, {Name: "M", Min: 0, Max: 7}, {Name: "S", Min: 3, Max: 9}}
	for text, want := range map[string][2]int64{
		"7": {7, 7}, "N": {2, 5}, "3*N-1": {5, 14}, "-2*N+20": {10, 16}, "N*S": {6, 45}, "N*S-N": {4, 40},
		"(N+7)/8": {1, 1}, "(S+7)/8": {1, 2},
		"8*((S+7)/8)-S": {0, 7}, "S-2*((S+2)/3)": {0, 3}, "N/2-(N+1)/2": {-1, 0},
		"N*N-N": {2, 20}, "N-M": {-5, 5}, "S*N-M*N": {-20, 45}, "-(M/2)+3": {0, 3},
		"N*((M+3)/4)": {0, 10}, "N*M-3*M": {-7, 14},
	} {
		if lo, hi := syms.Bounds(ir.MustDim(text)); lo != want[0] || hi != want[1] {
			t.Errorf("%s is %d to %d; want %v", text, lo, hi, want)
		}
	}
	rng := rand.New(rand.NewPCG(7, 8))
	exact, all := 0, 0
	for range 1000 {
		e := randomExpr(rng, 4)
		if !e.ok || e.dim.IsStatic() {
			continue
		}
		least, most := int64(1<<62), int64(-1<<62)
		for n := int64(2); n <= 5; n++ {
			for m := int64(0); m <= 7; m++ {
				for s := int64(3); s <= 9; s++ {
					v := e.dim.Eval(map[string]int64{"N": n, "M": m, "S": s})
					least, most = min(least, v), max(most, v)
				}
			}
		}
		lo, hi := syms.Bounds(e.dim)
		if least < lo || most > hi {
			t.Fatalf("%v is %d to %d; its bounds are %d and %d", e.dim, least, most, lo, hi)
		}
		all++
		if least == lo && most == hi {
			exact++
		}
	}
	t.Logf("%d of %d bounds are exact", exact, all)
	if exact*10 < all*8 {
		t.Errorf("only %d of %d bounds are exact", exact, all)
	}
}

// TestBoundsStop checks that bounds that exceed all limits do not wrap.
func TestBoundsStop(t *testing.T) {
	syms := ir.Syms{{Name: "N", Min: 0, Max: ir.MaxDim}}
	for _, text := range []string{"N*N", "N*N*N*N*N*N*N*N", "17592186044416*N*N", "N*N/2", "N*N-N*N*N",
		"(N*N*N*N*N)/17592186044416", "N-1"} {
		d := ir.MustDim(text)
		if err := syms.CheckDim(d); err == nil {
			lo, hi := syms.Bounds(d)
			t.Errorf("%s: %v (%d to %d)", text, err, lo, hi)
		}
	}
	if err := (ir.Syms{{Name: "N", Min: 1, Max: 1 << 20}}).CheckDim(ir.MustDim("N*N-N")); err != nil {
		t.Error(err)
	}
}

func TestSolve(t *testing.T) {
	syms := ir.Syms{{Name: "N", Min: 1, Max: 64}, {Name: "M", Min: 0, Max: 9}, {Name: "S", Min: 1, Max: 100}}
	of := func(pairs ...any) (eqs []ir.Equation) {
		for i := 0; i < len(pairs); i += 2 {
			eqs = append(
				eqs, ir.Equation{Dim: ir.MustDim(pairs[i].(string)), Size: int64(pairs[i+1].(int)),
					Of: fmt.Sprint("input ", i/2)})
		}
		return eqs
	}
	for _, c := range []struct {
		eqs   []ir.Equation
		given map[string]int64
		want  string // values of N, M, S, or a part of the error
	}{
		{of("2*N+3", 11, "M", 0, "S", 7), nil, "4 0 7"},
		{of("N*S", 12, "M", 1, "S", 3), nil, "4 1 3"},
		{of("N*S-M", 10, "S+M", 5, "M", 2), nil, "4 2 3"},
		{of("N*S", 12, "M", 1), nil, "size N does not follow from N*S = 12 (input 0)"},
		{of("N*S", 12, "M", 1), map[string]int64{"S": 6}, "2 1 6"},
		{of("(N+7)/8", 2, "M", 1, "S", 1), nil, "size N does not follow from (N+7)/8 = 2 (input 0)"},
		{of("(N+7)/8", 2, "M", 1, "S", 1), map[string]int64{"N": 9}, "9 1 1"},
		{of("(N+7)/8", 2, "M", 1, "S", 1), map[string]int64{"N": 8}, "(N+7)/8 is 2 here and 1 for N = 8"},
		{of("(N+7)/8*S", 6, "M", 1, "N", 20), nil, "20 1 2"},
		{of("N*N", 9, "M", 1, "S", 1), nil, "size N does not follow"},
		{of("N", 3, "M", 1, "S", 1, "N", 4), nil, "N is 4 here and 3 in input 0"},
		{of("N", 3, "M", 1, "S", 1, "N*S", 4), nil, "N*S is 4 here and 3 for N = 3, S = 1"},
		{of("2*N", 3, "M", 1, "S", 1), nil, "size 3 of 2*N; allowed are N from 1 to 64"},
		{of("2*N", 130, "M", 1, "S", 1), nil, "size 130 of 2*N; allowed are N from 1 to 64"},
		{of("N", 3, "M", 1), nil, "size S does not follow from any input"},
		{of("N", 3, "M", 1, "S", 2, "5", 6), nil, "size 6 must be 5"},
		{of("N", 3, "M", 1, "S", 2), map[string]int64{"M": 10}, "size M is 10; allowed are 0 to 9"},
		{of("N", 3, "M", 1, "S", 2), map[string]int64{"K": 1}, "there is no such symbol"},
		{of("N*M", 0, "M", 0, "S", 2), nil, "size N does not follow from M*N = 0 (input 0)"},
	} {
		got, err := syms.Solve(c.given, c.eqs)
		text := fmt.Sprint(got["N"], got["M"], got["S"])
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%v, %v: %s; want %s", c.eqs, c.given, text, c.want)
		}
	}
	// A size A*N+B is solved for N.
	n := ir.Syms{{Name: "N", Min: 1, Max: 64}}
	for size := range int64(250) {
		v, err := n.Solve(nil, []ir.Equation{{Dim: ir.MustDim("3*N+5"), Size: size}})
		want := int64(0)
		for x := int64(1); x <= 64; x++ { // the definition
			if 3*x+5 == size {
				want = x
			}
		}
		if (err == nil) != (want != 0) || v["N"] != want {
			t.Errorf("3*N+5 = %d: %d, %v; want %d", size, v["N"], err, want)
		}
	}
}

// TestStaticDims checks that static dims need no allocation, because nearly all dims are static.
func TestStaticDims(t *testing.T) {
	a, b := ir.Static(768), ir.Static(64)
	var sink ir.Dim
	if n := testing.AllocsPerRun(100, func() {
		x, _ := a.Mul(b)
		y, _ := x.Add(b)
		z, _ := y.FloorDiv(16)
		if z == b || z.Is(3) || z.Eval(nil) < 0 {
			t.Error("wrong")
		}
		sink = z
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	_ = sink
}

// FuzzParseDim checks that no text makes the parser panic, and that printing a parsed dim and parsing it again gives
// the same dim.
func FuzzParseDim(f *testing.F) {
	for _, s := range []string{"7", "-3", "N", "2*N+3", "B*S", "(N+7)/8", "64*((N+7)/8)", "-(N-M)*(3-S)/7",
		"((N/2+1)*M/3+B)/5*S", "N-N", "(((N)))"} {
		f.Add(s)
	}
	syms := ir.Syms{{Name: "N", Min: 1, Max: 9}, {Name: "M", Min: 0, Max: ir.MaxDim}, {Name: "B", Min: 0, Max: 0}}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ir.ParseDim(s)
		if err != nil {
			return
		}
		text := d.String()
		if back, err := ir.ParseDim(text); err != nil || back != d {
			t.Fatalf("%s prints as %s, which is read as %v (%v)", s, text, back, err)
		}
		lo, hi := syms.Bounds(d)
		if syms.CheckDim(d) == nil {
			for _, at := range []map[string]int64{syms.Min(), syms.Max()} {
				if v := d.Eval(at); v < lo || v > hi {
					t.Fatalf("%s is %d at %v; its bounds are %d and %d", text, v, at, lo, hi)
				}
			}
		}
	})
}

func BenchmarkStaticDims(b *testing.B) {
	shape, same := ir.ShapeOf(2, 64, 64, 768), ir.ShapeOf(2, 64, 64, 768)
	b.ReportAllocs()
	for b.Loop() {
		if n, ok := shape.Numel(); !ok || !n.Is(2*64*64*768) || !shape.Equal(same) {
			b.Fatal("wrong")
		}
	}
}
