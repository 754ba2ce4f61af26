package rpc

import (
	"sync"
	"time"
)

// peakSampler measures the peak memory of a process after runs. Reading it takes about 20 us, which is longer than some runs. So after a
// run shorter than peakRun it is read only if the last reading is older than peakEvery.
type peakSampler struct {
	mu   sync.Mutex
	at   time.Time
	last int64
}

const (
	peakRun   = 2 * time.Millisecond
	peakEvery = 100 * time.Millisecond
)

// after returns the peak memory in bytes after a run of the given duration. It calls measure only if that is due.
func (p *peakSampler) after(run time.Duration, measure func() int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); run > peakRun || now.Sub(p.at) > peakEvery {
		p.at, p.last = now, measure()
	}
	return p.last
}
