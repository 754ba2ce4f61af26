package device_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
)

func parse(t *testing.T, text string) *target.Description {
	t.Helper()
	d, err := target.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// programs returns a program for each target in a list such as "cpu=exp gpu". Each applies the given op to one f32
// operand.
func programs(t *testing.T, targets string) (ps []*program.Program) {
	t.Helper()
	for _, f := range strings.Fields(targets) {
		name, op, ok := strings.Cut(f, "=")
		if !ok {
			op = "neg"
		}
		g, err := ir.Parse("x = input : f32[4]\nlayer.y = " + op + " x : f32[4]\nreturn y=layer.y")
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, &program.Program{Method: "encode", Target: name, Graph: g})
	}
	return ps
}

func TestChoose(t *testing.T) {
	cpu := device.Info{Name: "cpu", Levels: []string{"v4", "v3"},
		Target: parse(t, "target cpu 1\ntypes f32\nrun neg(f32)\nreference exp(f32)")}
	npu := device.Info{Name: "npu", Target: parse(t, "target npu 1\ntypes f32\nrun neg(f32)")}
	for _, c := range []struct {
		info         device.Info
		have, choice string
	}{
		{cpu, "cpu", "cpu"},
		{cpu, "gpu cpu", "cpu"},
		{cpu, "cpu cpu:v3", "cpu:v3"},
		{cpu, "cpu:v3 cpu:v4", "cpu:v4"},
		{cpu, "cpu:v5 cpu", "cpu"},
		{cpu, "cpu=gelu gpu=neg", "gpu"}, // a backend that is older than the target description of the artifact
		{cpu, "cpu=exp", "cpu"},
		{npu, "cpu gpu", "cpu"},
		{npu, "cpu:v4", "cpu:v4"}, // other backends ignore the level
		{npu, "cpu=exp gpu", "gpu"},
		{npu, "cpu=exp npu=gelu",
			"error: npu: layer.y: npu has no rule for gelu; for cpu: layer.y: npu has no rule for exp"},
		{cpu, "cpu:v5 gpu", "error: needs cpu:v5"},
	} {
		p, err := c.info.Choose(programs(t, c.have))
		want, fails := strings.CutPrefix(c.choice, "error: ")
		if fails != (err != nil) || fails && !strings.Contains(err.Error(), want) || !fails && p.Target != want {
			t.Errorf("%s of %s: %v, %v; want %s", c.info.Name, c.have, p, err, c.choice)
		}
		if fails && !errors.Is(err, device.ErrUnsupported) && !errors.Is(err, device.ErrLevel) {
			t.Errorf("%s of %s: %v has another code", c.info.Name, c.have, err)
		}
	}
}

func TestCheckLevel(t *testing.T) {
	cpu := device.Info{Name: "cpu", Levels: []string{"x86-64-v3"},
		Devices: []device.Device{{Features: []string{"generic", "avx2"}}}}
	old := cpu
	old.Levels = nil
	gpu := device.Info{Name: "wgpu"}
	for _, c := range []struct {
		info    device.Info
		targets string
		want    string // part of the error; empty if no error is expected
	}{
		{cpu, "portable", ""},
		{cpu, "portable cpu", ""},
		{cpu, "portable cpu:x86-64-v3", ""},
		{cpu, "portable cpu:x86-64-v3 cpu:x86-64-v4", ""},
		{cpu, "portable cpu cpu:x86-64-v4", ""},
		{cpu, "portable cpu:x86-64-v4",
			"needs cpu:x86-64-v4; the processor has cpu:x86-64-v3 (generic, avx2); compile it with rlxc --target cpu:x86-64-v3 or --target cpu,"},
		{cpu, "cpu:x86-64-v4 cpu:arm64", "needs cpu:x86-64-v4 or cpu:arm64"},
		{old, "portable cpu:x86-64-v3",
			"the processor has no such level (generic, avx2); compile it with rlxc --target cpu, or"},
		{gpu, "portable cpu:x86-64-v4", ""},
	} {
		err := c.info.CheckLevel(programs(t, c.targets))
		if c.want == "" && err != nil || c.want != "" &&
			(!errors.Is(err, device.ErrLevel) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s with %v, programs for %s: %v; want %q", c.info.Name, c.info.Levels, c.targets, err, c.want)
		}
	}
}
