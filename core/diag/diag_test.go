package diag_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
)

var sample = diag.Define("RLX3990", "sample", "A code of this test.")

func TestError(t *testing.T) {
	e := diag.New(sample, "model.rlx", "cannot be read: %w", io.ErrUnexpectedEOF).WithHint("copy it again")
	wrapped := fmt.Errorf("open: %w", e)
	if got, want := e.Error(), "model.rlx: cannot be read: unexpected EOF; copy it again"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !errors.Is(wrapped, sample) || !errors.Is(wrapped, io.ErrUnexpectedEOF) || errors.Is(wrapped, diag.Usage) {
		t.Error("errors.Is does not see the code, or the cause, or sees another code")
	}
	if !errors.Is(wrapped, diag.Class(3)) || errors.Is(wrapped, diag.Class(4)) {
		t.Error("errors.Is does not see the class, or sees another")
	}
	if c, ok := diag.CodeOf(wrapped); !ok || c != sample {
		t.Errorf("code %v %v", c, ok)
	}
	if e, ok := diag.Lookup(sample); !ok || e.Title != "sample" {
		t.Errorf("entry %+v %v", e, ok)
	}
}

func TestExit(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0}, {diag.New("RLX1002", "", "x"), 1}, {diag.New(diag.Usage, "", "x"), 2}, {diag.New(sample, "", "x"), 3},
		{diag.New("RLX4033", "", "x"), 4}, {diag.New("RLX8001", "", "x"), 8}, {diag.New(diag.Internal, "", "x"), 70},
		{errors.New("no code"), 70}, {fmt.Errorf("a: %w", diag.New("RLX5001", "", "x")), 5}, {diag.Timeout, 124},
		{diag.Code("RLX7001"), 7}, {diag.Code("RLX"), 70},
	} {
		if got := diag.ExitCode(c.err); got != c.want {
			t.Errorf("%v: exit %d, want %d", c.err, got, c.want)
		}
	}
}

func TestDefineTwicePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a code was defined twice")
		}
	}()
	diag.Define(sample, "again", "")
}

func TestRename(t *testing.T) {
	e := diag.New(sample, "method f", "needs more than Options.Memory allows").WithHint("set Options.Memory").Naming(
		"Options.Memory", "method f")
	copied := *e
	for range 2 { // the second call has nothing to do
		copied.Rename(func(o string) string {
			switch o {
			case "Options.Memory":
				return "--memory"
			case "method f":
				return "--method f"
			}
			return o
		})
	}
	if got, want := copied.Error(), "--method f: needs more than --memory allows; set --memory"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	if got, want := e.Error(), "method f: needs more than Options.Memory allows; set Options.Memory"; got != want ||
		e.Options[0] != "Options.Memory" {
		t.Errorf("the original became %q, %q; want %q", got, e.Options, want)
	}
}
