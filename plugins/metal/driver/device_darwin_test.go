package driver

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// These tests run on the device of a Mac. Lines that begin with "report:" go to the report of make test-metal.

// mustHave makes a Mac without Metal, such as a virtual machine, fail the tests instead of skipping them.
var mustHave = os.Getenv("RLX_REQUIRE_GPU") != ""

// cached is a backend with a cache of its own.
func cached(t *testing.T, dir string) *gpu.Backend {
	t.Helper()
	b := gpu.New(api{dir})
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

// TestDevice makes a sample of the conformance suite.
func TestDevice(t *testing.T) {
	b := cached(t, t.TempDir())
	devicetest.Run(t, func(*testing.T) device.Backend { return b }, devicetest.Options{MustHave: mustHave})
}

// TestDeviceArchive: a second process finds the pipelines of the first.
func TestDeviceArchive(t *testing.T) {
	dir := t.TempDir()
	for _, which := range []string{"first", "second"} {
		begin := time.Now()
		if err := use(t, cached(t, dir)); err != nil {
			t.Fatal(err)
		}
		t.Logf("report: the %s process loads and runs a program in %v", which, time.Since(begin).Round(time.Millisecond/10))
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 {
		t.Errorf("the cache has the files %v, %v; want an archive", list, err)
	}
}

// TestDeviceMemory: programs and states that are closed leave no memory allocated.
func TestDeviceMemory(t *testing.T) {
	b := cached(t, "")
	once := func() {
		s, err := b.NewState(t.Context(), "", 8<<20)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Clear(t.Context()), s.Close(), use(t, b, device.RunOptions{Profile: true})); err != nil {
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
