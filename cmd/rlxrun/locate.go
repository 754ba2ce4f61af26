package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/values"
)

// place is where a loop is wrong.
type place struct {
	Iteration int    `json:"iteration"` // from 0
	Step      string `json:"step,omitempty"`
	// Delta is how far that step's result is from the reference's; nil if no step of the iteration is wrong by itself.
	Delta *values.Delta `json:"delta,omitempty"`
	Inner *place        `json:"inner,omitempty"` // if the step is a loop
}

// String describes the place: "iteration 3: body step 2 of 5 (mul p): 1 of 5 elements differs; ...".
func (p *place) String() string {
	text := fmt.Sprintf("iteration %d", p.Iteration)
	switch {
	case p.Inner != nil:
		text += ": " + p.Step + ": " + p.Inner.String()
	case p.Delta != nil:
		text += ": " + p.Step + ": " + p.Delta.String()
	}
	return text
}

// locate finds the first iteration of a loop that is wrong, and the step in it. It runs the loop again on the backend
// of x, so that it returns the values of each iteration, and then the steps of one iteration. It returns nil if the
// loop is right when it is run in that way.
func (x *side) locate(ctx context.Context, w *values.Wrong) (*place, error) {
	dir, err := os.MkdirTemp("", "rlx-loop")
	if err != nil {
		return nil, diag.New(code.OfWrite(err), "the iterations of "+w.Label(), "cannot be written: %w", unpath(err))
	}
	defer os.RemoveAll(dir)
	meta := format.Meta{Model: x.session.model.Facts().Name, Precisions: []string{x.session.host.Precision()}}
	path := filepath.Join(dir, "trace.rlx")
	if err := w.WriteTrace(ctx, path, x.plan, meta); err != nil {
		return nil, err
	}
	var rows []tensor.Tensor
	err = x.with(ctx, path, func(y *side) error {
		out, err := y.plain(ctx)
		for _, v := range y.method.Outputs {
			rows = append(rows, ofModel(out[v.Name]))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	it, err := w.Iteration(ctx, x.plan, rows, x.rounding())
	if it == nil || err != nil {
		return nil, err
	}
	p := &place{Iteration: it.Number}
	path = filepath.Join(dir, "iteration.rlx")
	if err := it.WriteIteration(ctx, path, x.plan, meta); err != nil {
		return nil, err
	}
	return p, x.with(ctx, path, func(y *side) error {
		for _, y.method = range y.session.model.Methods() {
			if err := y.prepare(ctx); err != nil {
				return err
			}
			inner, err := y.judge(ctx, values.EveryStep)
			if err != nil {
				return err
			}
			if inner != nil {
				p.Step, p.Delta = inner.Label(), &inner.Delta
				if inner.IsLoop() {
					p.Inner, err = y.locate(ctx, inner)
				}
				return err
			}
		}
		return nil
	})
}

// with calls f for the first method of another artifact, with a new process of the same backend.
func (x *side) with(ctx context.Context, path string, f func(y *side) error) error {
	o, err := x.host.options(x.session.env)
	if err != nil {
		return err
	}
	o.Memory, o.Precision = x.session.memory, x.session.host.Precision()
	s, err := openSession(ctx, x.session.env, path, &x.host, o, debugFlags{})
	if err != nil {
		return err
	}
	defer s.close()
	y := &side{session: s, host: x.host, method: s.model.Methods()[0], in: map[string]rlx.Tensor{}}
	if err := y.prepare(ctx); err != nil {
		return err
	}
	return f(y)
}

// inLoop adds to the error of --check the place in a loop at which the backend is wrong. If it cannot be found, err
// stays as it is.
func (s *session) inLoop(ctx context.Context, r *rlx.Request, err error) error {
	var found *diag.Error
	if !s.debug.check || !errors.As(err, &found) || found.Code != code.Check || r.State != nil || ctx.Err() != nil {
		return err
	}
	m, failed := s.model.Method(r.Method)
	if failed != nil {
		return err
	}
	s.debug.check = false // the runs to come are judged here
	x := &side{session: s, host: *s.flags, method: m, in: r.Inputs}
	x.host.backend = s.backend.Name
	if x.prepare(ctx) != nil {
		return err
	}
	w, failed := x.judge(ctx, func(p values.PlanStep) bool { return isLoop(p.Node) })
	if failed != nil || w == nil || w.Label() != found.Subject {
		return err
	}
	p, failed := x.locate(ctx, w)
	if failed != nil || p == nil {
		return err
	}
	return diag.New(code.Check, found.Subject, "%s; in %v", found.Msg, p).WithHint("%s", found.Hint)
}

func isLoop(n *ir.Node) bool { return n.Op.Nested }

// inFirst finds the place in the first value that differs, if a loop computes it.
func (r *diffReport) inFirst(ctx context.Context, c *comparison) {
	if r.First == nil || !isLoop(r.First.step.Node) {
		return
	}
	w, err := c.got.judge(ctx, func(p values.PlanStep) bool { return p == r.First.step })
	if err == nil && w != nil {
		r.In, _ = c.got.locate(ctx, w)
	}
}
