//go:build linux

package shim

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	_ "github.com/rlx-go/rlx/core/hir" // while and scan
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// TestLoop runs a loop over rows, which begin within words, in a loop that ends early, and an index in it that is out
// of range.
func TestLoop(t *testing.T) {
	g, err := ir.Parse(`graph row
b = input : bool[3]
m = input : bool[3]
e = ne b, m : bool[3]
return e=e

graph body
i = input : i32[]
b = input : bool[3]
m = input : bool[5,3]
x = input : f32[7]
y = scan b, m {body=@row, steps=1} : bool[3]
v = gather x, i {axis=0} : f32[]
one = const {value=1} : i32[]
j = add i, one : i32[]
z = sub x, v : f32[7]
return j=j, y=y, m=m, z=z

graph less
i = input : i32[]
b = input : bool[3]
m = input : bool[5,3]
x = input : f32[7]
n = const {value=7} : i32[]
c = lt i, n : bool[]
return c=c

graph main
i = input : i32[]
b = input : bool[3]
m = input : bool[5,3]
x = input : f32[7]
y = while i, b, m, x {body=@body, cond=@less, max_iterations=90, result=1} : bool[3]
z = while i, b, m, x {body=@body, cond=@less, max_iterations=90, result=3} : f32[7]
return y=y, z=z
`)
	if err != nil {
		t.Fatal(err)
	}
	low, report, err := pass.Run(g, kernels.Description(), pass.Options{Unroll: -1})
	if err != nil {
		t.Fatal(err)
	}
	places, weights := map[string]int64{}, tensor.AlignedBytes(len(report.Folded)*program.Align)
	for name, value := range report.Folded { // numbers
		places[name] = int64(len(places)) * program.Align
		copy(weights[places[name]:], value.Data)
	}
	p, _, err := sched.Build(low, sched.Options{Target: "portable", Method: "m",
		Weights: func(name string) (int64, bool) { at, ok := places[name]; return at, ok }})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Nested()) != 3 {
		t.Fatalf("%d programs in loops; want 3:\n%s", len(p.Nested()), low)
	}
	opts := Options{Cache: dir, Level: "-O0"}
	prepare(t, []load{{p, opts}})
	e, err := New(opts).Load(t.Context(), device.Load{Program: p, Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	in, rng := map[string]*tensor.Array{}, rand.New(rand.NewPCG(1, 1))
	for _, n := range p.Graph.Inputs() {
		in[n.Name] = interp.Random(rng, n.Type, nil, ir.Range{Lo: 0, Hi: 1})
	}
	inputs, outputs := program.NewBinder(p).IO(nil)
	for _, first := range []int64{0, 5, 9, -3} {
		in["i"].Ints[0] = first
		r := device.Run{IO: tensor.AlignedBytes(int(p.IOSize))}
		for k, n := range p.Graph.Inputs() {
			in[n.Name].Store(r.IO[inputs[k].Offset:][:inputs[k].Bytes])
		}
		_, err := e.Run(t.Context(), r)
		if first < 0 {
			if err == nil || !strings.Contains(err.Error(), "iteration 0: ") {
				t.Errorf("error %v; want one about iteration 0", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		values, err := interp.RunProgram(p, nil, in, weights)
		if err != nil {
			t.Fatal(err)
		}
		for k, name := range []string{"y", "z"} {
			want := make([]byte, outputs[k].Bytes)
			values[name].Store(want)
			if got := r.IO[outputs[k].Offset:][:outputs[k].Bytes]; !bytes.Equal(got, want) {
				t.Errorf("from %d: %s is %x; want %x", first, name, got, want)
			}
		}
	}
}
