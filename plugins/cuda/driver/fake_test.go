package driver

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// fake is a library with one device, whose memory is on Go's heap and whose kernels do nothing.
type fake struct {
	version, devices, major int32
	results                 map[function]result // of functions that fail
	calls                   []function
	memory                  map[uintptr][]byte
	capturing               bool
	graphs                  [][][]uintptr // arguments of the copies of each graph; the last one is captured
	code                    []byte        // that the linker makes; modules have to begin with it

	mu sync.Mutex // held by each call
}

func newFake() *fake {
	return &fake{version: 13000, devices: 1, major: 8, results: map[function]result{}, memory: map[uintptr][]byte{},
		code: []byte("machine code")}
}

func (f *fake) open() (library, []string, error) { return f, nil, nil }

func at[T any](p uintptr) *T { return (*T)(unsafe.Pointer(unsafe.SliceData(memory(p, 1)))) }

func (f *fake) call(of function, args ...uintptr) result {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, of)
	if r := f.results[of]; r != success {
		return r
	}
	switch of {
	case cuDriverGetVersion:
		*at[int32](args[0]) = f.version
	case cuDeviceGetCount:
		*at[int32](args[0]) = f.devices
	case cuDeviceGetName:
		copy(memory(args[0], int64(args[1])), "Fake\x00")
	case cuDeviceTotalMem:
		*at[uint64](args[0]) = 1 << 30
	case cuDeviceGetAttribute:
		*at[int32](args[0]) = map[uintptr]int32{attributeMajor: f.major, attributeProcessors: 8,
			attributeSharedMost: 160 << 10}[args[1]]
	case cuMemAlloc, cuMemHostAlloc:
		b := make([]byte, args[1]+8)
		p := uintptr(unsafe.Pointer(&b[0]))
		f.memory[p], *at[uintptr](args[0]) = b, p
	case cuMemFree, cuMemFreeHost:
		delete(f.memory, args[0])
	case cuMemcpyAsync, cuMemcpyHtoDAsync:
		if f.capturing {
			list := &f.graphs[len(f.graphs)-1]
			*list = append(*list, slices.Clone(args))
			break
		}
		copy(memory(args[0], int64(args[2])), memory(args[1], int64(args[2])))
	case cuLinkComplete:
		*at[uintptr](args[1]), *at[uint64](args[2]) = uintptr(unsafe.Pointer(&f.code[0])), uint64(len(f.code))
	case cuModuleLoadData:
		if !bytes.HasPrefix(memory(args[1], int64(len(f.code))), f.code) {
			return 200
		}
	case cuStreamBeginCapture:
		f.capturing, f.graphs = true, append(f.graphs, nil)
	case cuStreamEndCapture:
		f.capturing = false
		*at[uintptr](args[1]) = uintptr(len(f.graphs))
	case cuGraphInstantiate:
		*at[uintptr](args[0]) = args[1]
	case cuGraphLaunch:
		for _, c := range f.graphs[args[0]-1] {
			copy(memory(c[0], int64(c[2])), memory(c[1], int64(c[2])))
		}
	case cuDevicePrimaryCtxRetain, cuStreamCreate, cuEventCreate:
		*at[uintptr](args[0]) = 1
	case cuMemGetInfo:
		*at[uint64](args[0]), *at[uint64](args[1]) = 1<<30, 1<<30
	case cuGetErrorName:
		*at[uintptr](args[1]) = 0
	}
	return success
}

func (f *fake) count(of function) (n int) {
	for _, c := range f.calls {
		if c == of {
			n++
		}
	}
	return n
}

