package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/owned"
	"github.com/rlx-go/rlx/plugins/cuda/matrix"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// New returns a backend for the NVIDIA devices of this machine.
func New() *gpu.Backend { return gpu.New(newAPI(openLibrary, cacheFolder())) }

// cacheFolder returns the folder in which machine code is kept between runs: rlx/cuda in the user's cache directory. It
// returns "", which turns that off, if the user has no cache directory or others could write to it.
func cacheFolder() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir = filepath.Join(dir, "rlx", "cuda")
	if os.MkdirAll(dir, 0o700) != nil || owned.Private(dir) != nil {
		return ""
	}
	return dir
}

type api struct {
	open  func() (library, []string, error)
	cache string // folder of machine code; empty for none

	// Tests set these.
	few   int          // gpu.Limits.Shaders
	tile  *matrix.Tile // of products; nil for the kernels' choice
	small bool         // matrix.Device.Small
	// changes what devices say
	change func(l *gpu.Limits)

	aborted chan struct{} // closed after an error that destroyed a context
	once    sync.Once
	why     atomic.Pointer[error]
}

func newAPI(open func() (library, []string, error), cache string) *api {
	return &api{open: open, cache: cache, aborted: make(chan struct{})}
}

func (*api) Name() string { return "cuda" }

// Aborted returns a channel that is closed after an error that has destroyed the context of a device. The library gives
// a process no other context on that device, so the process has to end.
func (a *api) Aborted() (<-chan struct{}, func() error) {
	return a.aborted, func() error { return *a.why.Load() }
}

func (a *api) abort(why error) {
	a.once.Do(func() {
		a.why.Store(&why)
		close(a.aborted)
	})
}

// oneQueue lets the library make one queue of work for the device, unless the user has chosen a number. It makes eight
// by default, which takes half of the time in which it makes a context, and this package uses one stream. It must be
// called before the library is initialised.
func oneQueue() {
	const queues = "CUDA_DEVICE_MAX_CONNECTIONS"
	if _, chosen := os.LookupEnv(queues); !chosen {
		os.Setenv(queues, "1") // in the environment of C, too
	}
}

const (
	// leastVersion is the least version of CUDA that a driver must have, in the form of cuDriverGetVersion. It is that
	// of drivers 525 and later, the first that read the PTX of this backend.
	leastVersion = 12000
	// leastCapability is the least compute capability times 10, that of Volta: kernels synchronise threads of a warp.
	leastCapability = 70
	installDriver   = "install NVIDIA's driver 525 or later (no CUDA toolkit is needed), or use --backend wgpu or cpu"
)

func version(v int32) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// Adapters lists the devices in the library's order, which puts the fastest first.
func (a *api) Adapters() ([]gpu.Adapter, error) {
	unavailable := func(format string, args ...any) error {
		return diag.New(device.ErrUnavailable, "cuda", format, args...).WithHint(installDriver)
	}
	oneQueue()
	end := gpu.Phase("load libcuda")
	l, missing, err := a.open()
	end()
	if err != nil {
		return nil, unavailable("%w", err)
	}
	has := made[int32]()
	if missing == nil || l != nil {
		if r := l.call(cuDriverGetVersion, address(has)); r != success {
			return nil, unavailable("the driver does not say its version: %s", explain(l, r))
		}
	}
	if *has < leastVersion {
		return nil, unavailable("the driver has CUDA %s; %s or later is needed", version(*has), version(leastVersion))
	}
	if len(missing) > 0 {
		return nil, unavailable("libcuda.so.1 has no %s", missing[0])
	}
	end = gpu.Phase("cuInit")
	r := l.call(cuInit, 0)
	end()
	if r == errorNoDevice {
		return nil, diag.New(device.ErrUnavailable, "cuda", "this machine has no NVIDIA GPU that this process may use").
			WithHint("see nvidia-smi, and CUDA_VISIBLE_DEVICES in the environment; or use --backend wgpu or cpu")
	} else if r != success {
		return nil, unavailable("the driver cannot be initialised: %s", explain(l, r))
	}
	n := made[int32]()
	if r := l.call(cuDeviceGetCount, address(n)); r != success {
		return nil, unavailable("the devices cannot be counted: %s", explain(l, r))
	}
	var out []gpu.Adapter
	var old []string
	for i := range *n {
		d, err := a.describe(l, i, *has)
		if err != nil {
			return nil, err
		}
		if d.capability < leastCapability {
			old = append(old, d.info.Name)
			continue
		}
		out = append(out, d)
	}
	if len(out) == 0 {
		if old != nil {
			return nil, diag.New(device.ErrUnavailable, "cuda",
				"%s has a compute capability below %d.%d, which is needed", old[0], leastCapability/10,
				leastCapability%10).WithHint("use --backend wgpu or cpu")
		}
		return nil, unavailable("there is no NVIDIA GPU")
	}
	return out, nil
}

