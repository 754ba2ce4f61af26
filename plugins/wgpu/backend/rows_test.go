//go:build cgo && (darwin || amd64)

package backend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// compare runs a graph on the device and by the reference, with these inputs. A result may differ by tol of its largest
// finite element.
func compare(t *testing.T, g *ir.Graph, in map[string]*tensor.Array, tol float64) {
	t.Helper()
	p, _, err := sched.Build(g, sched.Options{Target: "portable"})
	if err != nil {
		t.Fatal(err)
	}
	want, err := interp.Run(g, nil, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range onDevice(t, load(t, shared, p, nil), p, nil, in) {
		largest := 0.0
		for i := range got.Len() {
			if w := math.Abs(want[name].At(i)); !math.IsInf(w, 0) && !math.IsNaN(w) {
				largest = max(largest, w)
			}
		}
		for i := range got.Len() {
			v, w := got.At(i), want[name].At(i)
			if v != w && !(math.IsNaN(v) && math.IsNaN(w)) && !(math.Abs(v-w) <= tol*largest) {
				t.Fatalf("element %d of %s is %v; want %v", i, name, v, w)
			}
		}
	}
}

// numbers are few different ones where distinct is small, and every fiftieth a special one of a float.
func numbers(d dtype.DType, distinct int, special bool, dims ...int64) *tensor.Array {
	shape := make([]int, len(dims))
	for i, n := range dims {
		shape[i] = int(n)
	}
	a, r := tensor.NewArray(d, shape...), rand.New(rand.NewPCG(uint64(distinct), uint64(len(dims))))
	others := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}
	for i := range a.Floats {
		a.Floats[i] = float64(r.IntN(distinct)-distinct/2) / 16
		if special && r.IntN(50) == 0 {
			a.Floats[i] = others[r.IntN(len(others))]
		}
	}
	for i := range a.Ints {
		a.Ints[i] = int64(r.IntN(distinct))
		if d == dtype.I32 {
			a.Ints[i] -= int64(distinct) / 2
		} else if d == dtype.Bool {
			a.Ints[i] %= 2
		}
	}
	return a.Tensor().Array() // rounded
}

// TestReductions folds rows and columns of every way that the kernel reads them: fours of a row, fours of neighbouring
// rows, single elements, rows in parts, and ends within a round of reads.
func TestReductions(t *testing.T) {
	for _, c := range devicetest.SomeOf(t, 4, []struct {
		d    dtype.DType
		dims []int64
		axes []int
	}{
		{dtype.F32, []int64{5, 1000}, []int{1}}, {dtype.F32, []int64{3, 4099}, []int{1}},
		{dtype.F32, []int64{40, 2500}, []int{0, 1}}, {dtype.F32, []int64{3, 333, 20}, []int{1}},
		{dtype.F32, []int64{9001, 4}, []int{0}}, {dtype.F16, []int64{70, 16}, []int{0}},
		{dtype.F16, []int64{7, 131}, []int{1}}, {dtype.I32, []int64{2, 40004}, []int{1}},
		{dtype.U32, []int64{9000, 12}, []int{0}}, {dtype.Bool, []int64{5, 1000}, []int{1}},
	}) {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			for _, special := range []bool{false, true} {
				g := ir.NewGraph("reductions")
				x := op.Input(g, "x", ir.TypeOf(c.d, c.dims...))
				switch c.d {
				case dtype.Bool:
					g.Return("any", op.Any(x, false, c.axes...))
				case dtype.F16:
					g.Return("mean", op.ReduceMean(x, false, c.axes...))
					g.Return("min", op.ReduceMin(x, false, c.axes...))
				default:
					g.Return("sum", op.ReduceSum(x, false, c.axes...))
					g.Return("max", op.ReduceMax(x, false, c.axes...))
				}
				compare(t, g, map[string]*tensor.Array{"x": numbers(c.d, 1000, special, c.dims...)},
					map[int]float64{4: 1e-5, 2: 8e-3, 1: 0}[c.d.Size()])
			}
		})
	}
}

