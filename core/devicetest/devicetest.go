// Package devicetest is the conformance suite for backends. It tests any device.Backend, in process or over RPC. The
// checks of ops are derived from their definitions (ir.Defs), so a new op is covered without a change here.
//
// It imports core only, never a plugin: a backend's test calls Run, and Fuzz from a fuzz test.
package devicetest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/target"
)

// MaxIO bounds the IO space of every program of the suite, in bytes, for backends whose sessions reserve it beforehand.
const MaxIO = 16 << 20

// Exception is an op, a case or another check that a backend does not pass. Name is that of the check or of a group: an
// op ("gather"), one of its cases ("gather/3"), one kind of check of a case ("gather/3/weights") or of all cases
// ("gather/*/weights"), or a check that is about no op ("run/cancel"). Failures print the full name.
type Exception struct {
	Name   string
	Reason string
}

// Options are known exceptions of a backend.
type Options struct {
	// Unsupported lists what will never work: the backend must return device.ErrUnsupported. Nodes that the backend's
	// description excludes need no entry; the suite checks that they are refused.
	Unsupported []Exception
	// Failing lists what should work but does not yet. The test fails for an entry under which everything passes, so
	// that it is removed.
	Failing []Exception
	// MustHave makes a backend without a device (device.ErrUnavailable) fail the test instead of skipping it.
	MustHave bool
}

// Run tests the backend that open returns. It calls open once; open registers its own cleanup. It runs a sample of the
// checks of ops, chosen by SampleEnv, or all of them. With -short there are fewer to choose from.
func Run(t *testing.T, open func(t *testing.T) device.Backend, opts Options) {
	b := open(t)
	info, err := b.Info(context.Background())
	if errors.Is(err, device.ErrUnavailable) && !opts.MustHave {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := newSuite(b, info)
	l, err := newLedger(opts)
	if err != nil {
		t.Fatal(err)
	}
	effort := full
	if testing.Short() {
		effort = brief
	}
	chosen, err := sampleFromEnv()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("checks of ops: %v", chosen)
	var clock stopwatch
	run := func(t *testing.T, c check) (refused error) {
		err := clock.time(c)
		if err := l.judge(c.name, err); err != nil {
			t.Errorf("%s: %s (%v)", c.name, clip(err.Error()), chosen)
		}
		if errors.Is(err, errRefused) {
			return err
		}
		return nil
	}
	for _, sec := range s.sections(effort, chosen) {
		t.Run(sec.name, func(t *testing.T) {
			for _, c := range sec.checks {
				if sec.part == Ops || sec.part == Info {
					run(t, c)
					continue
				}
				t.Run(strings.TrimPrefix(c.name, sec.name+"/"), func(t *testing.T) {
					if refused := run(t, c); refused != nil {
						t.Skip(refused) // the backend lacks an op that the check needs
					}
				})
			}
		})
	}
	if chosen.all && effort == full && !filtered() {
		for _, err := range l.stale() {
			t.Error(err)
		}
	}
	t.Logf("the slowest of %v", &clock)
}

// filtered reports that the command line leaves out subtests.
func filtered() bool {
	for _, name := range []string{"test.run", "test.skip"} {
		if f := flag.Lookup(name); f != nil && strings.Contains(f.Value.String(), "/") {
			return true
		}
	}
	return false
}

// stopwatch keeps how long checks take.
type stopwatch struct{ times []timed }

type timed struct {
	name string
	took time.Duration
}

func (w *stopwatch) time(c check) error {
	start := time.Now()
	err := c.run()
	w.times = append(w.times, timed{c.name, time.Since(start)})
	return err
}

// String names the ten slowest checks.
func (w *stopwatch) String() string {
	slices.SortStableFunc(w.times, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	var total time.Duration
	for _, x := range w.times {
		total += x.took
	}
	s := fmt.Sprintf("%d checks, %v:", len(w.times), total.Round(time.Millisecond))
	for _, x := range w.times[:min(10, len(w.times))] {
		s += fmt.Sprintf(" %s %v", x.name, x.took.Round(time.Millisecond))
	}
	return s
}

// clip shortens a long message, of a panic for example.
func clip(s string) string {
	if most := 3000; len(s) > most {
		return s[:most] + " ..."
	}
	return s
}

// check is one thing that a backend must do. It returns an error rather than failing a test, because some are expected
// to fail.
type check struct {
	name string
	run  func() error
	tags []string // what it is one of: see sample.pick
}

// effort is how many cases, shapes and values are tried.
type effort int

const (
	brief effort = iota
	full
)

// suite is a backend under test.
type suite struct {
	b    device.Backend
	info device.Info
}

func newSuite(b device.Backend, info device.Info) *suite { return &suite{b: b, info: info} }

// checkInfo: the description is complete, and its names are ones that programs use.
func (s *suite) checkInfo() error {
	i := s.info
	switch {
	case len(i.Devices) == 0 && (i.Target == nil || len(i.Target.Rules) > 0):
		return fmt.Errorf("no devices; a backend without any answers device.ErrUnavailable")
	case i.Target != nil && !i.Target.HasType(dtype.F32):
		return fmt.Errorf("element types are %v; f32 is the least", i.Target.Types)
	}
	if err := i.Check(); err != nil {
		return fmt.Errorf("it %w", err)
	}
	text := i.Target.String()
	again, err := target.Parse(text)
	if err != nil || again.String() != text {
		return fmt.Errorf("the description is not read back as it is written (%v):\n%s", err, text)
	}
	return nil
}
