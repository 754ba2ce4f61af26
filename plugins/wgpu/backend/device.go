//go:build cgo && (darwin || amd64)

package backend

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// New makes the backend of the WebGPU adapters of this machine.
func New(opts Options) *gpu.Backend { return gpu.New(&api{opts: opts}) }

// Repeat is gpu.Repeat, for benchmarks.
var Repeat = gpu.Repeat

// api is WebGPU.
type api struct {
	opts     Options
	instance *wgpu.Instance
	adapters []gpu.Adapter
}

func (*api) Name() string { return "wgpu" }

// adapter is a WebGPU adapter and what is known about it.
type adapter struct {
	*wgpu.Adapter
	opts   Options
	apis   wgpu.InstanceBackend // APIs of the instance that lists it
	index  int                  // position in that instance's list
	info   device.Device
	all    wgpu.Limits
	limits gpu.Limits
	free   func() int64 // free bytes of its memory; 0 if unknown
}

func (a *adapter) Info() device.Device { return a.info }
func (a *adapter) Limits() gpu.Limits  { return a.limits }
func (a *adapter) Free() int64         { return a.free() }

// Values of device.Device.Type.
const (
	typeGPU      = "gpu"
	typeSoftware = "software"
)

var apiNames = map[wgpu.BackendType]string{
	wgpu.BackendType_Vulkan: "vulkan", wgpu.BackendType_Metal: "metal", wgpu.BackendType_D3D12: "dx12",
}

// apiFlags maps the names that WGPU_BACKEND takes.
var apiFlags = map[string]wgpu.InstanceBackend{
	"vulkan": wgpu.InstanceBackend_Vulkan, "metal": wgpu.InstanceBackend_Metal, "dx12": wgpu.InstanceBackend_DX12,
}

const apiVariable = "WGPU_BACKEND"

// apis parses WGPU_BACKEND, a list of names. An empty list means all APIs.
func apis() (set wgpu.InstanceBackend, err error) {
	names := slices.Collect(maps.Keys(apiFlags))
	if value := os.Getenv(apiVariable); strings.TrimSpace(value) != "" {
		names = strings.Split(value, ",")
	}
	for _, name := range names {
		flag, ok := apiFlags[strings.ToLower(strings.TrimSpace(name))]
		if !ok {
			return 0,
				diag.New(code.API, apiVariable, "%q is not an API; allowed are %s, with commas between them, or nothing",
					name, strings.Join(slices.Sorted(maps.Keys(apiFlags)), ", "))
		}
		set |= flag
	}
	return set, nil
}

func newInstance(apis wgpu.InstanceBackend) *wgpu.Instance {
	return wgpu.CreateInstance(
		&wgpu.InstanceDescriptor{Backends: apis, Dx12ShaderCompiler: wgpu.Dx12Compiler_Undefined})
}

func listAdapters(i *wgpu.Instance, apis wgpu.InstanceBackend) []*wgpu.Adapter {
	return i.EnumerateAdapters(&wgpu.InstanceEnumerateAdapterOptons{Backends: apis})
}

