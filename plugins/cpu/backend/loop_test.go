package backend

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/hir/controltest"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

// outputsOf runs a program and returns the bytes of its outputs.
func outputsOf(t *testing.T, p *program.Program, weights []byte, threads int, syms map[string]int64,
	in map[string]*tensor.Array) ([]byte, error) {
	t.Helper()
	e, err := Backend{}.Load(context.Background(), device.Load{Program: p, Threads: threads, Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r := device.Run{IO: tensor.AlignedBytes(int(p.IOSize)), Syms: syms}
	inputs, outputs := program.NewBinder(p).IO(syms)
	for i, n := range p.Graph.Inputs() {
		in[n.Name].Store(r.IO[inputs[i].Offset:][:inputs[i].Bytes])
	}
	var out []byte
	for range 2 { // the second run finds what the first has left
		out = nil
		if _, err := e.Run(context.Background(), r); err != nil {
			return nil, err
		}
		for _, o := range outputs {
			out = append(out, r.IO[o.Offset:o.Offset+o.Bytes]...)
		}
	}
	return out, nil
}

// TestLoopRandom runs random programs of nested control flow with loops that are steps and with unrolled ones. The
// outputs must have the same bits, with one thread and with three. Where the reference refuses an index, a run of the
// unrolled loop may not compute it, if nothing needs the value.
func TestLoopRandom(t *testing.T) {
	loops, nested, bad := 0, 0, 0
	for seed := range uint64(100) {
		g, err := controltest.Random(seed)
		if err != nil {
			t.Fatal(err)
		}
		in, rng := map[string]*tensor.Array{}, rand.New(rand.NewPCG(seed, 2))
		for _, n := range g.Inputs() {
			in[n.Name] = interp.Random(rng, n.Type, nil, ir.Range{Lo: -2, Hi: 5})
		}
		p, weights := compiledAs(t, g, -1)
		loops += len(p.Loops)
		for _, x := range p.Nested() {
			nested += len(x.Loops)
		}
		q, unrolled := compiled(t, g)
		if len(q.Loops) > 0 {
			t.Fatalf("a short loop is not unrolled:\n%s", g)
		}
		if _, err := interp.Run(g, nil, in, nil); err != nil {
			bad++
			continue
		}
		want, err := outputsOf(t, q, unrolled, 1, nil, in)
		if err != nil { // in f32 another branch may be taken
			bad++
			continue
		}
		for _, threads := range []int{1, 3} {
			got, err2 := outputsOf(t, p, weights, threads, nil, in)
			if err2 != nil || !bytes.Equal(got, want) {
				t.Fatalf("seed %d, %d threads: unrolled %x, as steps %x (%v)\n%s\n%s", seed, threads, want, got, err2,
					g,
					p.Graph)
			}
		}
		if _, err := interp.RunProgram(p, nil, in, weights); err != nil { // with a poisoned arena
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if loops < 50 || nested < 10 || bad > 70 {
		t.Errorf("%d loops, %d loops in loops, %d programs with a bad index", loops, nested, bad)
	}
}

// rows is a loop over slices and symbols, with weights that its body reads and weights that it is given.
const rows = `graph cell
sym N = 1..6
h = input : f32[N,4]
u = input : f32[4,4]
x = input : f32[N,4]
w = param : f32[4,4]
a = matmul h, u : f32[N,4]
b = matmul x, w : f32[N,4]
s = add a, b : f32[N,4]
t = tanh s : f32[N,4]
return t=t

graph main
sym N = 1..6
x = input : f32[300,N,4]
h = input : f32[N,4]
u = param : f32[4,4]
y = scan h, u, x {body=@cell, steps=1} : f32[N,4]
z = scan h, u, x {body=@cell, steps=1, trajectory=true} : f32[300,N,4]
return y=y, z=z
`

// TestLoopWeights checks a loop whose weights are replaced, at several sizes, against the unrolled loop.
func TestLoopWeights(t *testing.T) {
	g, err := ir.Parse(rows)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := compiledAs(t, g, -1)
	q, _ := compiledAs(t, g, 1<<20)
	if len(p.Loops) != 1 || len(q.Loops) != 0 || len(p.Graph.Params()) != 2 {
		t.Fatalf("%d loops and %d, weights %v:\n%s", len(p.Loops), len(q.Loops), p.Graph.Params(), p.Graph)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, size := range []int64{6, 1, 3} {
		syms := map[string]int64{"N": size}
		in := map[string]*tensor.Array{}
		for _, n := range g.Inputs() {
			in[n.Name] = interp.Random(rng, n.Type, syms, ir.Range{Lo: -1, Hi: 1})
		}
		values := map[string]*tensor.Array{}
		for _, n := range p.Graph.Params() {
			values[n.Name] = interp.Random(rng, n.Type, nil, ir.Range{Lo: -1, Hi: 1})
		}
		run := func(p *program.Program, replace bool) []byte {
			first := tensor.AlignedBytes(int(p.WeightsExtent()))
			weights, to := tensor.AlignedBytes(len(first)), device.NewWeights{}
			for _, n := range p.Graph.Params() {
				values[n.Name].Store(weights[p.Places[n.ID].Offset:][:p.Places[n.ID].Size])
				to.Params = append(to.Params, n.ID)
			}
			if !replace {
				out, err := outputsOf(t, p, weights, 2, syms, in)
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			e, err := Backend{}.Load(context.Background(), device.Load{Program: p, Weights: first})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			r := device.Run{IO: tensor.AlignedBytes(int(p.IOSize)), Syms: syms}
			inputs, outputs := program.NewBinder(p).IO(syms)
			for i, n := range p.Graph.Inputs() {
				in[n.Name].Store(r.IO[inputs[i].Offset:][:inputs[i].Bytes])
			}
			to.Weights = weights
			var out []byte
			for k := range 2 {
				if _, err := e.Run(context.Background(), r); err != nil {
					t.Fatal(err)
				}
				if k == 0 {
					if err := e.(device.WeightSetter).SetWeights(context.Background(), to); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, o := range outputs {
				out = append(out, r.IO[o.Offset:o.Offset+o.Bytes]...)
			}
			return out
		}
		want := run(q, false)
		if got := run(p, false); !bytes.Equal(got, want) {
			t.Errorf("N=%d: the loop gives other bits than the unrolled one", size)
		}
		if got := run(p, true); !bytes.Equal(got, want) {
			t.Errorf("N=%d: after its weights were replaced, the loop gives other bits", size)
		}
	}
}

// TestLoopStops checks that a loop of 2^31-1 iterations ends when its context does, reports that it goes on, and names
// the iteration and the step of an error.
func TestLoopStops(t *testing.T) {
	g, err := ir.Parse(`graph step
i = input : i32[]
x = input : f32[4]
one = const {value=1} : i32[]
j = add i, one : i32[]
y = tanh x : f32[4]
return j=j, y=y

graph main
i = input : i32[]
x = input : f32[4]
y = scan i, x {body=@step, carried=2, length=2147483647, result=1} : f32[4]
return y=y
`)
	if err != nil {
		t.Fatal(err)
	}
	p, weights := compiled(t, g)
	e, err := Backend{}.Load(context.Background(), device.Load{Program: p, Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	calls := 0
	start := time.Now()
	_, err = e.Run(ctx, device.Run{IO: tensor.AlignedBytes(int(p.IOSize)), Progress: func(step int) {
		if calls++; calls == 4 { // the first call is before the step
			cancel(enough)
		}
	}})
	if !errors.Is(err, enough) {
		t.Errorf("error %v; want that of the context", err)
	}
	t.Logf("stopped after %v", time.Since(start))

	bad, err := ir.Parse(
		strings.NewReplacer("y = tanh x", "y = gather t, j", "one = const", "t = const : f32[9,4]\none = const").
			Replace(g.String()))
	if err == nil {
		p, weights = compiled(t, bad)
		_, err = outputsOf(t, p, weights, 1, nil, map[string]*tensor.Array{
			"i": tensor.NewArray(bad.Inputs()[0].Type.DType), "x": tensor.NewArray(bad.Inputs()[1].Type.DType, 4)})
	}
	if err == nil || !strings.Contains(err.Error(), "iteration 8: ") || !errors.Is(err, device.ErrInput) {
		t.Errorf("error %v; want one about iteration 8", err)
	}
	t.Log(err)
}
