package main

import (
	"context"

	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/values"
)

// minimize writes the wrong step as an artifact, and tries it on the same backend.
func (r *diffReport) minimize(ctx context.Context, path string) error {
	x := r.by
	facts := x.session.model.Facts()
	meta := format.Meta{Model: facts.Name, Architecture: facts.Architecture,
		Precisions: []string{x.session.host.Precision()},
		Pairs:      []format.Pair{{Key: "case", Value: r.WrongName + " on " + x.name + ": " + r.Wrong.Delta.String()}}}
	if err := r.Wrong.WriteCase(ctx, path, x.plan, meta); err != nil {
		return err
	}
	r.Case = path
	again, err := x.again(ctx, path)
	if err != nil { // such as a crash, which the file shows as well
		r.CaseNote = "fails on the same backend: " + err.Error()
		return ctx.Err()
	}
	r.Repeats = &again
	if again {
		r.CaseNote = "is wrong on the same backend, too; rlxrun " + path + " --check shows it"
	} else {
		r.CaseNote = "is right on the same backend, so the fault needs more than this step: its place in memory, " +
			"sizes that vary, or the steps before it"
	}
	return nil
}

// again runs the artifact of a case on the backend of x, and reports whether a step is wrong.
func (x *side) again(ctx context.Context, path string) (bool, error) {
	var wrong *values.Wrong
	err := x.with(ctx, path, func(y *side) (err error) {
		wrong, err = y.judge(ctx, values.EveryStep)
		return err
	})
	return wrong != nil, err
}
