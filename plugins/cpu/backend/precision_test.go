package backend

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// square returns the program y = x·x for x [n,n].
func square(t *testing.T, n int) *program.Program {
	t.Helper()
	g := ir.NewGraph("product")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, int64(n), int64(n)))
	g.Return("y", op.MatMul(x, x, op.MatMulAttrs{}))
	p, _, err := sched.Build(
		g, sched.Options{Target: "portable", Weights: func(string) (int64, bool) { return 0, false }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPrecision multiplies by 1 + 2^-9 + 2^-12, which bfloat16 rounds to 1. The product must round it only if bfloat16
// is requested and there are enough rows.
func TestPrecision(t *testing.T) {
	const x0 = float32(1 + 1.0/512 + 1.0/4096)
	for _, c := range []struct {
		precision string
		n         int
		want      float32
	}{{"", fewRows, x0 * x0}, {"f32", fewRows, x0 * x0}, {"bf16", fewRows, 1}, {"bf16", fewRows - 1, x0 * x0}} {
		precision, n, want := c.precision, c.n, c.want
		p := square(t, n)
		x, err := Backend{}.Load(context.Background(), device.Load{Program: p, Threads: 1, Precision: precision})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		io := tensor.AlignedBytes(int(p.IOSize))
		b, err := p.Bind(nil)
		if err != nil {
			t.Fatal(err)
		}
		in, out := b.Steps[0].In[0], b.Steps[0].Outs[0]
		v := tensor.View[float32](io[in.Offset : in.Offset+in.Bytes])
		for i := range n {
			v[i*n+i] = x0
		}
		if _, err := x.Run(context.Background(), device.Run{IO: io}); err != nil {
			t.Fatal(err)
		}
		got := tensor.View[float32](io[out.Offset : out.Offset+out.Bytes])
		if got[0] != want || got[n+1] != want || got[1] != 0 {
			t.Errorf("precision %q, %d rows: %v and %v, want %v on the diagonal", precision, n, got[0], got[n+1], want)
		}
	}
}

func TestUnknownPrecision(t *testing.T) {
	_, err := Backend{}.Load(context.Background(), device.Load{Program: square(t, 4), Precision: "fp8"})
	if !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("precision fp8: %v; want device.ErrUnsupported", err)
	}
}

// TestPackedWeights runs a product with enough rows that its weights are packed as bfloat16, and then with so few that
// it runs in f32. The second run must not use the rounded weights.
func TestPackedWeights(t *testing.T) {
	const k, n = 64, 48
	g := ir.NewGraph("rows", ir.Sym{Name: "N", Min: 1, Max: 2 * fewRows})
	x := op.Input(g, "x", ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Named("N"), ir.Static(k)}})
	g.Return("y", op.MatMul(x, op.Param(g, "w", ir.TypeOf(dtype.F32, k, n)), op.MatMulAttrs{}))
	p, _, err := sched.Build(g, sched.Options{Target: "cpu", Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		t.Fatal(err)
	}
	w := tensor.AlignedBytes(4 * k * n)
	for i := range tensor.View[float32](w) {
		tensor.View[float32](w)[i] = float32(i%37) - 18.3
	}
	in := tensor.NewArray(dtype.F32, 5, k)
	for i := range in.Floats {
		in.Floats[i] = float64(i%23) - 11
	}
	var want []float64
	for _, sizes := range [][]int64{{5}, {2 * fewRows, 5}} {
		e, err := Backend{}.Load(t.Context(), device.Load{Program: p, Weights: w, Threads: 1, Precision: "bf16"})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		var got []float64
		for _, rows := range sizes {
			x := tensor.NewArray(dtype.F32, int(rows), k)
			copy(x.Floats, in.Floats)
			got = devicetest.Once(t, e, p, map[string]int64{"N": rows}, map[string]*tensor.Array{"x": x})["y"].Floats
		}
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("sizes %v: %v..., want %v...", sizes, got[:4], want[:4])
		}
	}
}

// TestUnknownActivation checks that a product with an unknown activation fails, rather than leaving the activation out.
func TestUnknownActivation(t *testing.T) {
	g := ir.NewGraph("g")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, 2, 2))
	c := &call{node: op.MatMul(x, x, op.MatMulAttrs{}), in: make([]tensor.Tensor, 2)}
	c.out = tensor.Tensor{DType: dtype.F32, Shape: []int{2, 2}, Data: tensor.AlignedBytes(16)}
	c.in[0], c.in[1] = c.out, c.out
	err := multiplies(func(*ir.Node) op.FusedMatMulAttrs { return op.FusedMatMulAttrs{Act: "swoosh"} })(c.node)(c)
	if !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("activation swoosh: %v; want device.ErrUnsupported", err)
	}
}
