package devicetest

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// programs are graphs in text form. They have views, results that overwrite operands, dynamic sizes, and values that
// reuse places in the arena.
//
//go:embed testdata/*.rlxg
var programs embed.FS

// graphChecks returns the checks of programs of many ops: those of testdata, and random ones.
func (s *suite) graphChecks(e effort) []check {
	var checks []check
	files, err := programs.ReadDir("testdata")
	if err != nil || len(files) == 0 {
		panic("BUG: devicetest: no programs")
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".rlxg")
		if !s.chosen.takes("graph/" + name) {
			continue
		}
		checks = append(checks, check{name: "graph/" + name, run: func() error {
			text, err := programs.ReadFile("testdata/" + f.Name())
			if err != nil {
				return err
			}
			g, err := ir.Parse(string(text))
			if err != nil {
				return fmt.Errorf("BUG: devicetest: %w", err)
			}
			return s.checkGraph(g, nil, 1, false)
		}})
	}
	seeds := s.chosen.some(6, uint64(tries(e, 6, 30)))
	checks = append(checks,
		check{name: "graph/random", run: func() error { return s.randomGraphs(seeds, false) }},
		check{name: "graph/exact", run: func() error { return s.randomGraphs(seeds, true) }})
	return checks
}

func (s *suite) randomGraphs(seeds []uint64, exact bool) error {
	for _, seed := range seeds {
		g := randomGraph(rand.New(rand.NewPCG(seed, 11)), exact, true)
		if slices.ContainsFunc(
			g.Nodes, func(n *ir.Node) bool { how, _ := s.info.Target.Takes(n); return how == target.No }) {
			g = randomGraph(rand.New(rand.NewPCG(seed, 11)), exact, false)
		}
		if err := g.Err(); err != nil {
			return fmt.Errorf("BUG: devicetest: seed %d: %w", seed, err)
		}
		if err := s.checkGraph(g, nil, seed, exact); err != nil {
			return fmt.Errorf("seed %d: %w\n%v", seed, err, g)
		}
	}
	return nil
}

