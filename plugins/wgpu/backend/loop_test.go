//go:build cgo && (darwin || amd64)

package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	compiler "github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/hir/controltest"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

// looped returns the program of a graph for this backend, and its weights. Loops of at most so many nodes are unrolled
// (pass.Options.Unroll).
func looped(t testing.TB, g *ir.Graph, unroll int) (*program.Program, []byte) {
	t.Helper()
	targets := compiler.Defaults()
	targets = slices.DeleteFunc(targets, func(x compiler.Target) bool { return x.Name != "wgpu" })
	r, err := compiler.Compile(t.Context(), []*ir.Graph{g}, compiler.Options{Targets: targets, Unroll: unroll,
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

// outputsOf runs a loaded program twice and returns the bytes of its outputs.
func outputsOf(e device.Executable, p *program.Program, syms map[string]int64, in map[string]*tensor.Array) ([]byte,
	error) {
	r := device.Run{IO: tensor.AlignedBytes(int(p.IOSize)), Syms: syms}
	inputs, outputs := program.NewBinder(p).IO(syms)
	for i, n := range p.Graph.Inputs() {
		in[n.Name].Store(r.IO[inputs[i].Offset:][:inputs[i].Bytes])
	}
	var out []byte
	for range 2 { // the second run finds the memory as the first has left it
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
// outputs must have the same bits. Where the reference refuses an index, a run may not compute it.
func TestLoopRandom(t *testing.T) {
	const count = 40
	loops, nested, bad := 0, 0, 0
	seeds := devicetest.Some(t, 10, count)
	for _, seed := range seeds {
		g, err := controltest.Random(seed)
		if err != nil {
			t.Fatal(err)
		}
		in, rng := map[string]*tensor.Array{}, rand.New(rand.NewPCG(seed, 2))
		for _, n := range g.Inputs() {
			in[n.Name] = interp.Random(rng, n.Type, nil, ir.Range{Lo: -2, Hi: 5})
		}
		p, weights := looped(t, g, -1)
		q, unrolled := looped(t, g, 0)
		if len(q.Loops) > 0 {
			t.Fatalf("a short loop is not unrolled:\n%s", g)
		}
		if _, err := interp.Run(g, nil, in, nil); err != nil {
			bad++
			continue
		}
		loops += len(p.Loops)
		for _, x := range p.Nested() {
			nested += len(x.Loops)
		}
		want, err := outputsOf(load(t, shared, q, unrolled), q, nil, in)
		if err != nil { // in f32 another branch may be taken
			bad++
			continue
		}
		if got, err := outputsOf(load(t, shared, p, weights), p, nil, in); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("seed %d: unrolled %x, as steps %x (%v)\n%s\n%s", seed, want, got, err, g, p.Graph)
		}
	}
	t.Logf("%d loops, %d loops in loops, %d of %d programs with a bad index", loops, nested, bad, len(seeds))
	if loops == 0 || nested == 0 && len(seeds) == count {
		t.Error("no loop, or none in a loop")
	}
}

// rows is a loop over slices and symbols, with weights that its body reads and weights that it is given. Rows of the
// slices and of the results begin and end within words.
const rows = `graph cell
sym N = 1..6
h = input : f32[N,4]
b = input : bool[3]
u = input : f32[4,4]
q = input : f16[3]
x = input : f32[N,4]
m = input : bool[3]
k = input : f16[3]
w = param : f32[4,4]
a = matmul h, u : f32[N,4]
c = matmul x, w : f32[N,4]
s = add a, c : f32[N,4]
t = tanh s : f32[N,4]
p = gt k, q : bool[3]
e = ne b, m : bool[3]
d = and e, p : bool[3]
return t=t, d=d

graph main
sym N = 1..6
x = input : f32[20,N,4]
m = input : bool[20,3]
k = input : f16[20,3]
h = input : f32[N,4]
b = input : bool[3]
q = input : f16[3]
u = param : f32[4,4]
y = scan h, b, u, q, x, m, k {body=@cell, carried=2, steps=3} : f32[N,4]
z = scan h, b, u, q, x, m, k {body=@cell, carried=2, steps=3, trajectory=true} : f32[20,N,4]
v = scan h, b, u, q, x, m, k {body=@cell, carried=2, steps=3, trajectory=true, result=1} : bool[20,3]
return y=y, z=z, v=v
`

// TestLoopWeights checks a loop whose weights are replaced, at several sizes, against the unrolled loop.
func TestLoopWeights(t *testing.T) {
	g, err := ir.Parse(rows)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := looped(t, g, -1)
	q, _ := looped(t, g, 1<<20)
	if len(p.Loops) != 1 || len(q.Loops) != 0 || len(p.Graph.Params()) != 2 {
		t.Fatalf("%d loops and %d, weights %v:\n%s", len(p.Loops), len(q.Loops), p.Graph.Params(), p.Graph)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	values := map[string]*tensor.Array{}
	for _, n := range p.Graph.Params() {
		values[n.Name] = interp.Random(rng, n.Type, nil, ir.Range{Lo: -1, Hi: 1})
	}
	section := func(p *program.Program) ([]byte, device.NewWeights) {
		weights, to := tensor.AlignedBytes(int(p.WeightsExtent())), device.NewWeights{}
		for _, n := range p.Graph.Params() {
			values[n.Name].Store(weights[p.Places[n.ID].Offset:][:p.Places[n.ID].Size])
			to.Params = append(to.Params, n.ID)
		}
		to.Weights = weights
		return weights, to
	}
	unrolled, _ := section(q)
	weights, to := section(p)
	first, second := load(t, shared, p, weights), load(t, shared, p, tensor.AlignedBytes(len(weights)))
	if err := second.(device.WeightSetter).SetWeights(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	flat := load(t, shared, q, unrolled)
	for _, size := range []int64{6, 1, 3} {
		syms, in := map[string]int64{"N": size}, map[string]*tensor.Array{}
		for _, n := range g.Inputs() {
			in[n.Name] = interp.Random(rng, n.Type, syms, ir.Range{Lo: -1, Hi: 1})
		}
		want, err := outputsOf(flat, q, syms, in)
		if err != nil {
			t.Fatal(err)
		}
		for what, e := range map[string]device.Executable{"": first, ", after its weights were replaced,": second} {
			if got, err := outputsOf(e, p, syms, in); err != nil || !bytes.Equal(got, want) {
				t.Errorf("N=%d: the loop%s gives other bits than the unrolled one (%v)", size, what, err)
			}
		}
	}
}

// endless is a loop of 2^31-1 iterations.
const endless = `graph step
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
`

// TestLoopStops checks that a loop reports progress and ends when its context does, and that an error names the
// iteration and the step. It then checks that the loop runs again.
func TestLoopStops(t *testing.T) {
	g, err := ir.Parse(endless)
	if err != nil {
		t.Fatal(err)
	}
	p, weights := looped(t, g, 0)
	e := load(t, shared, p, weights)
	for range 2 {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		calls, start := 0, time.Now()
		_, err = e.Run(ctx, device.Run{IO: tensor.AlignedBytes(int(p.IOSize)), Progress: func(int) {
			if calls++; calls == 4 {
				cancel(enough)
			}
		}})
		if !errors.Is(err, enough) {
			t.Errorf("error %v; want that of the context", err)
		}
		t.Logf("stopped after %v", time.Since(start))
	}

	text := strings.NewReplacer("y = tanh x", "y = gather t, j", "one = const", "t = const : f32[9,4]\none = const").
		Replace(endless)
	in := map[string]*tensor.Array{}
	bad, err := ir.Parse(text)
	if err == nil {
		for _, n := range bad.Inputs() {
			in[n.Name] = tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(nil)...)
		}
		p, weights = looped(t, bad, 0)
		e = load(t, shared, p, weights)
		_, err = outputsOf(e, p, nil, in)
	}
	if err == nil || !strings.Contains(err.Error(), "iteration 8: ") || !errors.Is(err, device.ErrInput) {
		t.Errorf("error %v; want one about iteration 8", err)
	}
	in["i"].Ints[0] = 3
	if _, err = outputsOf(e, p, nil, in); err == nil || !strings.Contains(err.Error(), "iteration 5: ") {
		t.Errorf("error %v; want one about iteration 5", err)
	}
	t.Log(err)
}

// far is a loop that ends early, because an index would be out of range in the next iteration. It contains a loop that
// ends early, too.
const far = `graph inner
a = input : i32[]
b = input : i32[]
one = const {value=1} : i32[]
c = add a, one : i32[]
return c=c, b=b

graph less
a = input : i32[]
b = input : i32[]
c = lt a, b : bool[]
return c=c

graph step
i = input : i32[]
n = input : i32[]
x = input : f32[2,3]
table = input : f32[9,3]
zero = const : i32[]
one = const {value=1} : i32[]
k = while zero, i {body=@inner, cond=@less, max_iterations=400} : i32[]
row = gather table, k {axis=0} : f32[3]
y = add x, row : f32[2,3]
j = add i, one : i32[]
return j=j, n=n, y=y, table=table

graph go
i = input : i32[]
n = input : i32[]
x = input : f32[2,3]
table = input : f32[9,3]
c = lt i, n : bool[]
return c=c

graph main
n = input : i32[]
x = input : f32[2,3]
table = input : f32[9,3]
i = const : i32[]
y = while i, n, x, table {body=@step, cond=@go, max_iterations=1000, result=2} : f32[2,3]
return y=y
`

// TestLoopEnds checks that iterations after the end of a loop fail nowhere, and that an error in a loop in a loop names
// both iterations. The values of a run that submits each step by itself are the same.
func TestLoopEnds(t *testing.T) {
	g, err := ir.Parse(far)
	if err != nil {
		t.Fatal(err)
	}
	p, weights := looped(t, g, 0)
	if len(p.Nested()) != 4 {
		t.Fatalf("%d programs in loops; want those of two loops:\n%s", len(p.Nested()), p.Graph)
	}
	e := load(t, shared, p, weights)
	in, rng := map[string]*tensor.Array{}, rand.New(rand.NewPCG(1, 1))
	for _, n := range g.Inputs() {
		in[n.Name] = interp.Random(rng, n.Type, nil, ir.Range{Lo: -1, Hi: 1})
	}
	for _, n := range []int64{9, 0, 4, 10, 1} {
		in["n"].Ints[0] = n
		got, err := outputsOf(e, p, nil, in)
		if n == 10 {
			if err == nil || !strings.Contains(err.Error(), "iteration 9: gather") {
				t.Errorf("n=%d: error %v; want one about iteration 9", n, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("n=%d: %v", n, err)
			continue
		}
		want, x := make([]byte, len(got)), tensor.NewArray(in["x"].DType, 2, 3)
		for k := range x.Floats {
			sum := float32(in["x"].At(k))
			for i := range int(n) {
				sum += float32(in["table"].At(3*i + k%3))
			}
			x.Floats[k] = float64(sum)
		}
		if x.Store(want); !bytes.Equal(got, want) {
			t.Errorf("n=%d: %x; want %x", n, got, want)
		}
		for _, o := range []device.RunOptions{{Profile: true}, {CheckNaN: true}} {
			r := device.Run{IO: tensor.AlignedBytes(int(p.IOSize)), Opts: o}
			inputs, outputs := program.NewBinder(p).IO(nil)
			for i, n := range p.Graph.Inputs() {
				in[n.Name].Store(r.IO[inputs[i].Offset:][:inputs[i].Bytes])
			}
			stats, err := e.Run(t.Context(), r)
			if got := r.IO[outputs[0].Offset:][:outputs[0].Bytes]; err != nil || !bytes.Equal(got, want) {
				t.Errorf("n=%d, %+v: %x (%v); want %x", n, o, got, err, want)
			}
			if o.Profile && len(stats.Steps) != len(p.Steps) {
				t.Errorf("n=%d: the times of %d steps; want %d", n, len(stats.Steps), len(p.Steps))
			}
		}
	}
}

// BenchmarkLoop runs a recurrent cell as a loop and unrolled. A metric is the time of an iteration.
func BenchmarkLoop(b *testing.B) {
	const cell = `graph cell
h = input : f32[1,64]
u = input : f32[64,64]
x = input : f32[1,64]
a = matmul h, u : f32[1,64]
s = add a, x : f32[1,64]
t = tanh s : f32[1,64]
return t=t

graph main
x = input : f32[%d,1,64]
h = input : f32[1,64]
u = param : f32[64,64]
y = scan h, u, x {body=@cell, steps=1} : f32[1,64]
return y=y
`
	for _, c := range []struct {
		name           string
		length, unroll int
	}{{"unrolled", 200, 1 << 20}, {"loop", 200, -1}, {"loop", 1000, -1}, {"loop", 10000, -1}} {
		b.Run(fmt.Sprintf("%s/%d", c.name, c.length), func(b *testing.B) {
			g, err := ir.Parse(fmt.Sprintf(cell, c.length))
			if err != nil {
				b.Fatal(err)
			}
			p, _ := looped(b, g, c.unroll)
			e, err := shared.Load(b.Context(), device.Load{Program: p,
				Weights: tensor.AlignedBytes(int(p.WeightsExtent()))})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			r := device.Run{IO: tensor.AlignedBytes(int(p.IOSize))}
			for b.Loop() {
				if _, err := e.Run(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*c.length), "us/iteration")
		})
	}
}

// TestLoopLimits runs a loop whose operands lie in several bindings and buffers.
func TestLoopLimits(t *testing.T) {
	g, err := ir.Parse(`graph step
h = input : f32[4099]
k = input : bool[4099]
x = input : f32[4099]
m = input : bool[4099]
s = sub x, h : f32[4099]
e = ne k, m : bool[4099]
return s=s, e=e

graph main
h = input : f32[4099]
k = input : bool[4099]
x = input : f32[30,4099]
m = input : bool[30,4099]
y = scan h, k, x, m {body=@step, carried=2, steps=2, trajectory=true} : f32[30,4099]
z = scan h, k, x, m {body=@step, carried=2, steps=2, trajectory=true, result=1} : bool[30,4099]
return y=y, z=z
`)
	if err != nil {
		t.Fatal(err)
	}
	p, weights := looped(t, g, -1)
	if len(p.Loops) != 1 {
		t.Fatalf("%d loops; want 1", len(p.Loops))
	}
	in, rng := map[string]*tensor.Array{}, rand.New(rand.NewPCG(1, 1))
	for _, n := range g.Inputs() {
		in[n.Name] = interp.Random(rng, n.Type, nil, ir.Range{Lo: 0, Hi: 1})
	}
	values, err := interp.RunProgram(p, nil, in, weights)
	if err != nil {
		t.Fatal(err)
	}
	want := tensor.AlignedBytes(30 * 4099 * 5)
	values["y"].Store(want[:30*4099*4])
	values["z"].Store(want[30*4099*4:])
	limited := New(Options{MaxBinding: 64 << 10, MaxBuffer: 1 << 20, MaxGroups: 40})
	for k, b := range []device.Backend{shared, limited} {
		if got, err := outputsOf(load(t, b, p, weights), p, nil, in); err != nil || !bytes.Equal(got, want) {
			t.Errorf("backend %d: other values than the reference (%v)", k, err)
		}
	}
}
