package devicetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// TypedCases returns the small cases of an op, and each of them with other element types: all operands of one type
// change together. The op accepts all of these.
func TypedCases(def *ir.OpDef) (out []ir.Case[any]) {
	seen := map[string]bool{}
	add := func(c ir.Case[any]) {
		key := fmt.Sprint(c.Attrs, c.In, c.Out)
		sub, err := newSubject(def, c)
		if err != nil || seen[key] || sub.elements() > 1500 || def.FLOPs(c.Attrs, sub.In, sub.outs...) > 50_000 {
			return
		}
		seen[key] = true
		out = append(out, c)
	}
	for _, c := range def.Cases() {
		add(c)
		for _, from := range dtype.All() {
			for _, to := range dtype.All() {
				x := c
				x.In = slices.Clone(c.In)
				for k := range x.In {
					if x.In[k].DType == from {
						x.In[k].DType = to
					}
				}
				if x.Out.DType == from {
					x.Out.DType = to
				}
				add(x)
			}
		}
	}
	return out
}

// compiledChecks returns the checks OP/typed-K/compiled: typed cases of an op for which the backend has no kernel run
// compiled, and their results are compared with the op. There is one for each combination of element types.
func (s *suite) compiledChecks(def *ir.OpDef) (checks []check) {
	if s.compile == nil || def.Eval == nil || def.Effects || def.Updates {
		return nil
	}
	seen := map[string]int{}
	for i, c := range TypedCases(def) {
		sub, err := newSubject(def, c)
		if err != nil {
			panic("BUG: devicetest: " + err.Error())
		}
		types := fmt.Sprint(dtypes(sub))
		if how, _ := takes(s.info.Target, sub.graph(form{})); how < target.Native && sub.elements() > 4 &&
			seen[types] == 0 {
			seen[types]++
			name := fmt.Sprintf("%s/typed-%d", def.Name, i)
			checks = append(
				checks, check{name + "/compiled", func() error { return s.checkCompiled(sub, seedOf(name)) },
					[]string{"compiled"}})
		}
	}
	return checks
}

func (s *suite) checkCompiled(sub subject, seed uint64) error {
	g, params, err := s.compile(sub.graph(form{}))
	if c, _ := diag.CodeOf(err); c == code.Untaken {
		return fmt.Errorf("%w: %v", errRefused, err)
	}
	if err != nil {
		return fmt.Errorf("%v: compile: %w", sub, err)
	}
	given := values{}
	for name, v := range params {
		given[name] = v.Array()
	}
	p, err := build(g, given)
	if err != nil {
		return fmt.Errorf("BUG: devicetest: %v: %w", sub, err)
	}
	return s.withRig(p, given, device.Load{Threads: 1}, func(r *rig) error {
		rng := rand.New(rand.NewPCG(seed, 17))
		for try := range 3 {
			in := sub.random(seed + uint64(try))
			if try > 0 && !slices.ContainsFunc(sub.In, func(t ir.Type) bool { return t.Present() && numel(t) == 0 }) {
				extremes(rng, in)
			}
			if err := sub.sameAs(r, in); err != nil {
				return fmt.Errorf("%v, compiled: %w\n%v", sub, err, g)
			}
		}
		return nil
	})
}

// sameAs runs a program that computes the subject and compares the results with the definition.
func (s subject) sameAs(r *rig, in []*tensor.Array) error {
	named := named(in)
	want, refused := s.eval(in)
	got, _, err := r.run(context.Background(), named, device.Run{})
	if refused != nil {
		if sum(s.outs) == 0 || errors.Is(err, device.ErrInput) {
			return nil
		}
		return fmt.Errorf("the definition refuses the values (%v); the backend's error is %v, want device.ErrInput",
			refused, err)
	}
	if err != nil {
		return err
	}
	made := make([]*tensor.Array, len(want))
	for k := range made {
		made[k] = got[s.outName(k)].Array()
	}
	return near(whole, s.def, s.Attrs, in, made, want)
}
