// Package measure is shared by the benchmark commands, so that a share of the peak means the same in all of them.
package measure

import "time"

// PeakRounds is the number of rounds of a run of a peak loop, which then takes a few milliseconds: long enough to outweigh the start of the
// workers, and shorter than a scheduler's time slice, so that some of many runs are undisturbed.
const PeakRounds = 1 << 16

// Best calls work repeatedly for span, at least three times, and returns the highest rate per second. work returns what it has done; if that is 0,
// so is the rate.
func Best(span time.Duration, work func() float64) float64 {
	var top float64
	begin := time.Now()
	for i := 0; i < 3 || time.Since(begin) < span; i++ {
		start := time.Now()
		done := work()
		if done == 0 {
			return 0
		}
		top = max(top, done/time.Since(start).Seconds())
	}
	return top
}
