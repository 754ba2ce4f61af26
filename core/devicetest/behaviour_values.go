package devicetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// checkNaN checks that Stats and the error name the first step whose result has a NaN, and that nothing is checked
// without the option.
func (s *suite) checkNaN() error {
	g := ir.NewGraph("nan")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, 33))
	good := op.Neg(x).Named("good")
	bad := op.Sqrt(good).Named("the_bad_one")
	g.Return("y", op.Add(op.Relu(bad).Named("later"), good))
	if s.lacks(g) != "" {
		return s.checkNaNOnly()
	}
	return s.withRig(mustBuild(g, nil), nil, device.Load{}, func(r *rig) error {
		v := tensor.NewArray(dtype.F32, 33)
		for i := range v.Floats {
			v.Floats[i] = -1
		}
		opts := device.RunOptions{CheckNaN: true}
		if _, stats, err := r.run(context.Background(), values{"x": v}, device.Run{Opts: opts}); err != nil ||
			stats.FirstNaN != -1 {
			return fmt.Errorf("without a NaN: FirstNaN is %d, error %v", stats.FirstNaN, err)
		}
		v.Floats[31] = 1
		_, stats, err := r.run(context.Background(), values{"x": v}, device.Run{Opts: opts})
		if !errors.Is(err, device.ErrNaN) || !strings.Contains(err.Error(), "the_bad_one") {
			return fmt.Errorf("error is %v; want device.ErrNaN that names the_bad_one", err)
		}
		if n, _ := r.program.Graph.Find("the_bad_one"); stats.FirstNaN != n.ID {
			return fmt.Errorf("FirstNaN is %d; want node %d", stats.FirstNaN, n.ID)
		}
		if _, stats, err = r.run(context.Background(), values{"x": v}, device.Run{}); err != nil ||
			stats.FirstNaN != -1 {
			return fmt.Errorf("not asked to check: FirstNaN is %d, error %v", stats.FirstNaN, err)
		}
		return nil
	})
}

// checkNaNOnly is checkNaN for a backend that lacks one of its ops: the second of three steps gets an operand of NaN.
func (s *suite) checkNaNOnly() error {
	c, why := s.recipe(passingNaN)
	if c == nil {
		return skipped(why)
	}
	if c.chained {
		once := *c
		c, once.chained = &once, false
	}
	g := ir.NewGraph("nan", c.syms()...)
	err := g.Build(func() {
		in := c.nodes(g)
		other := slices.Clone(in)
		other[0] = op.Input(g, "other", c.types[0])
		for i, name := range []string{"good", "the_bad_one", "later"} {
			from := in
			if i == 1 {
				from = other
			}
			out := c.step(g, 0, from)
			out[0].Named(name)
			g.Return("y"+name, out[0])
		}
	})
	x := c.must(1)
	if err != nil || s.info.Lacks(mustBuild(g, x.params)) != "" {
		return skipped(fmt.Sprintf("no known program of three steps has only ops that the backend claims (%v)", c))
	}
	return s.withRig(mustBuild(g, x.params), x.params, device.Load{}, func(r *rig) error {
		in, syms := x.inputs(2), x.at(2)
		in["other"] = in[operandName(0)]
		checked := device.Run{Syms: syms, Opts: device.RunOptions{CheckNaN: true}}
		if _, stats, err := r.run(background, in, checked); err != nil || stats.FirstNaN != -1 {
			return fmt.Errorf("without a NaN: FirstNaN is %d, error %v", stats.FirstNaN, err)
		}
		in["other"] = allNaN(in["other"])
		_, stats, err := r.run(background, in, checked)
		if !errors.Is(err, device.ErrNaN) || !strings.Contains(err.Error(), "the_bad_one") {
			return fmt.Errorf("error is %v; want device.ErrNaN that names the_bad_one", err)
		}
		if n, _ := r.program.Graph.Find("the_bad_one"); stats.FirstNaN != n.ID {
			return fmt.Errorf("FirstNaN is %d; want node %d", stats.FirstNaN, n.ID)
		}
		if _, stats, err = r.run(background, in, device.Run{Syms: syms}); err != nil || stats.FirstNaN != -1 {
			return fmt.Errorf("not asked to check: FirstNaN is %d, error %v", stats.FirstNaN, err)
		}
		return nil
	})
}

// checkNaNTail checks programs whose values are smaller than their places: the bytes after a value must not be checked
// for NaN.
func (s *suite) checkNaNTail() error {
	return s.withPlain(2, device.Load{}, func(r *rig, x *plain) error {
		for _, n := range []int64{x.largest, 1, max(1, x.largest/2)} {
			if _, _, err := r.run(
				background, x.inputs(n),
				device.Run{Syms: x.at(n), Opts: device.RunOptions{CheckNaN: true}}); err != nil {
				return fmt.Errorf("with N = %d: %w", n, err)
			}
		}
		return nil
	})
}

