package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
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
// outputs must have the same bits, with one thread and with three. Where the reference refuses an index, a run of the
// unrolled loop may not compute it, if nothing needs the value.
func TestLoopRandom(t *testing.T) {
	loops, nested, bad := 0, 0, 0
	seeds := devicetest.Some(t, 40, 100)
	if testing.Short() { // in an emulator, which is slow
		seeds = devicetest.Some(t, 6, 100)
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
	if n := len(seeds); n >= 40 && (loops < n/3 || nested < n/20 || bad > n*4/5) {
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

// TestLoopStops checks that a loop of 2^31-1 iterations reports progress and ends when its context does, and that an
// error names the iteration and the step.
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

// TestLoopNested checks loops in loops as deep as bodies may nest, against the unrolled loops and the reference.
func TestLoopNested(t *testing.T) {
	var text strings.Builder
	text.WriteString(`graph g1
x = input : f32[3]
n = input : i32[]
one = const {value=1} : i32[]
c = const {value=0.5} : f32[3]
m = add n, one : i32[]
s = sin x : f32[3]
y = add s, c : f32[3]
return y=y, m=m

graph below
x = input : f32[3]
n = input : i32[]
most = const {value=5000} : i32[]
y = lt n, most : bool[]
return y=y

`)
	const deepest = ir.MaxNesting
	for k := 1; k < deepest; k++ {
		fmt.Fprintf(&text, "graph g%d\nx = input : f32[3]\nn = input : i32[]\n"+
			"y, m = loop x, n {body=@g%d, cond=@below, carried=2, length=%d, results=[0,1]} : f32[3], i32[]\n"+
			"return y=y, m=m\n\n", k+1, k, 1+k%2)
	}
	fmt.Fprintf(&text, "graph main\nx = input : f32[3]\nn = const {value=0} : i32[]\n"+
		"y, m = loop x, n {body=@g%d, cond=@below, carried=2, length=2, results=[0,1]} : f32[3], i32[]\n"+
		"return y=y, m=m\n", deepest)
	g, err := ir.Parse(text.String())
	if err != nil {
		t.Fatal(err)
	}
	if n := g.Nesting(); n != deepest {
		t.Fatalf("the graph nests %d deep; want %d", n, deepest)
	}
	in := map[string]*tensor.Array{"x": tensor.NewArray(dtype.F32, 3)}
	copy(in["x"].Floats, []float64{-1, 0.25, 3})
	want, err := interp.Run(g, nil, in, nil)
	if err != nil || want["m"].Ints[0] != 512 {
		t.Fatalf("%v, %d iterations", err, want["m"].Ints)
	}
	p, weights := compiledAs(t, g, -1)
	if n := len(p.Nested()); n < deepest {
		t.Fatalf("%d programs of loops; want %d", n, deepest)
	}
	q, unrolled := compiledAs(t, g, 1<<20)
	got, err := outputsOf(t, p, weights, 2, nil, in)
	if err != nil {
		t.Fatal(err)
	}
	flat, err := outputsOf(t, q, unrolled, 1, nil, in)
	if err != nil || !bytes.Equal(got, flat) {
		t.Errorf("as steps %x, unrolled %x (%v)", got, flat, err)
	}
	if _, err := interp.RunProgram(p, nil, in, weights); err != nil {
		t.Error(err)
	}
}

// TestLoopHoist checks that values that move out of loops keep their bits. It compares two graphs. In one, loops
// compute values that do not change. In the other, the same values change as far as the compiler knows, by a zero that
// only the run knows.
func TestLoopHoist(t *testing.T) {
	const text = `graph far
sym N = 1..6
x = input : f32[N,4]
z = input : f32[]
c = input : f32[N,4]
w = input : f32[4,4]
u = add c, z : f32[N,4]
e = exp u : f32[N,4]
s = reduce_sum e {axes=[0,1]} : f32[]
m = reduce_sum x {axes=[0,1]} : f32[]
d = sub m, s : f32[]
most = const {value=1000000.0} : f32[]
y = lt d, most : bool[]
return y=y

graph step
sym N = 1..6
x = input : f32[N,4]
z = input : f32[]
c = input : f32[N,4]
w = input : f32[4,4]
u = add c, z : f32[N,4]
e = exp u : f32[N,4]
p = matmul e, w : f32[N,4]
q = softmax p {axis=1} : f32[N,4]
v, i = top_k q {k=4} : f32[N,4], i32[N,4]
h = mul x, v : f32[N,4]
t = tanh h : f32[N,4]
a = add t, q : f32[N,4]
y = add a, u : f32[N,4]
return y=y, z=z

graph main
sym N = 1..6
x = input : f32[N,4]
z = input : f32[]
c = input : f32[N,4]
w = input : f32[4,4]
y = loop x, z, c, w {body=@step, cond=@far, carried=2, length=100, results=[0]} : f32[N,4]
return y=y
`
	parse := func(text string) (*program.Program, []byte) {
		g, err := ir.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return compiledAs(t, g, -1)
	}
	p, weights := parse(text)
	q, others := parse(strings.Replace(text, "return y=y, z=z", "zz = mul z, z : f32[]\nreturn y=y, z=zz", 1))
	if a, b := len(p.Loops[0].Body.Steps), len(q.Loops[0].Body.Steps); a >= b {
		t.Errorf("%d steps in the body, and %d of the one from which nothing moves:\n%s", a, b, p.Graph)
	}
	for n := range 6 {
		rng := rand.New(rand.NewPCG(uint64(n), 2))
		in := map[string]*tensor.Array{"x": tensor.NewArray(dtype.F32, n+1, 4), "c": tensor.NewArray(dtype.F32, n+1, 4),
			"w": tensor.NewArray(dtype.F32, 4, 4), "z": tensor.NewArray(dtype.F32)}
		for _, name := range []string{"x", "c", "w"} {
			for i := range in[name].Floats {
				in[name].Floats[i] = float64(float32(rng.NormFloat64()))
			}
		}
		syms := map[string]int64{"N": int64(n + 1)}
		got, err := outputsOf(t, p, weights, 2, syms, in)
		if err != nil {
			t.Fatal(err)
		}
		want, err := outputsOf(t, q, others, 1, syms, in)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("N = %d: %x; in the loop %x (%v)", n+1, got, want, err)
		}
	}
}
