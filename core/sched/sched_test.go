package sched_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/plan"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/golden"
)

// weightsOf places params one after the other and returns their offsets and the total size.
func weightsOf(g *ir.Graph) (func(string) (int64, bool), int64) {
	at, size := map[string]int64{}, int64(0)
	for _, p := range g.Params() {
		at[p.Name] = size
		size += program.AlignUp(g.Syms.MaxBytes(p.Type))
	}
	return func(name string) (int64, bool) { off, ok := at[name]; return off, ok }, size
}

// TestGolden compares the listing of a program with a golden file.
func TestGolden(t *testing.T) {
	golden.Files(t, "testdata", func(t *testing.T, f *golden.File) string {
		in, _ := f.Section("in")
		g, err := ir.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		weights, _ := weightsOf(g)
		p, r, err := sched.Build(g, sched.Options{Target: "cpu", Weights: weights})
		if err != nil {
			return err.Error()
		}
		return listing(p) + fmt.Sprintf("arena %d (peak %d, naive %d), io %d\n", r.Arena, r.Peak, r.Naive, p.IOSize)
	})
}

// listing returns one line per value, in the order of the steps. Values without a step come first.
func listing(p *program.Program) string {
	var b strings.Builder
	line := func(mark string, i int) {
		n, pl := p.Graph.Nodes[i], p.Places[i]
		fmt.Fprintf(&b, "%s %s %s %v @%d +%d", mark, n.Label(), n.Op.Name, pl.Space, pl.Offset, pl.Size)
		if pl.Parent != plan.None {
			fmt.Fprintf(&b, " in %s", p.Graph.Nodes[pl.Parent].Label())
		}
		b.WriteByte('\n')
	}
	for i, n := range p.Graph.Nodes {
		if !program.IsStep(n) {
			line("-", i)
		}
	}
	for i, s := range p.Steps {
		line(fmt.Sprint(i), s.Node)
	}
	for _, o := range p.Graph.Outputs {
		fmt.Fprintf(&b, "return %s=%s\n", o.Name, o.Node.Label())
	}
	return b.String()
}

// memory is the memory of a device, by space. It runs a program with op.Eval on real bytes, so a wrong place gives a
// wrong result.
type memory map[program.Space][]byte

func (m memory) run(t *testing.T, p *program.Program, syms map[string]int64) {
	b, err := p.Bind(syms)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range b.Steps {
		in := make([]*tensor.Array, len(s.In))
		for i, x := range s.Operands() {
			in[i] = m.view(x).Array()
		}
		out := make([]*tensor.Array, len(s.Outs))
		for i, o := range s.Outs {
			out[i] = tensor.NewArray(o.DType, o.Shape...)
		}
		if err := s.Node.Op.Eval(s.Node.Attrs, in, out...); err != nil {
			t.Fatal(err)
		}
		for i, o := range s.Outs {
			copy(m.view(o).Data, out[i].Tensor().Data)
		}
	}
}

func (m memory) view(o program.Operand) tensor.Tensor {
	return tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: m[o.Space][o.Offset : o.Offset+o.Bytes]}
}

// evalAll computes every node in separate memory.
func evalAll(t *testing.T, g *ir.Graph, syms map[string]int64, leaf map[string]tensor.Tensor) []*tensor.Array {
	vals := make([]*tensor.Array, len(g.Nodes))
	for i, n := range g.Nodes {
		if n.Op == ir.ResultDef { // computed with its tuple node
			continue
		}
		if n.Op.Effects {
			vals[i] = tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(syms)...)
			if x, ok := leaf[n.Name]; ok { // a param that no output needs is not in the program
				vals[i] = x.Array()
			}
			continue
		}
		in := make([]*tensor.Array, len(n.In))
		for k, x := range n.Operands() {
			in[k] = vals[x.ID]
		}
		results, err := interp.Eval(n, syms, in)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range n.Values() {
			vals[v.ID] = results[k].Tensor().Array()
		}
	}
	return vals
}

