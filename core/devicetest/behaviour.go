package devicetest

import (
	"context"
	"errors"
	"fmt"
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
		{name: "run/returned", run: s.checkReturned},
		{name: "run/no-input", run: s.checkNoInput},
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
		{name: "run/bounds", run: s.checkBounds},
		{name: "run/weights", run: s.checkWeights},
		{name: "run/denormals", run: s.checkDenormals},
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

// Plain returns a small program for tests outside this package. Its input is i0, an f32[N,8] with N from 1 to 6; its
// output y is the absolute value of i0.
func Plain(target string) *program.Program {
	p := negAbs().must(4).p
	p.Target = target
	return p
}

// skipped returns an error that tells that a check does not run, and why.
func skipped(why string) error { return refusal{why} }

// withPlain loads a program of n steps, made of ops that the backend claims, and calls do.
func (s *suite) withPlain(n int, l device.Load, do func(r *rig, x *plain) error) error {
	return s.withRecipe(anyRecipe, n, l, do)
}

// withRecipe is withPlain for recipes that w selects.
func (s *suite) withRecipe(w want, n int, l device.Load, do func(r *rig, x *plain) error) error {
	c, why := s.recipe(w)
	if c == nil {
		return skipped(why)
	}
	x := c.must(n)
	return s.withRig(x.p, x.params, l, func(r *rig) error { return do(r, x) })
}

// recipe returns claimedRecipe for the backend, and remembers it.
func (s *suite) recipe(w want) (*recipe, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recipes == nil {
		s.recipes = map[string]recipeOr{}
	}
	r, ok := s.recipes[w.kind]
	if !ok {
		r.recipe, r.why = claimedRecipe(s.info.Target, w)
		s.recipes[w.kind] = r
	}
	return r.recipe, r.why
}

// recipeOr is a recipe, or the reason why there is none.
type recipeOr struct {
	recipe *recipe
	why    string
}

var background = context.Background()

// checkEmpty checks a program that computes an empty value.
func (s *suite) checkEmpty() error {
	g := ir.NewGraph("empty")
	x := tensor.NewArray(dtype.F32, 0, 3)
	in, want := values{"x": x}, x
	g.Return("y", op.Neg(op.Input(g, "x", ir.TypeOf(dtype.F32, 0, 3))))
	if s.lacks(g) != "" {
		r, why := s.recipe(anyRecipe)
		if r == nil {
			return skipped(why)
		}
		// N is 0, without a symbol. A case with weights would have other sizes, too.
		sub, err := r.subject(0, map[string]int64{"N": 0})
		if err != nil || r.largest == 0 || sum(sub.outs) > 0 || slices.Contains(r.weights, true) {
			return skipped(fmt.Sprintf("no known program with an empty result has only ops that the backend claims (%v)", r))
		}
		e := recipe{subs: []subject{sub}, types: sub.In, out: sub.Case.Out}
		plain, err := e.program(1)
		if err != nil {
			return skipped(err.Error())
		}
		return s.withRig(plain.p, nil, device.Load{}, func(r *rig) error { return plain.works(r) })
	}
	return s.gives(g, in, want)
}

// checkReturned checks a program whose output is its input.
func (s *suite) checkReturned() error {
	g := ir.NewGraph("same")
	g.Return("y", op.Input(g, "x", ir.TypeOf(dtype.F32, 3)))
	x := tensor.NewArray(dtype.F32, 3)
	x.Floats = []float64{3, 4, 5}
	return s.gives(g, values{"x": x}, x)
}

// checkNoInput checks a program without inputs.
func (s *suite) checkNoInput() error {
	g := ir.NewGraph("none")
	g.Return("y", op.Const(g, 3, ir.TypeOf(dtype.F32, 3)))
	x := tensor.NewArray(dtype.F32, 3)
	x.Floats = []float64{3, 3, 3}
	return s.gives(g, nil, x)
}

// gives checks that the output y of a graph is want.
func (s *suite) gives(g *ir.Graph, in values, want *tensor.Array) error {
	return s.withRig(mustBuild(g, nil), nil, device.Load{}, func(r *rig) error {
		got, _, err := r.run(background, in, device.Run{})
		if err != nil {
			return err
		}
		return compare(got["y"].Array(), want, ir.Tolerance{})
	})
}

// lacks says why the backend's description does not take a graph; it is empty if it does.
func (s *suite) lacks(g *ir.Graph) string { return s.info.Lacks(mustBuild(g, nil)) }

// checkDevices checks that every device listed by Info can be chosen, and that an unknown device is an error with a
// code.
func (s *suite) checkDevices() error {
	for _, d := range s.info.Devices {
		err := s.withPlain(2, device.Load{Device: d.ID}, func(r *rig, x *plain) error { return x.works(r) })
		if err != nil {
			return fmt.Errorf("device %s: %w", d.ID, err)
		}
	}
	err := s.withPlain(2, device.Load{Device: "no such device"}, func(*rig, *plain) error { return nil })
	switch {
	case errors.Is(err, errRefused):
		return err
	case err == nil:
		return fmt.Errorf("an unknown device is accepted")
	}
	return typed(err)
}

// typed returns an error unless err has a code that is of use to the user: any code but diag.Internal and
// device.ErrLost.
func typed(err error) error {
	if code, ok := diag.CodeOf(err); !ok || code == diag.Internal || errors.Is(err, device.ErrLost) {
		return fmt.Errorf("error %w has no code that says what is wrong", err)
	}
	return nil
}

// checkSizes checks that device.ErrInput reports sizes that are out of range, missing or unknown, and an IO space that
// is too small. The executable must work after each of these errors.
func (s *suite) checkSizes() error {
	return s.withPlain(2, device.Load{}, func(r *rig, x *plain) error {
		type badSizes struct {
			what string
			io   []byte
			syms map[string]int64
		}
		most := x.at(x.largest)
		var bad []badSizes
		if x.largest == 0 {
			bad = append(bad, badSizes{"a symbol of a program that has none", r.io, sym(1)})
		} else {
			bad = append(bad, badSizes{"N = 0", r.io, sym(0)}, badSizes{"N past its range", r.io, sym(x.largest + 1)},
				badSizes{"N = -1", r.io, sym(-1)},
				badSizes{"N = 1<<62", r.io, sym(1 << 62)}, badSizes{"no N", r.io, nil},
				badSizes{"another symbol", r.io, map[string]int64{"M": 1}},
				badSizes{"one symbol too many", r.io, map[string]int64{"N": 1, "M": 1}})
		}
		bad = append(bad, badSizes{"an IO space without its last byte", r.io[:len(r.io)-1], most},
			badSizes{"no IO space", nil, x.at(1)})
		for _, c := range bad {
			if _, err := r.exe.Run(background, device.Run{Syms: c.syms, IO: c.io}); !errors.Is(err, device.ErrInput) {
				return fmt.Errorf("%s gives error %v; want device.ErrInput", c.what, err)
			}
			if err := x.works(r); err != nil {
				return fmt.Errorf("run after %s: %w", c.what, err)
			}
		}
		return nil
	})
}

// checkEqualSizes runs a program that needs N and M to be equal and even. Other sizes are device.ErrInput, and the
// executable must work after the error.
func (s *suite) checkEqualSizes() error {
	g := ir.NewGraph("equal", ir.Sym{Name: "N", Min: 1, Max: 6}, ir.Sym{Name: "M", Min: 2, Max: 9})
	dim := func(text string) ir.Type {
		return ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.MustDim(text), ir.Static(8)}}
	}
	x, y := op.Input(g, "x", dim("N")), op.Input(g, "y", dim("M"))
	g.Return("sum", op.Add(x, y))                                                    // needs N = M
	g.Return("pairs", op.Neg(op.Reshape(x, ir.Shape{ir.Static(-1), ir.Static(16)}))) // needs an even N
	if s.lacks(g) != "" {
		return s.checkEqualOnly()
	}
	at := func(n, m int64) map[string]int64 { return map[string]int64{"N": n, "M": m} }
	return s.withRig(mustBuild(g, nil), nil, device.Load{}, func(r *rig) error {
		for _, bad := range []map[string]int64{at(2, 4), at(4, 2), at(3, 3), at(6, 9)} {
			if _, err := r.exe.Run(context.Background(), device.Run{Syms: bad, IO: r.io}); !errors.Is(
				err, device.ErrInput) {
				return fmt.Errorf("sizes %v give error %v; want device.ErrInput", bad, err)
			}
			for _, good := range []int64{2, 4, 6} {
				in := values{"x": ramp(int(good)), "y": ramp(int(good))}
				got, _, err := r.run(context.Background(), in, device.Run{Syms: at(good, good)})
				if err != nil {
					return fmt.Errorf("with N and M of %d, after %v: %w", good, bad, err)
				}
				want := tensor.NewArray(dtype.F32, int(good), 8)
				for i, v := range in["x"].Floats {
					want.Floats[i] = 2 * v
				}
				if err := compare(got["sum"].Array(), want, ir.Tolerance{}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// checkEqualOnly is checkEqualSizes for a backend that lacks add or neg: one of its own ops, on an operand that a
// reshape gives the size M in place of N.
func (s *suite) checkEqualOnly() error {
	c, why := s.recipe(anyRecipe)
	if c == nil {
		return skipped(why)
	}
	p, params, ok := c.equalSizes(s.info.Target)
	if !ok {
		return skipped(fmt.Sprintf("no known program with two symbols has only ops that the backend claims (%v)", c))
	}
	x := c.must(1)
	at := func(n, m int64) map[string]int64 { return map[string]int64{"N": n, "M": m} }
	return s.withRig(p, params, device.Load{}, func(r *rig) error {
		for _, bad := range []map[string]int64{at(1, c.largest), at(c.largest, 1)} {
			if _, err := r.exe.Run(background, device.Run{Syms: bad, IO: r.io}); !errors.Is(err, device.ErrInput) {
				return fmt.Errorf("sizes %v give error %v; want device.ErrInput", bad, err)
			}
			for _, n := range []int64{1, 2, c.largest} {
				in := x.inputs(n)
				got, _, err := r.run(background, in, device.Run{Syms: at(n, n)})
				if err != nil {
					return fmt.Errorf("with N and M of %d, after %v: %w", n, bad, err)
				}
				if x.chained {
					got["y"] = got["y0_0"]
				}
				if err := x.right(n, in, got); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// ramp returns an f32[n,8] whose elements count up from -3.
func ramp(n int) *tensor.Array {
	x := tensor.NewArray(dtype.F32, n, 8)
	for i := range x.Floats {
		x.Floats[i] = float64(i) - 3
	}
	return x
}

func sym(n int64) map[string]int64 { return map[string]int64{"N": n} }

// checkIndex checks that gather reports an index out of range as device.ErrInput, at any position and for each integer
// type.
func (s *suite) checkIndex() error {
	for _, d := range []dtype.DType{dtype.I32, dtype.I64, dtype.U32} {
		if !s.info.Target.HasType(d) {
			continue
		}
		g := ir.NewGraph("index")
		table, idx := op.Param(g, "table", ir.TypeOf(dtype.F32, 5, 3)), op.Input(g, "idx", ir.TypeOf(d, 9))
		g.Return("y", op.Gather(table, idx, 0))
		rows := tensor.NewArray(dtype.F32, 5, 3)
		for i := range rows.Floats {
			rows.Floats[i] = float64(i)
		}
		params := values{"table": rows}
		err := s.withRig(mustBuild(g, params), params, device.Load{}, func(r *rig) error {
			lo, hi := d.IntRange()
			for k, bad := range []int64{2, -1, 5, lo, hi, hi - 4, 2} {
				x := tensor.NewArray(d, 9)
				x.Ints[(k*5+3)%9] = max(lo, bad)
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
	return s.checkIndexStep()
}

// checkIndexStep checks that the error for an index out of range names its step once, and no other step, even if the
// backend submits several steps at once.
func (s *suite) checkIndexStep() error {
	g := ir.NewGraph("index")
	x, idx := op.Input(g, "x", ir.TypeOf(dtype.F32, 5, 3)), op.Input(g, "idx", ir.TypeOf(dtype.I32, 2))
	first := op.Gather(x, idx, 0).Named("the_first_one")
	again := op.Input(g, "again", ir.TypeOf(dtype.I32, 2))
	bad := op.Gather(first, again, 0).Named("the_bad_one")
	g.Return("y", op.Gather(bad, idx, 0).Named("the_last_one"))
	return s.withRig(mustBuild(g, nil), nil, device.Load{}, func(r *rig) error {
		pair := func(a, b int64) *tensor.Array {
			return &tensor.Array{DType: dtype.I32, Shape: []int{2}, Ints: []int64{a, b}}
		}
		_, _, err := r.run(context.Background(),
			values{"x": tensor.NewArray(dtype.F32, 5, 3), "idx": pair(0, 1), "again": pair(0, 7)}, device.Run{})
		if err == nil || strings.Count(err.Error(), "the_bad_one") != 1 ||
			strings.Contains(err.Error(), "the_first_one") || strings.Contains(err.Error(), "the_last_one") {
			return fmt.Errorf("index 7 of 2 gives error %v; want one that names the_bad_one once, and no other step", err)
		}
		return nil
	})
}

// checkCancel checks that a context that is cancelled before or during a run ends it with the context's error, and that
// the executable works afterwards. A backend may finish the run if it reports progress only at the end.
func (s *suite) checkCancel() error {
	const steps = 200
	return s.withPlain(steps, device.Load{}, func(r *rig, x *plain) error {
		in, syms := x.inputs(2), x.at(2)
		for range 5 {
			ctx, cancel := context.WithCancel(background)
			cancel()
			if _, _, err := r.run(ctx, in, device.Run{Syms: syms}); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("a run with a cancelled context gives error %v; want context.Canceled", err)
			}
		}
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		later, last := -1, 0
		_, _, err := r.run(ctx, in, device.Run{Syms: syms, Progress: func(step int) {
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
		return x.works(r)
	})
}

// checkProgress checks that the reported step numbers increase, and that the last one is the number of steps.
func (s *suite) checkProgress() error {
	return s.withPlain(20, device.Load{}, func(r *rig, x *plain) error {
		for range 2 {
			last := -1
			var wrong error
			_, _, err := r.run(background, x.inputs(2), device.Run{Syms: x.at(2), Progress: func(step int) {
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

// checkProfile checks that a profile has one entry per step, in order, and that each entry lies within the time of the
// run.
func (s *suite) checkProfile() error {
	return s.withPlain(20, device.Load{}, func(r *rig, x *plain) error {
		for range 2 {
			_, stats, err := r.run(background, x.inputs(x.largest),
				device.Run{Syms: x.at(x.largest), Opts: device.RunOptions{Profile: true}})
			if err != nil {
				return err
			}
			if len(stats.Steps) != len(r.program.Steps) {
				return fmt.Errorf("%d times for %d steps", len(stats.Steps), len(r.program.Steps))
			}
			for i, st := range stats.Steps {
				switch {
				case st.Node != r.program.Steps[i].Node:
					return fmt.Errorf("time %d is of node %d; step %d is node %d", i, st.Node, i,
						r.program.Steps[i].Node)
				case st.Start < 0 || st.Time < 0 || st.Start+st.Time > stats.Total:
					return fmt.Errorf("step %d takes %v from %v on, in a run of %v", i, st.Time, st.Start, stats.Total)
				case i > 0 && st.Start < stats.Steps[i-1].Start:
					return fmt.Errorf("step %d starts before step %d", i, i-1)
				}
			}
		}
		return x.works(r)
	})
}

// checkTogether runs several executables at the same time, with different numbers of threads.
func (s *suite) checkTogether() error {
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		wg.Go(func() {
			errs[i] = s.withPlain(40+2*i, device.Load{Threads: 1 + i}, func(r *rig, x *plain) error {
				for range 20 {
					if err := x.works(r); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	wg.Wait()
	if errors.Is(errs[0], errRefused) {
		return errs[0] // the others have the same reason
	}
	return errors.Join(errs...)
}
