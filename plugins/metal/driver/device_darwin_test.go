package driver

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// These tests run on the GPU of a Mac. make test-metal copies the log lines that begin with "report:" to its report.

// mustHave makes the tests fail instead of being skipped on a Mac without Metal, such as a virtual machine.
var mustHave = os.Getenv("RLX_REQUIRE_GPU") != ""

// cached returns a backend that caches pipelines in dir.
func cached(t *testing.T, dir string) *gpu.Backend {
	t.Helper()
	return describedBackend(t, api{cache: dir})
}

// describedBackend returns a backend and logs its devices. It skips the test if the backend has no device.
func describedBackend(t *testing.T, a api) *gpu.Backend {
	t.Helper()
	b := gpu.New(a)
	info, err := b.Info(t.Context())
	if errors.Is(err, device.ErrUnavailable) && !mustHave {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range info.Devices {
		t.Logf("report: device %s: %s, %d MB, %v", d.ID, d.Name, d.Memory/1e6, d.Features)
	}
	return b
}

// TestDevice runs a sample of the conformance suite.
func TestDevice(t *testing.T) {
	b := cached(t, t.TempDir())
	devicetest.Run(t, func(*testing.T) device.Backend { return b }, devicetest.Options{MustHave: mustHave})
}

// TestDevicePlain runs a sample of the conformance suite without simdgroup matrices. If it passes and TestDevice fails,
// look at the matrices first.
func TestDevicePlain(t *testing.T) {
	b := describedBackend(t, api{plain: true})
	devicetest.Run(t, func(*testing.T) device.Backend { return b }, devicetest.Options{MustHave: mustHave})
}

// TestDeviceProducts times matrix products with and without simdgroup matrices.
func TestDeviceProducts(t *testing.T) {
	for _, s := range [][3]int{{2048, 2048, 2048}, {4096, 768, 768}, {256, 4096, 4096}} {
		products(t, describedBackend, dtype.F32, s[0], s[1], s[2], 20)
		products(t, describedBackend, dtype.F16, s[0], s[1], s[2], 20)
	}
}

// TestDeviceAttention times attention with and without matrices, in the sizes of SAM's image encoder (over all tokens
// and in windows) and of a language model's prompt.
func TestDeviceAttention(t *testing.T) {
	for _, c := range []attentionCase{{name: "sam, all tokens", heads: 12, d: 64, side: 64},
		{name: "sam, windows", heads: 12, d: 64, side: 64, window: 14},
		{name: "sam-h, windows", heads: 16, d: 80, side: 64, window: 14},
		{name: "prompt", heads: 32, kv: 8, d: 128, tokens: 1024},
		{name: "short heads", heads: 32, kv: 8, d: 64, tokens: 512}} {
		attentions(t, describedBackend, c, 20)
	}
}

// TestDeviceInPlaceIO runs a sample of the conformance suite with inputs and results in place, if the device can use
// them so.
func TestDeviceInPlaceIO(t *testing.T) {
	b := cached(t, t.TempDir())
	list, err := api{}.Adapters()
	if err != nil {
		t.Fatal(err)
	}
	d, err := list[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	memory, unmap := mapPages(t, make([]byte, pageSize), 0, true)
	if over, err := d.(gpu.InPlace).Over("memory", memory); err != nil {
		t.Logf("report: inputs and results are not in place: %v", err)
	} else {
		over.Release()
		t.Log("report: inputs and results are in place")
	}
	unmap()
	devicetest.Run(t, func(*testing.T) device.Backend { return inPlace{b, t} }, devicetest.Options{MustHave: mustHave})
}

// TestDeviceArchive loads a program in a backend with an empty cache, and in a second backend that finds the pipelines
// of the first. It logs the times.
func TestDeviceArchive(t *testing.T) {
	dir := t.TempDir()
	for _, which := range []string{"first", "second"} {
		begin := time.Now()
		if err := use(t, cached(t, dir)); err != nil {
			t.Fatal(err)
		}
		t.Logf("report: the %s backend loads and runs a program in %v", which,
			time.Since(begin).Round(time.Millisecond/10))
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 {
		t.Errorf("the cache contains the files %v, %v; want one archive", list, err)
	}
}

// TestDeviceMemory checks that programs and states free their memory when they are closed.
func TestDeviceMemory(t *testing.T) {
	b := cached(t, "")
	once := func() {
		s, err := b.NewState(t.Context(), "", 8<<20)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Clear(t.Context()), s.Close(),
			use(t, b, device.RunOptions{Profile: true})); err != nil {
			t.Fatal(err)
		}
	}
	once()
	list, err := api{}.Adapters()
	if err != nil {
		t.Fatal(err)
	}
	before := list[0].Free()
	for range 50 {
		once()
	}
	if lost := before - list[0].Free(); lost > 8<<20 {
		t.Errorf("50 programs and states of 8 MiB leave %d bytes allocated", lost)
	}
}

// TestDeviceInPlace checks that the GPU can read a file that is mapped read-only.
func TestDeviceInPlace(t *testing.T) {
	cached(t, "")
	list, err := api{}.Adapters()
	if err != nil {
		t.Fatal(err)
	}
	d, err := list[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	const size = 5*pageSize + 100
	want := make([]byte, size)
	for i := range want {
		want[i] = byte(i ^ i>>8)
	}
	name := filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(name, want, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	memory, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	over, err := d.(gpu.InPlace).Over("weights", memory)
	if err != nil {
		t.Skipf("report: weights are not used in place: %v", err)
	}
	to, err := d.NewBuffer("copy", size, gpu.Storage)
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.NewEncoder("copy")
	if err == nil {
		err = e.Copy(to, 0, gpu.Piece{Buffer: over, Size: size})
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Finish()
	if err == nil {
		err = d.Submit(c)
	}
	for idle := false; !idle && err == nil; {
		idle, err = d.Poll()
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(to.Bytes(size), want) {
		t.Error("the GPU read other bytes than those of the file")
	}
	over.Release()
	to.Release()
	if err := unix.Munmap(memory); err != nil {
		t.Error(err)
	}
	t.Log("report: weights are used in place")
}
