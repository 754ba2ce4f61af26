package driver

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// candidates are tile shapes for products with simdgroup matrices. TestDeviceProducts reports the speed of each on a
// Mac.
var candidates = append(kernels.MatrixTiles(),
	kernels.Tile{BlocksM: 1, BlocksN: 2, LanesM: 4, TM: 8, TN: 4, Depth: 16, Matrices: true},
	kernels.Tile{BlocksM: 4, BlocksN: 2, LanesM: 4, TM: 8, TN: 4, Depth: 16, Matrices: true},
	kernels.Tile{BlocksM: 2, BlocksN: 2, LanesM: 4, TM: 8, TN: 8, Depth: 16, Matrices: true},
	kernels.Tile{BlocksM: 2, BlocksN: 2, LanesM: 4, TM: 8, TN: 4, Depth: 32, Matrices: true},
)

// products computes an m x k by k x n product with and without simdgroup matrices, and for f32 with each of the
// candidates. It checks elements of the results, and logs the speeds. open returns a backend.
func products(t *testing.T, open func(t *testing.T, a api) *gpu.Backend, d dtype.DType, m, n, k, times int) {
	t.Helper()
	g := ir.NewGraph("product")
	x, w := op.Input(g, "x", ir.TypeOf(d, int64(m), int64(k))), op.Input(g, "w", ir.TypeOf(d, int64(n), int64(k)))
	g.Return("y", op.MatMul(x, w, op.MatMulAttrs{TransB: true}))
	p, _, err := sched.Build(g, sched.Options{Target: "metal"})
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]*tensor.Array{"x": tensor.NewArray(d, m, k), "w": tensor.NewArray(d, n, k)}
	rounding := 0.0 // relative rounding error of the results
	if d == dtype.F16 {
		rounding = 1.0 / 2048
	}
	for i := range in["x"].Floats {
		in["x"].Floats[i] = float64(i*7%13-6) / 8 // sums are exact
	}
	for i := range in["w"].Floats {
		in["w"].Floats[i] = float64(i*5%11-5) / 8
	}
	one := func(name string, a api) {
		t.Run(d.String()+", "+name, func(t *testing.T) {
			e, err := open(t, a).Load(t.Context(), device.Load{Program: p})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			y := devicetest.Once(t, e, p, nil, in)["y"].Floats
			for i := 0; i < len(y); i += 1 + len(y)/5000 {
				want := 0.0
				for j := range k {
					want += in["x"].Floats[i/n*k+j] * in["w"].Floats[i%n*k+j]
				}
				if !(math.Abs(y[i]-want) <= rounding*math.Abs(want)) {
					t.Fatalf("element %d, %d is %v; want %v", i/n, i%n, y[i], want)
				}
			}
			took, err := gpu.Repeat(e, times)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("report: product of %v, %dx%dx%d, %s: %.0f GFLOP/s", d, m, n, k, name,
				2*float64(m)*float64(n)*float64(k)/float64(max(took, time.Nanosecond)))
		})
	}
	one("without matrices", api{plain: true})
	if d == dtype.F16 {
		one("matrices of halves", api{})
		return
	}
	for _, tile := range candidates {
		one(fmt.Sprintf("matrices, tile %v, blocks %dx%d, depth %d", tile, tile.BlockM(), tile.BlockN(), tile.Depth),
			api{tile: &tile})
	}
}
