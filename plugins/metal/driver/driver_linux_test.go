package driver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/metal/shim"
)

// kernelCache is the folder in which the tests cache kernels that are compiled for the shim.
var kernelCache string

func TestMain(m *testing.M) {
	var err error
	if kernelCache, err = os.MkdirTemp("", "metal-driver"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(kernelCache)
	os.Exit(status)
}

// start returns a backend that uses the driver on a fake of Metal. cache is the folder of compiled pipelines.
func start(t *testing.T, cache string) (*fake, *gpu.Backend) {
	t.Helper()
	return startAPI(t, api{cache: cache})
}

func startAPI(t *testing.T, a api) (*fake, *gpu.Backend) {
	t.Helper()
	d, err := shim.Open(shim.Options{Cache: kernelCache, Level: "-O0"})
	if errors.Is(err, shim.ErrNoCompiler) && os.Getenv("RLX_REQUIRE_CXX") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	f := install(t, d)
	return f, gpu.New(translating{a, f})
}

// TestConformance runs the conformance suite's checks of a backend's behaviour, and those of a few ops, with inputs and
// results that are copied, and in place. It also checks that the driver sends every message of the table.
func TestConformance(t *testing.T) {
	f, b := start(t, t.TempDir())
	conform(t, b)
	elsewhere := []string{"setFastMathEnabled:", "setUrl:", "GPUEndTime", "code", "domain", "error", "userInfo",
		"objectForKey:", "label", "errorState",
		"newBufferWithBytesNoCopy:length:options:deallocator:", "length"} // other tests send these
	for _, m := range messages {
		if f.sent[m.selector] == 0 && !slices.Contains(elsewhere, m.selector) {
			t.Errorf("%s was not sent", m.selector)
		}
	}
	over := f.sent[noCopy]
	conform(t, inPlace{b, t})
	if over = f.sent[noCopy] - over; over < 10 {
		t.Errorf("%d buffers were made for inputs and results in place; want 10 or more", over)
	}
	f.checkReleased(t)
}

func conform(t *testing.T, b device.Backend) {
	t.Helper()
	for _, config := range []devicetest.Config{{Brief: true},
		{Brief: true, Ops: []string{"add", "softmax", "matmul"}}} {
		ctx, cancel := context.WithCancel(t.Context())
		passed := 0
		open := func(context.Context) (device.Backend, error) { return b, nil }
		err := devicetest.Test(ctx, config, open, func(r devicetest.Result) {
			if config.Ops == nil && r.Part != devicetest.Info && r.Part != devicetest.Behaviour {
				cancel()
				return
			}
			passed++
			if r.Outcome == devicetest.Failed {
				t.Errorf("%s: %v", r.Check, r.Err)
			}
		})
		if ctx.Err() == nil && err != nil {
			t.Fatal(err)
		}
		cancel()
		t.Logf("%d checks", passed)
		if passed < 10 {
			t.Errorf("%d checks were made; want 10 or more", passed)
		}
	}
}

// lasting counts, by class, the objects that live as long as the device after the program of use was loaded. The
// program has 2 kernels.
var lasting = map[string]int{"MTLDevice": 1, "NSString": 2, "MTLCommandQueue": 1, "MTLCommandBufferDescriptor": 1,
	"MTLBinaryArchive": 1, "NSArray": 1, "MTLComputePipelineState": 2}

// TestLeaks checks that programs and states release their objects when they are closed, after runs of different kinds.
func TestLeaks(t *testing.T) {
	f, b := start(t, t.TempDir())
	for range 3 {
		if err := use(t, b, device.RunOptions{}, device.RunOptions{Profile: true},
			device.RunOptions{CheckNaN: true}); err != nil {
			t.Fatal(err)
		}
		s, err := b.NewState(t.Context(), "", 1<<12)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Clear(t.Context()), s.Write(t.Context(), 7, []byte{1, 2, 3}), s.Close()); err != nil {
			t.Fatal(err)
		}
		if n := f.count(t); !maps.Equal(n, lasting) {
			t.Errorf("these objects are left: %v; want %v", n, lasting)
		}
	}
}

