package devicetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// Threads checks that the number of threads does not change a bit of any result. It runs each op on operands that are
// large enough for 16 threads, and random graphs of such values, both as they are and compiled (see Mixed.Compile), in
// every precision of the backend. It is for backends that obey device.Load.Threads. Like Run it runs a sample of the
// checks; all of them take minutes.
func Threads(t *testing.T, b device.Backend, compile Compiler) {
	info, err := b.Info(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	s := newSuite(b, info)
	cases, graphs, chosenGraphs := 16, uint64(8), uint64(3)
	if testing.Short() {
		cases, chosenGraphs = 2, 1
	}
	chosen, err := sampleFromEnv()
	if err != nil {
		t.Fatal(err)
	}
	numbers := chosen.threads()
	t.Logf("checks of ops: %v", chosen)
	var clock stopwatch
	defs := slices.DeleteFunc(ir.Defs(), func(d *ir.OpDef) bool { return !runnable(d) })
	few := uint64(len(defs)) / 5
	if testing.Short() {
		few = uint64(len(defs)) / 25
	}
	for _, i := range chosen.some(few, uint64(len(defs))) {
		def := defs[i]
		t.Run(def.Name, func(t *testing.T) {
			for _, c := range chosen.pick(def.Name, s.threadChecks(def, cases, numbers)) {
				if err := clock.time(c); err != nil && !errors.Is(err, errRefused) {
					t.Errorf("%s: %s (%v)", c.name, clip(err.Error()), chosen)
				}
			}
		})
	}
	t.Run("random", func(t *testing.T) {
		for _, seed := range chosen.some(chosenGraphs, graphs) {
			m := Mixed{}
			if seed%2 == 1 {
				m.Compile = compile
			}
			g, params, err := m.graph(s, seed, largeGraphs)
			if err == nil {
				err = s.sameForThreads(g, values{}, params, seed, numbers)
			}
			if err != nil && !errors.Is(err, errRefused) {
				t.Errorf("seed %d: %s\n%s", seed, clip(err.Error()), clip(fmt.Sprint(g)))
			}
		}
	})
	t.Logf("with %v threads in %d precisions: the slowest of %v", numbers, max(1, len(info.Precisions)), &clock)
}

// threads returns the numbers of threads to compare. A sample has 1, 16 and one number between them.
func (s sample) threads() []int {
	between := []int{2, 3, 4, 8}
	if !s.all {
		between = between[s.some(1, 4)[0]:][:1]
	}
	return slices.Concat([]int{1}, between, []int{16})
}

// Limits of grown subjects: large enough to be divided among 16 threads, small enough to run in a fraction of a second.
const (
	grownElements = 400_000
	grownFLOPs    = 20_000_000
)

// threadChecks returns checks at large sizes of up to the given number of cases of an op. No two cases have the same
// element types and attributes. Each case is grown in two ways: to have many elements, and to have much work per
// element.
func (s *suite) threadChecks(def *ir.OpDef, cases int, numbers []int) (checks []check) {
	seen := map[string]bool{}
	for i, c := range def.Cases() {
		sub, err := newSubject(def, c)
		if err != nil || sub.leaf() {
			continue
		}
		key := fmt.Sprintf("%v %+v", dtypes(sub), sub.Attrs)
		if seen[key] || len(seen) == cases {
			continue
		}
		seen[key] = true
		name := fmt.Sprintf("%s/%d", def.Name, i)
		wide := sub.grown(rand.New(rand.NewPCG(seedOf(name), 15)), subject.elements)
		subs := []subject{wide}
		if deep := sub.grown(rand.New(rand.NewPCG(seedOf(name), 17)),
			subject.intensity); deep.intensity() > 2*wide.intensity() {
			subs = append(subs, deep)
		}
		for k, sub := range subs {
			checks = append(checks, check{fmt.Sprintf("%s/threads-%d", name, k), func() error {
				in := values{}
				taken, ok := sub.accepted(1)
				if !ok { // for example an index into 0 rows
					return nil
				}
				for k, x := range taken {
					in[operandName(k)] = x
				}
				if err := s.sameForThreads(sub.graph(form{}), in, values{}, 0, numbers); err != nil {
					return fmt.Errorf("%v: %w", sub, err)
				}
				return nil
			}, sub.tags("threads")})
		}
	}
	return checks
}

// accepted returns random operands that the op accepts. The op may refuse random integers, because they are indices and
// sizes have changed; then they are all 0. ok is false if the op refuses these, too, or refuses floats, because an
// attribute may bound the size of the result.
func (s subject) accepted(seed uint64) (in []*tensor.Array, ok bool) {
	in = s.random(seed)
	if !hasInts(s) && len(s.def.Checked) == 0 {
		return in, true
	}
	_, refused := s.eval(in)
	if refused != nil {
		for _, x := range in {
			if x != nil {
				clear(x.Ints)
			}
		}
		_, refused = s.eval(in)
	}
	return in, refused == nil
}

// intensity returns the number of operations per 1000 elements.
func (s subject) intensity() int64 {
	return 1000 * s.def.FLOPs(s.Attrs, s.In, s.outs...) / max(1, s.elements())
}

// grown enlarges a subject by the given measure, within the limits and as far as the op accepts its floats.
func (s subject) grown(rng *rand.Rand, measure func(subject) int64) subject {
	for range 300 {
		n, ok := s.tryResized(rng, grownElements, grownFLOPs)
		if ok && measure(n) > measure(s) && !n.hasEmpty() && !n.largeKernel() && !n.refused() {
			s = n
		}
	}
	return s
}

// refused reports whether the op refuses random operands without integers. Operands with integers can be grown: zeros
// take the place of bad indices.
func (s subject) refused() bool {
	if hasInts(s) || len(s.def.Checked) == 0 {
		return false
	}
	_, ok := s.accepted(1)
	return !ok
}

// hasEmpty reports whether an operand or result is empty. No index is valid for an axis of size 0.
func (s subject) hasEmpty() bool {
	return slices.ContainsFunc(slices.Concat(s.In, s.outs), func(t ir.Type) bool {
		n, _ := t.Shape.Numel()
		return n.Is(0)
	})
}

// largeKernel reports whether the op is a transposed convolution with a kernel of more than 100 taps. A backend may
// compute every tap of every result. With a large kernel most taps lie in the padding, which FLOPs does not count, and
// the check would take minutes.
func (s subject) largeKernel() bool {
	_, ok := s.Attrs.(op.ConvTransposeAttrs)
	if !ok {
		return false
	}
	taps := int64(1)
	for _, d := range s.In[1].Shape[2:] {
		taps *= d.Const
	}
	return taps > 100
}

// sameForThreads runs a graph at the largest sizes in each precision with each number of threads, and compares the bits
// of the outputs and, if there is more than one step, of all steps. Inputs and params that are missing are random. It
// skips programs without a native kernel, because the reference does not divide its work.
func (s *suite) sameForThreads(g *ir.Graph, in, params values, seed uint64, numbers []int) error {
	rng, syms := rand.New(rand.NewPCG(seed, 16)), g.Syms.Max()
	for _, n := range g.Params() {
		if params[n.Name] == nil {
			params[n.Name] = operand(rng, n.Type, nil, false)
		}
	}
	p, err := build(g, params)
	if err != nil {
		return fmt.Errorf("BUG: devicetest: %w", err)
	}
	for _, n := range p.Graph.Inputs() {
		if in[n.Name] == nil {
			in[n.Name] = operand(rng, n.Type, syms, false)
		}
	}
	type results struct{ outputs, steps map[string]tensor.Tensor }
	run := func(precision string, threads int) (got results, err error) {
		err = s.withRig(p, params, device.Load{Threads: threads, Precision: precision}, func(r *rig) error {
			if !slices.ContainsFunc(r.exe.Kernels(), func(k device.Kernel) bool { return k.Native }) {
				return nil
			}
			if got.outputs, _, err = r.run(context.Background(), in, device.Run{Syms: syms}); err == nil &&
				len(p.Steps) > 1 {
				got.steps, err = r.steps(syms, in)
			}
			return err
		})
		return got, err
	}
	precisions := s.info.Precisions
	if len(precisions) == 0 {
		precisions = []string{""}
	}
	var before results // of the previous precision
	for _, precision := range precisions {
		first, err := run(precision, numbers[0])
		if err != nil {
			return err
		}
		if before.outputs != nil && sameBits("", before.outputs, first.outputs) == nil {
			continue // the precision makes no difference
		}
		before = first
		for _, threads := range numbers[1:] {
			got, err := run(precision, threads)
			if err != nil {
				return err
			}
			what := fmt.Sprintf("%s: %d and %d threads", precision, numbers[0], threads)
			if err := cmp.Or(sameBits(what, first.steps, got.steps),
				sameBits(what, first.outputs, got.outputs)); err != nil {
				return err
			}
		}
	}
	return nil
}

// steps runs the program and returns the results of every step. The keys have the form "ID (OP)".
func (r *rig) steps(syms map[string]int64, in values) (map[string]tensor.Tensor, error) {
	out := map[string]tensor.Tensor{}
	var opts device.RunOptions
	for _, st := range r.program.Steps {
		for _, v := range r.program.Graph.Nodes[st.Node].Values() {
			opts.Dump = append(opts.Dump, v.ID)
		}
	}
	opts.Observe = func(node int, shape []int, data []byte) error {
		n := r.program.Graph.Nodes[node]
		x := tensor.Tensor{DType: n.Type.DType, Shape: n.Type.Shape.Eval(syms), Data: tensor.AlignedBytes(len(data))}
		copy(x.Data, data)
		out[fmt.Sprintf("%d (%s)", node, n.OpName())] = x
		return nil
	}
	_, _, err := r.run(context.Background(), in, device.Run{Syms: syms, Opts: opts})
	return out, err
}
