// Package devicetest is the conformance suite of backends: what any device.Backend must do, in process or over RPC. The
// checks of ops are derived from their definitions (ir.Defs), so a new op is covered without a change here.
//
// It imports core only, never a plugin: a backend's test calls Run, and Fuzz from a fuzz test.
package devicetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
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

// Options say what is known about a backend.
type Options struct {
	// Unsupported will never work: the backend must answer device.ErrUnsupported. Fused ops that Info does not list, and
	// element types that it does not list, need no entry: they must be refused, and are checked to be.
	Unsupported []Exception
	// Failing should work and does not yet. An entry under which everything passes fails the test, so that it goes away.
	Failing []Exception
	// MustHave makes a backend without a device (device.ErrUnavailable) fail the test instead of skipping it.
	MustHave bool
}

// Run checks the backend that open gives. It is opened once; open registers its own cleanup. With -short only some of the
// cases, shapes and values are tried.
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
	run := func(t *testing.T, c check) {
		if err := l.judge(c.name, c.run()); err != nil {
			t.Errorf("%s: %s", c.name, clip(err.Error()))
		}
	}
	t.Run("info", func(t *testing.T) { run(t, check{"info", s.checkInfo}) })
	t.Run("run", func(t *testing.T) {
		for _, c := range s.runChecks() {
			t.Run(strings.TrimPrefix(c.name, "run/"), func(t *testing.T) { run(t, c) })
		}
	})
	t.Run("graph", func(t *testing.T) {
		for _, c := range s.graphChecks(effort) {
			t.Run(strings.TrimPrefix(c.name, "graph/"), func(t *testing.T) { run(t, c) })
		}
	})
	for _, def := range ir.Defs() {
		if !runnable(def) {
			continue
		}
		t.Run(def.Name, func(t *testing.T) {
			for _, c := range s.opChecks(def, effort) {
				run(t, c)
			}
		})
	}
	if f := flag.Lookup("test.run"); f == nil || f.Value.String() == "" { // all checks were made
		for _, err := range l.stale(effort) {
			t.Error(err)
		}
	}
}

// clip shortens what a panic or many values made long.
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
}

// effort is how much is tried.
type effort int

const (
	brief effort = iota
	full
)

// suite is a backend under test.
type suite struct {
	b     device.Backend
	info  device.Info
	ops   map[string]bool
	types map[string]bool
}

func newSuite(b device.Backend, info device.Info) *suite {
	s := &suite{b: b, info: info, ops: map[string]bool{}, types: map[string]bool{}}
	for _, name := range info.Ops {
		s.ops[name] = true
	}
	for _, name := range info.DTypes {
		s.types[name] = true
	}
	return s
}

// checkInfo: the description is complete, and its names are ones that programs use.
func (s *suite) checkInfo() error {
	i := s.info
	switch {
	case i.Name == "" || i.Version == "" || len(i.Targets) == 0:
		return fmt.Errorf("name is %q, version %q, targets %q; none may be empty", i.Name, i.Version, i.Targets)
	case len(i.Devices) == 0:
		return fmt.Errorf("no devices; a backend without any answers device.ErrUnavailable")
	case i.MaxAlloc < 0:
		return fmt.Errorf("largest arena is %d bytes", i.MaxAlloc)
	case !s.types[dtype.F32.String()]:
		return fmt.Errorf("element types are %q; f32 is the least", i.DTypes)
	}
	for _, name := range i.DTypes {
		if _, ok := dtype.Parse(name); !ok {
			return fmt.Errorf("element type %q does not exist", name)
		}
	}
	for _, name := range i.Ops {
		if d, ok := ir.Find(name); !ok || d.Level == ir.Block {
			return fmt.Errorf("op %q does not exist, or is a block", name)
		}
	}
	var ids []string
	for _, d := range i.Devices {
		if d.ID == "" || slices.Contains(ids, d.ID) || d.Name == "" || d.Type == "" || d.Memory < 0 {
			return fmt.Errorf("device %+v lacks a unique ID, a name or a type", d)
		}
		ids = append(ids, d.ID)
	}
	for _, list := range [][]string{i.Ops, i.DTypes, i.Targets} {
		if c := slices.Compact(slices.Sorted(slices.Values(list))); len(c) != len(list) {
			return fmt.Errorf("a name is listed twice in %q", list)
		}
	}
	return nil
}
