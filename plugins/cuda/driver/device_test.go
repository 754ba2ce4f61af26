package driver

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

var shared = New()

// TestConformance runs the suite on the first device. Without one it is skipped, unless RLX_REQUIRE_CUDA says that
// there must be one.
func TestConformance(t *testing.T) {
	failing := []devicetest.Exception{
		// as on wgpu, whose kernel it is
		{Name: "conv1d/4/spread", Reason: "a convolution in tiles multiplies the padding by the weights"},
		// see docs/cuda.md: the sums of scales and of minima are infinite
		{Name: "dequant_matmul/21/spread", Reason: "an infinite value of x gives NaN with weights in q4_k"},
		{Name: "dequant_matmul/22/spread", Reason: "an infinite value of x gives NaN with weights in q4_k"},
	}
	devicetest.Run(t, func(*testing.T) device.Backend { return shared },
		devicetest.Options{MustHave: os.Getenv("RLX_REQUIRE_CUDA") != "", Failing: failing})
}

// graphRun is a program of a graph whose weights are all inputs.
type graphRun struct {
	program *program.Program
	bound   *program.Bound
	io      []byte
	exe     device.Executable
}

// loadOn loads a graph at a precision, or skips the test if there is no device.
func loadOn(t testing.TB, on device.Backend, g *ir.Graph, precision string) *graphRun {
	t.Helper()
	p, _, err := sched.Build(g, sched.Options{Target: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	x := loadProgram(t, on, p, precision)
	b, err := program.NewBinder(p).Bind(p.Graph.Syms.Min())
	if err != nil {
		t.Fatal(err)
	}
	return &graphRun{p, b, tensor.AlignedBytes(int(p.IOSize)), x}
}

func loadProgram(t testing.TB, on device.Backend, p *program.Program, precision string) device.Executable {
	t.Helper()
	x, err := on.Load(context.Background(), device.Load{Program: p, Precision: precision})
	if errors.Is(err, device.ErrUnavailable) && os.Getenv("RLX_REQUIRE_CUDA") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// set writes an input.
func (r *graphRun) set(name string, a *tensor.Array) {
	for i, n := range r.program.Graph.Inputs() {
		if n.Name == name {
			o := r.bound.Inputs[i]
			a.Store(r.io[o.Offset : o.Offset+o.Bytes])
		}
	}
}

// run runs the program and returns its first output.
func (r *graphRun) run(t testing.TB) *tensor.Array {
	t.Helper()
	if _, err := r.exe.Run(context.Background(), device.Run{IO: r.io}); err != nil {
		t.Fatal(err)
	}
	o := r.bound.Outputs[0]
	return tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: r.io[o.Offset : o.Offset+o.Bytes]}.Array()
}
