//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// Backend gives access to the adapters of this machine.
type Backend struct {
	opts Options

	mu       sync.Mutex
	instance *wgpu.Instance
	adapters []adapter
	opened   map[string]*gpu // by adapter ID
}

// adapter is a WebGPU adapter and what is shown of it.
type adapter struct {
	*wgpu.Adapter
	info   device.Device
	limits wgpu.Limits
	free   func() int64 // bytes of its memory that are free; 0: not known
}

// New makes the backend. Adapters are looked for when they are first needed.
func New(opts Options) *Backend { return &Backend{opts: opts, opened: map[string]*gpu{}} }

// Types of device.Device.Type.
const (
	typeGPU      = "gpu"
	typeSoftware = "software"
)

var apiNames = map[wgpu.BackendType]string{
	wgpu.BackendType_Vulkan: "vulkan", wgpu.BackendType_Metal: "metal", wgpu.BackendType_D3D12: "dx12",
}

// apis reads WGPU_BACKEND, a list of vulkan, metal and dx12; empty: all.
func apis() wgpu.InstanceBackend {
	var set wgpu.InstanceBackend
	for _, name := range strings.Split(strings.ToLower(os.Getenv("WGPU_BACKEND")), ",") {
		set |= map[string]wgpu.InstanceBackend{
			"vulkan": wgpu.InstanceBackend_Vulkan, "metal": wgpu.InstanceBackend_Metal, "dx12": wgpu.InstanceBackend_DX12,
		}[strings.TrimSpace(name)]
	}
	if set == 0 {
		set = wgpu.InstanceBackend_Vulkan | wgpu.InstanceBackend_Metal | wgpu.InstanceBackend_DX12
	}
	return set
}

// find lists the adapters once: GPUs first, discrete ones before integrated ones, software last. Its caller holds mu.
func (b *Backend) find() error {
	if b.instance == nil {
		b.instance = wgpu.CreateInstance(&wgpu.InstanceDescriptor{Backends: apis(), Dx12ShaderCompiler: wgpu.Dx12Compiler_Undefined})
		type product struct{ vendor, device uint32 }
		seen := map[product]int{}
		for _, a := range b.instance.EnumerateAdapters(&wgpu.InstanceEnumerateAdapterOptons{Backends: apis()}) {
			d := describe(a)
			if p := a.GetProperties(); p.BackendType == wgpu.BackendType_Vulkan && p.AdapterType != wgpu.AdapterType_CPU { // whose memory is the host's
				k := product{p.VendorId, p.DeviceId}
				nth := seen[k]
				seen[k]++
				d.info.Memory, _ = ownMemory(k.vendor, k.device, nth)
				d.free = func() int64 { _, free := ownMemory(k.vendor, k.device, nth); return free }
			}
			b.adapters = append(b.adapters, d)
		}
		rank := func(a adapter) int {
			return slices.Index([]wgpu.AdapterType{wgpu.AdapterType_DiscreteGPU, wgpu.AdapterType_IntegratedGPU, wgpu.AdapterType_Unknown, wgpu.AdapterType_CPU},
				a.GetProperties().AdapterType)
		}
		slices.SortStableFunc(b.adapters, func(x, y adapter) int { return rank(x) - rank(y) })
		for i := range b.adapters {
			b.adapters[i].info.ID = fmt.Sprint(i)
		}
	}
	if len(b.adapters) == 0 {
		return diag.New(device.ErrUnavailable, "wgpu", "no adapter for Vulkan, Metal or DX12 on this machine").WithHint(
			"install the GPU's Vulkan driver, or Mesa's software one (Debian and Ubuntu: apt install mesa-vulkan-drivers)")
	}
	return nil
}

func describe(a *wgpu.Adapter) adapter {
	p, l := a.GetProperties(), a.GetLimits().Limits
	d := device.Device{Name: p.Name, Type: typeGPU}
	if p.AdapterType == wgpu.AdapterType_CPU {
		d.Type = typeSoftware
	}
	if d.Name == "" {
		d.Name = "adapter"
	}
	api := apiNames[p.BackendType]
	if api == "" {
		api = p.BackendType.String()
	}
	d.Features = append(d.Features, api, fmt.Sprintf("buffer %d MiB", min(l.MaxBufferSize, 1<<40)>>20),
		fmt.Sprintf("binding %d MiB", min(l.MaxStorageBufferBindingSize, math.MaxInt64)>>20),
		fmt.Sprintf("workgroup %d KiB", l.MaxComputeWorkgroupStorageSize>>10))
	if a.HasFeature(wgpu.FeatureName_TimestampQuery) {
		d.Features = append(d.Features, "clock")
	}
	if p.DriverDescription != "" {
		d.Features = append(d.Features, "driver "+p.DriverDescription)
	}
	return adapter{a, d, l, func() int64 { return 0 }}
}

// Info describes the adapters.
func (b *Backend) Info(context.Context) (device.Info, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.find(); err != nil {
		return device.Info{}, err
	}
	info := device.Info{Name: "wgpu", Version: Version, Targets: []string{"wgpu", "cpu", "portable"}, Ops: kernels.Ops()}
	for _, d := range kernels.DTypes() {
		info.DTypes = append(info.DTypes, d.String())
	}
	for _, a := range b.adapters {
		info.Devices = append(info.Devices, a.info)
	}
	return info, nil
}