// TestSoftmaxRows tests rows that fit registers, with and without a remainder, and rows that are read twice, in one
// part or in several.
func TestSoftmaxRows(t *testing.T) {
	for _, c := range devicetest.SomeOf(t, 3, []struct {
		d    dtype.DType
		dims []int64
	}{
		{dtype.F32, []int64{3, 20}}, {dtype.F32, []int64{5, 1000}}, {dtype.F32, []int64{3, 20004}},
		{dtype.F32, []int64{1, 70001}}, {dtype.F16, []int64{2, 4096}}, {dtype.BF16, []int64{2, 20008}},
	}) {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			for _, special := range []bool{false, true} {
				g := ir.NewGraph("softmax")
				x := op.Input(g, "x", ir.TypeOf(c.d, c.dims...))
				if c.dims[1]%8 == 0 {
					g.Return("y", op.LogSoftmax(x, 1))
				} else {
					g.Return("y", op.Softmax(x, 1))
				}
				a := numbers(c.d, 300, false, c.dims...)
				if special { // the last row stays as it is; others are NaN, or have a beginning that adds nothing
					n := int(c.dims[1])
					for i := range n - 3 {
						a.Floats[i] = math.Inf(-1)
					}
					if c.dims[0] > 1 {
						a.Floats[n+7] = []float64{math.NaN(), math.Inf(1)}[n%8/4]
					}
				}
				compare(t, g, map[string]*tensor.Array{"x": a}, map[int]float64{4: 1e-5, 2: 1e-2}[c.d.Size()])
			}
		})
	}
}

// TestSorts sorts lines in one tile, by comparing and by digits, and in several tiles that are merged once or twice.
// Equal elements keep their order.
func TestSorts(t *testing.T) {
	for _, c := range devicetest.SomeOf(t, 2, []struct {
		d    dtype.DType
		dims []int64
		axis int
	}{
		{dtype.F32, []int64{3, 300}, 1}, {dtype.F16, []int64{2, 700, 3}, 1}, {dtype.F32, []int64{2, 9001}, 1},
		{dtype.I32, []int64{600}, 0},
	}) {
		for _, distinct := range []int{7, 1 << 20} {
			t.Run(fmt.Sprint(c, distinct), func(t *testing.T) {
				g := ir.NewGraph("sorts")
				x := op.Input(g, "x", ir.TypeOf(c.d, c.dims...))
				values, places := op.Sort(x, c.axis, c.d == dtype.F16)
				g.Return("values", values)
				g.Return("places", places)
				compare(t, g, map[string]*tensor.Array{"x": numbers(c.d, distinct, true, c.dims...)}, 0)
			})
		}
	}
}

// TestScatterAdd adds rows of every width that the kernel divides: single elements, fours, several rows to a workgroup
// and several workgroups to a row; with indices in one sorted tile and in several.
func TestScatterAdd(t *testing.T) {
	for _, c := range devicetest.SomeOf(t, 3, []struct {
		d     dtype.DType
		dims  []int64
		rows  int64
		index dtype.DType
	}{
		{dtype.F32, []int64{300}, 50, dtype.I64}, {dtype.F32, []int64{200, 3}, 20, dtype.U32},
		{dtype.F32, []int64{9000, 4}, 3000, dtype.I32}, {dtype.F32, []int64{7, 4100}, 3, dtype.I32},
		{dtype.F16, []int64{40, 8}, 9, dtype.I32}, {dtype.BF16, []int64{40, 5}, 9, dtype.I32},
		{dtype.I32, []int64{600, 2, 4}, 1, dtype.I32},
	}) {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			g := ir.NewGraph("scatter_add")
			g.Return(
				"y", op.ScatterAdd(op.Input(g, "x", ir.TypeOf(c.d, c.dims...)),
					op.Input(g, "i", ir.TypeOf(c.index, c.dims[0])), ir.Static(c.rows)))
			i := numbers(dtype.U32, int(c.rows), false, c.dims[0])
			i.DType = c.index
			compare(t, g, map[string]*tensor.Array{"x": numbers(c.d, 100, false, c.dims...), "i": i},
				map[int]float64{4: 1e-6, 2: 1e-2}[c.d.Size()])
		})
	}
}
