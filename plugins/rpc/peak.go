package rpc

import (
	"sync"
	"time"
)

// peakSampler measures the peak memory of a process after runs. To read it takes about 20 us, which is more than some runs take, so
// after a run shorter than peakRun it is measured only if peakEvery has passed.
type peakSampler struct {
	mu   sync.Mutex
	at   time.Time
	last int64
}

const (
	peakRun   = 2 * time.Millisecond
	peakEvery = 100 * time.Millisecond
)

// after is the peak after a run that took so long.
func (p *peakSampler) after(run time.Duration, measure func() int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); run > peakRun || now.Sub(p.at) > peakEvery {
		p.at, p.last = now, measure()
	}
	return p.last
}
