package devicetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/core/device"
)

// errRefused is the outcome of a check whose program the backend's description excludes, if Load refused the program as
// it should.
var errRefused = errors.New("not claimed")

// refusal is an errRefused with its reason.
type refusal struct{ why string }

func (r refusal) Error() string { return errRefused.Error() + ": " + r.why }
func (r refusal) Unwrap() error { return errRefused }

// ledger counts the outcomes of checks for each exception.
type ledger struct{ entries []*entry }

type entry struct {
	Exception
	unsupported  bool
	checks, fits int // checks that the entry covers, and how many of them ended as it expects
}

func newLedger(o Options) (*ledger, error) {
	l := &ledger{}
	seen := map[string]bool{}
	add := func(list []Exception, unsupported bool) error {
		for _, x := range list {
			if x.Name == "" || x.Reason == "" || seen[x.Name] {
				return fmt.Errorf("exception %+v needs a name and a reason, once", x)
			}
			seen[x.Name] = true
			l.entries = append(l.entries, &entry{Exception: x, unsupported: unsupported})
		}
		return nil
	}
	return l, errors.Join(add(o.Unsupported, true), add(o.Failing, false))
}

// covers reports whether the entry applies to the check of that name: the entry names the check, or a group that
// contains it.
func (e *entry) covers(name string) bool {
	want, have := strings.Split(e.Name, "/"), strings.Split(name, "/")
	if len(want) > len(have) {
		return false
	}
	for i, w := range want {
		if w != "*" && w != have[i] {
			return false
		}
	}
	return true
}

// judge records the outcome of a check. It returns err, or nil if an exception covers the check. An op that is listed
// as unsupported but works is an error.
func (l *ledger) judge(name string, err error) error {
	var e *entry // the most specific one
	for _, x := range l.entries {
		if x.covers(name) && (e == nil || len(x.Name) > len(e.Name)) {
			e = x
		}
	}
	refused := errors.Is(err, errRefused)
	switch {
	case e == nil && refused:
		return nil
	case e == nil:
		return err
	}
	e.checks++
	switch {
	case e.unsupported && (refused || errors.Is(err, device.ErrUnsupported)), !e.unsupported && err != nil:
		e.fits++
		return nil
	case e.unsupported && err == nil:
		return fmt.Errorf("works, but is listed as unsupported (%s)", e.Reason)
	}
	return err
}

// stale returns an error for each entry that is no longer needed. Call it after all checks.
func (l *ledger) stale() (errs []error) {
	for _, x := range l.entries {
		switch {
		case x.checks == 0:
			errs = append(errs, fmt.Errorf("exception %q names no check; remove it", x.Name))
		case x.checks > 0 && x.fits == 0 && !x.unsupported:
			errs = append(
				errs, fmt.Errorf("everything under %q passes now (it was failing: %s); remove the entry", x.Name,
					x.Reason))
		}
	}
	return errs
}
