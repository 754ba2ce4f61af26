package values

import (
	"context"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/ctxio"
)

// EveryStep selects all steps.
func EveryStep(PlanStep) bool { return true }

// RunReference computes the steps of a run by the definitions of their ops, and calls step for each.
func (p *Plan) RunReference(ctx context.Context, g Given, step func(*Step) error) error {
	f, err := p.Follow(g, EveryStep, step)
	if err != nil {
		return err
	}
	for i, at := range p.Steps {
		out, _, err := f.begin(i).evaluate(ctx)
		if err != nil {
			return err
		}
		for k, n := range at.Node.Values() {
			if err := f.Observe(i, n.Label(), out[k].Tensor()); err != nil {
				return err
			}
		}
	}
	return nil
}

// evaluate computes a step by the definition of its op, of the operands that it read.
func (s *Step) evaluate(ctx context.Context) (out, in []*tensor.Array, err error) {
	if in, err = s.Operands(); err != nil {
		return nil, nil, err
	}
	err = ctxio.Run(ctx, "reference", func() error {
		out, err = s.reference(in)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case err != nil:
		return nil, nil, diag.New(code.Differs, s.Label(0), "the reference refuses its operands: %w", err)
	}
	return out, in, nil
}

// A Wrong is a step that is wrong by itself: the reference, with the operands that the step read, has another result.
type Wrong struct {
	Step  int   `json:"step"` // from 1
	Delta Delta `json:"delta"`

	label    string
	segment  int
	step     PlanStep
	operands []tensor.Tensor // by operand; the zero Tensor for absent ones
	sizes    map[string]int64
}

// Label names the step in messages.
func (w *Wrong) Label() string { return w.label }

// String describes the step and its error.
func (w *Wrong) String() string {
	return w.Delta.String() + "; its operands are as the backend had them"
}

// Judge compares a step with the reference on the same operands. It returns nil if the step is right. Beside the op's
// tolerance it allows scale times the largest element.
func (s *Step) Judge(ctx context.Context, scale float64) (*Wrong, error) {
	want, _, err := s.evaluate(ctx)
	if err != nil {
		return nil, err
	}
	for k, tol := range s.Tolerances() {
		d, err := Compare(s.Results[k].Array(), want[k], tol, scale)
		if err != nil {
			return nil, err
		}
		if d.Bad == 0 {
			continue
		}
		w := &Wrong{Step: s.Index + 1, Delta: d, label: s.Label(k), segment: s.Segment,
			step: PlanStep{s.Segment, s.Node}, operands: make([]tensor.Tensor, len(s.In)), sizes: s.f.given.Sizes}
		for k := range s.BoundStep.Operands() {
			t, err := s.Operand(k)
			if err != nil {
				return nil, err
			}
			t.Data = slices.Clone(t.Data)
			w.operands[k] = t
		}
		return w, nil
	}
	return nil, nil
}
