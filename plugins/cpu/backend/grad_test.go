package backend

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// gradients has values with several readers, sums over many rows, and a sort and a scatter, whose order could differ.
const gradients = `graph train
x = input : f32[300,96]
table = input : f32[50,96]
idx = input : i32[300]
w1 = input : f32[257,96]
b1 = input : f32[257]
w2 = input : f32[96,257]
h = matmul x, w1 {trans_b=true} : f32[300,257]
h1 = add h, b1 : f32[300,257]
a = gelu h1 : f32[300,257]
o = matmul a, w2 {trans_b=true} : f32[300,96]
r = add o, x : f32[300,96]
z = scatter_add r, idx : f32[50,96]
t = mul z, table : f32[50,96]
v, i = sort t {axis=0} : f32[50,96], i32[50,96]
m = softmax v {axis=1} : f32[50,96]
k = mul m, t : f32[50,96]
n = reduce_sum k {axes=[0,1]} : f32[]
p = reduce_mean r {axes=[0]} : f32[96]
u = logsumexp p {axes=[0]} : f32[]
loss = add n, u : f32[]
dx, dt, dw1, db1, dw2 = grad(loss; x, table, w1, b1, w2) : f32[300,96], f32[50,96], f32[257,96], f32[257], f32[96,257]
return loss=loss, dx=dx, dt=dt, dw1=dw1, db1=db1, dw2=dw2
`

// TestGradientBits checks that gradients have the same bits for any number of threads.
func TestGradientBits(t *testing.T) {
	g, err := ir.Parse(gradients)
	if err != nil {
		t.Fatal(err)
	}
	cpu, _ := target.Find("cpu")
	if g, _, err = pass.Run(g, cpu, pass.Options{Verify: true}); err != nil {
		t.Fatal(err)
	}
	p, _, err := sched.Build(g, sched.Options{Target: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	inputs, outputs := program.NewBinder(p).IO(nil)
	var want []byte
	for _, threads := range []int{1, 2, 3, 7} {
		e, err := Backend{}.Load(context.Background(), device.Load{Program: p, Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		io := tensor.AlignedBytes(int(p.IOSize))
		rng := rand.New(rand.NewPCG(2, 3))
		for k, in := range inputs {
			for i := range int(in.Bytes) / 4 {
				if g.Inputs()[k].Name == "idx" {
					tensor.View[int32](io[in.Offset:])[i] = rng.Int32N(50)
				} else {
					tensor.View[float32](io[in.Offset:])[i] = rng.Float32() - 0.5
				}
			}
		}
		if _, err := e.Run(context.Background(), device.Run{IO: io}); err != nil {
			t.Fatal(err)
		}
		var got []byte
		for _, o := range outputs {
			got = append(got, io[o.Offset:o.Offset+o.Bytes]...)
		}
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Errorf("the gradients of %d threads have other bits than those of one", threads)
		}
	}
}