// TestRandomGraphs schedules random graphs of views, in-place candidates and other ops, with all kinds of outputs. It
// runs them on memory that is full of NaN at the start.
func TestRandomGraphs(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		g := randomGraph(r)
		if g.Err() != nil {
			t.Fatal(g.Err())
		}
		weights, size := weightsOf(g)
		p, rep, err := sched.Build(g, sched.Options{Target: "t", Weights: weights})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, g)
		}
		if rep.Arena < rep.Peak || rep.Arena > rep.Naive {
			t.Errorf("seed %d: %v", seed, rep)
		}
		for _, n := range []int64{1, 2, 5} {
			runRandom(t, g, p, r, weights, size, map[string]int64{"N": n})
			if t.Failed() {
				t.Fatalf("seed %d\n%s%s", seed, p.Graph, listing(p))
			}
		}
		again, _, _ := sched.Build(g, sched.Options{Target: "t", Weights: weights})
		if listing(again) != listing(p) {
			t.Fatalf("seed %d: two builds differ", seed)
		}
	}
}

func runRandom(t *testing.T, g *ir.Graph, p *program.Program, r *rand.Rand, weights func(string) (int64, bool),
	size int64, syms map[string]int64) {
	nan := func(n int64) []byte { return slices.Repeat([]byte{0xff}, int(n)) }
	mem := memory{program.Weights: nan(size), program.Arena: nan(p.ArenaSize), program.IO: nan(p.IOSize)}
	leaf := map[string]tensor.Tensor{}
	b, err := p.Bind(syms)
	if err != nil {
		t.Fatal(err)
	}
	set := func(o program.Operand, name string) {
		x := tensor.NewArray(o.DType, o.Shape...)
		for i := range x.Floats {
			x.Floats[i] = float64(r.IntN(64)) - 32
		}
		leaf[name] = x.Tensor()
		copy(mem.view(o).Data, leaf[name].Data)
	}
	for i, n := range p.Graph.Inputs() {
		set(b.Inputs[i], n.Name)
	}
	for _, n := range p.Graph.Params() {
		off, _ := weights(n.Name)
		set(program.Operand{DType: n.Type.DType, Shape: n.Type.Shape.Eval(syms), Space: program.Weights, Offset: off,
			Bytes: n.Type.Bytes(syms)}, n.Name)
	}
	mem.run(t, p, syms)
	want := evalAll(t, g, syms, leaf)
	for i, o := range g.Outputs {
		got := mem.view(b.Outputs[i]).Array()
		for k := range got.Floats {
			if w := want[o.Node.ID].Floats[k]; got.Floats[k] != w && !(math.IsNaN(w) && math.IsNaN(got.Floats[k])) {
				t.Errorf("%v: output %s[%d] is %v; want %v", syms, o.Name, k, got.Floats[k], w)
				return
			}
		}
	}
	for i, n := range p.Graph.Inputs() {
		if !slices.Equal(mem.view(b.Inputs[i]).Data, leaf[n.Name].Data) {
			t.Errorf("input %s was overwritten", n.Name)
		}
	}
}

