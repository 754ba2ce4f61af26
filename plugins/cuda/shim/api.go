package shim

import (
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/cuda/ptx"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// Options configure the device. Zero values are the defaults.
type Options struct {
	MaxGroups int // blocks per dimension; 0 for the limit of a GPU
	// Limits, if not nil, changes the limits of the device.
	Limits func(*gpu.Limits)
	// PTX, if not nil, returns the kernel of a source that is PTX and not WGSL.
	PTX func(source string) (*ptx.Kernel, bool)
	// Compiled, if not nil, is called for each shader and its translation.
	Compiled func(wgsl, ptx string)
}

// New returns the cuda backend with the shim as its only device.
func New(opts Options) *gpu.Backend { return gpu.New(api{opts}) }

// Open opens the device without a backend.
func Open(opts Options) (gpu.Device, error) { return adapter{opts}.Open() }

type api struct{ opts Options }

func (api) Name() string                             { return "cuda" }
func (api) Aborted() (<-chan struct{}, func() error) { return nil, nil }
func (a api) Adapters() ([]gpu.Adapter, error)       { return []gpu.Adapter{adapter(a)}, nil }

type adapter struct{ opts Options }

func (adapter) Info() device.Device {
	return device.Device{Name: "CUDA shim", Type: "software", Features: []string{"an interpreter of PTX"}}
}

func (adapter) Free() int64 { return 0 }

// Limits returns the limits of an NVIDIA GPU. A kernel has at most 4352 bytes of parameters, 16 per binding.
func (a adapter) Limits() gpu.Limits {
	l := gpu.Limits{Binding: 2 << 30, Buffer: 2 << 30, Bindings: 64, Groups: 1<<16 - 1,
		Kernels: kernels.Limits{WorkgroupStorage: 48 << 10}}
	if a.opts.MaxGroups > 0 {
		l.Groups = a.opts.MaxGroups
	}
	if a.opts.Limits != nil {
		a.opts.Limits(&l)
	}
	return l
}

func (a adapter) Open() (gpu.Device, error) { return newDevice(a.opts), nil }

// errorf returns an error of the device.
func errorf(format string, args ...any) error {
	return diag.New(device.ErrDevice, "cuda", format, args...)
}
