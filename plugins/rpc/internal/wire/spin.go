package wire

import (
	"time"

	"github.com/rlx-go/rlx/core/device"
)

// Waking a process that is blocked on a message takes 10 to 50 us, and more on a virtual machine, which is significant
// for runs of a millisecond. So both sides spin for a while before they block. If the device is a processor of the
// host, the host does not spin, because that would take time from the computation, and the backend spins after short
// runs only. Runs that take less than shortRun are short.
const ShortRun = 3 * time.Millisecond

// Accelerated reports whether the device with this ID is a GPU or an NPU. The ID "" stands for the first device.
func Accelerated(info device.Info, id string) bool {
	for i, d := range info.Devices {
		if d.ID == id || id == "" && i == 0 {
			return d.Type == "gpu" || d.Type == "npu"
		}
	}
	return false
}