// TestFailures checks the error of a run for several domains and codes of a command buffer's error, and that the next
// run succeeds. The device is opened again if it was lost.
func TestFailures(t *testing.T) {
	f, b := start(t, "")
	for _, c := range []struct {
		failure
		want error
		say  string
	}{
		{failure{domain: "MTLCommandBufferErrorDomain", code: 8}, device.ErrMemory,
			"failed on Fake M1: it went wrong (MTLCommandBufferErrorDomain, code 8)"},
		{failure{domain: "MTLCommandBufferErrorDomain", code: 2}, device.ErrDevice, "code 2"},
		{failure{domain: "MTLCommandBufferErrorDomain", code: 3}, device.ErrDevice, "code 3"},
		{failure{domain: "MTLCommandBufferErrorDomain", code: 1}, device.ErrDevice, "code 1"},
		{failure{domain: "AnotherDomain", code: 8}, device.ErrDevice, "AnotherDomain"},
		{failure{domain: "MTLCommandBufferErrorDomain", code: 4}, device.ErrDeviceLost, "code 4"},
		{failure{domain: "MTLCommandBufferErrorDomain", code: 11}, device.ErrDeviceLost, "code 11"},
	} {
		f.status = &c.failure
		err := use(t, b)
		f.status = nil
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v; want %v, and %q", c.failure, err, c.want, c.say)
		}
		if err := use(t, b); err != nil {
			t.Errorf("after %v: %v", c.failure, err)
		}
		if n := f.count(t); n["MTLBuffer"]+n["MTLCommandBuffer"]+n["NSError"] > 0 {
			t.Errorf("after %v these objects are left: %v", c.failure, n)
		}
	}
	if n := f.count(t)["MTLCommandQueue"]; n != 3 {
		t.Errorf("%d queues; want 3: the first, and one for each of the two times that the device was lost", n)
	}
}

// TestFailedStep checks that the error of a run names the steps of the encoder that failed, if Metal reports the
// encoder.
func TestFailedStep(t *testing.T) {
	f, b := start(t, "")
	const domain = "MTLCommandBufferErrorDomain"
	if err := use(t, b, device.RunOptions{Profile: true}); err != nil { // measures the clock
		t.Fatal(err)
	}
	for _, c := range []struct {
		failure
		profile   bool
		want      error
		say, hint string
	}{
		{failure{domain: domain, code: 3, faulted: "step 2 ("}, true, device.ErrDevice,
			" failed on Fake M1 in step 2 (abs abs1): it went wrong (MTLC",
			"report it, and run with --backend wgpu or cpu"},
		{failure{domain: domain, code: 3, faulted: "step 1 ("}, false, device.ErrDevice,
			" failed on Fake M1 in step 1 (neg neg0) to step 4 (abs abs3): it went",
			"--backend wgpu or cpu; --profile runs each step by itself"},
		{failure{domain: domain, code: 11, affected: "step 3 ("}, true, device.ErrDeviceLost,
			" failed on Fake M1, probably in step 3 (neg neg2): it went wrong", "log may have the reason"},
		{failure{domain: domain, code: 8, affected: "step 4 ("}, false, device.ErrMemory,
			" failed on Fake M1, probably in step 1 (neg neg0) to step 4 (abs abs3): it",
			gpu.MemoryHint + "; --profile runs"},
		{failure{domain: domain, code: 1, affected: "copies"}, false, device.ErrDevice,
			" failed on Fake M1, probably in copies: it went wrong", ""},
		{failure{domain: domain, code: 1, affected: "copies", faulted: "step 4 ("}, false, device.ErrDevice,
			" failed on Fake M1 in step 1 (neg neg0) to step 4 (abs abs3): it", "--profile runs"},
		{failure{domain: domain, code: 2, faulted: "step 2 (", silent: true}, true, device.ErrDevice,
			" failed on Fake M1: it went wrong", "less other work on the GPU"},
		{failure{domain: domain, code: 2}, true, device.ErrDevice, " failed on Fake M1: it went wrong",
			"less other work on the GPU"},
	} {
		f.status = &c.failure
		err := use(t, b, device.RunOptions{Profile: c.profile})
		f.status = nil
		var d *diag.Error
		if !errors.Is(err, c.want) || !errors.As(err, &d) || !strings.Contains(d.Msg, c.say) ||
			!strings.Contains(d.Hint, c.hint) {
			t.Errorf("%+v: %v; want %v, %q, and the hint %q", c.failure, err, c.want, c.say, c.hint)
		}
		if err := use(t, b, device.RunOptions{Profile: true}); err != nil {
			t.Errorf("after %+v: %v", c.failure, err)
		}
		if n := f.count(t); n["MTLBuffer"]+n["MTLCommandBuffer"]+n["NSError"]+n["NSDictionary"]+
			n["MTLCommandBufferEncoderInfo"] > 0 {
			t.Errorf("after %+v these objects are left: %v", c.failure, n)
		}
	}
}