// start opens the fake's device.
func (f *fake) start(t *testing.T, cache string) (*api, *opened) {
	t.Helper()
	a := newAPI(f.open, cache)
	list, err := a.Adapters()
	if err != nil {
		t.Fatal(err)
	}
	d, err := list[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	return a, d.(*opened)
}

// TestUnavailable: what is missing is said, and what to do.
func TestUnavailable(t *testing.T) {
	for want, change := range map[string]func(f *fake) func() (library, []string, error){
		"libcuda.so.1 cannot be loaded": func(*fake) func() (library, []string, error) {
			err := errors.New("libcuda.so.1 cannot be loaded: no such file")
			return func() (library, []string, error) { return nil, nil, err }
		},
		"the driver has CUDA 11.4; 12.0 or later is needed": func(f *fake) func() (library, []string, error) {
			f.version = 11040
			return f.open
		},
		"libcuda.so.1 has no cuNew": func(f *fake) func() (library, []string, error) {
			return func() (library, []string, error) { return f, []string{"cuNew"}, nil }
		},
		"this machine has no NVIDIA GPU": func(f *fake) func() (library, []string, error) {
			f.results[cuInit] = errorNoDevice
			return f.open
		},
		"the driver cannot be initialised: error 999": func(f *fake) func() (library, []string, error) {
			f.results[cuInit] = 999
			return f.open
		},
		"there is no NVIDIA GPU": func(f *fake) func() (library, []string, error) {
			f.devices = 0
			return f.open
		},
		"Fake has a compute capability below 7.0": func(f *fake) func() (library, []string, error) {
			f.major = 6
			return f.open
		},
	} {
		_, err := newAPI(change(newFake()), "").Adapters()
		var d *diag.Error
		if !errors.As(err, &d) || !errors.Is(err, device.ErrUnavailable) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "--backend wgpu or cpu") {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestFailures: an allocation without memory, and an error that destroys the context.
func TestFailures(t *testing.T) {
	f := newFake()
	a, d := f.start(t, "")
	f.results[cuMemAlloc] = errorMemory
	if _, err := d.NewBuffer("weights", 1<<40, gpu.Storage); !errors.Is(err, device.ErrMemory) {
		t.Errorf("without memory: %v", err)
	}
	f.results[cuMemAlloc] = 1
	if _, err := d.NewBuffer("weights", 16, gpu.Storage); !errors.Is(err, device.ErrDevice) {
		t.Errorf("another error: %v", err)
	}
	aborted, why := a.Aborted()
	select {
	case <-aborted:
		t.Fatal("aborted by errors that are not sticky")
	default:
	}
	enc, _ := d.NewEncoder("run")
	c, _ := enc.Finish()
	if err := d.Submit(c); err != nil {
		t.Fatal(err)
	}
	f.results[cuEventQuery] = errorNotReady
	if idle, err := d.Poll(); idle || err != nil {
		t.Errorf("while it works: %v, %v", idle, err)
	}
	f.results[cuEventQuery] = 716 // a misaligned address
	if _, err := d.Poll(); !errors.Is(err, device.ErrDeviceLost) {
		t.Errorf("after an error of a kernel: %v", err)
	}
	if <-aborted; !errors.Is(why(), device.ErrDeviceLost) {
		t.Errorf("aborted: %v", why())
	}
}

// kernelOfTests begins like the texts of package matrix.
const kernelOfTests = "// rlx matrix kernel: 32 threads, 0 bytes\n.version 8.0\n.target sm_80\n" +
	".entry rlx_matrix()\n{\n  ret;\n}\n"

// TestCubins: code is made once, again if its file is damaged or refused, and kept only up to a size.
func TestCubins(t *testing.T) {
	dir := t.TempDir()
	compile := func(f *fake, links int) {
		t.Helper()
		_, d := f.start(t, dir)
		if made, _, err := d.Compile([]gpu.Source{{Label: "k", Text: kernelOfTests}}); err != nil || made[0] == nil {
			t.Fatal(err)
		}
		if n := f.count(cuLinkComplete); n != links {
			t.Errorf("compiled %d times; want %d", n, links)
		}
	}
	compile(newFake(), 1)
	compile(newFake(), 0)
	other := newFake()
	other.version = 12050
	compile(other, 1)
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 2 {
		t.Fatalf("files %v", files)
	}
	for _, name := range files {
		b, _ := os.ReadFile(name)
		b[len(b)-1] ^= 1
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	compile(newFake(), 1)
	refused := newFake()
	refused.code = []byte("other code")
	compile(refused, 1)
	compile(refused, 1)
	f := newFake()
	f.results[cuLinkAddData] = 218
	_, d := f.start(t, "")
	if _, failed, err := d.Compile([]gpu.Source{{Text: kernelOfTests}}); failed != 0 || err == nil ||
		!strings.Contains(err.Error(), "refused by the driver") {
		t.Errorf("a kernel that the driver refuses: %v", err)
	}
}

// TestGraph: commands that are kept become a graph when they have been submitted once.
func TestGraph(t *testing.T) {
	f := newFake()
	_, d := f.start(t, "")
	b, err := d.NewBuffer("b", 64, gpu.ToHost)
	if err != nil {
		t.Fatal(err)
	}
	from, err := d.NewBuffer("from", 64, gpu.Storage)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Upload(from, 4, []byte{1, 2, 3, 4, 5, 6}); err != nil {
		t.Fatal(err)
	}
	enc, _ := d.NewEncoder("run")
	for range 2 {
		if err := enc.Copy(b, 0, gpu.Piece{Buffer: from, Size: 16}); err != nil {
			t.Fatal(err)
		}
	}
	c, _ := enc.Finish()
	c.(gpu.Kept).Keep()
	for range 4 {
		if err := d.Submit(c); err != nil {
			t.Fatal(err)
		}
	}
	if made, launched := f.count(cuGraphInstantiate), f.count(cuGraphLaunch); made != 1 || launched != 3 {
		t.Errorf("%d graphs, launched %d times; want 1, 3", made, launched)
	}
	want := []byte{0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0}
	if got := b.(*buffer).Bytes(12); !slices.Equal(got, want) {
		t.Errorf("copied %v; want %v", got, want)
	}
	c.Release()
	f.results[cuGraphInstantiate] = errorMemory // commands are then put into the stream one by one
	enc, _ = d.NewEncoder("run")
	for range 2 {
		if err := enc.Copy(b, 0, gpu.Piece{Buffer: from, Offset: 4, Size: 4}); err != nil {
			t.Fatal(err)
		}
	}
	c, _ = enc.Finish()
	c.(gpu.Kept).Keep()
	tried := f.count(cuGraphInstantiate)
	for range 3 {
		if err := d.Submit(c); err != nil {
			t.Fatal(err)
		}
	}
	if made, launched := f.count(cuGraphInstantiate)-tried, f.count(cuGraphLaunch); made != 1 || launched != 3 {
		t.Errorf("a graph that cannot be made is tried %d times, and launched %d times; want 1, 0", made, launched-3)
	}
	if got := b.(*buffer).Bytes(4); !slices.Equal(got, want[4:8]) {
		t.Errorf("copied %v without a graph; want %v", got, want[4:8])
	}
	c.Release()
	done := false
	d.OnDone(func() { done = true })
	if idle, err := d.Poll(); !idle || err != nil || !done {
		t.Errorf("idle %v, %v, done %v", idle, err, done)
	}
	b.Release()
	from.Release()
	if len(f.memory) > 0 {
		t.Errorf("%d buffers are left", len(f.memory))
	}
}
