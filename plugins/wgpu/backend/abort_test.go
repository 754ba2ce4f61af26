//go:build cgo && linux && amd64

package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

const abortingChild = "RLX_TEST_ABORT"

// TestAbort makes the library abort in a submission, in a separate process. The run returns an error with the library's
// reason, later calls return the same error, and the process goes on.
func TestAbort(t *testing.T) {
	if os.Getenv(abortingChild) != "" {
		abortInRun(t)
		return
	}
	load(t, shared, sums(t, 1, 16), nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestAbort$", "-test.v")
	cmd.Env = append(os.Environ(), abortingChild+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "went on to the end") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func abortInRun(t *testing.T) {
	p := sums(t, 3, 1024)
	x := load(t, shared, p, nil)
	y := load(t, shared, p, nil)
	io := tensor.AlignedBytes(int(p.IOSize))
	if _, err := x.Run(context.Background(), device.Run{IO: io}); err != nil {
		t.Fatal(err)
	}
	buffers, _ := gpu.Inspect(x).Buffers()
	buffers[len(buffers)-1].(*buffer).Destroy() // the library aborts, as it does if the device is lost
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, device.ErrDevice) || !strings.Contains(err.Error(), "Buffer") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
	_, err := x.Run(context.Background(), device.Run{IO: io})
	check("run", err)
	_, err = y.Run(context.Background(), device.Run{IO: io})
	check("run of another program", err)
	_, err = New(Options{}).Load(context.Background(), device.Load{Program: p})
	check("load", err)
	check("close", x.Close())
	for range 20 { // the blocked thread does not disturb other calls
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	fmt.Println("went on to the end")
}

// TestExplainAbort checks that the code of the error depends on the library's message.
func TestExplainAbort(t *testing.T) {
	for _, c := range []struct {
		said string
		code diag.Code
		text string
	}{
		{"thread '<unnamed>' panicked at 'Error in wgpuQueueSubmitForIndex: Validation Error\n\nCaused by:\n    Parent device is lost\n', src/lib.rs:495:5\nstack backtrace:\n",
			device.ErrDeviceLost,
			"the device was lost (Error in wgpuQueueSubmitForIndex: Validation Error Caused by: Parent device is lost)"},
		{"thread 'a' panicked at 'Error in wgpuQueueSubmit: Validation Error\n\nCaused by:\n    Not enough memory left\n', src/lib.rs:495:5",
			device.ErrMemory, "not enough memory"},
		{"thread '<unnamed>' panicked at 'Error in wgpuDevicePoll: x', src/lib.rs:495:5", device.ErrDevice,
			"gave up (Error in wgpuDevicePoll: x)"},
		{"thread '<unnamed>' panicked at 'cut off", device.ErrDevice, "gave up (cut off)"},
		{"", device.ErrDevice, "did not say why"},
	} {
		if err := explainAbort(c.said); !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%q: %v; want %s, %q", c.said, err, c.code, c.text)
		}
	}
}