// TestOneCommandBuffer checks that a short run is one command buffer, once the time of its dispatches is known.
func TestOneCommandBuffer(t *testing.T) {
	f, b := start(t, t.TempDir())
	p := devicetest.Plain("metal")
	x, err := b.Load(t.Context(), device.Load{Program: p})
	if err != nil {
		t.Fatal(err)
	}
	// of each run; more than one where this machine was too busy and the dispatches seemed to take long
	var commits []int
	for range 8 {
		before := f.sent["commit"]
		if _, err := x.Run(
			t.Context(),
			device.Run{Syms: map[string]int64{"N": 3}, IO: tensor.AlignedBytes(int(p.IOSize))}); err != nil {
			t.Fatal(err)
		}
		commits = append(commits, f.sent["commit"]-before)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if slices.Min(commits[1:]) != 1 {
		t.Errorf("the runs have %v command buffers; want runs with one", commits)
	}
}

// TestEncoders checks that no encoder has more than dispatchesPerEncoder dispatches, and that its label names the first
// and the last step.
func TestEncoders(t *testing.T) {
	f, d := openDevice(t)
	source := []gpu.Source{
		{Text: "@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n@compute @workgroup_size(1)\nfn main() {\n  y[0] = y[0] + 1u;\n}\n",
			Bindings: 1}}
	if _, err := f.compileForShim(source); err != nil {
		t.Fatal(err)
	}
	made, _, err := d.Compile(source)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.NewBuffer("", 256, gpu.Storage)
	if err != nil {
		t.Fatal(err)
	}
	e, _ := d.NewEncoder("test")
	dispatch := func(n int, step func(k int) int) {
		for k := range n {
			bound, err := d.Bind(fmt.Sprintf("step %d", step(k)), made[0], []gpu.Piece{{Buffer: b, Size: 256}})
			if err != nil {
				t.Fatal(err)
			}
			e.Dispatch(made[0], bound, 1, 1)
		}
	}
	dispatch(2*dispatchesPerEncoder+3, func(k int) int { return k + 1 })
	if err := e.Clear(gpu.Piece{Buffer: b, Offset: 128, Size: 4}); err != nil {
		t.Fatal(err)
	}
	dispatch(3, func(int) int { return 50 }) // a step of three dispatches
	c, err := e.Finish()
	if err != nil {
		t.Fatal(err)
	}
	got := f.get(uintptr(c.(*commands).buffer)).labels
	if err := d.Submit(c); err != nil {
		t.Fatal(err)
	}
	for idle := false; !idle; {
		if idle, err = d.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"step 1 to step 16", "step 17 to step 32", "step 33 to step 35", "copies",
		"step 50"}; !slices.Equal(got, want) {
		t.Errorf("the encoders are %q; want %q", got, want)
	}
	if n := binary.LittleEndian.Uint32(b.Bytes(256)); n != 2*dispatchesPerEncoder+6 {
		t.Errorf("%d dispatches ran", n)
	}
}

// TestRefusals checks the error if Metal refuses to make an object, and that no objects are left then. Errors of the
// archive are ignored.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		selector string
		want     error
		say      string
	}{
		{"newCommandQueue", device.ErrUnavailable, "Metal returned no command queue"},
		{"newBufferWithLength:options:", device.ErrMemory, "a buffer of"},
		{"newLibraryWithSource:options:error:", device.ErrDevice,
			"the kernel is refused by Metal: newLibraryWithSource:options:error: fails, as the test requires"},
		{"newFunctionWithName:", device.ErrDevice, "no function rlx_main"},
		{"newComputePipelineStateWithDescriptor:options:reflection:error:", device.ErrDevice,
			"fails, as the test requires"},
		{"commandBufferWithDescriptor:", device.ErrDevice, "Metal returned no command buffer"},
		{"computeCommandEncoder", device.ErrDevice, "Metal returned no encoder"},
		{"blitCommandEncoder", device.ErrDevice, "Metal returned no encoder"},
		{"newBinaryArchiveWithDescriptor:error:", nil, ""},
		{"addComputePipelineFunctionsWithDescriptor:error:", nil, ""},
		{"serializeToURL:error:", nil, ""},
	} {
		f, b := start(t, t.TempDir())
		f.failing[c.selector] = true
		if err := use(t, b); !errors.Is(err, c.want) || err != nil &&
			(!strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v; want %v, and %q", c.selector, err, c.want, c.say)
		}
		for class, n := range f.count(t) {
			if n > lasting[class] {
				t.Errorf("after %s, %d objects of %s are left", c.selector, n, class)
			}
		}
	}
}