// adapter describes a device.
type adapter struct {
	library
	api        *api
	number     int32 // CUdevice
	version    int32 // of the driver's CUDA
	capability int   // compute capability times 10
	matrix     matrix.Device
	info       device.Device
	limits     gpu.Limits

	translated sync.Map // by the text of a source, until it is compiled

	mu      sync.Mutex
	context uintptr // the primary context; 0 before Open
}

// Attributes of devices.
const (
	attributeProcessors       = 16
	attributeMajor            = 75
	attributeMinor            = 76
	attributeSharedMost       = 97 // bytes of shared memory that a kernel can ask for
	maxGroups                 = 65535
	maxBinding          int64 = 2 << 30
	// workgroupStorage is what a kernel has without asking for more.
	workgroupStorage = 48 << 10
)

func (a *api) describe(l library, i, version int32) (*adapter, error) {
	failed := func(what string, r result) error {
		return diag.New(device.ErrUnavailable, "cuda", "%s of device %d is not known: %s", what, i, explain(l, r))
	}
	number, name, bytes := made[int32](), made[[256]byte](), made[uint64]()
	if r := l.call(cuDeviceGet, address(number), uintptr(i)); r != success {
		return nil, failed("the number", r)
	}
	if r := l.call(cuDeviceGetName, address(name), uintptr(len(name)), uintptr(*number)); r != success {
		return nil, failed("the name", r)
	}
	if r := l.call(cuDeviceTotalMem, address(bytes), uintptr(*number)); r != success {
		return nil, failed("the memory", r)
	}
	var values [4]int32
	for k, attribute := range []int{attributeMajor, attributeMinor, attributeProcessors, attributeSharedMost} {
		v := made[int32]()
		if r := l.call(cuDeviceGetAttribute, address(v), uintptr(attribute), uintptr(*number)); r != success {
			return nil, failed(fmt.Sprintf("attribute %d", attribute), r)
		}
		values[k] = *v
	}
	capability := int(10*values[0] + values[1])
	d := &adapter{library: l, api: a, number: *number, version: version, capability: capability}
	d.info = device.Device{Name: text(address(name)), Type: "gpu", Memory: int64(*bytes),
		Features: []string{fmt.Sprintf("compute capability %d.%d", values[0], values[1]),
			fmt.Sprintf("%d processors", values[2]), "CUDA " + d.cuda()}}
	runtime.KeepAlive(name)
	d.matrix = matrix.Device{Capability: capability, Processors: int(values[2]), Shared: int(values[3]), Tile: a.tile,
		Small: a.small}
	d.limits = gpu.Limits{
		// shaders compute offsets in 32 bits
		Binding: maxBinding, Buffer: 1 << 46, Bindings: 256, Groups: maxGroups, Clock: true, Keeps: true,
		Shaders: a.few,
		Kernels: kernels.Limits{WorkgroupStorage: workgroupStorage, Keeps: true,
			Own: matrix.Kernels(d.matrix), OwnVectors: matrix.Vectors(d.matrix),
			OwnDecoding: matrix.Decoding(d.matrix)},
	}
	if d.limits.Kernels.Own != nil {
		d.limits.Precisions = matrix.Precisions()
	}
	if a.change != nil {
		a.change(&d.limits)
	}
	return d, nil
}

func (a *adapter) cuda() string        { return version(a.version) }
func (a *adapter) Info() device.Device { return a.info }
func (a *adapter) Limits() gpu.Limits  { return a.limits }

// Free returns the memory of the device that no process uses, or 0 before Open.
func (a *adapter) Free() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.context == 0 {
		return 0
	}
	defer a.use(a.context)()
	free, total := made[uint64](), made[uint64]()
	if a.call(cuMemGetInfo, address(free), address(total)) != success {
		return 0
	}
	return max(1, int64(*free))
}

// use makes a context current to the calling goroutine until the returned function is called.
func (a *adapter) use(context uintptr) (end func()) {
	runtime.LockOSThread()
	a.call(cuCtxSetCurrent, context)
	return runtime.UnlockOSThread
}

const streamNonBlocking = 1

func (a *adapter) Open() (gpu.Device, error) {
	failed := func(r result) error {
		hint := gpu.MemoryHint
		if r != errorMemory {
			hint = "see nvidia-smi; another process may use the device exclusively"
		}
		return diag.New(device.ErrUnavailable, "cuda", "%s cannot be opened: %s", a.info.Name, explain(a, r)).
			WithHint("%s", hint)
	}
	context := made[uintptr]()
	end := gpu.Phase("create the context")
	if r := a.call(cuDevicePrimaryCtxRetain, address(context), uintptr(a.number)); r != success {
		return nil, failed(r)
	}
	end()
	a.mu.Lock()
	a.context = *context
	a.mu.Unlock()
	defer a.use(*context)()
	stream := made[uintptr]()
	if r := a.call(cuStreamCreate, address(stream), streamNonBlocking); r != success {
		return nil, failed(r)
	}
	d := &opened{adapter: a, stream: *stream}
	d.feeder = newFeeder(d)
	return d, nil
}
