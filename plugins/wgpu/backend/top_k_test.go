//go:build cgo && (darwin || amd64)

package backend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestLongTopK checks that in long rows a radix select finds the same elements as the reference, equal ones and NaN
// included.
func TestLongTopK(t *testing.T) {
	for _, c := range []struct {
		d        dtype.DType
		size, k  int
		distinct int
	}{
		{dtype.F32, 5000, 50, 1 << 20}, {dtype.F32, 3000, 700, 5}, {dtype.F16, 4099, 64, 40}, {dtype.I32, 1500, 17, 9},
		{dtype.F32, 1024, 1024, 7},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			g := ir.NewGraph("top_k")
			values, places := op.TopK(op.Input(g, "x", ir.TypeOf(c.d, 3, int64(c.size))), c.k)
			g.Return("values", values)
			g.Return("places", places)
			p, _, err := sched.Build(g, sched.Options{Target: "portable"})
			if err != nil {
				t.Fatal(err)
			}
			x, r := tensor.NewArray(c.d, 3, c.size), rand.New(rand.NewPCG(uint64(c.size), uint64(c.k)))
			for i := range x.Floats {
				x.Floats[i] = float64(r.IntN(c.distinct)-c.distinct/2) / 64
				if r.IntN(50) == 0 {
					x.Floats[i] = math.NaN()
				}
			}
			for i := range x.Ints {
				x.Ints[i] = int64(r.IntN(c.distinct))
			}
			x = x.Tensor().Array() // rounded
			in := map[string]*tensor.Array{"x": x}
			want, err := interp.Run(g, nil, in, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := onDevice(t, load(t, shared, p, nil), p, nil, in)
			for i, at := range got["places"].Ints {
				if at != want["places"].Ints[i] {
					t.Fatalf("place %d is %d; want %d", i, at, want["places"].Ints[i])
				}
				if v, w := got["values"].At(i), want["values"].At(i); v != w && !(math.IsNaN(v) && math.IsNaN(w)) {
					t.Fatalf("value %d is %v; want %v", i, v, w)
				}
			}
		})
	}
}
