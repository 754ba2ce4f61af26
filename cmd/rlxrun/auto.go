package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
)

// autoBackend, as a value of --backend, is the fastest backend of the artifact that has a device on this machine.
const autoBackend = "auto"

// A candidate is a backend that has programs for all methods of an artifact.
type candidate struct {
	found
	device rlx.Device // the one that it would use
	why    string     // why it cannot be used; empty if it can
	ms     float64    // measured time of a method on device; 0 if none is remembered
}

// auto reports whether the flags leave the choice of the backend to us.
func (f *hostFlags) auto() bool {
	return f.device == "" && (f.backend == "" || f.backend == autoBackend)
}

// chooseAuto returns the backend for --backend auto, its device, and the choice in words, empty if there was none.
func (f *hostFlags) chooseAuto(ctx context.Context, env *cli.Env, reg *registry, m *rlx.Model) (
	b found, device, about string, err error) {
	all := candidates(reg, m)
	switch len(all) {
	case 0:
		b, err = reg.find(defaultBackend)
		return b, "", "", err
	case 1:
		return all[0].found, "", "", nil
	}
	f.examine(ctx, env, m, all)
	if err := ctx.Err(); err != nil {
		return found{}, "", "", err
	}
	rememberedSpeeds(m.Facts().Identity, all)
	best := slices.MinFunc(all, compareCandidates)
	if best.why != "" {
		return found{}, "", "", diag.New(code.Device, m.Path(), "no backend of it can be used: %s", unusable(all)).
			WithHint("rlxrun doctor says more")
	}
	if f.strict && slices.ContainsFunc(all, func(c *candidate) bool { return c.why != "" }) {
		return found{}, "", "", diag.New(code.Device, "--strict", "allows no other backend in place of one: %s",
			unusable(all)).WithHint("choose one with --backend %s", best.Name)
	}
	return best.found, best.device.ID, best.reason(all), nil
}

// candidates returns the backends that can run all methods of an artifact.
func candidates(reg *registry, m *rlx.Model) (out []*candidate) {
	for _, b := range reg.first() {
		lacks := func(x *rlx.Method) bool {
			return !slices.ContainsFunc(x.Schedules, func(s *rlx.Schedule) bool {
				return device.BackendOf(s.Target) == b.Name
			})
		}
		if !slices.ContainsFunc(m.Methods(), lacks) {
			out = append(out, &candidate{found: b})
		}
	}
	return out
}

// examine finds the devices of the candidates. It starts all backends but cpu, which has a device on every machine.
func (f *hostFlags) examine(ctx context.Context, env *cli.Env, m *rlx.Model, all []*candidate) {
	precision, err := m.Precision(f.precision)
	if err != nil {
		return // openSession reports it
	}
	var g errgroup.Group
	for _, c := range all {
		if c.Name == defaultBackend {
			c.device = rlx.Device{Type: "cpu"}
			continue
		}
		if c.why = rememberedLack(c.Path); c.why != "" {
			continue
		}
		g.Go(func() error {
			info, err := c.Describe(ctx, f.describing(env))
			if err != nil {
				c.why = err.Error()
				return nil
			}
			if c.device, c.why = usable(info); c.why != "" {
				rememberLack(c.Path, c.why)
				return nil
			}
			c.why = suits(c, info, m, precision)
			return nil
		})
	}
	g.Wait()
}

// usable returns the first device of a backend that is not emulated, or why there is none.
func usable(info rlx.BackendInfo) (d rlx.Device, why string) {
	for _, d := range info.Devices {
		if d.Type != rlx.SoftwareDevice {
			return d, ""
		}
	}
	if len(info.Devices) == 0 {
		return rlx.Device{}, "has no device"
	}
	return rlx.Device{}, "has only " + info.Devices[0].Name + ", which the processor emulates"
}

// suits returns why an artifact does not fit a device, or "".
func suits(c *candidate, info rlx.BackendInfo, m *rlx.Model, precision string) string {
	if precision != device.DefaultPrecision && !slices.Contains(info.Precisions, precision) {
		return "does not have the precision " + precision
	}
	need := m.Facts().Weights
	for _, x := range m.Methods() {
		for _, s := range x.Schedules {
			if device.BackendOf(s.Target) == c.Name {
				need = max(need, m.Facts().Weights+s.Arena+s.IO)
			}
		}
	}
	if have := c.device.Memory; have > 0 && need > have {
		return fmt.Sprintf("needs %s of device memory and has %s", cli.Size(need), cli.Size(have))
	}
	return ""
}

// compareCandidates orders candidates: those that can be used first, then by measured times if both have one, and
// otherwise by the kind of device.
func compareCandidates(a, b *candidate) int {
	rank := func(c *candidate) int {
		switch {
		case c.why != "":
			return 3
		case c.device.Type == "gpu" || c.device.Type == "npu":
			return 0
		case c.Name == defaultBackend:
			return 1
		}
		return 2
	}
	if a.why == "" && b.why == "" && a.ms > 0 && b.ms > 0 {
		return cmp.Compare(a.ms, b.ms)
	}
	return rank(a) - rank(b)
}

// reason says in words why c was chosen.
func (c *candidate) reason(all []*candidate) string {
	var parts []string
	for _, o := range all {
		switch {
		case o == c:
		case o.why != "":
			parts = append(parts, o.Name+" "+o.why)
		case o.ms > 0 && c.ms > 0:
			parts = append(parts, fmt.Sprintf("rlxrun bench measured %.3g ms, and %.3g ms on %s", c.ms, o.ms, o.Name))
		default:
			parts = append(parts, o.Name+" was not compared: rlxrun bench measures and remembers")
		}
	}
	return strings.Join(parts, "; ")
}

func unusable(all []*candidate) string {
	var parts []string
	for _, c := range all {
		if c.why != "" {
			parts = append(parts, c.Name+" "+c.why)
		}
	}
	return strings.Join(parts, "; ")
}
