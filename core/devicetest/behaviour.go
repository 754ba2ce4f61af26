package devicetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

// runChecks returns the checks of loading and running programs, as opposed to those of single ops.
func (s *suite) runChecks() []check {
	return []check{
		{name: "run/empty", run: s.checkEmpty},
		{name: "run/devices", run: s.checkDevices},
		{name: "run/sizes", run: s.checkSizes},
		{name: "run/equal-sizes", run: s.checkEqualSizes},
		{name: "run/index", run: s.checkIndex},
		{name: "run/cancel", run: s.checkCancel},
		{name: "run/progress", run: s.checkProgress},
		{name: "run/profile", run: s.checkProfile},
		{name: "run/nan", run: s.checkNaN},
		{name: "run/nan-tail", run: s.checkNaNTail},
		{name: "run/observe", run: s.checkObserve},
		{name: "run/results", run: s.checkResults},
		{name: "run/together", run: s.checkTogether},
		{name: "run/state", run: s.checkState},
		{name: "run/state-refused", run: s.checkStateRefused},
		{name: "run/transfers", run: s.checkTransfers},
		{name: "run/wanted", run: s.checkWanted},
		{name: "run/generate", run: s.checkGenerate},
	}
}

// mustBuild is build for graphs that the suite itself makes. It panics if the graph is invalid.
func mustBuild(g *ir.Graph, params values) *program.Program {
	p, err := build(g, params)
	if err != nil {
		panic("BUG: devicetest: " + err.Error())
	}
	return p
}

// chain returns a program that applies n steps to its input x, an f32[N,8] with N from 1 to 6: neg, abs, neg, abs, and so on.
func chain(n int) *program.Program {
	g := ir.NewGraph("chain", ir.Sym{Name: "N", Min: 1, Max: 6})
	x := op.Input(g, "x", ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Named("N"), ir.Static(8)}})
	for i := range n {
		if i%2 == 0 {
			x = op.Neg(x).Named(fmt.Sprint("neg", i))
		} else {
			x = op.Abs(x).Named(fmt.Sprint("abs", i))
		}
	}
	g.Return("y", x)
	return mustBuild(g, nil)
}

// Plain returns a small program for tests outside this package. Its input is x, an f32[N,8] with N from 1 to 6; its output y is the
// absolute value of x.
func Plain(target string) *program.Program {
	p := chain(4)
	p.Target = target
	return p
}

// ramp returns an input for chain with N = n. Its elements count up from -3.
func ramp(n int) values {
	x := tensor.NewArray(dtype.F32, n, 8)
	for i := range x.F {
		x.F[i] = float64(i) - 3
	}
	return values{"x": x}
}

func sym(n int64) map[string]int64 { return map[string]int64{"N": n} }

// works runs the chain and checks its output and statistics. The chain must have an even number of steps, so that y = |x|.
func (r *rig) works() error {
	in := ramp(2)
	got, stats, err := r.run(context.Background(), in, device.Run{Syms: sym(2)})
	if err != nil {
		return err
	}
	if stats.FirstNaN != -1 || len(stats.Steps) != 0 || stats.Total <= 0 || stats.PeakRSS < 0 {
		return fmt.Errorf("stats of a plain run are %+v; want a total time, no steps and FirstNaN -1", stats)
	}
	want := tensor.NewArray(dtype.F32, 2, 8)
	for i, v := range in["x"].F {
		want.F[i] = math.Abs(v)
	}
	return compare(got["y"].Array(), want, ir.Tolerance{})
}

