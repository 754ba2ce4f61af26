// Package devicetest is the conformance suite for backends. It tests any device.Backend, in process or over RPC. The
// checks of ops are derived from the ops' definitions (ir.Defs), so they include new ops without a change here.
//
// A backend's test calls Run, and its fuzz test calls Fuzz. The package imports only core packages.
package devicetest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/target"
)

// MaxIO is the most bytes that any program of the suite needs for its IO space. Some backends' sessions must reserve it
// in advance.
const MaxIO = 16 << 20

// Exception names checks that a backend does not pass. Name is the name of a check or of a group: an op ("gather"), one
// of its cases ("gather/3"), one kind of check of a case ("gather/3/weights") or of all cases ("gather/*/weights"), or
// a check that is not about an op ("run/cancel"). Failures print the full name of the check.
type Exception struct {
	Name   string
	Reason string
}

// Options lists the known exceptions of a backend.
type Options struct {
	// Unsupported lists the checks whose nodes the backend will never run. It must return device.ErrUnsupported for
	// them. Nodes that the backend's description excludes need no entry; the suite checks that the backend refuses
	// them.
	Unsupported []Exception
	// Failing lists the checks that the backend should pass but does not pass yet. If all checks of an entry pass, the
	// test fails, so that the entry is removed.
	Failing []Exception
	// MustHave makes a backend without a device (device.ErrUnavailable) fail the test instead of skipping it.
	MustHave bool
	// Share is the part of each op's checks that a sample takes, such as 0.05; 0 means an eighth. At least one check of
	// each kind and of each element type is taken. A backend whose checks are slow, because they compile shaders, sets
	// it.
	Share float64
	// Ops is the part of the ops, and of the programs of many ops, that a sample takes, such as 0.5; 0 means all.
	Ops float64
	// Compile, if not nil, compiles for the backend. Ops that the backend lacks for some element types are then
	// compiled, and compared with their definitions.
	Compile Compiler
}

// Run tests the backend that open returns. It calls open once; open registers its own cleanup. Run makes a sample of
// the checks of ops or all of them, depending on SampleEnv. With -short it chooses from fewer checks.
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
	s.compile = opts.Compile
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
	chosen.share, chosen.ops = opts.Share, opts.Ops
	s.chosen = chosen
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
	for _, sec := range s.sections(effort) {
		t.Run(sec.name, func(t *testing.T) {
			for _, c := range sec.checks() {
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
	if s.note() != "" {
		t.Log(s.note())
	}
	t.Logf("the slowest of %v", &clock)
}

// filtered reports whether the command line excludes subtests.
func filtered() bool {
	for _, name := range []string{"test.run", "test.skip"} {
		if f := flag.Lookup(name); f != nil && strings.Contains(f.Value.String(), "/") {
			return true
		}
	}
	return false
}

// stopwatch records how long checks take.
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

// String lists the ten slowest checks.
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

// clip shortens a long message, such as that of a panic.
func clip(s string) string {
	if most := 3000; len(s) > most {
		return s[:most] + " ..."
	}
	return s
}

// check is one thing that a backend must do. It returns an error instead of failing a test, because some checks are
// expected to fail.
type check struct {
	name string
	run  func() error
	tags []string // the kind and the element types, for sample.pick
}

// effort selects how many cases, shapes and values are tried.
type effort int

const (
	brief effort = iota
	full
)

// suite is a backend under test.
type suite struct {
	backend device.Backend
	info    device.Info
	compile Compiler // see Options.Compile
	chosen  sample

	mu      sync.Mutex
	recipes map[string]recipeOr // by kind

	askOnce  sync.Once
	flushes  []dtype.DType // see flushed
	flushErr error
}

func newSuite(b device.Backend, info device.Info) *suite { return &suite{backend: b, info: info} }

// checkInfo checks that the backend's description is complete, uses known names, and survives being printed and parsed.
func (s *suite) checkInfo() error {
	i := s.info
	switch {
	case len(i.Devices) == 0 && (i.Target == nil || len(i.Target.Rules) > 0):
		return fmt.Errorf("no devices; a backend without a device must return device.ErrUnavailable")
	case i.Target != nil && !i.Target.HasType(dtype.F32):
		return fmt.Errorf("element types are %v; f32 is required", i.Target.Types)
	}
	if err := i.Check(); err != nil {
		return fmt.Errorf("the backend %w", err)
	}
	text := i.Target.String()
	again, err := target.Parse(text)
	if err != nil || again.String() != text {
		return fmt.Errorf("the description changes when it is printed and parsed (%v):\n%s", err, text)
	}
	return nil
}
