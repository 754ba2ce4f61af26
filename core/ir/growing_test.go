package ir

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestGrowing compares the bounds that follow from the signs of coefficients with those of the general search.
func TestGrowing(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var text func(depth int) string
	text = func(depth int) string {
		switch k := r.IntN(6); {
		case depth == 0 || k == 0:
			return []string{"N", "M", "S", fmt.Sprint(r.IntN(9) - 2)}[r.IntN(4)]
		case k < 3:
			return "(" + text(depth-1) + "+" + text(depth-1) + ")"
		case k == 3:
			return "(" + text(depth-1) + "*" + text(depth-1) + ")"
		case k == 4:
			return fmt.Sprintf("((%s)/%d)", text(depth-1), 2+r.IntN(7))
		}
		return "(" + text(depth-1) + "-" + text(depth-1) + ")"
	}
	grow, fall := 0, 0
	for range 20000 {
		d, err := ParseDim(text(3))
		if err != nil {
			continue
		}
		var syms Syms
		for _, name := range []string{"M", "N", "S"} {
			lo := r.Int64N(20)
			syms = append(syms, Sym{Name: name, Min: lo, Max: lo + r.Int64N(30)})
		}
		lo, hi, ok := syms.growing(d)
		if !ok {
			fall++
			continue
		}
		grow++
		all := ranges{}
		for _, x := range syms {
			all[x.Name] = interval{x.Min, x.Max}
		}
		if a, b := all.corner(d, false).of(d).lo, all.corner(d, true).of(d).hi; lo != a || hi != b {
			t.Fatalf("%v with %v: %d to %d; by corners %d to %d", d, syms, lo, hi, a, b)
		}
		if x, y := d.Eval(syms.Min()), d.Eval(syms.Max()); lo != x || hi != y {
			t.Fatalf("%v with %v: %d to %d; its values are %d and %d", d, syms, lo, hi, x, y)
		}
		shape := Type{DType: 1, Shape: Shape{d, Static(3), Named("N"), d}}
		if numel, ok := shape.Shape.Numel(); ok && lo >= 0 {
			_, most := syms.Bounds(numel)
			if got := syms.MaxBytes(shape); got != most*int64(shape.DType.Size()) {
				t.Fatalf("%v with %v: %d bytes; its number of elements has the bound %d", shape, syms, got, most)
			}
		}
	}
	if grow < 2000 || fall < 2000 {
		t.Errorf("%d dims grow, %d do not: the test does not tell them apart", grow, fall)
	}
}