// choose picks the adapter of an ID; empty: the first, a GPU where there is one.
func (b *Backend) choose(id string) (adapter, error) {
	if err := b.find(); err != nil {
		return adapter{}, err
	}
	var known []string
	for _, a := range b.adapters {
		if id == "" || a.info.ID == id {
			return a, nil
		}
		known = append(known, fmt.Sprintf("%s (%s, %s)", a.info.ID, a.info.Name, a.info.Type))
	}
	return adapter{}, diag.New(device.ErrUnavailable, "wgpu", "no device %q; there are %s", id, strings.Join(known, ", "))
}

// open gives the device of an adapter; all executables on it share it.
func (b *Backend) open(id string) (*gpu, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, err := b.choose(id)
	if err != nil {
		return nil, err
	}
	if g := b.opened[a.info.ID]; g != nil && !g.isLost() {
		return g, nil
	}
	g, err := newGPU(a, b.opts)
	if err == nil {
		b.opened[a.info.ID] = g
	}
	return g, err
}

// gpu is an opened device. Its mutex serialises everything that speaks to it: the library's error scopes belong to the
// device, not to the caller.
type gpu struct {
	mu     sync.Mutex
	name   string
	device *wgpu.Device
	queue  *wgpu.Queue
	limits kernels.Limits

	maxBinding, maxBuffer int64
	maxGroups             int
	free                  func() int64 // bytes of memory that are free; 0: not known
	timestamps            bool         // the device has a clock that programs can read
	tickLength            float64      // of that clock, in nanoseconds; 0: not measured yet

	pipelines map[string]*pipeline // by WGSL text
	staged    int                  // bytes given to uploads since they were last waited for
	polled    func()               // what a run does when the library has been asked; nil: nothing

	lostMu sync.Mutex
	lost   string // why, once the device is gone
}

// pipeline is a compiled shader.
type pipeline struct {
	*wgpu.ComputePipeline
	layout *wgpu.BindGroupLayout
}

func newGPU(a adapter, opts Options) (*gpu, error) {
	g := &gpu{name: a.info.Name, pipelines: map[string]*pipeline{}, free: a.free}
	if opts.Memory > 0 {
		g.free = func() int64 { return opts.Memory }
	}
	l := a.limits
	l.MaxBufferSize = min(l.MaxBufferSize, 1<<40) // the largest number of all would stand for the default, 256 MiB
	desc := &wgpu.DeviceDescriptor{Label: "rlx", RequiredLimits: &wgpu.RequiredLimits{Limits: l}}
	if g.timestamps = a.HasFeature(wgpu.FeatureName_TimestampQuery) && !opts.NoTimestamps; g.timestamps {
		desc.RequiredFeatures = append(desc.RequiredFeatures, wgpu.FeatureName_TimestampQuery)
	}
	var err error
	if g.device, err = a.RequestDevice(desc); err != nil {
		return nil, diag.New(device.ErrUnavailable, "wgpu", "%s cannot be opened: %w", g.name, err)
	}
	g.queue = g.device.GetQueue()
	g.maxBinding = int64(min(l.MaxStorageBufferBindingSize, math.MaxInt32)) &^ 255
	g.maxBuffer = int64(min(l.MaxBufferSize, math.MaxInt64)) &^ 255
	g.maxGroups = int(l.MaxComputeWorkgroupsPerDimension)
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
	g.limits = kernels.Limits{WorkgroupStorage: int(l.MaxComputeWorkgroupStorageSize), StorageBuffers: int(l.MaxStorageBuffersPerShaderStage)}
	if a.info.Type == typeSoftware {
		// A compiler for processors takes seconds over what is unrolled far, and the result is no faster.
		g.limits.AttentionTile = &kernels.AttentionTiles[len(kernels.AttentionTiles)-1]
	}
	return g, nil
}

func (g *gpu) isLost() bool {
	g.lostMu.Lock()
	defer g.lostMu.Unlock()
	return g.lost != ""
}

// compile makes the pipeline of a complete WGSL text with so many storage bindings, the parameters last.
func (g *gpu) compile(label, text string, bindings int) (*pipeline, error) {
	if p := g.pipelines[text]; p != nil {
		return p, nil
	}
	entries := make([]wgpu.BindGroupLayoutEntry, bindings)
	for i := range entries {
		typ := wgpu.BufferBindingType_Storage
		if i == bindings-1 {
			typ = wgpu.BufferBindingType_ReadOnlyStorage
		}
		entries[i] = wgpu.BindGroupLayoutEntry{Binding: uint32(i), Visibility: wgpu.ShaderStage_Compute, Buffer: wgpu.BufferBindingLayout{Type: typ}}
	}
	layout, err := g.device.CreateBindGroupLayout(&wgpu.BindGroupLayoutDescriptor{Label: label, Entries: entries})
	if err != nil {
		return nil, err
	}
	whole, err := g.device.CreatePipelineLayout(&wgpu.PipelineLayoutDescriptor{Label: label, BindGroupLayouts: []*wgpu.BindGroupLayout{layout}})
	if err != nil {
		return nil, err
	}
	defer whole.Release()
	module, err := g.device.CreateShaderModule(&wgpu.ShaderModuleDescriptor{Label: label, WGSLDescriptor: &wgpu.ShaderModuleWGSLDescriptor{Code: text}})
	if err != nil {
		return nil, err
	}
	defer module.Release()
	c, err := g.device.CreateComputePipeline(&wgpu.ComputePipelineDescriptor{
		Label: label, Layout: whole, Compute: wgpu.ProgrammableStageDescriptor{Module: module, EntryPoint: "main"},
	})
	if err != nil {
		return nil, err
	}
	p := &pipeline{c, layout}
	g.pipelines[text] = p
	return p, nil
}

// fold spreads n workgroups over two dimensions.
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
