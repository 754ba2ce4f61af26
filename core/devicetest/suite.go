package devicetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
)

// A Part of the suite.
type Part string

// The parts, in the order in which they are checked.
const (
	Info      Part = "info"      // what the backend says of itself
	Behaviour Part = "behaviour" // loading and running: sizes, errors, cancelling, profiles, states
	Programs  Part = "programs"  // many ops: graphs as models have them, random ones, and what others got wrong
	Ops       Part = "ops"       // every case of every op
)

// section is a part of the suite, or one op of it.
type section struct {
	part   Part
	name   string // the prefix of the names of its checks
	checks []check
}

// sections are the whole suite.
func (s *suite) sections(e effort, chosen sample) []section {
	out := []section{
		{Info, "info", []check{{name: "info", run: s.checkInfo}}},
		{Behaviour, "run", s.runChecks()},
		{Programs, "graph", s.graphChecks(e, chosen)},
		{Programs, "regression", s.regressionChecks()},
	}
	for _, def := range ir.Defs() {
		if runnable(def) {
			out = append(out, section{Ops, def.Name, chosen.pick(def.Name, s.opChecks(def, e))})
		}
	}
	return out
}

// Outcome is how a check ended.
type Outcome string

const (
	Passed     Outcome = "passed"
	Failed     Outcome = "failed"
	NotClaimed Outcome = "not claimed" // the description does not take a node of the program, and Load refused it as it must
)

// Result is one check that was made.
type Result struct {
	Part    Part
	Section string // an op, or "info", "run", "graph", "regression"
	Check   string // its full name
	Outcome Outcome
	Err     error // of a check that failed
	Took    time.Duration
}

// Config says how much Test checks.
type Config struct {
	Ops   []string // only these ops and nothing else; nil: the whole suite
	Brief bool     // fewer cases, shapes and values
	All   bool     // every check of every op; otherwise a sample of about an eighth, which Seed chooses
	Seed  uint64
}

// maxRestarts is how often Test opens a backend that was lost.
const maxRestarts = 20

// CheckOps reports a name that is no op of programs.
func CheckOps(names []string) error {
	for _, name := range names {
		if d, ok := ir.Find(name); !ok || !runnable(d) {
			return fmt.Errorf("there is no op %q that a program may have", name)
		}
	}
	return nil
}

// Test makes the checks of Run outside of a Go test. open gives the backend, and again after a check in which it was lost
// (device.ErrLost). report is called after each check. The error is that of open, ctx, or of too many losses.
func Test(ctx context.Context, c Config, open func(context.Context) (device.Backend, error), report func(Result)) error {
	if err := CheckOps(c.Ops); err != nil {
		return err
	}
	s := &suite{}
	start := func() (err error) {
		if s.b, err = open(ctx); err == nil {
			s.info, err = s.b.Info(ctx)
		}
		return err
	}
	if err := start(); err != nil {
		return err
	}
	e := full
	if c.Brief {
		e = brief
	}
	lost := 0
	for _, sec := range s.sections(e, sample{all: c.All, seed: c.Seed}) {
		if c.Ops != nil && (sec.part != Ops || !slices.Contains(c.Ops, sec.name)) {
			continue
		}
		for _, x := range sec.checks {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			begun := time.Now()
			r := Result{Part: sec.part, Section: sec.name, Check: x.name, Outcome: Passed}
			switch err := s.attempt(x); {
			case errors.Is(err, errRefused):
				r.Outcome = NotClaimed
			case err != nil:
				r.Outcome, r.Err = Failed, err
			}
			r.Took = time.Since(begun)
			report(r)
			if errors.Is(r.Err, device.ErrLost) {
				if lost++; lost > maxRestarts {
					return fmt.Errorf("the backend was lost %d times: %w", lost, r.Err)
				}
				if err := start(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// attempt makes a check. A result of the wrong form, such as a value without a shape, must not end the suite.
func (s *suite) attempt(c check) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the check panicked: %v", p)
		}
	}()
	return c.run()
}

// Claim is what a description says of an op.
type Claim struct {
	Op               string
	Run, Slow, Total int // cases of the op that a kernel runs, that the reference runs, and all
	Types            []dtype.DType
	Why              string // of the first case that is not taken
}

// Claims lists how many cases of each op a description takes, for the element types of the first operand or result.
func Claims(to *target.Description) (out []Claim) {
	for _, def := range ir.Defs() {
		if !runnable(def) || def.Eval == nil {
			continue
		}
		c := Claim{Op: def.Name}
		for _, x := range def.Cases() {
			sub, err := newSubject(def, x)
			if err != nil {
				continue
			}
			c.Total++
			weights, _ := sub.weightForm()
			how, why := target.No, ""
			for _, f := range []form{{}, weights} { // some rules want weights
				h, w := takes(to, sub.graph(f))
				if how = max(how, h); why == "" {
					why = w
				}
			}
			switch how {
			case target.Native:
				c.Run++
			case target.Reference:
				c.Slow++
			default:
				if c.Why == "" {
					c.Why = why
				}
				continue
			}
			if d := slices.Concat(sub.In, sub.outs)[0].DType; !slices.Contains(c.Types, d) {
				c.Types = append(c.Types, d)
			}
		}
		slices.Sort(c.Types)
		out = append(out, c)
	}
	return out
}

// takes says how a description takes the least of a graph's nodes.
func takes(to *target.Description, g *ir.Graph) (target.How, string) {
	least, reason := target.Native, ""
	if g.Err() != nil {
		return target.No, g.Err().Error()
	}
	for _, n := range g.Nodes {
		how, why := to.Takes(n)
		if how == target.No {
			return how, why
		}
		if program.IsStep(n) {
			least = min(least, how)
		}
	}
	return least, reason
}
