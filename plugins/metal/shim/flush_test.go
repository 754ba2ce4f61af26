//go:build linux && amd64

package shim

import (
	"errors"
	"os"
	"testing"

	"github.com/rlx-go/rlx/core/devicetest"
)

// TestFlush runs all checks of pow, which has special cases for zeros and denormals, on a device that takes denormals
// for 0, as some GPUs do.
func TestFlush(t *testing.T) {
	b := New(Options{Cache: dir, Level: "-O0", Flush: true})
	if _, err := b.NewState(t.Context(), "", 1); errors.Is(err, ErrNoCompiler) && os.Getenv("RLX_REQUIRE_CXX") == "" {
		t.Skip(err)
	}
	passed := 0
	test(t, b, devicetest.Config{All: true, Ops: []string{"pow"}}, func(r devicetest.Result) {
		if r.Outcome == devicetest.Failed {
			t.Errorf("%s: %v", r.Check, r.Err)
		}
		passed++
	})
	if passed < 100 {
		t.Errorf("%d checks were made", passed)
	}
}