// checkGraph runs a graph with the largest, the smallest and a size in between, on several numbers of threads. It
// compares every step with its op's definition on the operands that the backend itself computed, so errors do not
// accumulate. If exact is set, the arithmetic does not round, and the outputs must equal those of interp.RunProgram.
// Params that given lacks are random.
func (s *suite) checkGraph(g *ir.Graph, given values, seed uint64, exact bool) error {
	rng := rand.New(rand.NewPCG(seed, 12))
	params := values{}
	for _, n := range g.Params() {
		if params[n.Name] = given[n.Name]; params[n.Name] == nil {
			params[n.Name] = operand(rng, n.Type, nil, exact)
		}
	}
	p, err := build(g, params)
	if err != nil {
		return fmt.Errorf("BUG: devicetest: %w", err)
	}
	var inputs []values
	points := points(g.Syms)
	for _, syms := range points {
		in := values{}
		for _, n := range g.Inputs() {
			in[n.Name] = operand(rng, n.Type, syms, exact)
		}
		inputs = append(inputs, in)
	}
	first := make([]map[string]tensor.Tensor, len(points))
	for _, threads := range threadCounts {
		err := s.withRig(p, params, device.Load{Threads: threads}, func(r *rig) error {
			for i, syms := range points {
				got, err := r.stepwise(syms, inputs[i], params)
				if err != nil {
					return fmt.Errorf("%d threads, sizes %v: %w", threads, syms, err)
				}
				if first[i] == nil {
					first[i] = got
				}
				if err := sameBits(fmt.Sprintf("%d and %d threads", threadCounts[0], threads), first[i],
					got); err != nil {
					return fmt.Errorf("sizes %v: %w", syms, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if !exact {
		return nil
	}
	at, size := layout(params.names(), params)
	weights := make([]byte, size)
	for name, x := range params {
		copy(weights[at[name]:], x.Tensor().Data)
	}
	for i, syms := range points {
		want, err := interp.RunProgram(p, syms, inputs[i], weights)
		if err != nil {
			return fmt.Errorf("BUG: devicetest: %w", err)
		}
		for name, x := range want {
			if err := compare(first[i][name].Array(), x, ir.Tolerance{}); err != nil {
				return fmt.Errorf("sizes %v: output %s: %w", syms, name, err)
			}
		}
	}
	return nil
}

func (s *suite) withRig(p *program.Program, params values, l device.Load, do func(r *rig) error) (err error) {
	r, err := s.load(p, params, l)
	if err != nil {
		return err
	}
	defer r.close(&err)
	return do(r)
}

// operand returns a random value of type t. If exact is set, its numbers are small integers.
func operand(rng *rand.Rand, t ir.Type, syms map[string]int64, exact bool) *tensor.Array {
	r := ir.Range{Lo: -2, Hi: 2}
	if exact {
		r = ir.Range{Lo: -32, Hi: 32}
	}
	if !t.DType.IsFloat() {
		r = ir.Range{Lo: 0, Hi: 3}
	}
	x := interp.Random(rng, t, syms, r)
	if exact {
		for i, v := range x.Floats {
			x.Floats[i] = float64(int(v))
		}
	}
	return x
}

// points returns values of the symbols to test with: the largest, the smallest, each one above its smallest, and the
// largest again.
func points(syms ir.Syms) []map[string]int64 {
	if len(syms) == 0 {
		return []map[string]int64{nil}
	}
	out := []map[string]int64{syms.Max(), syms.Min(), {}, syms.Max()}
	for _, x := range syms {
		out[2][x.Name] = min(x.Min+1, x.Max)
	}
	return out
}

// stepwise runs a program with every step observed and checks each step. It then runs the program again without
// observing it, in another IO space, and compares the bits of the outputs.
func (r *rig) stepwise(syms map[string]int64, inputs, params values) (map[string]tensor.Tensor, error) {
	g := r.program.Graph
	seen := map[int]tensor.Tensor{}
	opts := device.RunOptions{CheckNaN: true}
	for _, st := range r.program.Steps {
		for _, v := range g.Nodes[st.Node].Values() {
			opts.Dump = append(opts.Dump, v.ID)
		}
	}
	opts.Observe = func(node int, shape []int, data []byte) error {
		if len(seen) >= len(opts.Dump) || opts.Dump[len(seen)] != node {
			return fmt.Errorf("value %d that was observed is of node %d, out of order", len(seen), node)
		}
		n := g.Nodes[node]
		if want := n.Type.Shape.Eval(syms); !slices.Equal(shape, want) || int64(len(data)) != n.Type.Bytes(syms) {
			return fmt.Errorf("%s was observed as %d bytes of shape %v; want %v%v", n.Label(), len(data), shape,
				n.Type.DType, want)
		}
		seen[node] = tensor.Tensor{DType: n.Type.DType, Shape: n.Type.Shape.Eval(syms), Data: slices.Clone(data)}
		return nil
	}
	out, _, err := r.run(context.Background(), inputs, device.Run{Syms: syms, Opts: opts})
	if err != nil {
		return nil, err
	}
	if len(seen) != len(opts.Dump) {
		return nil, fmt.Errorf("%d values were observed; %d were requested", len(seen), len(opts.Dump))
	}
	known, err := checkSteps(g, syms, seen, inputs, params)
	if err != nil {
		return nil, err
	}
	for _, o := range g.Outputs {
		if err := compare(out[o.Name].Array(), known[o.Node.ID], ir.Tolerance{}); err != nil {
			return nil, fmt.Errorf("output %s is not the value that step %s made: %w", o.Name, o.Node.Label(), err)
		}
	}
	r.move()
	again, _, err := r.run(context.Background(), inputs, device.Run{Syms: syms})
	if err != nil {
		return nil, fmt.Errorf("second run: %w", err)
	}
	return out, sameBits("an observed and a plain run", out, again)
}

// checkSteps compares each observed value with its op's definition, evaluated on the values of its operands. It returns
// the values of all nodes, by ID.
func checkSteps(g *ir.Graph, syms map[string]int64, seen map[int]tensor.Tensor, inputs, params values) (
	[]*tensor.Array, error) {
	known := make([]*tensor.Array, len(g.Nodes))
	var errs []error
	for i, n := range g.Nodes {
		if n.Op == ir.ResultDef { // its tuple node checks all results
			continue
		}
		if n.Op == ir.StateDef {
			known[i] = initial(n.Attrs, n.Type)
			continue
		}
		if n.Op.Effects {
			if known[i] = inputs[n.Name]; known[i] == nil {
				known[i] = params[n.Name]
			}
			continue
		}
		in := make([]*tensor.Array, len(n.In))
		for k, x := range n.Operands() {
			in[k] = known[x.ID]
		}
		want, err := interp.Eval(n, syms, in)
		if err != nil {
			return nil, fmt.Errorf("BUG: devicetest: %s: %w", n.Label(), err)
		}
		if !program.IsStep(n) { // a view
			known[i] = want[0]
			continue
		}
		var got []*tensor.Array
		for _, v := range n.Values() {
			known[v.ID] = seen[v.ID].Array()
			got = append(got, known[v.ID])
		}
		if err := near(whole, n.Op, n.Attrs, in, got, want); err != nil {
			errs = append(errs, fmt.Errorf("%s (%s): %w", n.Label(), n.OpName(), err))
		}
	}
	return known, errors.Join(errs...)
}
