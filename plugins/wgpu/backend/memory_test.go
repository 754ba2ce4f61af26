//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/rajveermalviya/go-webgpu/wgpu"
	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// TestMemory checks that a run reports the size of the program's buffers. That is little more than the weights that the
// program reads and the arena.
func TestMemory(t *testing.T) {
	find, section := compileSAM(t, dtype.F32)
	for _, method := range []string{"encode", "decode"} {
		p := find(method, "cpu")
		x := load(t, shared, p, section)
		syms := map[string]int64{}
		if method == "decode" {
			syms["N"] = 2
		}
		stats, err := x.Run(context.Background(), device.Run{Syms: syms, IO: tensor.AlignedBytes(int(p.IOSize))})
		if err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		buffers, weights := gpu.Inspect(x).Buffers()
		for _, b := range buffers {
			sum += int64(b.(*buffer).GetSize())
		}
		if stats.DeviceMemory != sum {
			t.Errorf("%s: %d bytes are reported; the buffers have %d", method, stats.DeviceMemory, sum)
		}
		if most := weights + p.ArenaSize + 64<<20; weights > int64(len(section)) || sum > most {
			t.Errorf("%s: %d bytes; want at most %d: weights %d of %d, arena %d, and 64 MiB", method, sum, most,
				weights, len(section), p.ArenaSize)
		}
	}
}

// TestTooLarge checks that a program that does not fit is rejected before anything is allocated. The error says how
// much it needs, how much is free and which tensor is the largest.
func TestTooLarge(t *testing.T) {
	p := sums(t, 3, 1<<20)
	load(t, shared, p, nil)
	b := New(Options{Memory: 70 << 20})
	_, err := b.Load(context.Background(), device.Load{Program: p})
	if !errors.Is(err, device.ErrMemory) {
		t.Fatalf("the error is %v; want %v", err, device.ErrMemory)
	}
	for _, text := range []string{"needs ", "arena ", "73.4 MB are free", "largest tensor", "4.2 MB"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v; want it to say %q", err, text)
		}
	}
	load(t, New(Options{Memory: 1 << 30}), p, nil)
}

// TestNoMemory leaves little memory to the software adapter. A failed allocation is an error that names the buffer, and
// the device remains usable.
func TestNoMemory(t *testing.T) {
	p := sums(t, 3, 1<<20)
	load(t, shared, p, nil)
	var err error
	scarce(t, func() { _, err = shared.NewState(t.Context(), "", 1<<30) })
	if !errors.Is(err, device.ErrMemory) || !strings.Contains(err.Error(), "a buffer of 1073.7 MB for state") {
		t.Fatalf("the error is %v; want %v", err, device.ErrMemory)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has several lines: %v", err)
	}
	x := load(t, shared, p, nil)
	if out := onDevice(
		t, x, p, nil, map[string]*tensor.Array{"x": tensor.NewArray(dtype.F32, 1<<20)}); out["y"].Floats[0] != 0 {
		t.Errorf("the sum of zeros is %v", out["y"].Floats[0])
	}
}

// TestNoMemoryInRun checks that a run that cannot allocate memory returns an error, and the next run works.
func TestNoMemoryInRun(t *testing.T) {
	g := ir.NewGraph("test")
	wide := op.Expand(op.Input(g, "x", ir.TypeOf(dtype.F32, 1)), ir.Shape{ir.Static(80 << 20)})
	g.Return("y", op.Neg(op.Narrow(wide, 0, 5, 16)))
	p, _, err := sched.Build(
		g, sched.Options{Target: "portable", Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		t.Fatal(err)
	}
	x := load(t, shared, p, nil)
	in := map[string]*tensor.Array{"x": tensor.NewArray(dtype.F32, 1)}
	onDevice(t, x, p, nil, in)
	scarce(t, func() {
		_, err = x.Run(context.Background(), device.Run{IO: tensor.AlignedBytes(int(p.IOSize)), Opts: device.RunOptions{
			Dump: []int{p.Steps[0].Node}, Observe: func(int, []int, []byte) error { return nil }}})
	})
	if !errors.Is(err, device.ErrMemory) || !strings.Contains(err.Error(), "335.5 MB") {
		t.Errorf("the error is %v; want %v", err, device.ErrMemory)
	}
	onDevice(t, x, p, nil, in)
}

// TestMemoryOfLooking checks that a run that checks every step keeps one value in memory, not all of them.
func TestMemoryOfLooking(t *testing.T) {
	const steps, size = 64, 1 << 18
	p := sums(t, steps, size)
	x := load(t, shared, p, nil)
	run := device.Run{IO: tensor.AlignedBytes(int(p.IOSize)), Opts: device.RunOptions{CheckNaN: true}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := x.Run(context.Background(), run); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > steps*size*4/8 {
		t.Errorf("%d bytes were allocated; a value has %d", got, size*4)
	}
}

// scarce leaves 256 MiB to the software adapter while f runs.
func scarce(t *testing.T, f func()) {
	t.Helper()
	if runtime.GOOS != "linux" || first(t).Type != typeSoftware {
		t.Skip("the memory of a GPU cannot be limited from here")
	}
	pages, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var used uint64
	fmt.Sscan(string(pages), &used)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(
		unix.RLIMIT_AS, &unix.Rlimit{Cur: used*uint64(os.Getpagesize()) + 256<<20, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_AS, &old); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}

// TestOwnMemory checks that only the memory of a GPU is listed, although Vulkan reports the memory of every adapter.
func TestOwnMemory(t *testing.T) {
	adapters, err := new(api).Adapters()
	if errors.Is(err, device.ErrUnavailable) && os.Getenv("RLX_REQUIRE_GPU") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range adapters {
		d, p := a.Info(), a.(*adapter).GetProperties()
		if p.BackendType != wgpu.BackendType_Vulkan {
			continue
		}
		total, free := ownMemory(p.VendorId, p.DeviceId, 0)
		if total < 64<<20 || free <= 0 || free > total {
			t.Errorf("%s has %d bytes of memory, %d of them free", d.Name, total, free)
		}
		if (d.Memory > 0) != (d.Type == typeGPU) {
			t.Errorf("%s, %s, is shown with %d bytes of memory", d.Name, d.Type, d.Memory)
		}
	}
	if total, free := ownMemory(0xdead, 0xbeef, 0); total != 0 || free != 0 {
		t.Errorf("a device that is not there has %d bytes, %d free", total, free)
	}
}