// TestArchive checks that a second backend finds the pipelines of the first, and that a file that Metal rejects or that
// is too large is replaced.
func TestArchive(t *testing.T) {
	cache := t.TempDir()
	const add, find = "addComputePipelineFunctionsWithDescriptor:error:",
		"newComputePipelineStateWithDescriptor:options:reflection:error:"
	file := filepath.Join(cache, "Fake M1.archive")
	for _, c := range []struct {
		before      func() error
		added, made int // messages
	}{
		{func() error { return nil }, 2, 4},
		{func() error { return nil }, 0, 2},
		{func() error { return os.WriteFile(file, []byte("damaged"), 0o600) }, 2, 4},
		{func() error { return nil }, 0, 2},
		{func() error { return os.Truncate(file, largestArchive) }, 2, 4},
		{func() error { return nil }, 0, 2},
	} {
		if err := c.before(); err != nil {
			t.Fatal(err)
		}
		f, b := start(t, cache)
		if err := use(t, b); err != nil {
			t.Fatal(err)
		}
		if f.sent[add] != c.added || f.sent[find] != c.made {
			t.Errorf("%d pipelines were added and %d requested; want %d and %d", f.sent[add], f.sent[find], c.added,
				c.made)
		}
		if list, err := os.ReadDir(cache); err != nil || len(list) != 1 {
			t.Errorf("the cache contains the files %v, %v; want one archive", list, err)
		}
	}
}

