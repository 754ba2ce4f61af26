package driver

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// New makes the backend of this machine's Metal devices.
func New() *gpu.Backend { return gpu.New(api{cache: cacheFolder()}) }

// cacheFolder is where compiled pipelines are kept between runs: rlx/metal in the user's cache. It is empty, and nothing is kept, if there is no cache.
func cacheFolder() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "rlx", "metal")
}

type api struct {
	cache string
	// For tests: products and attention without matrices, and the shapes of their tiles.
	plain     bool
	tile      *kernels.Tile
	attention *kernels.AttentionMatrices
}

func (api) Name() string                             { return "metal" }
func (api) Aborted() (<-chan struct{}, func() error) { return nil, nil }

// Adapters lists the devices in the system's order. An Apple processor has one.
func (a api) Adapters() ([]gpu.Adapter, error) {
	if native == nil || (*function)(copyAllDevices).address() == 0 {
		return nil, diag.New(device.ErrUnavailable, "metal", "this system has no Metal").WithHint("use --backend wgpu or cpu")
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

// adapter is a device with its description. It keeps the device as long as the process lives.
type adapter struct {
	mtlDevice
	info   device.Device
	limits gpu.Limits
	cache  string
}

func (a *adapter) Info() device.Device { return a.info }
func (a *adapter) Limits() gpu.Limits  { return a.limits }

// Free is the rest of the memory that the device recommends to use; other processes use the same memory, and Metal does not say how much.
func (a *adapter) Free() int64 {
	return max(1, int64(workingSet.to(a.mtlDevice))-int64(allocatedSize.to(a.mtlDevice)))
}

// Sizes of buffers are words of 32 bits in kernels, so a binding shows less than 4 GiB; half of that keeps indices positive.
const (
	maxBinding = 2 << 30
	maxGroups  = 1 << 16  // in each dimension; Metal names no limit
	pageSize   = 16 << 10 // of macOS on Apple silicon
)

func (a api) describe(d mtlDevice) *adapter {
	buffer, shared := int64(maxBufferLength.to(d))&^255, int(maxSharedLength.to(d))
	out := &adapter{mtlDevice: d, cache: a.cache, limits: gpu.Limits{
		Binding: min(buffer, maxBinding), Buffer: buffer, Bindings: maxBuffers - 1, // the last buffer of a kernel has the sizes of the others
		Groups: maxGroups, Clock: true, Kernels: kernels.Limits{WorkgroupStorage: shared},
	}}
	out.info = device.Device{Name: goString(deviceName.to(d)), Type: "gpu", Memory: int64(workingSet.to(d)),
		Features: []string{fmt.Sprintf("buffer %d MiB", buffer>>20), fmt.Sprintf("threadgroup %d KiB", shared>>10)}}
	out.limits.Kernels.Matrices = !a.plain && supportsFamily.to(d, gpuFamilyApple7) != 0
	out.limits.Kernels.Tile, out.limits.Kernels.AttentionMatrices = a.tile, a.attention
	for family := nsInteger(gpuFamilyApple10); family >= gpuFamilyApple1; family-- {
		if supportsFamily.to(d, family) != 0 {
			out.info.Features = append([]string{fmt.Sprintf("apple %d", family-gpuFamilyApple1+1)}, out.info.Features...)
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
		return nil, diag.New(device.ErrUnavailable, "metal", "%s cannot be opened: it makes no command queue", a.info.Name)
	}
	settings := newCommandBufferSettings.to(classCommandBufferDescriptor.object())
	setErrorOptions.to(settings, commandBufferErrorOptionEncoderExecutionStatus)
	return &opened{adapter: a, queue: q, settings: settings}, nil
}
