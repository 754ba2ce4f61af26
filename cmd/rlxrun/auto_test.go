package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx"
)

func TestCompareCandidates(t *testing.T) {
	c := func(name, kind, why string, ms float64) *candidate {
		return &candidate{found: found{Backend: rlx.Backend{Name: name}}, device: rlx.Device{Type: kind}, why: why,
			ms: ms}
	}
	for _, x := range []struct {
		all  []*candidate
		want string
	}{
		{[]*candidate{c("cpu", "cpu", "", 0), c("wgpu", "gpu", "", 0)}, "wgpu"},
		{[]*candidate{c("cpu", "cpu", "", 5), c("wgpu", "gpu", "", 6)}, "cpu"},
		{[]*candidate{c("cpu", "cpu", "", 5), c("wgpu", "gpu", "", 0.5)}, "wgpu"},
		{[]*candidate{c("cpu", "cpu", "", 5), c("wgpu", "gpu", "", 0)}, "wgpu"},
		{[]*candidate{c("wgpu", "gpu", "lost", 1), c("cpu", "cpu", "", 5)}, "cpu"},
		{[]*candidate{c("mine", "cpu", "", 0), c("cpu", "cpu", "", 0)}, "cpu"},
		{[]*candidate{c("mine", "npu", "", 0), c("cpu", "cpu", "", 0)}, "mine"},
	} {
		if got := slices.MinFunc(x.all, compareCandidates).Name; got != x.want {
			t.Errorf("%v: %s; want %s", x.all, got, x.want)
		}
	}
}

// TestReason checks how the times of backends are printed.
func TestReason(t *testing.T) {
	c := func(name string, ms float64) *candidate {
		return &candidate{found: found{Backend: rlx.Backend{Name: name}}, ms: ms}
	}
	all := []*candidate{c("wgpu", 0.12345), c("cpu", 1297.4)}
	if got, want := all[0].reason(all), "rlxrun bench measured 0.1235 ms, and 1297 ms on cpu"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// TestRememberedSpeeds checks that only times of the same method on all backends are compared, and that those of
// another version of a backend are forgotten.
func TestRememberedSpeeds(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	var all []*candidate
	for _, name := range []string{"cpu", "wgpu", "lost"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name), 0o700); err != nil {
			t.Fatal(err)
		}
		all = append(all, &candidate{found: found{Backend: rlx.Backend{Name: name, Path: path}},
			device: rlx.Device{ID: "0"}})
	}
	all[2].why = "has no device"
	times := func() string {
		for _, c := range all {
			c.ms = 0
		}
		rememberedSpeeds("a", all)
		return fmt.Sprint(all[0].ms, all[1].ms, all[2].ms)
	}
	note := func(c *candidate, what string, ms float64) {
		rememberSpeed("a", speed{what, stampOf(c.Path), "0", ms})
	}
	want := func(s string) {
		t.Helper()
		if got := times(); got != s {
			t.Errorf("%s; want %s", got, s)
		}
	}
	want("0 0 0")
	note(all[0], "encode", 3)
	note(all[1], "decode", 4)
	want("0 0 0")
	note(all[1], "encode", 5)
	want("3 5 0")
	note(all[1], "encode", 6)
	want("3 6 0")
	note(all[0], "decode", 7)
	want("7 4 0")
	if err := os.WriteFile(all[0].Path, []byte("newer"), 0o700); err != nil {
		t.Fatal(err)
	}
	want("0 0 0")
}
