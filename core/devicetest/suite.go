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

// Part is a part of the suite.
type Part string

// The parts of the suite, in the order in which they run.
const (
	Info      Part = "info"      // the backend's name, devices and description
	Behaviour Part = "behaviour" // loading and running: sizes, errors, cancellation, profiles, states
	// programs of many ops: typical of models, random, and programs that other implementations got wrong
	Programs Part = "programs"
	Ops      Part = "ops" // every case of every op
)

// section is a named list of checks: a part of the suite, or the checks of one op.
type section struct {
	part   Part
	name   string         // the prefix of the names of its checks
	checks func() []check // made when they are needed: those of all ops take a second
}

// sections returns the whole suite.
func (s *suite) sections(e effort) []section {
	out := []section{
		{Info, "info", func() []check { return []check{{name: "info", run: s.checkInfo}} }},
		{Behaviour, "run", s.runChecks},
		{Programs, "graph", func() []check { return s.graphChecks(e) }},
		{Programs, "regression", s.regressionChecks},
	}
	for _, name := range undefined(s.info.Target) {
		out = append(out, section{Behaviour, name, func() []check {
			return []check{{name: name, run: func() error { return refusal{"no definition of the op is given (--define FILE)"} }}}
		}})
	}
	for _, t := range testedOps() {
		out = append(out, section{Ops, t.name, func() []check { return s.chosen.pick(t.name, s.opChecks(t, e)) }})
	}
	return out
}

// Outcome is the result of a check.
type Outcome string

const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	// the description does not take a node of the program, and Load refused it as it must
	NotClaimed Outcome = "not claimed"
	// Skipped is the outcome of a check of the part Behaviour for which the suite knows no program that the description
	// takes.
	Skipped Outcome = "skipped"
)

// Result is the record of one check.
type Result struct {
	Part    Part
	Section string // an op, or "info", "run", "graph", "regression"
	Check   string // the full name of the check
	Outcome Outcome
	Err     error  // why the check failed or was skipped, or nil
	Note    string // facts that the suite has found out about the device, such as that it treats denormals as 0
	Took    time.Duration
}

// Config selects the checks that Test runs.
type Config struct {
	Ops   []string // run only the checks of these ops; nil means the whole suite
	Brief bool     // try fewer cases, shapes and values
	All   bool     // run every check of every op, instead of about an eighth of them
	Seed  uint64   // chooses the sample if All is false
}

// maxRestarts is how many times Test reopens a backend that was lost.
const maxRestarts = 20

// CheckOps returns an error for a name that is not the name of an op in programs.
func CheckOps(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(testedOps(), func(t tested) bool { return t.name == name }) {
			return fmt.Errorf("programs have no op %q", name)
		}
	}
	return nil
}

// Test runs the suite outside of a Go test. It calls open for the backend, and again after a check that lost it
// (device.ErrLost). It calls report after each check. Test returns an error if an op in c is unknown, open fails, ctx
// ends, or the backend was lost too often. A check that fails is not an error of Test.
func Test(ctx context.Context, c Config, open func(context.Context) (device.Backend, error),
	report func(Result)) error {
	if err := CheckOps(c.Ops); err != nil {
		return err
	}
	s := &suite{chosen: sample{all: c.All, seed: c.Seed}}
	start := func() (err error) {
		if s.backend, err = open(ctx); err == nil {
			s.info, err = s.backend.Info(ctx)
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
	for _, sec := range s.sections(e) {
		if c.Ops != nil && (sec.part != Ops || !slices.Contains(c.Ops, sec.name)) {
			continue
		}
		for _, x := range sec.checks() {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			begun := time.Now()
			r := Result{Part: sec.part, Section: sec.name, Check: x.name, Outcome: Passed}
			switch err := s.attempt(x); {
			case errors.Is(err, errRefused) && sec.part == Behaviour:
				r.Outcome, r.Err = Skipped, err
				if why, ok := errors.AsType[refusal](err); ok {
					r.Err = errors.New(why.why)
				}
			case errors.Is(err, errRefused):
				r.Outcome = NotClaimed
			case err != nil:
				r.Outcome, r.Err = Failed, err
			}
			r.Took, r.Note = time.Since(begun), s.note()
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

// attempt runs a check. It turns a panic into an error, because a malformed result, such as a value without a shape,
// must not end the suite.
func (s *suite) attempt(c check) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the check panicked: %v", p)
		}
	}()
	return c.run()
}

// Claim says how much of an op a description includes.
type Claim struct {
	Op               string
	Run, Slow, Total int           // number of cases that a kernel runs, that the reference runs, and of all cases
	Types            []dtype.DType // of the first operand or result, in the cases that are included
	Why              string        // why the first excluded case is excluded
}

// Claims returns, for each op that programs may contain, how many of its cases a description includes.
func Claims(to *target.Description) (out []Claim) {
	for _, t := range testedOps() {
		def := t.def
		if def.Eval == nil {
			continue
		}
		c := Claim{Op: t.name}
		for _, x := range t.cases() {
			sub, err := newSubject(def, x)
			if err != nil {
				continue
			}
			c.Total++
			weights, _ := sub.weightForm()
			how, why := target.No, ""
			for _, f := range []form{{}, weights} { // some rules need params
				h, w := takes(to, sub.graph(f))
				how = max(how, h)
				if why == "" {
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

// takes returns the weakest support that a description has for a step of the graph. If that is target.No, it also
// returns the reason.
func takes(to *target.Description, g *ir.Graph) (target.How, string) {
	least := target.Native
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
	return least, ""
}
