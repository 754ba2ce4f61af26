package backend

import (
	"errors"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// TestLevels checks that RLX_CPU_FEATURES hides levels, and that Load refuses a program for a hidden level.
func TestLevels(t *testing.T) {
	g, err := ir.Parse("graph f\nx = input : f32[4]\ny = neg x : f32[4]\nreturn y=y\n")
	if err != nil {
		t.Fatal(err)
	}
	load := func(target string) error {
		p, _, err := sched.Build(g, sched.Options{Target: target})
		if err != nil {
			t.Fatal(err)
		}
		x, err := Backend{}.Load(t.Context(), device.Load{Program: p, Threads: 1})
		if err == nil {
			x.Close()
		}
		return err
	}
	for _, set := range isa.Features() {
		t.Setenv(isa.FeaturesEnv, set)
		info, err := Backend{}.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if f := info.Devices[0].Features; f[len(f)-2] != set {
			t.Errorf("RLX_CPU_FEATURES=%s: features %v; want that set just before the threads", set, f)
		}
		for _, l := range levels {
			has := slices.Contains(info.Levels, l.level)
			if set == "generic" && has && l.features != "" || set == l.features && !has {
				t.Errorf("%s: levels %v", set, info.Levels)
			}
			if err := load("cpu:" + l.level); has != (err == nil) || err != nil && !errors.Is(err, device.ErrLevel) {
				t.Errorf("%s: program for %s: %v; levels are %v", set, l.level, err, info.Levels)
			}
		}
		if err := load("cpu"); err != nil {
			t.Errorf("%s: %v", set, err)
		}
	}
	t.Setenv(isa.FeaturesEnv, "mmx") // no such set: features ignores it
	if got, want := features(), isa.Features(); !slices.Equal(got, want) {
		t.Errorf("features %v; want %v", got, want)
	}
}