// openDevice opens the driver's device without a backend.
func openDevice(t *testing.T) (*fake, gpu.Device) {
	t.Helper()
	f, _ := start(t, "")
	list, err := api{}.Adapters()
	if err != nil {
		t.Fatal(err)
	}
	d, err := list[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	return f, d
}

// record returns an encoder with a command for each of the numbers: a clear of word k of a buffer or, for a negative k,
// mark -k-1 of a clock.
func record(t *testing.T, d gpu.Device, b gpu.Buffer, c gpu.Clock, what ...int) gpu.Encoder {
	t.Helper()
	e, err := d.NewEncoder("test")
	for _, k := range what {
		if k < 0 {
			err = errors.Join(err, e.Mark(c, -k-1))
		} else {
			err = errors.Join(err, e.Clear(gpu.Piece{Buffer: b, Offset: int64(4 * k), Size: 4}))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// finish finishes all recordings, then submits them, and waits until they have ended.
func finish(t *testing.T, d gpu.Device, list ...gpu.Encoder) {
	t.Helper()
	var recorded []gpu.Commands
	for _, e := range list {
		c, err := e.Finish()
		if err != nil {
			t.Fatal(err)
		}
		recorded = append(recorded, c)
	}
	for _, c := range recorded {
		if err := d.Submit(c); err != nil {
			t.Fatal(err)
		}
	}
	for idle := false; !idle; {
		var err error
		if idle, err = d.Poll(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClock checks that a mark has the end time of the commands before it, and that marks without commands between them
// are equal.
func TestClock(t *testing.T) {
	f, d := openDevice(t)
	b, err := d.NewBuffer("", 1<<10, gpu.Storage)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.NewClock(5)
	if err != nil {
		t.Fatal(err)
	}
	finish(t, d, record(t, d, b, c, -1, -2, 0, 1, -3, 2, -4), record(t, d, b, c, 3, -5, 4))
	var ticks []uint64
	for k := range 5 {
		ticks = append(ticks, binary.LittleEndian.Uint64(c.Ticks().Bytes(c.Bytes())[8*k:]))
	}
	if ticks[0] < 1e15 || ticks[0] != ticks[1] || !slices.IsSorted(ticks) || ticks[1] == ticks[2] ||
		ticks[2] == ticks[3] || ticks[3] == ticks[4] {
		t.Errorf("the marks are %v", ticks)
	}
	if f.encoded != 3+1+2 { // the commands after the last mark have a command buffer, too
		t.Errorf("%d command buffers; want 6", f.encoded)
	}
}

// TestAhead checks that more recordings can be finished before the first is submitted than the queue has command
// buffers.
func TestAhead(t *testing.T) {
	f, d := openDevice(t)
	b, err := d.NewBuffer("", 1<<10, gpu.Storage)
	if err != nil {
		t.Fatal(err)
	}
	var list []gpu.Encoder
	for k := range 200 {
		list = append(list, record(t, d, b, nil, k))
	}
	finish(t, d, list...)
	if f.encoded != 200 {
		t.Errorf("%d command buffers; want 200", f.encoded)
	}
	c, err := record(t, d, b, nil, 0).Finish()
	if err != nil {
		t.Fatal(err)
	}
	c.Release()
	b.Release()
	if n := f.count(t); n["MTLCommandBuffer"]+n["MTLBuffer"] > 0 {
		t.Errorf("these objects are left: %v", n)
	}
}

// TestUploadWaits checks that an upload takes effect after earlier submissions, although it does not go through the
// queue.
func TestUploadWaits(t *testing.T) {
	_, d := openDevice(t)
	b, err := d.NewBuffer("", 256<<20, gpu.Storage)
	if err != nil {
		t.Fatal(err)
	}
	e, _ := d.NewEncoder("")
	if err := e.Clear(gpu.Piece{Buffer: b, Size: 256 << 20}); err != nil {
		t.Fatal(err)
	}
	c, err := e.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Submit(c), d.Upload(b, 255<<20, []byte{1, 2, 3, 4, 5})); err != nil {
		t.Fatal(err)
	}
	for idle := false; !idle; {
		if idle, err = d.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.Bytes(256 << 20)[255<<20:][:8]; !slices.Equal(got, []byte{1, 2, 3, 4, 5, 0, 0, 0}) {
		t.Errorf("after the upload the bytes are %v", got)
	}
}

// TestNoMetal checks the error on a system without Metal.
func TestNoMetal(t *testing.T) {
	if native != nil {
		t.Skip("this system has Metal")
	}
	_, err := New().Info(t.Context())
	if !errors.Is(err, device.ErrUnavailable) {
		t.Errorf("%v; want %v", err, device.ErrUnavailable)
	}
}

// TestOld checks that the driver uses the older setting for precise arithmetic on systems before macOS 15.
func TestOld(t *testing.T) {
	f, b := start(t, "")
	f.old = true
	if err := use(t, b); err != nil || f.sent["setFastMathEnabled:"] != 2 {
		t.Errorf("%v; the setting was sent %d times", err, f.sent["setFastMathEnabled:"])
	}
}

// TestMatrices checks that matrix products use simdgroup matrices on GPUs of family Apple 7 and later, and the error if
// simdgroups do not have 32 threads.
func TestMatrices(t *testing.T) {
	g := ir.NewGraph("product")
	g.Return(
		"y", op.MatMul(op.Input(g, "x", ir.TypeOf(dtype.F32, 64, 64)), op.Input(g, "w", ir.TypeOf(dtype.F32, 64, 64)),
			op.MatMulAttrs{}))
	p, _, err := sched.Build(g, sched.Options{Target: "metal"})
	if err != nil {
		t.Fatal(err)
	}
	x, w := tensor.NewArray(dtype.F32, 64, 64), tensor.NewArray(dtype.F32, 64, 64)
	for i := range x.Floats {
		x.Floats[i], w.Floats[i] = float64(i%7-3), float64(i%5-2)
	}
	for _, c := range []struct {
		family, width uintptr
		matrices      bool
		say           string
	}{{7, 32, true, ""}, {9, 32, true, ""}, {6, 32, false, ""}, {6, 16, false, ""}, {7, 16, true, "simdgroups of 16"}} {
		f, b := start(t, "")
		f.family, f.width = c.family, c.width
		e, err := b.Load(t.Context(), device.Load{Program: p})
		if c.say != "" {
			if !errors.Is(err, device.ErrDevice) || !strings.Contains(err.Error(), c.say) {
				t.Errorf("%+v: %v", c, err)
			}
			if n := f.count(t); n["MTLBuffer"]+n["MTLComputePipelineState"] > 0 {
				t.Errorf("%+v: these objects are left: %v", c, n)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range f.kernels {
			if k.kernel.Matrices != c.matrices {
				t.Errorf("%+v: the kernel uses matrices: %t", c, k.kernel.Matrices)
			}
		}
		y := devicetest.Once(t, e, p, nil, map[string]*tensor.Array{"x": x, "w": w})["y"]
		for i, got := range y.Floats {
			want := 0.0
			for k := range 64 {
				want += x.Floats[i/64*64+k] * w.Floats[k*64+i%64]
			}
			if got != want {
				t.Fatalf("%+v: element %d is %v; want %v", c, i, got, want)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestProducts checks the results of the kernels that TestDeviceProducts times on a Mac.
func TestProducts(t *testing.T) {
	for _, d := range []dtype.DType{dtype.F32, dtype.F16} {
		products(t, func(t *testing.T, a api) *gpu.Backend {
			_, b := startAPI(t, a)
			return b
		}, d, 80, 132, 32, 1)
	}
}

// TestAttention checks the results of the kernels that TestDeviceAttention times on a Mac, with smaller sizes.
func TestAttention(t *testing.T) {
	for _, c := range []attentionCase{{name: "grid", heads: 1, d: 16, side: 9, window: 7},
		{name: "prompt", heads: 2, kv: 1, d: 24, tokens: 70}} {
		attentions(t, func(t *testing.T, a api) *gpu.Backend {
			_, b := startAPI(t, a)
			return b
		}, c, 1)
	}
}

// TestKernel runs a kernel with 4 bytes of threadgroup memory, which the driver must round up to 16, in a grid of two
// dimensions.
func TestKernel(t *testing.T) {
	const text = `
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
var<workgroup> total: atomic<u32>;
@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  atomicAdd(&total, local + 1000u * (group.y * groups.x + group.x));
  workgroupBarrier();
  if (local == 0u) {
    y[group.y * groups.x + group.x] = atomicLoad(&total);
  }
}
`
	f, d := openDevice(t)
	source := []gpu.Source{{Text: text, Bindings: 1}}
	if _, err := f.compileForShim(source); err != nil {
		t.Fatal(err)
	}
	made, _, err := d.Compile(source)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.NewBuffer("", 1<<12, gpu.Storage)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := d.Bind("", made[0], []gpu.Piece{{Buffer: b, Offset: 256, Size: 4 * 5}})
	if err != nil {
		t.Fatal(err)
	}
	e, _ := d.NewEncoder("")
	e.Dispatch(made[0], bound, 3, 2)
	finish(t, d, e)
	// the sixth is beyond the 20 bytes that the kernel sees
	for i, want := range []uint32{496, 32496, 64496, 96496, 128496, 0} {
		if got := binary.LittleEndian.Uint32(b.Bytes(1 << 12)[256+4*i:]); got != want {
			t.Errorf("word %d is %d; want %d", i, got, want)
		}
	}
	if _, err := d.Bind("", made[0], nil); err == nil {
		t.Error("Bind accepted no operands for a kernel with one")
	}
}
