package ir_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
)

// TestGrowing compares bounds that follow from the signs of coefficients with the values for the smallest and the
// largest symbols.
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
		d, err := ir.ParseDim(text(3))
		if err != nil {
			continue
		}
		var syms ir.Syms
		for _, name := range []string{"M", "N", "S"} {
			lo := r.Int64N(20)
			syms = append(syms, ir.Sym{Name: name, Min: lo, Max: lo + r.Int64N(30)})
		}
		if !syms.Growing(d) {
			fall++
			continue
		}
		grow++
		lo, hi := syms.Bounds(d)
		if x, y := d.Eval(syms.Min()), d.Eval(syms.Max()); lo != x || hi != y {
			t.Fatalf("%v with %v: %d to %d; its values are %d and %d", d, syms, lo, hi, x, y)
		}
		shape := ir.Type{DType: 1, Shape: ir.Shape{d, ir.Static(3), ir.Named("N"), d}}
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