// randomGraph returns a random graph of values of shape [1,8*N,6] and parts of them.
func randomGraph(r *rand.Rand) *ir.Graph {
	g := ir.NewGraph("random", ir.Sym{Name: "N", Min: 1, Max: 5})
	full := ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Static(1), ir.MustDim("8*N"), ir.Static(6)}}
	nodes := []*ir.Node{op.Input(g, "x", full), op.Input(g, "y", full), op.Param(g, "w", ir.TypeOf(dtype.F32, 6))}
	same := func() *ir.Node { // returns a random value of the full shape
		for {
			if n := nodes[r.IntN(len(nodes))]; n.Type.Equal(full) {
				return n
			}
		}
	}
	for range 3 + r.IntN(20) {
		var n *ir.Node
		switch x := nodes[r.IntN(len(nodes))]; r.IntN(11) {
		case 0:
			n = op.Add(same(), same())
		case 1:
			n = op.Mul(same(), nodes[2])
		case 2:
			n = op.Neg(x)
		case 3:
			n = op.Reshape(x, ir.Shape{ir.Static(-1), ir.Static(2)})
		case 4:
			n = op.Reshape(op.Relu(same()), full.Shape)
		case 5:
			n = op.Narrow(same(), 1, r.IntN(3), 1+r.IntN(5))
		case 6:
			n = op.Sub(nodes[2], same())
		case 8: // several results, some of them unread
			v, i := op.TopK(same(), 6)
			n = v
			if r.IntN(2) == 0 {
				n = op.Cast(i, dtype.F32)
			}
		case 9:
			v, i := op.TopK(same(), 1+r.IntN(6))
			nodes = append(nodes, v)
			n = op.Cast(i, dtype.F32)
		case 10: // several results, which may overwrite operands
			s, y := op.FusedAddRmsNorm(same(), same(), nodes[2], nodes[2], 1e-6)
			nodes = append(nodes, s)
			n = y
		case 7:
			n = op.Abs(op.Narrow(op.Narrow(same(), 1, 2, 6), 1, r.IntN(3), 3))
		}
		nodes = append(nodes, n)
	}
	for i := range 1 + r.IntN(4) {
		g.Return(fmt.Sprint("out", i), nodes[len(nodes)-1-r.IntN(min(len(nodes), 6))])
	}
	return g
}

// TestErrors checks that Build refuses a block and a param without a place.
func TestErrors(t *testing.T) {
	g := ir.NewGraph("f")
	g.Return("y", op.Neg(op.Param(g, "w", ir.TypeOf(dtype.F32, 4))))
	_, _, err := sched.Build(g, sched.Options{Weights: func(string) (int64, bool) { return 0, false }})
	if err == nil || !strings.Contains(err.Error(), "param w has no place") {
		t.Errorf("got %v", err)
	}
}

// TestCheckProgram breaks programs at random. A program that plan.CheckProgram still accepts must compute the right
// values.
func TestCheckProgram(t *testing.T) {
	rejected, accepted := 0, 0
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 8))
		g := randomGraph(r)
		weights, size := weightsOf(g)
		p, _, err := sched.Build(g, sched.Options{Target: "t", Weights: weights})
		if err != nil {
			t.Fatal(err)
		}
		damage(r, p)
		if plan.CheckProgram(p) != nil {
			rejected++
			continue
		}
		accepted++
		if runRandom(t, g, p, r, weights, size, map[string]int64{"N": 5}); t.Failed() {
			t.Fatalf("seed %d\n%s%s", seed, p.Graph, listing(p))
		}
	}
	if rejected < 300 || accepted < 50 {
		t.Errorf("%d rejected, %d accepted; the damage tests nothing", rejected, accepted)
	}
}

func damage(r *rand.Rand, p *program.Program) {
	i, s := r.IntN(len(p.Places)), r.IntN(max(len(p.Steps), 1))
	if p.Graph.Nodes[i].Op.Name == "param" {
		return // the file format checks this
	}
	pl := &p.Places[i]
	switch r.IntN(7) {
	case 0:
		pl.Offset += 256 * (1 + r.Int64N(3))
	case 1:
		pl.Offset = max(0, pl.Offset-256*(1+r.Int64N(9)))
	case 2:
		pl.Space = program.Space(r.IntN(3))
	case 3:
		pl.Parent = r.IntN(len(p.Places)+1) - 1
	case 4:
		pl.Size += r.Int64N(200) - 100
	case 5:
		p.ArenaSize -= 256
	case 6:
		if len(p.Steps) > 1 {
			k := r.IntN(len(p.Steps))
			p.Steps[s], p.Steps[k] = p.Steps[k], p.Steps[s]
		}
	}
}
