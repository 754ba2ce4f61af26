package devicetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/rlx-go/rlx/core/device"
)

// Timing is the time that one op takes on a backend.
type Timing struct {
	Op       string  `json:"op"`
	Operands string  `json:"operands"` // the types of the operands, and the op's attributes
	Seconds  float64 `json:"seconds"`  // the shortest of several runs
}

// measureRuns is how often each op runs. Measure reports the shortest time.
const measureRuns = 5

// Measure times ops on a backend and reports each with report. It times those named by ops, or all if ops is nil, and
// skips ops that the backend's description excludes. Each op runs as one step, on operands of up to 400,000 elements.
// The times are those of the backend's own profile. All backends get the same operands.
func Measure(ctx context.Context, b device.Backend, ops []string, report func(Timing)) error {
	info, err := b.Info(ctx)
	if err != nil {
		return err
	}
	s := newSuite(b, info)
	for _, op := range testedOps() {
		if op.def.Eval == nil || ops != nil && !slices.Contains(ops, op.name) {
			continue
		}
		for _, sub := range largestFirst(op) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			t, err := s.measure(ctx, sub)
			if errors.Is(err, errRefused) {
				continue // the description may include another case
			}
			if err != nil {
				return fmt.Errorf("%s: %w", op.name, err)
			}
			t.Op = op.name
			if t.Seconds > 0 {
				report(t)
			}
			break
		}
	}
	return nil
}

// largestFirst returns up to 12 cases of an op, each grown to the limits of a subject, with the largest first.
func largestFirst(t tested) (out []subject) {
	cases := t.cases()
	for i, c := range cases[:min(len(cases), 12)] {
		if sub, err := newSubject(t.def, c); err == nil && !sub.leaf() {
			out = append(out, sub.grown(rand.New(rand.NewPCG(seedOf(fmt.Sprint(t.name, i)), 15)), subject.elements))
		}
	}
	slices.SortStableFunc(out, func(a, b subject) int { return cmp.Compare(b.elements(), a.elements()) })
	return out
}

func (s *suite) measure(ctx context.Context, sub subject) (Timing, error) {
	t := Timing{Op: sub.def.Name, Operands: fmt.Sprintf("%v %+v", sub.In, sub.Attrs), Seconds: math.Inf(1)}
	in, ok := sub.accepted(1)
	if !ok {
		return Timing{}, errRefused
	}
	f, _ := sub.weightForm()
	err := s.rigged(sub, f, 0, in, func(r *rig) error {
		named := named(in)
		for range measureRuns {
			_, stats, err := r.run(ctx, named, device.Run{Opts: device.RunOptions{Profile: true}})
			if err != nil {
				return err
			}
			sum := 0.0
			for _, st := range stats.Steps {
				if r.program.Graph.Nodes[st.Node].Op == sub.def {
					sum += st.Time.Seconds()
				}
			}
			t.Seconds = min(t.Seconds, sum)
		}
		return nil
	})
	return t, err
}
