//go:build linux && amd64

package shim

import (
	"errors"
	"os"
	"testing"

	"github.com/rlx-go/rlx/core/devicetest"
)

// TestFlush runs all checks of pow, or a sample, on a device that takes denormals for 0, as some GPUs do. The op has
// special cases for zeros and denormals.
func TestFlush(t *testing.T) {
	b := New(Options{Cache: dir, Level: "-O0", Flush: true})
	if _, err := b.NewState(t.Context(), "", 1); errors.Is(err, ErrNoCompiler) && os.Getenv("RLX_REQUIRE_CXX") == "" {
		t.Skip(err)
	}
	passed := 0
	config, least := devicetest.Config{All: true, Ops: []string{"pow"}}, 100
	if os.Getenv(devicetest.SampleEnv) != "all" {
		config.All, config.Seed, least = false, sampleSeed(t), 10
	}
	test(t, b, config, func(r devicetest.Result) {
		if r.Outcome == devicetest.Failed {
			t.Errorf("%s: %v", r.Check, r.Err)
		}
		passed++
	})
	if passed < least {
		t.Errorf("%d checks were made", passed)
	}
}
