package gpu

import (
	"slices"
	"testing"
	"time"
)

// TestTimes checks the starts and lengths of steps, also if they do not fit between the submission and the end of the
// run.
func TestTimes(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		ticks    []uint64
		tick     float64
		from, to time.Duration
		start    []time.Duration
		length   []time.Duration
	}{
		{[]uint64{500, 500, 501, 504}, 1e6, 2 * ms, 7 * ms, []time.Duration{2 * ms, 2 * ms, 3 * ms},
			[]time.Duration{0, ms, 3 * ms}},
		// 4 ms, with 3 ms left after the submission
		{[]uint64{0, 10, 40}, 1e5, 2 * ms, 5 * ms, []time.Duration{ms, 2 * ms}, []time.Duration{ms, 3 * ms}},
		// 9 ms in a run of 5 ms
		{[]uint64{0, 10, 90}, 1e5, 2 * ms, 5 * ms, []time.Duration{0, ms}, []time.Duration{ms, 4 * ms}},
		{[]uint64{7}, 1e6, 2 * ms, 5 * ms, nil, nil},
	} {
		if s, l := times(c.ticks, c.tick, c.from, c.to); !slices.Equal(s, c.start) || !slices.Equal(l, c.length) {
			t.Errorf("%v: starts %v, lengths %v; want %v, %v", c.ticks, s, l, c.start, c.length)
		}
	}
}
