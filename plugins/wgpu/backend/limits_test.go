//go:build cgo && (darwin || amd64)

package backend

import (
	"math"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestSmallLimits runs the golden model on a device that shows 64 KiB at a time, has buffers of 1 MiB and starts 100
// workgroups per dimension: weights and arena lie in several buffers, operands in several bindings.
func TestSmallLimits(t *testing.T) {
	testSAM(t, New(Options{MaxBinding: 64 << 10, MaxBuffer: 1 << 20, MaxGroups: 100}), golden, dtype.F16, 2e-3, 2e-2)
}

// TestLargeWeight multiplies by a weight of 36 MiB and an activation of 24 MiB where a binding is at most 16 MiB, and
// compares the result with sums in float64.
func TestLargeWeight(t *testing.T) {
	const rows, n = 2048, 3072
	g := ir.NewGraph("large")
	x, w := op.Input(g, "x", ir.TypeOf(dtype.F32, 1, n)), op.Param(g, "w", ir.TypeOf(dtype.F32, n, n))
	all := op.Relu(op.Expand(x, ir.TypeOf(dtype.F32, rows, n).Shape)).Named("activation")
	y := op.Narrow(all, 0, rows-3, 3)
	g.Return("y", op.MatMul(y, w, op.MatMulAttrs{TransB: true}))
	p, _, err := sched.Build(
		g, sched.Options{Target: "portable", Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		t.Fatal(err)
	}
	weights := tensor.AlignedBytes(n * n * 4)
	wv := tensor.View[float32](weights)
	for i := range wv {
		wv[i] = float32(math.Sin(float64(i)))
	}
	in := tensor.NewArray(dtype.F32, 1, n)
	for i := range in.Floats {
		in.Floats[i] = float64(float32(math.Cos(float64(i))))
	}
	b := New(Options{MaxBinding: 16 << 20})
	out := onDevice(t, load(t, b, p, weights), p, nil, map[string]*tensor.Array{"x": in})["y"]
	for row := range 3 {
		for _, k := range []int{0, 1, 1023, 1365, 1366, 2730, 2731, n - 1} { // windows end at rows 1365.3 and 2730.7
			want := 0.0
			for i, v := range in.Floats {
				want += max(v, 0) * float64(wv[k*n+i])
			}
			if got := out.Floats[row*n+k]; math.Abs(got-want) > 1e-3 {
				t.Errorf("y[%d,%d] is %v; want %v", row, k, got, want)
			}
		}
	}
}
