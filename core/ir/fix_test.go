package ir_test

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
)

// TestDimReplace replaces some symbols of random dims. What remains has the same values, and no symbol that was
// replaced.
func TestDimReplace(t *testing.T) {
	rng, bound := rand.New(rand.NewPCG(7, 8)), 0
	for range 5000 {
		e := randomExpr(rng, 4)
		if !e.ok {
			continue
		}
		values, some := randomValues(rng), map[string]int64{}
		for name, v := range values {
			if rng.IntN(2) == 0 {
				some[name] = v
			}
		}
		d, ok := e.dim.Replace(static(some))
		if !ok {
			t.Fatalf("%v cannot be bound to %v", e.dim, some)
		}
		for _, name := range d.Symbols() {
			if _, ok := some[name]; ok {
				t.Fatalf("%v bound to %v is %v", e.dim, some, d)
			}
		}
		for range 3 {
			all := randomValues(rng)
			maps.Copy(all, some)
			if got, want := d.Eval(all), e.dim.Eval(all); got != want {
				t.Fatalf("%v bound to %v is %v, which is %d at %v; want %d", e.dim, some, d, got, all, want)
			}
		}
		if full, ok := e.dim.Replace(static(values)); !ok || !full.IsStatic() {
			t.Fatalf("%v bound to %v is %v", e.dim, values, full)
		}
		if d != e.dim {
			bound++
		}
	}
	if bound < 500 {
		t.Errorf("only %d dims changed", bound)
	}
}

func static(values map[string]int64) map[string]ir.Dim {
	dims := map[string]ir.Dim{}
	for name, v := range values {
		dims[name] = ir.Static(v)
	}
	return dims
}