// checkEmpty checks programs that return an empty value, that only copy, and that have no inputs.
func (s *suite) checkEmpty() error {
	empty := ir.NewGraph("empty")
	empty.Return("y", op.Neg(op.Input(empty, "x", ir.TypeOf(dtype.F32, 0, 3))))
	same := ir.NewGraph("same")
	same.Return("y", op.Input(same, "x", ir.TypeOf(dtype.F32, 3)))
	none := ir.NewGraph("none")
	none.Return("y", op.Const(none, 3, ir.TypeOf(dtype.F32, 3)))
	x := tensor.NewArray(dtype.F32, 3)
	x.F = []float64{3, 3, 3}
	for _, c := range []struct {
		g    *ir.Graph
		in   values
		want *tensor.Array
	}{
		{empty, values{"x": tensor.NewArray(dtype.F32, 0, 3)}, tensor.NewArray(dtype.F32, 0, 3)},
		{same, values{"x": x}, x},
		{none, nil, x},
	} {
		err := s.withRig(mustBuild(c.g, nil), nil, device.Load{}, func(r *rig) error {
			got, _, err := r.run(context.Background(), c.in, device.Run{})
			if err != nil {
				return err
			}
			return compare(got["y"].Array(), c.want, ir.Tolerance{})
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.g.Name, err)
		}
	}
	return nil
}

// checkDevices checks that every device listed by Info can be chosen, and that an unknown device is an error with a code.
func (s *suite) checkDevices() error {
	for _, d := range s.info.Devices {
		if err := s.withRig(chain(2), nil, device.Load{Device: d.ID}, (*rig).works); err != nil {
			return fmt.Errorf("device %s: %w", d.ID, err)
		}
	}
	r, err := s.load(chain(2), nil, device.Load{Device: "no such device"})
	if err == nil {
		r.exe.Close()
		return fmt.Errorf("an unknown device is accepted")
	}
	return typed(err)
}

// typed returns an error unless err has a code that tells the user what is wrong: any code but diag.Internal and device.ErrLost.
func typed(err error) error {
	if code, ok := diag.CodeOf(err); !ok || code == diag.Internal || errors.Is(err, device.ErrLost) {
		return fmt.Errorf("error %w has no code that says what is wrong", err)
	}
	return nil
}

// checkSizes checks that device.ErrInput reports sizes that are out of range, missing or unknown, and an IO space that is too small.
// The executable must work after each of these errors.
func (s *suite) checkSizes() error {
	p := chain(2)
	return s.withRig(p, nil, device.Load{}, func(r *rig) error {
		for _, c := range []struct {
			what string
			io   []byte
			syms map[string]int64
		}{
			{"N = 0", r.io, sym(0)}, {"N past its range", r.io, sym(7)}, {"N = -1", r.io, sym(-1)},
			{"N = 1<<62", r.io, sym(1 << 62)}, {"no N", r.io, nil}, {"another symbol", r.io, map[string]int64{"M": 1}},
			{"one symbol too many", r.io, map[string]int64{"N": 1, "M": 1}},
			{"an IO space without its last byte", r.io[:len(r.io)-1], sym(6)}, {"no IO space", nil, sym(1)},
		} {
			if _, err := r.exe.Run(context.Background(), device.Run{Syms: c.syms, IO: c.io}); !errors.Is(err, device.ErrInput) {
				return fmt.Errorf("%s gives error %v; want device.ErrInput", c.what, err)
			}
			if err := r.works(); err != nil {
				return fmt.Errorf("run after %s: %w", c.what, err)
			}
		}
		return nil
	})
}