// again finds the adapter in a new instance. ok is false if that instance lists other adapters.
func (a *adapter) again() (found *adapter, instance *wgpu.Instance, ok bool) {
	instance = newInstance(a.apis)
	for i, other := range listAdapters(instance, a.apis) {
		if i == a.index && other.GetProperties() == a.GetProperties() {
			found, ok = new(*a), true
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

// Adapters lists GPUs first, discrete ones before integrated ones, software last.
func (w *api) Adapters() ([]gpu.Adapter, error) {
	if w.instance == nil {
		set, err := apis()
		if err != nil {
			return nil, err
		}
		w.instance = newInstance(set)
		type product struct{ vendor, device uint32 }
		seen := map[product]int{}
		for i, a := range listAdapters(w.instance, set) {
			d := describe(a, w.opts)
			d.apis, d.index = set, i
			// a CPU adapter uses the memory of the host
			if p := a.GetProperties(); p.BackendType == wgpu.BackendType_Vulkan &&
				p.AdapterType != wgpu.AdapterType_CPU {
				k := product{p.VendorId, p.DeviceId}
				nth := seen[k]
				seen[k]++
				d.info.Memory, _ = ownMemory(k.vendor, k.device, nth)
				if w.opts.Memory == 0 {
					d.free = func() int64 { _, free := ownMemory(k.vendor, k.device, nth); return free }
				}
			}
			w.adapters = append(w.adapters, d)
		}
		rank := func(a gpu.Adapter) int {
			return slices.Index(
				[]wgpu.AdapterType{wgpu.AdapterType_DiscreteGPU, wgpu.AdapterType_IntegratedGPU,
					wgpu.AdapterType_Unknown, wgpu.AdapterType_CPU},
				a.(*adapter).GetProperties().AdapterType)
		}
		slices.SortStableFunc(w.adapters, func(x, y gpu.Adapter) int { return rank(x) - rank(y) })
	}
	if len(w.adapters) == 0 {
		asked := ""
		if v := os.Getenv(apiVariable); v != "" {
			asked = fmt.Sprintf(" (%s is %q)", apiVariable, v)
		}
		return nil, diag.New(device.ErrUnavailable, "wgpu", "no adapter on this machine%s", asked).WithHint(
			"install the GPU's Vulkan driver, or Mesa's software one (Debian and Ubuntu: apt install mesa-vulkan-drivers)")
	}
	return w.adapters, nil
}

func describe(a *wgpu.Adapter, opts Options) *adapter {
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
	return &adapter{Adapter: a, opts: opts, info: d, all: l, limits: limits(a, d, l, opts),
		free: func() int64 { return opts.Memory }}
}

// largestBuffer is the largest size of a buffer. NVIDIA's driver allocates no more at once, although it reports a
// higher limit.
const largestBuffer = 4<<30 - 2<<20

// Mesa's llvmpipe silently ends all loops of an invocation after this many iterations in total, counting the last
// evaluation of each condition: LP_MAX_TGSI_LOOP_ITERATIONS in its lp_bld_limits.h. The result is then a partial sum.
const (
	llvmpipe      = "llvmpipe"
	llvmpipeLoops = 65535
)

// limits returns the limits of an adapter, lowered by the options.
func limits(a *wgpu.Adapter, info device.Device, l wgpu.Limits, opts Options) gpu.Limits {
	out := gpu.Limits{
		Binding:  int64(min(l.MaxStorageBufferBindingSize, math.MaxInt32)) &^ 255,
		Buffer:   int64(min(l.MaxBufferSize, largestBuffer)) &^ 255,
		Bindings: int(l.MaxStorageBuffersPerShaderStage), Groups: int(l.MaxComputeWorkgroupsPerDimension),
		Shaders: opts.Shaders, Clock: a.HasFeature(wgpu.FeatureName_TimestampQuery) && !opts.NoTimestamps,
		Kernels: kernels.Limits{WorkgroupStorage: int(l.MaxComputeWorkgroupStorageSize), Keeps: true,
			AttentionTile: opts.AttentionTile, Tile: opts.Tile},
	}
	if opts.MaxBinding > 0 {
		out.Binding = min(out.Binding, opts.MaxBinding&^255)
	}
	if opts.MaxBuffer > 0 {
		out.Buffer = min(out.Buffer, opts.MaxBuffer&^255)
	}
	if opts.MaxGroups > 0 {
		out.Groups = min(out.Groups, opts.MaxGroups)
	}
	if strings.HasPrefix(info.Name, llvmpipe) {
		out.Loops = llvmpipeLoops
	}
	if info.Type == typeSoftware && opts.AttentionTile == nil {
		// Software adapters take seconds to compile unrolled loops, which run no faster there.
		out.Kernels.AttentionTile = &kernels.AttentionTiles[len(kernels.AttentionTiles)-1]
		out.Kernels.BackwardTile = &kernels.BackwardTiles[len(kernels.BackwardTiles)-1]
	}
	return out
}
