// Package measure has the measurements that several benchmark commands share, so that a share of the peak means the
// same in all of them.
package measure

import "time"

// PeakRounds is the number of rounds in one run of a peak loop. The run takes a few milliseconds. So the start of the
// workers does not matter, and most runs are shorter than a scheduler's time slice, so that some of them are
// undisturbed.
const PeakRounds = 1 << 16

// Best calls work repeatedly for span, at least three times, and returns the highest rate per second. work returns how
// much it has done, such as a number of bytes. If it returns 0, so does Best.
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
