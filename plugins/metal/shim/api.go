//go:build linux

package shim

import (
	"os"
	"path/filepath"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
	"github.com/rlx-go/rlx/plugins/metal/msl"
)

// Options configure how kernels are compiled, and the limits of the device. Zero values are the defaults.
type Options struct {
	Cache string // folder for compiled kernels; empty for rlx/metal-shim in the user's cache directory
	Level string // optimisation flag for the compiler; empty for -O1

	// Missing, if not nil, is called for each kernel that is not in the cache, instead of the compiler. Loading then
	// fails.
	Missing func(*msl.Kernel) error

	Flush bool // the device takes denormals for 0; only on amd64

	MaxGroups int // threadgroups per dimension; 0 for the limit of an Apple GPU

	// the device has no simdgroup matrices, like GPUs before family Apple 7
	NoMatrices        bool
	Tile              *kernels.Tile              // shape of the tiles of matrix products; nil for the kernels' choice
	AttentionMatrices *kernels.AttentionMatrices // shape of the tiles of attention; nil for the kernels' choice
}

// memoryBytes is the size of the device's memory. The system allocates its pages when they are first used.
const memoryBytes = 16 << 30

// New returns the metal backend with the shim as its only device.
func New(opts Options) *gpu.Backend { return gpu.New(api{opts}) }

// Open opens the device without a backend.
func Open(opts Options) (gpu.Device, error) { return adapter{opts}.Open() }

type api struct{ opts Options }

func (api) Name() string                             { return "metal" }
func (api) Aborted() (<-chan struct{}, func() error) { return nil, nil }
func (a api) Adapters() ([]gpu.Adapter, error)       { return []gpu.Adapter{adapter(a)}, nil }

type adapter struct{ opts Options }

func (adapter) Info() device.Device {
	return device.Device{Name: "Metal shim", Type: "software", Features: []string{"kernels as C++"}}
}

func (adapter) Free() int64 { return 0 }

// Limits returns the limits of an Apple GPU. A kernel has at most 31 buffers, of which the last holds the sizes of the
// others.
func (a adapter) Limits() gpu.Limits {
	l := gpu.Limits{Binding: 2 << 30, Buffer: 2 << 30, Bindings: 30, Groups: 1 << 16,
		Kernels: kernels.Limits{WorkgroupStorage: 32 << 10,
			Matrices: !a.opts.NoMatrices, Tile: a.opts.Tile, AttentionMatrices: a.opts.AttentionMatrices}}
	if a.opts.MaxGroups > 0 {
		l.Groups = a.opts.MaxGroups
	}
	return l
}

func (a adapter) Open() (gpu.Device, error) {
	c, err := a.cache()
	if err == nil {
		var d *opened
		if d, err = open(c, a.opts); err == nil {
			return d, nil
		}
	}
	return nil, diag.New(device.ErrUnavailable, "metal", "%w", err)
}

func (a adapter) cache() (c cache, err error) {
	c = cache{a.opts.Cache, a.opts.Level}
	if c.level == "" {
		c.level = "-O1"
	}
	if c.dir == "" {
		if c.dir, err = os.UserCacheDir(); err != nil {
			return c, err
		}
		c.dir = filepath.Join(c.dir, "rlx", "metal-shim")
	}
	return c, os.MkdirAll(c.dir, 0o755)
}
