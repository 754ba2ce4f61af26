//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestProfileClock checks that a device with a clock measures the steps itself. There are no gaps between them, and
// they add up to the time of the run on the device. Without a clock the host measures them. The results are the same.
func TestProfileClock(t *testing.T) {
	find, section := compileSAM(t, dtype.F32)
	p := find("encode", "cpu")
	for _, b := range []device.Backend{shared, New(Options{NoTimestamps: true})} {
		x := load(t, b, p, section)
		clock := b == shared && slices.Contains(first(t).Features, "clock")
		plain, profiled := tensor.AlignedBytes(int(p.IOSize)), tensor.AlignedBytes(int(p.IOSize))
		if _, err := x.Run(context.Background(), device.Run{IO: plain}); err != nil {
			t.Fatal(err)
		}
		for _, opts := range []device.RunOptions{{Profile: true}, {Profile: true, CheckNaN: true}} {
			stats, err := x.Run(context.Background(), device.Run{IO: profiled, Opts: opts})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(plain, profiled) {
				t.Errorf("%+v: the profiled run has other results", opts)
			}
			want := device.HostClock
			if clock && !opts.CheckNaN {
				want = device.DeviceClock
			}
			if stats.Clock != want || len(stats.Steps) != len(p.Steps) {
				t.Fatalf("%+v: %d times by the %q clock; want %d by the %q clock", opts, len(stats.Steps), stats.Clock,
					len(p.Steps), want)
			}
			var sum time.Duration
			for i, s := range stats.Steps {
				sum += s.Time
				if want == device.DeviceClock && i > 0 && s.Start != stats.Steps[i-1].Start+stats.Steps[i-1].Time {
					t.Fatalf("step %d starts at %v, where step %d has not just ended", i, s.Start, i-1)
				}
			}
			if sum <= 0 || sum > stats.Total {
				t.Errorf("%+v: steps add up to %v in a run of %v", opts, sum, stats.Total)
			}
		}
	}
}
