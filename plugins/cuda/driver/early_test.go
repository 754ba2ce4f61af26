package driver

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"unsafe"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// TestEarly runs a program whose results are copied while it computes, as often as it takes to make a graph of that,
// with all results and with some. Where there is no device, kernels do nothing, and results are zeros.
func TestEarly(t *testing.T) {
	f := newFake()
	t.Run("without a device", func(t *testing.T) {
		testEarly(t, gpu.New(newAPI(f.open, "")), false)
		if f.count(cuStreamWaitEvent) == 0 || f.count(cuGraphLaunch) == 0 {
			t.Error("no copy was beside commands, or no graph was launched")
		}
	})
	t.Run("on a device", func(t *testing.T) { testEarly(t, shared, true) })
}

func testEarly(t *testing.T, on device.Backend, computes bool) {
	g := ir.NewGraph("early")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, 1500, 2001))
	a := op.Add(x, x)
	b := op.Mul(a, a)
	small := op.Input(g, "small", ir.TypeOf(dtype.F32, 3))
	g.Return("a", a)
	g.Return("b", b)
	g.Return("small", op.Add(small, small))
	p, _, err := sched.Build(g, sched.Options{Target: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	io := make([]byte, p.IOSize+4096)
	io = io[-uintptr(unsafe.Pointer(&io[0]))&4095:][:p.IOSize]
	exe, err := on.Load(t.Context(), device.Load{Program: p, IO: io})
	if errors.Is(err, device.ErrUnavailable) && os.Getenv("RLX_REQUIRE_CUDA") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	bound, err := program.NewBinder(p).Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	bytes := func(o program.Operand) []byte { return io[o.Offset : o.Offset+o.Bytes] }
	rng := rand.New(rand.NewPCG(1, 2))
	for run := range 8 {
		in := tensor.View[float32](bytes(bound.Inputs[0]))
		for i := range in {
			in[i] = float32(rng.NormFloat64())
		}
		values := [3][]float32{slices.Clone(in), slices.Clone(in), {1, 2, float32(run)}}
		copy(tensor.View[float32](bytes(bound.Inputs[1])), values[2])
		for _, o := range bound.Outputs {
			for i := range bytes(o) {
				bytes(o)[i] = 0xaa
			}
		}
		ready := make([]int64, 3)
		r := device.Run{IO: io, Ready: func(output int, n int64) {
			if n <= ready[output] || n > bound.Outputs[output].Bytes {
				t.Errorf("run %d: %d bytes of output %d are ready, after %d", run, n, output, ready[output])
			}
			ready[output] = n
		}}
		if run%4 == 3 {
			r.Outputs = []bool{false, true, true}
		}
		if _, err := exe.Run(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		for k, o := range bound.Outputs {
			if r.Outputs != nil && !r.Outputs[k] {
				if ready[k] != 0 {
					t.Errorf("run %d: output %d is not wanted, and %d bytes are ready", run, k, ready[k])
				}
				continue
			}
			if large := k < 2; large != (ready[k] == o.Bytes) {
				t.Errorf("run %d: %d of %d bytes of output %d were ready", run, ready[k], o.Bytes, k)
			}
			for i, v := range tensor.View[float32](bytes(o)) {
				w := float32(0)
				if computes {
					x := values[k][i]
					w = []float32{2 * x, 4 * x * x, 2 * x}[k]
				}
				if v != w {
					t.Fatalf("run %d: element %d of output %d is %v; want %v", run, i, k, v, w)
				}
			}
		}
	}
}
