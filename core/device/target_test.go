package device_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/program"
)

func TestTakes(t *testing.T) {
	for _, c := range []struct {
		backend, listed, target string
		want                    bool
	}{
		{"cpu", "cpu", "cpu", true},
		{"cpu", "cpu:x86-64-v3", "cpu:x86-64-v3", true},
		{"cpu", "cpu", "cpu:x86-64-v3", false},
		{"cpu", "cpu:x86-64-v3", "cpu", false},
		{"cpu", "cpu:x86-64-v3", "cpu:x86-64-v4", false},
		{"wgpu", "cpu", "cpu:x86-64-v4", true}, // what the processor must have is nothing to a GPU
		{"wgpu", "portable", "cpu:x86-64-v4", false},
		{"wgpu", "wgpu", "cpu", false},
	} {
		if got := (device.Info{Name: c.backend}).Takes(c.listed, c.target); got != c.want {
			t.Errorf("%s, which lists %s, takes %s: %v; want %v", c.backend, c.listed, c.target, got, c.want)
		}
	}
}

func TestCheckLevel(t *testing.T) {
	cpu := device.Info{Name: "cpu", Targets: []string{"cpu:x86-64-v3", "cpu", "portable"}, Devices: []device.Device{{Features: []string{"generic", "avx2"}}}}
	old := cpu
	old.Targets = []string{"cpu", "portable"}
	gpu := device.Info{Name: "wgpu", Targets: []string{"cpu", "portable"}}
	for _, c := range []struct {
		info    device.Info
		targets string
		want    string // in the error; empty: none
	}{
		{cpu, "portable", ""},
		{cpu, "portable cpu", ""},
		{cpu, "portable cpu:x86-64-v3", ""},
		{cpu, "portable cpu:x86-64-v3 cpu:x86-64-v4", ""},
		{cpu, "portable cpu cpu:x86-64-v4", ""},
		{cpu, "portable cpu:x86-64-v4", "needs cpu:x86-64-v4; the processor has cpu:x86-64-v3 (generic, avx2); compile it with rlxc --target cpu:x86-64-v3 or --target cpu,"},
		{cpu, "cpu:x86-64-v4 cpu:arm64", "needs cpu:x86-64-v4 or cpu:arm64"},
		{old, "portable cpu:x86-64-v3", "the processor has no such level (generic, avx2); compile it with rlxc --target cpu, or"},
		{gpu, "portable cpu:x86-64-v4", ""},
	} {
		var ps []*program.Program
		for _, target := range strings.Fields(c.targets) {
			ps = append(ps, &program.Program{Target: target})
		}
		err := c.info.CheckLevel(ps)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, device.ErrLevel) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s with %v, programs for %s: %v; want %q", c.info.Name, c.info.Targets, c.targets, err, c.want)
		}
	}
}
