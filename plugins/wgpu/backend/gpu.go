//go:build cgo && (darwin || amd64)

package backend

import (
	"fmt"
	"math"
	"sync"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// gpu is an opened device. Its mutex serialises the programs that use it.
type gpu struct {
	mu      sync.Mutex
	name    string
	adapter adapter
	opts    Options
	opened  chan struct{} // closed once device, queue and err are set
	err     error
	device  *wgpu.Device
	queue   *wgpu.Queue
	limits  kernels.Limits

	// calls is held around calls of the library while a program is loaded, which uploads and compiles at the same time: the
	// library's error scopes belong to the device, not to the caller.
	calls sync.Mutex

	maxBinding, maxBuffer int64
	maxGroups             int
	maxBindings           int          // of a shader
	free                  func() int64 // free bytes of memory, 0 if unknown
	timestamps            bool         // the device has a clock that programs can read
	tickLength            float64      // of that clock, in nanoseconds, 0 if not measured yet

	pipelines map[string]*pipeline // by WGSL text
	uploader  uploader
	polled    func() // called by a run after each poll; may be nil

	lostMu sync.Mutex
	lost   string // the reason, once the device is lost
}

// newGPU is a device that is not open yet. Its limits are known already.
func newGPU(a adapter, opts Options) *gpu {
	g := &gpu{name: a.info.Name, adapter: a, opts: opts, opened: make(chan struct{}), pipelines: map[string]*pipeline{}, free: a.free}
	g.uploader.g = g
	if opts.Memory > 0 {
		g.free = func() int64 { return opts.Memory }
	}
	l := a.limits
	g.timestamps = a.HasFeature(wgpu.FeatureName_TimestampQuery) && !opts.NoTimestamps
	g.maxBinding = int64(min(l.MaxStorageBufferBindingSize, math.MaxInt32)) &^ 255
	g.maxBuffer = int64(min(l.MaxBufferSize, largestBuffer)) &^ 255
	g.maxGroups = int(l.MaxComputeWorkgroupsPerDimension)
	g.maxBindings = int(l.MaxStorageBuffersPerShaderStage)
	for _, o := range []struct {
		limit *int64
		to    int64
	}{{&g.maxBinding, opts.MaxBinding}, {&g.maxBuffer, opts.MaxBuffer}} {
		if o.to > 0 {
			*o.limit = min(*o.limit, o.to&^255)
		}
	}
	if opts.MaxGroups > 0 {
		g.maxGroups = min(g.maxGroups, opts.MaxGroups)
	}
	g.limits = kernels.Limits{WorkgroupStorage: int(l.MaxComputeWorkgroupStorageSize)}
	if a.info.Type == typeSoftware {
		// A software adapter takes seconds to compile unrolled loops, and the result is no faster.
		g.limits.AttentionTile = &kernels.AttentionTiles[len(kernels.AttentionTiles)-1]
	}
	return g
}

// largestBuffer is the most bytes of a buffer: NVIDIA's driver allocates no more at once, whatever limit it reports. More than that takes several
// buffers.
const largestBuffer = 4<<30 - 2<<20

// request opens a device with all limits of the adapter.
func (a adapter) request(timestamps bool) (*wgpu.Device, error) {
	l := a.limits
	l.MaxBufferSize = min(l.MaxBufferSize, largestBuffer)
	desc := &wgpu.DeviceDescriptor{Label: "rlx", RequiredLimits: &wgpu.RequiredLimits{Limits: l}}
	if timestamps {
		desc.RequiredFeatures = append(desc.RequiredFeatures, wgpu.FeatureName_TimestampQuery)
	}
	d, err := a.RequestDevice(desc)
	if err != nil {
		return nil, diag.New(device.ErrUnavailable, "wgpu", "%s cannot be opened: %w", a.info.Name, err)
	}
	return d, nil
}

// request opens the device.
func (g *gpu) request() {
	defer close(g.opened)
	if g.device, g.err = g.adapter.request(g.timestamps); g.err == nil {
		g.queue = g.device.GetQueue()
	}
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
		return g.err != nil || g.isLost()
	default:
		return false
	}
}

func (g *gpu) isLost() bool {
	g.lostMu.Lock()
	defer g.lostMu.Unlock()
	return g.lost != ""
}

// lose records that the device is lost.
func (g *gpu) lose(why string) error {
	g.lostMu.Lock()
	g.lost = why
	g.lostMu.Unlock()
	return g.lostError()
}

func (g *gpu) lostError() error {
	g.lostMu.Lock()
	defer g.lostMu.Unlock()
	return diag.New(device.ErrDeviceLost, "wgpu", "%s was lost: %s", g.name, g.lost)
}

// fold divides n workgroups into two dimensions.
func (g *gpu) fold(n int) (x, y uint32, err error) {
	if n <= g.maxGroups {
		return uint32(n), 1, nil
	}
	rows := (n + g.maxGroups - 1) / g.maxGroups
	if rows > g.maxGroups {
		return 0, 0, fmt.Errorf("%d workgroups; the device starts %d at most", n, g.maxGroups*g.maxGroups)
	}
	return uint32((n + rows - 1) / rows), uint32(rows), nil
}
