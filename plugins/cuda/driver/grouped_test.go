package driver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cuda/matrix"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// groupedCase is a grouped_matmul of inputs.
type groupedCase struct {
	rows, groups, n, k int
	w                  dtype.DType
	used               int // groups that have rows
}

var groupedCases = []groupedCase{
	{70, 5, 66, 76, dtype.F32, 5}, {130, 3, 33, 64, dtype.BF16, 1}, {17, 300, 130, 128, dtype.F16, 300},
	{300, 8, 40, 60, dtype.BF16, 6},
}

// TestInterpretedGrouped runs grouped_matmul on the interpreter.
func TestInterpretedGrouped(t *testing.T) {
	for _, i := range third(t, len(groupedCases)*len(halves)) {
		c, k := groupedCases[i/uint64(len(halves))], i%uint64(len(halves))
		p, d := halves[k], []matrix.Device{withMMA, withWGMMA}[(i/uint64(len(halves))+k)%2]
		t.Run(fmt.Sprintf("%d/%s/%+v", d.Capability, p, c), func(t *testing.T) {
			used := false
			c.test(t, interpreted(d, func(text string) string {
				used = true
				return strings.Clone(text)
			}), p)
			if !used {
				t.Error("no kernel for matrix units was used")
			}
		})
	}
}

// TestGrouped compares grouped_matmul with its definition.
func TestGrouped(t *testing.T) {
	for _, c := range append(groupedCases, groupedCase{2000, 64, 300, 512, dtype.BF16, 50}) {
		for _, p := range halves {
			t.Run(fmt.Sprintf("%s/%+v", p, c), func(t *testing.T) { c.test(t, shared, p) })
		}
	}
}

// graph returns a graph of the product.
func (c groupedCase) graph() *ir.Graph {
	g := ir.NewGraph("grouped")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, int64(c.rows), int64(c.k)))
	w := op.Input(g, "w", ir.TypeOf(c.w, int64(c.groups), int64(c.n), int64(c.k)))
	idx := op.Input(g, "idx", ir.TypeOf(dtype.I32, int64(c.rows)))
	g.Return("y", g.Add(op.GroupedMatMulDef, op.GroupedMatMulAttrs{TransB: true}, x, w, idx))
	return g
}

// inputs sets the inputs of a run.
func (c groupedCase) inputs(r *graphRun) (x, w, idx *tensor.Array) {
	rng := rand.New(rand.NewPCG(uint64(c.rows), uint64(c.k)))
	in := r.program.Graph.Inputs()
	x, w = normal(rng, in[0].Type), normal(rng, in[1].Type)
	idx = tensor.NewArray(dtype.I32, c.rows)
	for i := range idx.Ints {
		idx.Ints[i] = int64(c.groups - 1 - rng.IntN(c.used))
	}
	x.Floats[len(x.Floats)-1] = math.NaN()
	r.set("x", x)
	r.set("w", w)
	r.set("idx", idx)
	return x, w, idx
}

func (c groupedCase) test(t *testing.T, on device.Backend, precision string) {
	r := loadOn(t, on, c.graph(), precision)
	x, w, idx := c.inputs(r)
	x, w = rounded(x, precision), rounded(w, precision)
	for range 2 { // the second finds what the first left in memory
		for i, got := range r.run(t).Floats {
			row, col := i/c.n, i%c.n
			sum, all := 0.0, 0.0
			for k := range c.k {
				v := x.Floats[row*c.k+k] * w.Floats[(int(idx.Ints[row])*c.n+col)*c.k+k]
				sum, all = sum+v, all+math.Abs(v)
			}
			if !(math.Abs(got-sum) <= 2e-6*all+1e-6) && !(math.IsNaN(got) && math.IsNaN(sum)) {
				t.Fatalf("y[%d, %d] is %v; want %v", row, col, got, sum)
			}
		}
	}
	for _, bad := range []int64{-1, int64(c.groups)} {
		idx.Ints[c.rows/2] = bad
		r.set("idx", idx)
		if _, err := r.exe.Run(t.Context(), device.Run{IO: r.io}); err == nil {
			t.Errorf("index %d is accepted", bad)
		}
	}
}

// BenchmarkGrouped times grouped_matmul by the device's clock: the layers of a mixture of 128 experts, of which a token
// uses 8, for a prompt of 512 tokens.
func BenchmarkGrouped(b *testing.B) {
	for _, p := range []string{"bf16", "fma"} {
		b.Run(p, func(b *testing.B) {
			c := groupedCase{4096, 128, 768, 2048, dtype.BF16, 128}
			a, precision := newAPI(openLibrary, cacheFolder()), p
			if p == "fma" {
				a.change, precision = withoutMatrix, "f32"
			}
			r := loadOn(b, gpu.New(a), c.graph(), precision)
			c.inputs(r)
			r.run(b)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(1e6*fastest(b, r.exe), "us")
		})
	}
}