// checkEqualSizes runs a program that needs N and M to be equal and even. Other sizes are device.ErrInput, and the executable must
// work after the error.
func (s *suite) checkEqualSizes() error {
	g := ir.NewGraph("equal", ir.Sym{Name: "N", Min: 1, Max: 6}, ir.Sym{Name: "M", Min: 2, Max: 9})
	dim := func(text string) ir.Type {
		return ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.MustDim(text), ir.Static(8)}}
	}
	x, y := op.Input(g, "x", dim("N")), op.Input(g, "y", dim("M"))
	g.Return("sum", op.Add(x, y))                                                    // needs N = M
	g.Return("pairs", op.Neg(op.Reshape(x, ir.Shape{ir.Static(-1), ir.Static(16)}))) // needs an even N
	at := func(n, m int64) map[string]int64 { return map[string]int64{"N": n, "M": m} }
	return s.withRig(mustBuild(g, nil), nil, device.Load{}, func(r *rig) error {
		for _, bad := range []map[string]int64{at(2, 4), at(4, 2), at(3, 3), at(6, 9)} {
			if _, err := r.exe.Run(context.Background(), device.Run{Syms: bad, IO: r.io}); !errors.Is(err, device.ErrInput) {
				return fmt.Errorf("sizes %v give error %v; want device.ErrInput", bad, err)
			}
			for _, good := range []int64{2, 4, 6} {
				in := values{"x": ramp(int(good))["x"], "y": ramp(int(good))["x"]}
				got, _, err := r.run(context.Background(), in, device.Run{Syms: at(good, good)})
				if err != nil {
					return fmt.Errorf("N and M of %d, after %v: %w", good, bad, err)
				}
				want := tensor.NewArray(dtype.F32, int(good), 8)
				for i, v := range in["x"].F {
					want.F[i] = 2 * v
				}
				if err := compare(got["sum"].Array(), want, ir.Tolerance{}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// checkIndex checks that gather reports an index out of range as device.ErrInput, at any position and for each integer type.
func (s *suite) checkIndex() error {
	for _, d := range []dtype.DType{dtype.I32, dtype.I64, dtype.U32} {
		if !s.info.Target.HasType(d) {
			continue
		}
		g := ir.NewGraph("index")
		table, idx := op.Param(g, "table", ir.TypeOf(dtype.F32, 5, 3)), op.Input(g, "idx", ir.TypeOf(d, 9))
		g.Return("y", op.Gather(table, idx, 0))
		rows := tensor.NewArray(dtype.F32, 5, 3)
		for i := range rows.F {
			rows.F[i] = float64(i)
		}
		params := values{"table": rows}
		err := s.withRig(mustBuild(g, params), params, device.Load{}, func(r *rig) error {
			lo, hi := d.IntRange()
			for k, bad := range []int64{2, -1, 5, lo, hi, hi - 4, 2} {
				x := tensor.NewArray(d, 9)
				x.I[(k*5+3)%9] = max(lo, bad)
				_, _, err := r.run(context.Background(), values{"idx": x}, device.Run{})
				if v := max(lo, bad); v >= 0 && v < 5 {
					if err != nil {
						return fmt.Errorf("index %d of 5: %w", v, err)
					}
				} else if !errors.Is(err, device.ErrInput) {
					return fmt.Errorf("index %d of 5 gives error %v; want device.ErrInput", v, err)
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%v: %w", d, err)
		}
	}
	return nil
}

// checkCancel checks that a context that is cancelled before or during a run ends it with the context's error, and that the
// executable works afterwards. A backend may finish the run if it reports progress only at the end.
func (s *suite) checkCancel() error {
	const steps = 200
	return s.withRig(chain(steps), nil, device.Load{}, func(r *rig) error {
		for range 5 {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if _, _, err := r.run(ctx, ramp(2), device.Run{Syms: sym(2)}); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("a run with a cancelled context gives error %v; want context.Canceled", err)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		later, last := -1, 0
		_, _, err := r.run(ctx, ramp(2), device.Run{Syms: sym(2), Progress: func(step int) {
			cancel()
			later++
			last = step
		}})
		switch {
		case err == nil && later <= 2 && last == steps: // reported at the end only
		case !errors.Is(err, context.Canceled):
			return fmt.Errorf("a run that is cancelled at its first step gives error %v; want context.Canceled", err)
		case later > 2:
			return fmt.Errorf("a cancelled run went on for %d steps", later)
		}
		return r.works()
	})
}

// checkProgress checks that the reported step numbers increase, and that the last one is the number of steps.
func (s *suite) checkProgress() error {
	return s.withRig(chain(20), nil, device.Load{}, func(r *rig) error {
		for range 2 {
			last := -1
			var wrong error
			_, _, err := r.run(context.Background(), ramp(2), device.Run{Syms: sym(2), Progress: func(step int) {
				if wrong == nil && (step <= last || step > 20) {
					wrong = fmt.Errorf("step %d is reported after step %d of 20", step, last)
				}
				last = step
			}})
			if err == nil && last != 20 {
				err = fmt.Errorf("the last step reported is %d; want 20", last)
			}
			if err := errors.Join(err, wrong); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkProfile checks that a profile has one entry per step, in order, and that each entry lies within the time of the run.
func (s *suite) checkProfile() error {
	return s.withRig(chain(20), nil, device.Load{}, func(r *rig) error {
		for range 2 {
			_, stats, err := r.run(context.Background(), ramp(6), device.Run{Syms: sym(6), Opts: device.RunOptions{Profile: true}})
			if err != nil {
				return err
			}
			if len(stats.Steps) != len(r.p.Steps) {
				return fmt.Errorf("%d times for %d steps", len(stats.Steps), len(r.p.Steps))
			}
			for i, st := range stats.Steps {
				switch {
				case st.Node != r.p.Steps[i].Node:
					return fmt.Errorf("time %d is of node %d; step %d is node %d", i, st.Node, i, r.p.Steps[i].Node)
				case st.Start < 0 || st.Time < 0 || st.Start+st.Time > stats.Total:
					return fmt.Errorf("step %d takes %v from %v on, in a run of %v", i, st.Time, st.Start, stats.Total)
				case i > 0 && st.Start < stats.Steps[i-1].Start:
					return fmt.Errorf("step %d starts before step %d", i, i-1)
				}
			}
		}
		return r.works()
	})
}

// checkNaN checks that Stats and the error name the first step whose result has a NaN, and that nothing is checked without the option.
func (s *suite) checkNaN() error {
	g := ir.NewGraph("nan")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, 33))
	good := op.Neg(x).Named("good")
	bad := op.Sqrt(good).Named("the_bad_one")
	g.Return("y", op.Add(op.Relu(bad).Named("later"), good))
	return s.withRig(mustBuild(g, nil), nil, device.Load{}, func(r *rig) error {
		v := tensor.NewArray(dtype.F32, 33)
		for i := range v.F {
			v.F[i] = -1
		}
		opts := device.RunOptions{CheckNaN: true}
		if _, stats, err := r.run(context.Background(), values{"x": v}, device.Run{Opts: opts}); err != nil || stats.FirstNaN != -1 {
			return fmt.Errorf("without a NaN: FirstNaN is %d, error %v", stats.FirstNaN, err)
		}
		v.F[31] = 1
		_, stats, err := r.run(context.Background(), values{"x": v}, device.Run{Opts: opts})
		if !errors.Is(err, device.ErrNaN) || !strings.Contains(err.Error(), "the_bad_one") {
			return fmt.Errorf("error is %v; want device.ErrNaN that names the_bad_one", err)
		}
		if n, _ := r.p.Graph.Find("the_bad_one"); stats.FirstNaN != n.ID {
			return fmt.Errorf("FirstNaN is %d; want node %d", stats.FirstNaN, n.ID)
		}
		if _, stats, err = r.run(context.Background(), values{"x": v}, device.Run{}); err != nil || stats.FirstNaN != -1 {
			return fmt.Errorf("not asked to check: FirstNaN is %d, error %v", stats.FirstNaN, err)
		}
		return nil
	})
}

// checkNaNTail checks programs whose values are smaller than their places: the bytes after a value must not be checked for NaN.
func (s *suite) checkNaNTail() error {
	return s.withRig(chain(2), nil, device.Load{}, func(r *rig) error {
		for _, n := range []int64{6, 1, 3} {
			if _, _, err := r.run(context.Background(), ramp(int(n)), device.Run{Syms: sym(n), Opts: device.RunOptions{CheckNaN: true}}); err != nil {
				return fmt.Errorf("N = %d: %w", n, err)
			}
		}
		return nil
	})
}

// checkObserve checks that Observe is called for the nodes listed in Dump, in the order of the steps, and that its error ends the run.
func (s *suite) checkObserve() error {
	return s.withRig(chain(6), nil, device.Load{}, func(r *rig) error {
		steps := r.p.Steps
		opts := device.RunOptions{Dump: []int{steps[1].Node, steps[4].Node}}
		var seen []int
		opts.Observe = func(node int, shape []int, data []byte) error {
			seen = append(seen, node)
			if len(shape) != 2 || shape[0] != 2 || len(data) != 64 {
				return fmt.Errorf("%d bytes of shape %v; want [2 8]", len(data), shape)
			}
			return nil
		}
		if _, _, err := r.run(context.Background(), ramp(2), device.Run{Syms: sym(2), Opts: opts}); err != nil {
			return err
		}
		if len(seen) != 2 || seen[0] != opts.Dump[0] || seen[1] != opts.Dump[1] {
			return fmt.Errorf("nodes %v were observed; want %v", seen, opts.Dump)
		}
		refusal, calls := errors.New("no more"), 0
		opts.Observe = func(int, []int, []byte) error { calls++; return refusal }
		if _, _, err := r.run(context.Background(), ramp(2), device.Run{Syms: sym(2), Opts: opts}); !errors.Is(err, refusal) || calls != 1 {
			return fmt.Errorf("an observer that refuses is called %d times and gives error %v; want its own, once", calls, err)
		}
		return r.works()
	})
}

// checkResults checks ops with several results. Such an op has one step and one entry in the profile. Each result is observed and
// checked for NaN separately, even if nothing reads it.
func (s *suite) checkResults() error {
	g := ir.NewGraph("results")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, 2, 5))
	best, where := op.TopK(x, 5)
	_, second := op.TopK(op.Neg(x), 2)
	g.Return("best", op.Copy(best.Named("the_values")))
	g.Return("sum", op.Add(where, where))
	g.Return("second", op.Add(second, second))
	return s.withRig(mustBuild(g, nil), nil, device.Load{}, func(r *rig) error {
		in := tensor.NewArray(dtype.F32, 2, 5)
		copy(in.F, []float64{3, 1, 4, 1, 5, 9, 2, 6, 5, 3})
		inputs := values{"x": in}
		opts := device.RunOptions{Profile: true, CheckNaN: true}
		for _, st := range r.p.Steps {
			for _, n := range r.p.Graph.Nodes[st.Node].Values() {
				opts.Dump = append(opts.Dump, n.ID)
			}
		}
		var seen []int
		opts.Observe = func(node int, shape []int, data []byte) error {
			seen = append(seen, node)
			if t := r.p.Graph.Nodes[node].Type; !slices.Equal(shape, t.Shape.Eval(nil)) || int64(len(data)) != t.Bytes(nil) {
				return fmt.Errorf("%d bytes of shape %v are observed for %v", len(data), shape, t)
			}
			return nil
		}
		_, stats, err := r.run(context.Background(), inputs, device.Run{Opts: opts})
		if err != nil {
			return err
		}
		if !slices.Equal(seen, opts.Dump) {
			return fmt.Errorf("nodes %v are observed; want %v", seen, opts.Dump)
		}
		for i, st := range stats.Steps {
			if want := r.p.Steps[i].Node; len(stats.Steps) != len(r.p.Steps) || st.Node != want {
				return fmt.Errorf("time %d of %d is of node %d; step %d of %d is node %d", i, len(stats.Steps), st.Node, i, len(r.p.Steps), want)
			}
		}
		in.F[2] = math.NaN()
		_, stats, err = r.run(context.Background(), inputs, device.Run{Opts: device.RunOptions{CheckNaN: true}})
		n, _ := r.p.Graph.Find("the_values")
		if !errors.Is(err, device.ErrNaN) || !strings.Contains(err.Error(), n.Name) || stats.FirstNaN != n.ID {
			return fmt.Errorf("FirstNaN is %d, error %v; want node %d and device.ErrNaN that names %s", stats.FirstNaN, err, n.ID, n.Name)
		}
		return nil
	})
}

// checkTogether runs several executables at the same time, with different numbers of threads.
func (s *suite) checkTogether() error {
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		wg.Go(func() {
			errs[i] = s.withRig(chain(40+2*i), nil, device.Load{Threads: 1 + i}, func(r *rig) error {
				for range 20 {
					if err := r.works(); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