// checkObserve checks that Observe is called for the nodes listed in Dump, in the order of the steps, and that its
// error ends the run.
func (s *suite) checkObserve() error {
	return s.withPlain(6, device.Load{}, func(r *rig, x *plain) error {
		in, syms := x.inputs(2), x.at(2)
		var opts device.RunOptions
		for _, i := range []int{1, 4} {
			opts.Dump = append(opts.Dump, r.program.Graph.Nodes[r.program.Steps[i].Node].Values()[0].ID)
		}
		var seen []int
		opts.Observe = func(node int, shape []int, data []byte) error {
			seen = append(seen, node)
			t := r.program.Graph.Nodes[node].Type
			if want := t.Shape.Eval(syms); !slices.Equal(shape, want) || int64(len(data)) != t.Bytes(syms) {
				return fmt.Errorf("%d bytes of shape %v; want %v", len(data), shape, want)
			}
			return nil
		}
		if _, _, err := r.run(background, in, device.Run{Syms: syms, Opts: opts}); err != nil {
			return err
		}
		if len(seen) != 2 || seen[0] != opts.Dump[0] || seen[1] != opts.Dump[1] {
			return fmt.Errorf("nodes %v were observed; want %v", seen, opts.Dump)
		}
		refusal, calls := errors.New("no more"), 0
		opts.Observe = func(int, []int, []byte) error { calls++; return refusal }
		if _, _, err := r.run(background, in, device.Run{Syms: syms, Opts: opts}); !errors.Is(err, refusal) ||
			calls != 1 {
			return fmt.Errorf("an observer that refuses is called %d times and gives error %v; want its own, once",
				calls, err)
		}
		return x.works(r)
	})
}

// checkResults checks ops with several results. Such an op has one step and one entry in the profile. Each result is
// observed and checked for NaN separately, even if nothing reads it.
func (s *suite) checkResults() error {
	g := ir.NewGraph("results")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, 2, 5))
	best, where := op.TopK(x, 5)
	_, second := op.TopK(op.Neg(x), 2)
	g.Return("best", op.Copy(best.Named("the_values")))
	g.Return("sum", op.Add(where, where))
	g.Return("second", op.Add(second, second))
	if s.lacks(g) != "" {
		return s.checkResultsOnly()
	}
	return s.withRig(mustBuild(g, nil), nil, device.Load{}, func(r *rig) error {
		in := tensor.NewArray(dtype.F32, 2, 5)
		copy(in.Floats, []float64{3, 1, 4, 1, 5, 9, 2, 6, 5, 3})
		inputs := values{"x": in}
		if err := r.observesAll(inputs, nil, true); err != nil {
			return err
		}
		in.Floats[2] = math.NaN()
		_, stats, err := r.run(background, inputs, device.Run{Opts: device.RunOptions{CheckNaN: true}})
		n, _ := r.program.Graph.Find("the_values")
		if !errors.Is(err, device.ErrNaN) || !strings.Contains(err.Error(), n.Name) || stats.FirstNaN != n.ID {
			return fmt.Errorf("FirstNaN is %d, error %v; want node %d and device.ErrNaN that names %s", stats.FirstNaN,
				err, n.ID, n.Name)
		}
		return nil
	})
}

// checkResultsOnly is checkResults for a backend that lacks one of its ops.
func (s *suite) checkResultsOnly() error {
	return s.withRecipe(tupleOp, 3, device.Load{}, func(r *rig, x *plain) error {
		return errors.Join(r.observesAll(x.inputs(2), x.at(2), false), x.works(r))
	})
}

// observesAll runs the program once, with every value observed and a profile, and checks that both are complete and in
// order.
func (r *rig) observesAll(inputs values, syms map[string]int64, nans bool) error {
	opts := device.RunOptions{Profile: true, CheckNaN: nans}
	for _, st := range r.program.Steps {
		for _, n := range r.program.Graph.Nodes[st.Node].Values() {
			opts.Dump = append(opts.Dump, n.ID)
		}
	}
	var seen []int
	opts.Observe = func(node int, shape []int, data []byte) error {
		seen = append(seen, node)
		if t := r.program.Graph.Nodes[node].Type; !slices.Equal(shape, t.Shape.Eval(syms)) ||
			int64(len(data)) != t.Bytes(syms) {
			return fmt.Errorf("%d bytes of shape %v are observed for %v", len(data), shape, t)
		}
		return nil
	}
	_, stats, err := r.run(background, inputs, device.Run{Syms: syms, Opts: opts})
	if err != nil {
		return err
	}
	if !slices.Equal(seen, opts.Dump) {
		return fmt.Errorf("nodes %v are observed; want %v", seen, opts.Dump)
	}
	for i, st := range stats.Steps {
		if want := r.program.Steps[i].Node; len(stats.Steps) != len(r.program.Steps) || st.Node != want {
			return fmt.Errorf("time %d of %d is of node %d; step %d of %d is node %d", i, len(stats.Steps), st.Node, i,
				len(r.program.Steps), want)
		}
	}
	return nil
}
