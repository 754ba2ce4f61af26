//go:build linux || darwin

package backend_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	_ "github.com/rlx-go/rlx/core/hir" // while and scan
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/sdk/backend"
)

// steps has a loop over rows in a loop that ends early.
const steps = `graph row
h = input : f32[5]
w = input : f32[5]
x = input : f32[5]
a = sub x, h : f32[5]
b = abs a : f32[5]
c = mul b, w : f32[5]
return c=c

graph body
h = input : f32[5]
i = input : i32[]
x = input : f32[3,5]
w = param : f32[5]
y = scan h, w, x {body=@row, steps=1} : f32[5]
one = const {value=1} : i32[]
j = add i, one : i32[]
v = gather x, i {axis=0} : f32[5]
z = add y, v : f32[5]
return z=z, j=j, x=x

graph less
h = input : f32[5]
i = input : i32[]
x = input : f32[3,5]
n = const {value=3} : i32[]
c = lt i, n : bool[]
return c=c

graph main
h = input : f32[5]
i = input : i32[]
x = input : f32[3,5]
y = while h, i, x {body=@body, cond=@less, max_iterations=500, result=0} : f32[5]
return y=y
`

// TestNewLoop runs a loop in a loop with a kernel for one of the ops in it, and replaces the weight that it reads.
func TestNewLoop(t *testing.T) {
	g, err := ir.Parse(steps)
	if err != nil {
		t.Fatal(err)
	}
	b := open(backend.Config{Name: "sdk", Types: []dtype.DType{dtype.F32, dtype.I32, dtype.Bool}, Reference: true,
		Kernels: append(kernels[:1:1], backend.NewLoop())})(t)
	info, err := b.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	low, _, err := pass.Run(g, info.Target, pass.Options{Unroll: -1})
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := sched.Build(low, sched.Options{Method: "m", Target: "sdk",
		Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Nested()) != 3 {
		t.Fatalf("%d programs in loops; want those of two loops, one with a condition:\n%s", len(p.Nested()), low)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	random := func(typ string) *tensor.Array {
		return interp.Random(rng, ir.MustType(typ), nil, ir.Range{Lo: -1, Hi: 1})
	}
	in := map[string]*tensor.Array{"h": random("f32[5]"), "x": random("f32[3,5]"), "i": random("i32[]")}
	weights := tensor.AlignedBytes(int(p.WeightsExtent()))
	x, err := b.Load(t.Context(), device.Load{Program: p, Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	inputs, outputs := program.NewBinder(p).IO(nil)
	r := device.Run{IO: tensor.AlignedBytes(int(p.IOSize))}
	for _, first := range []int64{1, 0, 3, -1} {
		w := random("f32[5]")
		replaced := tensor.AlignedBytes(len(weights))
		w.Store(replaced)
		if err := x.(device.WeightSetter).SetWeights(t.Context(), device.NewWeights{Weights: replaced,
			Params: []int{p.Graph.Params()[0].ID}}); err != nil {
			t.Fatal(err)
		}
		in["i"].Ints[0] = first
		for k, n := range p.Graph.Inputs() {
			in[n.Name].Store(r.IO[inputs[k].Offset:][:inputs[k].Bytes])
		}
		_, err := x.Run(t.Context(), r)
		if first < 0 {
			if !errors.Is(err, device.ErrInput) || !strings.Contains(err.Error(), "iteration 0: ") {
				t.Errorf("error %v; want one about iteration 0", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got := r.IO[outputs[0].Offset:][:outputs[0].Bytes]
		values, err := interp.RunProgram(p, nil, in, replaced)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, len(got))
		if values["y"].Store(want); !bytes.Equal(got, want) {
			t.Errorf("from %d: %x; the reference has %x", first, got, want)
		}
	}
}
