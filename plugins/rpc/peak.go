package rpc

import (
	"sync"
	"time"
)

// peakSampler measures the peak memory of a process after runs. A measurement takes about 20 us, which is longer than some runs. So after
// a run shorter than peakRun, it measures only if the last measurement is older than peakEvery.
type peakSampler struct {
	mu   sync.Mutex
	at   time.Time // of the last measurement
	last int64     // the last measurement, in bytes
}

const (
	peakRun   = 2 * time.Millisecond
	peakEvery = 100 * time.Millisecond
)

// after returns the peak memory in bytes after a run of the given duration. It calls measure only if a measurement is due.
func (p *peakSampler) after(run time.Duration, measure func() int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); run > peakRun || now.Sub(p.at) > peakEvery {
		p.at, p.last = now, measure()
	}
	return p.last
}
