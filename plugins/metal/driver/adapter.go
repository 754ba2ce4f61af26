package driver

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/owned"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// New returns a backend for the Metal devices of this machine.
func New() *gpu.Backend { return gpu.New(api{cache: cacheFolder()}) }

// cacheFolder returns the folder in which compiled pipelines are cached between runs: rlx/metal in the user's cache
// directory. It returns "", which turns caching off, if the user has no cache directory or others could write to it.
func cacheFolder() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir = filepath.Join(dir, "rlx", "metal")
	if os.MkdirAll(dir, 0o700) != nil || owned.Private(dir) != nil {
		return ""
	}
	return dir
}

type api struct {
	cache string // folder of compiled pipelines, or empty

	// Tests set these.
	plain     bool                       // products and attention do not use simdgroup matrices
	tile      *kernels.Tile              // shape of the tiles of matrix products; nil for the kernels' choice
	attention *kernels.AttentionMatrices // shape of the tiles of attention; nil for the kernels' choice
}

func (api) Name() string                             { return "metal" }
func (api) Aborted() (<-chan struct{}, func() error) { return nil, nil }

// Adapters lists the devices in the system's order. An Apple processor has one.
func (a api) Adapters() ([]gpu.Adapter, error) {
	if native == nil || (*function)(copyAllDevices).address() == 0 {
		return nil, diag.New(device.ErrUnavailable, "metal", "this system has no Metal").WithHint(
			"use --backend wgpu or cpu")
	}
	defer pool()()
	list := copyAllDevices.call()
	defer free(list)
	var out []gpu.Adapter
	for i := range count.to(list) {
		out = append(out, a.describe(mtlDevice(retained(objectAtIndex.to(list, i)))))
	}
	if len(out) == 0 {
		return nil, diag.New(device.ErrUnavailable, "metal", "this machine has no Metal device").
			WithHint("a virtual machine may have none; use --backend cpu")
	}
	return out, nil
}

// adapter describes a device. The device is never released.
type adapter struct {
	mtlDevice
	info   device.Device
	limits gpu.Limits
	cache  string
}

func (a *adapter) Info() device.Device { return a.info }
func (a *adapter) Limits() gpu.Limits  { return a.limits }

// Free returns the recommended size of the working set less what this process has allocated. The memory that other
// processes use is not subtracted, because Metal does not report it.
func (a *adapter) Free() int64 {
	return max(1, int64(workingSet.to(a.mtlDevice))-int64(allocatedSize.to(a.mtlDevice)))
}

const (
	// kernels get the size of a binding in 32 bits; with at most half of that range, indices are positive as int32, too
	maxBinding = 2 << 30
	maxGroups  = 1 << 16  // in each dimension; Metal documents no limit
	pageSize   = 16 << 10 // of macOS on Apple silicon
)

func (a api) describe(d mtlDevice) *adapter {
	buffer, shared := int64(maxBufferLength.to(d))&^255, int(maxSharedLength.to(d))
	out := &adapter{mtlDevice: d, cache: a.cache, limits: gpu.Limits{
		// the last buffer of a kernel holds the sizes of the others
		Binding: min(buffer, maxBinding), Buffer: buffer, Bindings: maxBuffers - 1,
		Groups: maxGroups, Clock: true, Kernels: kernels.Limits{WorkgroupStorage: shared},
	}}
	out.info = device.Device{Name: goString(deviceName.to(d)), Type: "gpu", Memory: int64(workingSet.to(d)),
		Features: []string{fmt.Sprintf("buffer %d MiB", buffer>>20), fmt.Sprintf("threadgroup %d KiB", shared>>10)}}
	out.limits.Kernels.Matrices = !a.plain && supportsFamily.to(d, gpuFamilyApple7) != 0
	out.limits.Kernels.Tile, out.limits.Kernels.AttentionMatrices = a.tile, a.attention
	for family := nsInteger(gpuFamilyApple10); family >= gpuFamilyApple1; family-- {
		if supportsFamily.to(d, family) != 0 {
			out.info.Features = append([]string{fmt.Sprintf("apple %d", family-gpuFamilyApple1+1)},
				out.info.Features...)
			break
		}
	}
	if hasUnifiedMemory.to(d) != 0 {
		out.limits.Page = pageSize
		out.info.Features = append(out.info.Features, "unified memory")
	}
	return out
}

func (a *adapter) Open() (gpu.Device, error) {
	defer pool()()
	q := newCommandQueue.to(a.mtlDevice)
	if q == 0 {
		return nil, diag.New(device.ErrUnavailable, "metal", "%s cannot be opened: Metal returned no command queue",
			a.info.Name)
	}
	settings := newCommandBufferSettings.to(classCommandBufferDescriptor.object())
	setErrorOptions.to(settings, commandBufferErrorOptionEncoderExecutionStatus)
	return &opened{adapter: a, queue: q, settings: settings}, nil
}
