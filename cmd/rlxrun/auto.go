package main

import (
	"cmp"
	"context"
	"errors"
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
	device rlx.Device // the device that the backend would use
	why    string     // why it cannot be used; empty if it can
	ms     float64    // measured time of a method on device, or 0

	session *rlx.Session // on device, if the backend had to be started to find it
}

// auto reports whether the flags leave the choice of the backend to us.
func (f *hostFlags) auto() bool {
	return f.device == "" && len(f.devices) == 0 && (f.backend == "" || f.backend == autoBackend)
}

// chooseAuto returns the backend for --backend auto. If the backend had to be started, it also returns a session with
// options o. The choice in words is empty if there was no choice. Sessions of other backends end in the background.
func (s *session) chooseAuto(ctx context.Context, reg *registry, o rlx.Options) (_ *candidate, about string,
	err error) {
	m, f := s.model, s.flags
	all := candidates(reg, m)
	switch len(all) {
	case 0:
		b, err := reg.find(defaultBackend)
		return &candidate{found: b}, "", err
	case 1:
		return all[0], "", nil
	}
	s.examine(ctx, reg, o, all)
	var best *candidate
	defer func() {
		for _, c := range all {
			if c.session != nil && (c != best || err != nil) {
				s.ending.Go(func() { c.session.Close() })
			}
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	rememberedSpeeds(m.Facts().Identity, all)
	best = slices.MinFunc(all, compareCandidates)
	if best.why != "" {
		return nil, "", diag.New(code.Device, m.Path(), "no backend of it can be used: %s", unusable(all)).
			WithHint("rlxrun doctor says more")
	}
	if f.strict && slices.ContainsFunc(all, func(c *candidate) bool { return c.why != "" }) {
		return nil, "", diag.New(code.Device, "--strict", "forbids replacing a backend that cannot be used: %s",
			unusable(all)).WithHint("choose one with --backend %s", best.Name)
	}
	return best, best.reason(all), nil
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

// examine finds the devices of the candidates. It starts a session with each of them except cpu, which has a device on
// every machine.
func (s *session) examine(ctx context.Context, reg *registry, o rlx.Options, all []*candidate) {
	defer s.trace.span("start backends")()
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
			host, err := s.model.NewSession(ctx, s.on(o, reg, c.Backend))
			switch {
			case errors.Is(err, device.ErrSoftware):
				c.why = "has only devices that the processor emulates"
				rememberLack(c.Path, c.why)
			case err != nil:
				c.why = err.Error()
			default:
				c.session, c.device = host, host.Device()
				c.why = suits(c, s.model)
			}
			return nil
		})
	}
	g.Wait()
}

// on returns options for a backend. Options that it lacks come from reg, which knows --plugin.
func (s *session) on(o rlx.Options, reg *registry, b rlx.Backend) rlx.Options {
	o.Backend, o.Fallbacks = b, []rlx.Backend{}
	for _, other := range reg.first() {
		if helps(s.model, b.Name, other.Name) {
			o.Fallbacks = append(o.Fallbacks, other.Backend)
		}
	}
	return o
}

// usable returns the first device of a backend that is not emulated. If all are emulated or absent, why is the reason.
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
func suits(c *candidate, m *rlx.Model) string {
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
			parts = append(parts, fmt.Sprintf("rlxrun bench measured %s ms, and %s ms on %s", cli.Digits(c.ms),
				cli.Digits(o.ms), o.Name))
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
