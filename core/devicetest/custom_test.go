package devicetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/device"
)

const wave = `op acme.wave
attr alpha = 0.5
case N=0
case N=33 alpha=2.0

graph expansion
sym N = 0..1024
x = input : f32[N]
a = const {value=$alpha} : f32[]
s = sin x : f32[N]
y = mul s, a : f32[N]
return y=y
`

// TestDefine checks that a backend which claims a custom op is tested on it: the op alone is enough for the checks of
// runs, a backend that computes it wrongly fails, and an op without a definition is reported.
func TestDefine(t *testing.T) {
	backend := fake{only: `run custom(f32) if name = "acme.wave"|"acme.other"`}
	check := func(f fake, ops ...string) (passed int, skipped, failed []string) {
		c := Config{Ops: ops, Brief: true, All: ops != nil}
		open := func(context.Context) (device.Backend, error) { return f, nil }
		err := Test(t.Context(), c, open, func(r Result) {
			switch {
			case r.Part == Ops && r.Section != "acme.wave":
			case r.Outcome == Passed:
				passed++
			case r.Outcome == Skipped:
				skipped = append(skipped, r.Check+": "+r.Err.Error())
			case r.Outcome == Failed:
				failed = append(failed, r.Check+": "+r.Err.Error())
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return passed, skipped, failed
	}
	if err := CheckOps([]string{"acme.wave"}); err == nil {
		t.Error("acme.wave is known before it is defined")
	}
	_, skipped, _ := check(backend)
	want := "acme.wave: no definition of the op is given (--define FILE)"
	if !slices.Contains(skipped, want) {
		t.Errorf("skipped are %q; want %q", skipped, want)
	}
	var l custom.Library
	if err := errors.Join(l.Parse("wave", wave), Define(&l)); err != nil {
		t.Fatal(err)
	}
	defer func() { defined = nil }()
	passed, skipped, failed := check(backend)
	if passed < 4 || len(failed) > 0 || slices.Contains(skipped, want) ||
		!slices.Contains(skipped, strings.Replace(want, "wave", "other", 1)) {
		t.Errorf("%d passed, skipped are %q, failed %q", passed, skipped, failed)
	}
	if spec, why := Claimed(suiteOf(t, backend).info); spec == nil {
		t.Errorf("no program of the op: %s", why)
	}
	backend.fault = "last element"
	_, _, failed = check(backend, "acme.wave")
	if len(failed) == 0 || !strings.HasPrefix(failed[0], "acme.wave/1/inputs: ") {
		t.Errorf("a wrong kernel: failed are %q", failed)
	}
}
