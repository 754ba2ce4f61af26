//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"fmt"
	"maps"
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

// adapter is a WebGPU adapter with its description.
type adapter struct {
	*wgpu.Adapter
	apis   wgpu.InstanceBackend // APIs of the instance that listed it
	index  int                  // in the list of that instance
	info   device.Device
	limits wgpu.Limits
	free   func() int64 // free bytes of its memory, 0 if unknown
}

// New makes the backend. Adapters are listed when they are first needed.
func New(opts Options) *Backend { return &Backend{opts: opts, opened: map[string]*gpu{}} }

// Types of device.Device.Type.
const (
	typeGPU      = "gpu"
	typeSoftware = "software"
)

var apiNames = map[wgpu.BackendType]string{
	wgpu.BackendType_Vulkan: "vulkan", wgpu.BackendType_Metal: "metal", wgpu.BackendType_D3D12: "dx12",
}

// apiFlags are the names that WGPU_BACKEND takes.
var apiFlags = map[string]wgpu.InstanceBackend{
	"vulkan": wgpu.InstanceBackend_Vulkan, "metal": wgpu.InstanceBackend_Metal, "dx12": wgpu.InstanceBackend_DX12,
}

const apiVariable = "WGPU_BACKEND"

// apis reads WGPU_BACKEND, a list of names. Empty means all.
func apis() (set wgpu.InstanceBackend, err error) {
	names := slices.Collect(maps.Keys(apiFlags))
	if value := os.Getenv(apiVariable); strings.TrimSpace(value) != "" {
		names = strings.Split(value, ",")
	}
	for _, name := range names {
		flag, ok := apiFlags[strings.ToLower(strings.TrimSpace(name))]
		if !ok {
			return 0, diag.New(diag.UnknownAPI, apiVariable, "%q is no API; allowed are %s, with commas between them, or nothing",
				name, strings.Join(slices.Sorted(maps.Keys(apiFlags)), ", "))
		}
		set |= flag
	}
	return set, nil
}

func newInstance(apis wgpu.InstanceBackend) *wgpu.Instance {
	return wgpu.CreateInstance(&wgpu.InstanceDescriptor{Backends: apis, Dx12ShaderCompiler: wgpu.Dx12Compiler_Undefined})
}

func listAdapters(i *wgpu.Instance, apis wgpu.InstanceBackend) []*wgpu.Adapter {
	return i.EnumerateAdapters(&wgpu.InstanceEnumerateAdapterOptons{Backends: apis})
}

// again finds the adapter in a new instance; ok is false if that lists other adapters.
func (a adapter) again() (found adapter, instance *wgpu.Instance, ok bool) {
	instance = newInstance(a.apis)
	for i, other := range listAdapters(instance, a.apis) {
		if i == a.index && other.GetProperties() == a.GetProperties() {
			found, ok = a, true
			found.Adapter = other
		} else {
			other.Release()
		}
	}
	if !ok {
		instance.Release()
	}
	return found, instance, ok
}

// find lists the adapters once: GPUs first, discrete ones before integrated ones, software last. The caller holds mu.
func (b *Backend) find() error {
	if b.instance == nil {
		set, err := apis()
		if err != nil {
			return err
		}
		b.instance = newInstance(set)
		type product struct{ vendor, device uint32 }
		seen := map[product]int{}
		for i, a := range listAdapters(b.instance, set) {
			d := describe(a)
			d.apis, d.index = set, i
			if p := a.GetProperties(); p.BackendType == wgpu.BackendType_Vulkan && p.AdapterType != wgpu.AdapterType_CPU { // a CPU adapter has the host's memory
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
		asked := ""
		if v := os.Getenv(apiVariable); v != "" {
			asked = fmt.Sprintf(" (%s is %q)", apiVariable, v)
		}
		return diag.New(device.ErrUnavailable, "wgpu", "no adapter on this machine%s", asked).WithHint(
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
	d.Features = append(d.Features, api, fmt.Sprintf("buffer %d MiB", min(l.MaxBufferSize, largestBuffer)>>20),
		fmt.Sprintf("binding %d MiB", min(l.MaxStorageBufferBindingSize, math.MaxInt64)>>20),
		fmt.Sprintf("workgroup %d KiB", l.MaxComputeWorkgroupStorageSize>>10))
	if a.HasFeature(wgpu.FeatureName_TimestampQuery) {
		d.Features = append(d.Features, "clock")
	}
	if p.DriverDescription != "" {
		d.Features = append(d.Features, "driver "+p.DriverDescription)
	}
	return adapter{Adapter: a, info: d, limits: l, free: func() int64 { return 0 }}
}

// Info describes the adapters.
func (b *Backend) Info(context.Context) (device.Info, error) {
	return guard(func() (device.Info, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if err := b.find(); err != nil {
			return device.Info{}, err
		}
		info := device.Info{Name: "wgpu", Version: kernels.Version}
		to := *kernels.Description()
		for _, a := range b.adapters {
			info.Devices = append(info.Devices, a.info)
			// The result and the parameters take two bindings.
			to.MaxOperands = min(to.MaxOperands, int(a.limits.MaxStorageBuffersPerShaderStage)-2)
		}
		info.Target = &to
		return info, nil
	})
}

// Prepare finds the adapters and opens the default one in advance, because opening takes a driver some time. Loading a program
// reports its errors.
func (b *Backend) Prepare() {
	_, _ = guard(func() (*gpu, error) { return b.open("") })
}

// choose returns the adapter with an ID. An empty ID means the first, a GPU if there is one.
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

// open returns the device of an adapter, which all executables on it share.
func (b *Backend) open(id string) (*gpu, error) {
	g, err := b.begin(id)
	if err != nil {
		return nil, err
	}
	return g, g.ready()
}

// begin is open without waiting for the device. Its limits are known already.
func (b *Backend) begin(id string) (*gpu, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, err := b.choose(id)
	if err != nil {
		return nil, err
	}
	if g := b.opened[a.info.ID]; g != nil && !g.useless() {
		return g, nil
	}
	g := newGPU(a, b.opts)
	b.opened[a.info.ID] = g
	go g.request()
	return g, nil
}
