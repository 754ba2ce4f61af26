package host

import (
	"time"

	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// A backend may announce outputs, or parts of them, before its run ends. Copying large outputs takes milliseconds, so
// the host begins with those while the backend works. It does so only if the backend announced outputs in the run
// before, because waking to look for them takes processor time that a backend on the processor needs.

const (
	earlyPause = 50 * time.Microsecond
	earlyBytes = 1 << 20 // the least that is worth it, except at the end of an output
)

// takeEarly starts to take the outputs that the backend announces. end waits until that is over.
func (x *hostRun) takeEarly() (end func()) {
	if !x.early || x.e.session.region == nil {
		return func() {}
	}
	x.taken = make([]int64, len(x.out))
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			default:
			}
			if !x.takeReady() {
				time.Sleep(earlyPause)
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// takeReady takes what has been announced since its last call. It returns false if that was nothing.
func (x *hostRun) takeReady() (some bool) {
	s := x.e.session
	if s.region.Load(wire.WordGeneration) != x.header.Generation {
		return false // the words are those of the run before
	}
	for i, o := range x.bound.Outputs[:min(len(x.bound.Outputs), wire.ReadyOutputs)] {
		if !x.r.Wants(i) || x.bound.Aliased[i] {
			continue
		}
		from, to := x.taken[i], min(s.region.Load(wire.WordReady+i), o.Size)
		if to-from >= earlyBytes || to > from && to == o.Size {
			tensor.Move(x.out[i][from:to], s.region.Data[o.Offset+from:o.Offset+to])
			x.taken[i], some = to, true
		}
	}
	return some
}

// readShared copies the outputs out of the region, those that have not been taken. For the next run, it clears those
// that do not share bytes with another value.
func (x *hostRun) readShared() {
	s := x.e.session
	x.e.announces = false
	for i, b := range wire.Cut(s.region.Data, x.bound.Outputs) {
		if i < wire.ReadyOutputs && s.region.Load(wire.WordReady+i) > 0 {
			x.e.announces = true
		}
		switch o := x.bound.Outputs[i]; {
		case !x.r.Wants(i):
		case x.bound.Aliased[i]:
			tensor.Copy(x.out[i], b)
		default:
			from := int64(0)
			if x.taken != nil {
				from = x.taken[i]
			}
			tensor.Move(x.out[i][from:], b[from:])
			s.dirty = s.dirty.without(o.Offset, o.Offset+o.Size)
		}
	}
}
