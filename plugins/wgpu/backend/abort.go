//go:build cgo && (darwin || amd64)

package backend

import (
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// The library calls abort if a submission fails because the device is lost or out of memory, or the commands are
// invalid. At that point it holds locks that it never releases. So the process cannot go on, but it can still report
// what happened.
var (
	watchAbort sync.Once
	aborted    = make(chan struct{}) // closed after abortError is set
	abortError *diag.Error
)

func (*api) Aborted() (closed <-chan struct{}, why func() error) {
	watchAbort.Do(func() {
		catchAbort(func(said string) {
			abortError = explainAbort(said)
			close(aborted)
		})
	})
	return aborted, func() error { return abortError }
}

// explainAbort makes an error from the text that a thread wrote before it aborted, such as "thread 'NAME' panicked at
// 'REASON', FILE".
func explainAbort(said string) *diag.Error {
	_, reason, _ := strings.Cut(said, "panicked at '")
	reason, _, _ = strings.Cut(reason, "', src/")
	reason = strings.Join(strings.Fields(reason), " ")
	switch {
	case strings.Contains(reason, "lost"):
		return diag.New(device.ErrDeviceLost, "wgpu", "the device was lost (%s)", reason).
			WithHint("run again; the driver's reason is in the system's log, for NVIDIA a line with Xid in dmesg")
	case strings.Contains(reason, "memory"):
		return diag.New(device.ErrMemory, "wgpu", "the device has not enough memory (%s)", reason).WithHint(
			gpu.MemoryHint)
	case reason == "":
		reason = "it did not say why; see the backend's log"
	}
	return diag.New(device.ErrDevice, "wgpu", "the GPU library gave up (%s)", reason).WithHint(
		"run again, and report the backend's log if it recurs")
}
