package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// Backend is a device.Backend for the adapters of an API. Its methods may be called concurrently.
type Backend struct {
	api API

	mu       sync.Mutex
	adapters []Adapter
	opened   map[string]*gpu // by device ID
}

// New returns a backend. It calls api.Adapters when the adapters are first needed.
func New(api API) *Backend { return &Backend{api: api, opened: map[string]*gpu{}} }

// find lists the adapters if that has not succeeded yet. The caller holds mu.
func (b *Backend) find() (err error) {
	if b.adapters == nil {
		defer Phase("list devices")()
		b.adapters, err = b.api.Adapters()
	}
	return err
}

// infos returns the descriptions of the adapters.
func (b *Backend) infos() (out []device.Device) {
	for i, a := range b.adapters {
		d := a.Info()
		d.ID = fmt.Sprint(i)
		out = append(out, d)
	}
	return out
}

// Info describes the adapters.
func (b *Backend) Info(context.Context) (device.Info, error) {
	return guard(b.api, func() (device.Info, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if err := b.find(); err != nil {
			return device.Info{}, err
		}
		to := b.description()
		precisions := b.adapters[0].Limits().Precisions
		var bounds []int
		for _, a := range b.adapters {
			l := a.Limits()
			bounds = append(bounds, kernels.RowBounds(l.Kernels)...)
			precisions = slices.DeleteFunc(slices.Clone(precisions),
				func(p string) bool { return !slices.Contains(l.Precisions, p) })
		}
		slices.Sort(bounds)
		bounds = slices.Compact(bounds)
		if len(precisions) > 0 {
			precisions = append([]string{device.DefaultPrecision}, precisions...)
		}
		return device.Info{Name: to.Name, Version: kernels.Version, Devices: b.infos(), Target: to,
			Precisions: precisions, SetsWeights: true,
			RowBounds: &device.RowBounds{Products: bounds, Queries: bounds}}, nil
	})
}

// description describes the nodes that Load takes on every adapter. The caller holds mu and has called find.
func (b *Backend) description() *target.Description {
	to := *kernels.Description()
	to.Name = b.api.Name()
	for _, a := range b.adapters {
		to.MaxOperands = min(to.MaxOperands, a.Limits().Bindings-2) // the result and the parameters take two
	}
	return &to
}

// refuse returns an error for a program that the description does not take. It checks all nodes, not only steps: a view
// is not a step, but its value may have an element type that the backend lacks.
func (b *Backend) refuse(p *program.Program) error {
	b.mu.Lock()
	to := b.description()
	b.mu.Unlock()
	if why := to.Lacks(p.Graph); why != "" {
		return diag.New(device.ErrUnsupported, p.Method, "the %s backend cannot run it: %s", b.api.Name(), why)
	}
	return nil
}

// Prepare lists the adapters and opens the first one in advance, because drivers take a while to open a device. It
// ignores errors: Load tries again and returns them.
func (b *Backend) Prepare() {
	_, _ = guard(b.api, func() (*gpu, error) { return b.open("") })
}

// choose returns the adapter with an ID. An empty ID selects the first adapter, which is a GPU if there is one. The
// caller holds mu.
func (b *Backend) choose(id string) (Adapter, device.Device, error) {
	if err := b.find(); err != nil {
		return nil, device.Device{}, err
	}
	var known []string
	for i, d := range b.infos() {
		if id == "" || d.ID == id {
			return b.adapters[i], d, nil
		}
		known = append(known, fmt.Sprintf("%s (%s, %s)", d.ID, d.Name, d.Type))
	}
	return nil, device.Device{},
		diag.New(device.ErrUnavailable, b.api.Name(), "no device %q; there are %s", id, strings.Join(known, ", "))
}

// open returns the open device with an ID, and opens it first if necessary. All executables on an adapter share its
// device.
func (b *Backend) open(id string) (*gpu, error) {
	g, err := b.begin(id)
	if err != nil {
		return nil, err
	}
	return g, g.ready()
}

// begin is like open, but does not wait until the device is open. The caller may use its limits at once, and must call
// ready before it uses dev.
func (b *Backend) begin(id string) (*gpu, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, info, err := b.choose(id)
	if err != nil {
		return nil, err
	}
	if g := b.opened[info.ID]; g != nil && !g.useless() {
		return g, nil
	}
	g := &gpu{api: b.api, name: info.Name, adapter: a, limits: a.Limits(), opened: make(chan struct{}),
		pipelines: map[string]Pipeline{}}
	b.opened[info.ID] = g
	go g.request()
	return g, nil
}

// gpu is an open device, or one that is being opened.
type gpu struct {
	mu      sync.Mutex // held by each load, run and other use of dev
	api     API
	name    string
	adapter Adapter
	limits  Limits
	opened  chan struct{} // closed once dev and err are set
	err     error
	dev     Device

	tickLength float64             // length of a tick of the device's clocks in nanoseconds; 0 until it is measured
	pipelines  map[string]Pipeline // by WGSL text
	polled     func()              // the current run's callback after each poll; may be nil

	lostMu sync.Mutex
	lost   error // why the device was lost; nil if it was not
}

// request opens the device.
func (g *gpu) request() {
	defer close(g.opened)
	defer Phase("open device")()
	g.dev, g.err = g.adapter.Open()
}

// ready waits until the device is open.
func (g *gpu) ready() error {
	<-g.opened
	return g.err
}

// useless reports whether the device could not be opened, or is lost.
func (g *gpu) useless() bool {
	select {
	case <-g.opened:
		return g.err != nil || g.lostError() != nil
	default:
		return false
	}
}

// seen returns err, and stores it in lost if the device was lost. It checks for nil first, because errors.Is allocates
// and each poll calls seen.
func (g *gpu) seen(err error) error {
	if err != nil && errors.Is(err, device.ErrDeviceLost) {
		g.lostMu.Lock()
		defer g.lostMu.Unlock()
		g.lost = err
	}
	return err
}

// lostError returns why the device was lost, or nil if it was not.
func (g *gpu) lostError() error {
	g.lostMu.Lock()
	defer g.lostMu.Unlock()
	return g.lost
}

// fold divides n workgroups into two dimensions, each within the limits of the device.
func (g *gpu) fold(n int) (x, y uint32, err error) {
	most := g.limits.Groups
	if n <= most {
		return uint32(n), 1, nil
	}
	rows := (n + most - 1) / most
	if rows > most {
		return 0, 0, fmt.Errorf("%d workgroups; the device allows at most %d", n, most*most)
	}
	return uint32((n + rows - 1) / rows), uint32(rows), nil
}

// checkLoops returns an error if a shader's loops have more iterations than the device allows. The device would end
// them silently.
func (g *gpu) checkLoops(s kernels.Shader, c *kernels.Call) error {
	if s.Loops == nil || g.limits.Loops == 0 {
		return nil
	}
	if n := s.Loops(c); n > g.limits.Loops {
		return fmt.Errorf(
			"loops with %d iterations in an invocation; %s ends them after %d, and the result would be wrong", n,
			g.name, g.limits.Loops)
	}
	return nil
}
