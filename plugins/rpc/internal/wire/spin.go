package wire

import (
	"runtime"
	"time"

	"github.com/rlx-go/rlx/core/device"
)

// Waking a process that is blocked on a message takes 10 to 50 us, and more on a virtual machine. That is significant
// for runs of a millisecond, so both sides spin for a while before they block. If the device is the host's own
// processors, spinning may take time from the computation. So the host spins only for runs that take less than
// briefRun, few of whose steps are divided among threads, and the backend only after short runs, those that take less
// than ShortRun. If a brief run does use all processors, the host notices that and blocks; see crowd.
const ShortRun = 3 * time.Millisecond

// messageTime is the part of a run's time that is not spent in its steps.
const briefRun, messageTime = 300 * time.Microsecond, 30 * time.Microsecond

// HostSpin returns how long the host spins while a run takes place. last is the time of the last one, 0 before the
// first. spare says whether the run leaves the host a processor.
func HostSpin(last time.Duration, spare bool) time.Duration {
	if last >= briefRun && !spare || last >= ShortRun {
		return 0
	}
	return 2*last + messageTime
}

// Spare reports whether a run on the device with this ID leaves the host a processor. threads is the number of its
// threads, 0 for all.
func Spare(info device.Info, id string, threads int) bool {
	return Accelerated(info, id) || 0 < threads && threads < runtime.GOMAXPROCS(0)
}

// Accelerated reports whether the device with this ID is a GPU or an NPU. The ID "" stands for the first device.
func Accelerated(info device.Info, id string) bool {
	for i, d := range info.Devices {
		if d.ID == id || id == "" && i == 0 {
			return d.Type == "gpu" || d.Type == "npu"
		}
	}
	return false
}

// crowded is how long one poll takes at least if other threads ran in the meantime. Alone it takes 1 or 2 us.
const crowded = 15 * time.Microsecond

// A crowd remembers that other threads wanted the processor on which a thread spun. Spinning then takes time from them,
// or from the process for which it waits. So the thread does not spin for some messages: 1 at first, and at most
// maxPause.
type crowd struct{ left, pause int }

const maxPause = 63

// admits reports whether to spin for the next message.
func (c *crowd) admits() bool {
	if c.left > 0 {
		c.left--
		return false
	}
	return true
}

func (c *crowd) found() {
	c.pause = min(2*c.pause+1, maxPause)
	c.left = c.pause
}
