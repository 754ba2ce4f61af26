// Package measure is what the benchmark commands share, so that a share of the peak means the same in all of them.
package measure

import "time"

// PeakRounds makes a run of the peak loop of a few milliseconds: long enough to outweigh the start of the workers, shorter
// than a scheduler's time slice, so that one of many is undisturbed.
const PeakRounds = 1 << 16

// Best repeats a run for a while, at least three times, and returns the largest work per second; 0 where a run does none.
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
