package peakrss

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// TestOwn checks that the peak of a small process does not include the memory of the large process that started it.
func TestOwn(t *testing.T) {
	const held = 256 << 20
	if os.Getenv("RLX_TEST_PEAK") != "" {
		fmt.Println("peak", Own())
		return
	}
	heap := bytes.Repeat([]byte{1}, held)
	c := exec.Command("/proc/self/exe", "-test.run=^TestOwn$")
	c.Env = append(os.Environ(), "RLX_TEST_PEAK=1")
	out, err := c.Output()
	var child int64
	if _, scan := fmt.Sscanf(string(out), "peak %d", &child); err != nil || scan != nil || child < 1<<20 ||
		child >= held {
		t.Errorf("peak of a child: %s (%v, %v)", out, err, scan)
	}
	if own := Own(); own < held {
		t.Errorf("peak of this process: %d, which holds %d", own, held)
	}
	runtime.KeepAlive(heap)
}
