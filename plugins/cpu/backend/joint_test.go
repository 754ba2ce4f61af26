package backend

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// jointProgram multiplies x by three matrices, and -x by one.
func jointProgram(t *testing.T) (*program.Program, []byte) {
	t.Helper()
	const k, n = 256, 40
	g := ir.NewGraph("joint")
	var weights []byte
	at := map[string]int64{}
	product := func(name string, x *ir.Node, d dtype.DType) {
		blocks := k / d.Values()
		at[name] = int64(len(weights))
		b := tensor.AlignedBytes(n * blocks * d.Size())
		quant.Random(b, d, rand.New(rand.NewPCG(1, uint64(len(weights)))).Uint32)
		weights = append(weights, b...)
		weights = append(weights, make([]byte, -len(weights)&63)...)
		g.Return(name, op.DequantMatMul(x, op.Param(g, name, ir.TypeOf(d, n, int64(blocks))), op.ActivationsQ8))
	}
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, 1, k))
	product("q", x, dtype.Q4_K)
	product("k", x, dtype.Q6_K)
	product("v", x, dtype.Q8_0)
	product("other", op.Neg(x), dtype.Q8_0)
	p, _, err := sched.Build(
		g, sched.Options{Target: "portable", Weights: func(name string) (int64, bool) {
			a, ok := at[name]
			return a, ok
		}})
	if err != nil {
		t.Fatal(err)
	}
	return p, append(tensor.AlignedBytes(0), weights...)
}

// TestJointSteps compares joint steps with steps that run by themselves: in a profiled run, and where one of the
// results is not needed.
func TestJointSteps(t *testing.T) {
	p, weights := jointProgram(t)
	for _, threads := range []int{1, 2} {
		loaded, err := Backend{}.Load(context.Background(), device.Load{Program: p, Threads: threads, Weights: weights})
		if err != nil {
			t.Fatal(err)
		}
		defer loaded.Close()
		e := loaded.(*executable)
		steps := 0
		for _, j := range e.joints {
			steps += len(j.steps)
		}
		if steps != 3 {
			t.Errorf("%d steps run jointly, want 3", steps)
		}
		inputs, outputs := program.NewBinder(p).IO(nil)
		in := inputs[0]
		run := func(r device.Run) (out [4][]byte) {
			r.IO = tensor.AlignedBytes(int(p.IOSize))
			for i, rng := 0, rand.New(rand.NewPCG(2, 3)); i < int(in.Bytes)/4; i++ {
				tensor.View[float32](r.IO[in.Offset:])[i] = rng.Float32() - 0.5
			}
			if _, err := e.Run(context.Background(), r); err != nil {
				t.Fatal(err)
			}
			for i, o := range outputs {
				out[i] = r.IO[o.Offset : o.Offset+o.Bytes]
			}
			return out
		}
		joint := run(device.Run{})
		r := device.Run{IO: tensor.AlignedBytes(int(p.IOSize))}
		// see TestKernelsAllocateNothing
		if n := testing.AllocsPerRun(20, func() { e.Run(context.Background(), r) }); n > 0 && threads == 1 {
			t.Errorf("%v allocations in a run", n)
		}
		for what, r := range map[string]device.Run{"profiled": {Opts: device.RunOptions{Profile: true}},
			"without k": {Outputs: []bool{true, false, true, true}}} {
			for i, single := range run(r) {
				if (r.Outputs == nil || r.Outputs[i]) && !bytes.Equal(single, joint[i]) {
					t.Errorf("%d threads, %s: output %d is not that of joint steps", threads, what, i)
				}
			}
		}
	}
}
