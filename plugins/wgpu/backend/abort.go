//go:build cgo && (darwin || amd64)

package backend

import (
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
)

// The library calls abort where it cannot go on: when a submission fails because the device is lost, because there is no
// memory, or because it is wrong. It then holds locks that it will never give back, so the process is of no more use; but it
// can still say what happened.
var (
	watchAbort sync.Once
	aborted    = make(chan struct{}) // closed after abortError is set
	abortError *diag.Error
)

// explainAbort makes an error of what a thread said before it aborted: thread 'NAME' panicked at 'REASON', FILE.
func explainAbort(said string) *diag.Error {
	_, reason, _ := strings.Cut(said, "panicked at '")
	reason, _, _ = strings.Cut(reason, "', src/")
	reason = strings.Join(strings.Fields(reason), " ")
	switch {
	case strings.Contains(reason, "lost"):
		return diag.New(device.ErrDeviceLost, "wgpu", "the device was lost (%s)", reason).
			WithHint("run again; the driver's reason is in the system's log, for NVIDIA a line with Xid in dmesg")
	case strings.Contains(reason, "memory"):
		return diag.New(device.ErrMemory, "wgpu", "the device has not enough memory (%s)", reason).WithHint(memoryHint)
	case reason == "":
		reason = "it did not say why; see the backend's log"
	}
	return diag.New(device.ErrDevice, "wgpu", "the GPU library gave up (%s)", reason).WithHint("run again, and report the backend's log if it recurs")
}
