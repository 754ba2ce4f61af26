package backend

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	compiler "github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/hir/controltest"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

// compiled returns the program of a graph for this backend, and its weights.
func compiled(t testing.TB, g *ir.Graph) (*program.Program, []byte) { return compiledAs(t, g, 0) }

// compiledAs is like compiled, and unrolls loops of at most so many nodes (pass.Options.Unroll).
func compiledAs(t testing.TB, g *ir.Graph, unroll int) (*program.Program, []byte) {
	t.Helper()
	r, err := compiler.Compile(t.Context(), []*ir.Graph{g},
		compiler.Options{Targets: compiler.Defaults()[:1], Unroll: unroll,
			Layout: func(w []compiler.Weight) (size int64, err error) {
				for i := range w {
					w[i].Offset = size
					size += program.AlignUp(w[i].Size())
				}
				return size, nil
			}})
	if err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	weights := tensor.AlignedBytes(int(r.WeightsSize))
	for _, w := range r.Weights {
		copy(weights[w.Offset:], w.Data)
	}
	return r.Programs[0], weights
}

// skipping runs a program twice with the same inputs: first all steps, then only the steps that the conditions leave.
// The second run begins with an arena full of NaN. It returns the number of steps of each. The outputs must have the
// same bits.
func skipping(t *testing.T, p *program.Program, weights []byte, in map[string]*tensor.Array) (all, ran int) {
	t.Helper()
	loaded, err := Backend{}.Load(context.Background(), device.Load{Program: p, Threads: 1, Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	e := loaded.(*executable)
	inputs, outputs := program.NewBinder(p).IO(nil)
	run := func(r device.Run) ([]byte, int, error) {
		r.IO = tensor.AlignedBytes(int(p.IOSize))
		for i, n := range p.Graph.Inputs() {
			in[n.Name].Store(r.IO[inputs[i].Offset:][:inputs[i].Bytes])
		}
		for i := range e.arena {
			e.arena[i] = 0xff
		}
		r.Opts.Profile = true
		stats, err := e.Run(context.Background(), r)
		var out []byte
		for _, o := range outputs {
			out = append(out, r.IO[o.Offset:o.Offset+o.Bytes]...)
		}
		return out, len(stats.Steps), err
	}
	want, all, err := run(device.Run{Opts: device.RunOptions{CheckNaN: true}})
	got, ran, err2 := run(device.Run{})
	switch {
	case err != nil && err2 != nil:
		return 0, 0
	case err != nil || err2 != nil:
		t.Fatalf("with all steps: %v; with those that are needed: %v\n%s", err, err2, p.Graph)
	case !bytes.Equal(got, want):
		t.Fatalf("with all steps: %x; with those that are needed: %x\n%s", want, got, p.Graph)
	}
	return all, ran
}

// TestSkipRandom compares runs of random programs of nested control flow with runs of all their steps.
func TestSkipRandom(t *testing.T) {
	skipped, ok := 0, 0
	seeds := devicetest.Some(t, 50, 150)
	if testing.Short() { // in an emulator, which is slow
		seeds = devicetest.Some(t, 8, 150)
	}
	for _, seed := range seeds {
		g, err := controltest.Random(seed)
		if err != nil {
			t.Fatal(err)
		}
		in, rng := map[string]*tensor.Array{}, rand.New(rand.NewPCG(seed, 2))
		for _, n := range g.Inputs() {
			in[n.Name] = interp.Random(rng, n.Type, nil, ir.Range{Lo: -2, Hi: 5})
		}
		p, weights := compiled(t, g)
		all, ran := skipping(t, p, weights, in)
		if all > 0 {
			ok++
		}
		if ran < all {
			skipped++
		}
	}
	if skipped < len(seeds)/20 {
		t.Errorf("only %d of %d programs skipped steps", skipped, ok)
	}
}

// loop multiplies a vector by a matrix until its sum exceeds a limit, and then, if p, multiplies it by itself.
const loop = `graph more
v = input : f32[8,8]
w = input : f32[8,8]
limit = input : f32[]
s = reduce_sum v {axes=[0,1]} : f32[]
c = lt s, limit : bool[]
return c=c

graph times
v = input : f32[8,8]
w = input : f32[8,8]
limit = input : f32[]
u = matmul v, w : f32[8,8]
return u=u, w=w, limit=limit

graph square
v = input : f32[8,8]
u = matmul v, v : f32[8,8]
return u=u

graph same
v = input : f32[8,8]
return v=v

graph main
v = input : f32[8,8]
w = input : f32[8,8]
limit = input : f32[]
p = input : bool[]
u = while v, w, limit {body=@times, cond=@more, max_iterations=10} : f32[8,8]
y = if p, u {else=@same, then=@square} : f32[8,8]
return y=y
`

// TestSkipLoop checks that iterations after the end of a loop, and a branch that is not taken, cost no products and no
// conditions.
func TestSkipLoop(t *testing.T) {
	g, err := ir.Parse(loop)
	if err != nil {
		t.Fatal(err)
	}
	p, weights := compiled(t, g)
	in := map[string]*tensor.Array{}
	for _, n := range g.Inputs() {
		in[n.Name] = tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(nil)...)
	}
	in["v"].Floats[0] = 1
	for i := range 8 {
		in["w"].Floats[9*i] = 2 // the sum doubles in each iteration
	}
	before := 0
	for n, limit := range []float64{1, 2, 4, 8, 16} { // n iterations
		in["limit"].Floats[0] = limit
		var ran [2]int
		for p0 := range 2 {
			in["p"].Ints[0] = int64(p0)
			all, k := skipping(t, p, weights, in)
			ran[p0] = k
			if all != len(p.Steps) {
				t.Errorf("%d of %d steps ran in a run that looks at values", all, len(p.Steps))
			}
		}
		if ran[1] != ran[0]+1 {
			t.Errorf("%d iterations: %d steps run with the branch square, %d without; want one more", n, ran[1], ran[0])
		}
		if n > 0 && ran[0] <= before {
			t.Errorf("%d iterations: %d steps run, after %d for one less", n, ran[0], before)
		}
		before = ran[0]
		t.Logf("%d iterations: %d of %d steps", n, ran[0], len(p.Steps))
	}
}
