package gpu

import (
	"slices"
	"testing"
	"time"
)

// TestFlowSizes checks the number of dispatches per submission of a run with 100 dispatches.
func TestFlowSizes(t *testing.T) {
	for _, c := range []struct {
		pace time.Duration
		size int
	}{
		{0, firstDispatches},
		{time.Microsecond, 100}, // one submission
		{250 * time.Microsecond, 100},
		{300 * time.Microsecond, 50}, // two halves
		{5 * time.Millisecond, 5},
		{time.Second, 1},
	} {
		var f flow
		if f.begin(100, c.pace); f.size != c.size {
			t.Errorf("at %v for a dispatch: %d; want %d", c.pace, f.size, c.size)
		}
	}
}

// TestFlowGrowth checks the sizes of submissions that begin with a short one.
func TestFlowGrowth(t *testing.T) {
	for _, c := range []struct {
		dispatches, growth int
		want               []int
	}{
		{100, 0, []int{16, 84}}, {100, streamGrowth, []int{16, 64, 20}},
		{33, 0, []int{16, 17}}, {32, 0, []int{32, 0}}, {32, streamGrowth, []int{32, 0}}, // too short to divide
	} {
		var f flow
		f.begin(c.dispatches, time.Microsecond)
		f.startShort(c.dispatches, c.growth)
		var got []int
		for range c.dispatches {
			f.dispatches++
			if f.full() {
				got = append(got, f.dispatches)
				f.ended()
			}
		}
		if got = append(got, f.dispatches); !slices.Equal(got, c.want) {
			t.Errorf("%d dispatches, growth %d: submissions of %v; want %v", c.dispatches, c.growth, got, c.want)
		}
	}
}

// TestPatience checks how long Pause sleeps, without and with an expected end of the work.
func TestPatience(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	start := time.Now()
	for _, c := range []struct{ due, at, nap time.Duration }{
		{0, 0, 0}, {0, 1900 * us, 0}, {0, 3 * ms, 20 * us}, {0, 40 * ms, 200 * us}, {0, time.Second, ms}, // unknown
		{27 * ms, 0, ms}, {27 * ms, 25900 * us, 100 * us}, {27 * ms, 26100 * us, 0}, {27 * ms, 27900 * us, 0},
		{27 * ms, 28100 * us, 20 * us}, {27 * ms, 67 * ms, 200 * us}, {27 * ms, time.Second, ms}, {500 * us, 0, 0},
		{500 * us, 1800 * us, 0},
	} {
		var due time.Time
		if c.due > 0 {
			due = start.Add(c.due)
		}
		if got := (Patience{start, due}).nap(start.Add(c.at)); got != c.nap {
			t.Errorf("due after %v, asked after %v: naps %v; want %v", c.due, c.at, got, c.nap)
		}
	}
}
