package gpu

import (
	"context"
	"slices"
	"time"

	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// A loop is submitted in parts, which need not begin and end with an iteration. After each part the status slots are
// copied to the host. The host reads them as soon as they have arrived, and submits no more of a loop that has ended.
// Meanwhile the device works on at most maxInFlight parts. If a loop may end early, a part has at most a quarter of the
// dispatches before it, so that few iterations run after the end.
const (
	firstPart      = 8       // dispatches of the first part
	largestPart    = 1 << 14 // dispatches of a part; a dispatch takes some memory of the host until its part has ended
	earlyShare     = 4
	loopReportTime = 200 * time.Millisecond // how often Progress is called during a loop
)

// loops is the state of the loops of a run.
type loops struct {
	step          int // of the outermost loop
	depth         int // number of loops that are being recorded
	dispatches    int // submitted since the outermost loop began
	last          time.Time
	shown, looked int    // copies of the status slots that were requested, and copies that have arrived
	seen          []byte // the last one that has arrived

	again    bool // a part has ended since the last call of Progress
	reported time.Time
}

// startLoops prepares loops for a run.
func (c *recording) startLoops() {
	for _, y := range c.exec.all() {
		for _, l := range y.loops {
			l.runs = 0
		}
	}
}

// outermost records a loop of the program.
func (c *recording) outermost(l *loop) error {
	saved := c.flow
	c.loops.step, c.loops.depth, c.loops.dispatches, c.loops.last = l.step, 0, 0, time.Now()
	c.loops.reported = c.loops.last
	c.flow.head, c.flow.size = 0, c.flow.dispatches+firstPart
	err := c.loop(l, c.exec)
	c.flow.size, c.flow.head, c.flow.growth = saved.size, saved.head, saved.growth
	if err != nil {
		return err
	}
	c.flow.next = l.step + 1
	return c.begin()
}

// loop records a loop of x's program.
func (c *recording) loop(l *loop, x *executable) error {
	c.loops.depth++
	defer func() { c.loops.depth-- }()
	l.runs++
	if err := c.begin(); err != nil {
		return err
	}
	for _, m := range l.zeroed {
		s, at := m.at()
		for _, p := range s.pieces(at, (m.bytes+3)&^3, 0) {
			if err := c.enc.Clear(p); err != nil {
				return err
			}
		}
	}
	if err := c.own(l.start...); err != nil {
		return err
	}
	length := l.attrs.Length
	if c.tape != nil { // only to find the step that the device rejects
		length = 1
	}
	for t := 0; t < length && !c.ended(l); t++ {
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
		if l.cond != nil {
			if err := c.iterate(l.cond); err != nil {
				return err
			}
		}
		if l.next != nil {
			if err := c.own(l.next); err != nil {
				return err
			}
		}
		if err := c.own(l.slices...); err != nil {
			return err
		}
		if err := c.iterate(l.body); err != nil {
			return err
		}
		if err := c.own(slices.Concat(l.rows, l.carry)...); err != nil {
			return err
		}
	}
	if l.last != nil {
		if err := c.own(l.last); err != nil {
			return err
		}
	}
	return c.own(l.copy...)
}

// iterate records the steps of a loop's program.
func (c *recording) iterate(y *executable) error {
	next := 0
	for i := range y.program.Steps {
		for ; next < len(y.dispatches) && y.dispatches[next].step == i; next++ {
			if d := &y.dispatches[next]; d.group < 0 || y.grouped[d.group] == (d.steps != nil) {
				if err := c.own(d); err != nil {
					return err
				}
			}
		}
		if l := y.loopOf(i); l != nil {
			if err := c.loop(l, y); err != nil {
				return err
			}
		}
	}
	return nil
}

// own records dispatches of a loop, and submits a part if it is large enough.
func (c *recording) own(list ...*dispatch) error {
	for _, d := range list {
		if err := c.begin(); err != nil {
			return err
		}
		c.dispatch(d)
		if c.flow.full() && c.tape == nil {
			if err := c.endPart(); err != nil {
				return err
			}
		}
	}
	return nil
}

// endPart submits a part of a loop, and a copy of the status slots.
func (c *recording) endPart() error {
	x, s := c.exec, &c.loops
	if err := c.begin(); err != nil {
		return err
	}
	if err := c.look(s.shown - len(x.snaps) + 1); err != nil {
		return err
	}
	snap := x.snaps[s.shown%len(x.snaps)]
	if err := c.copySpace(x.status, 0, x.statusBytes(), snap.buffer, 0, true); err != nil {
		return err
	}
	if err := c.awaitSlot(); err != nil {
		return err
	}
	c.flow.first, c.flow.next = s.step, s.step+1
	if err := c.submit(); err != nil {
		return err
	}
	c.flow.inFlight++
	x.gpu.dev.OnDone(func() {
		c.flow.inFlight--
		c.flow.reached = max(c.flow.reached, s.step)
		s.again = true
	})
	c.report()
	if err := snap.show(x.statusBytes()); err != nil {
		return x.gpu.seen(err)
	}
	s.shown++
	c.resize()
	return c.look(0)
}

// resize chooses the size of the next part, from the time that the device takes for one.
func (c *recording) resize() {
	f, s := &c.flow, &c.loops
	s.dispatches += f.dispatches
	f.dispatches = 0
	now := time.Now()
	took := now.Sub(s.last)
	s.last = now
	switch {
	case took > 2*submissionTime:
		f.size = max(1, f.size/2)
	case took < submissionTime/2:
		f.size = min(max(firstPart, s.dispatches/earlyShare), 2*max(f.size, 1), largestPart)
	}
}

// look reads the copies of the status slots that have arrived. It waits for the first of them, up to number until.
func (c *recording) look(until int) error {
	x, s := c.exec, &c.loops
	if s.looked < s.shown {
		if _, err := x.gpu.poll(); err != nil {
			return err
		}
	}
	for s.looked < s.shown {
		snap := x.snaps[s.looked%len(x.snaps)]
		done, err := snap.buffer.Mapped()
		if err != nil {
			return x.gpu.seen(err)
		}
		if !done && s.looked >= until {
			return nil
		}
		b, err := x.gpu.await(snap, time.Time{})
		if err != nil {
			return err
		}
		s.seen = append(s.seen[:0], b[:x.statusBytes()]...)
		s.looked++
		if err := snap.hide(); err != nil {
			return x.gpu.seen(err)
		}
	}
	return nil
}

// hideAll ends the use of the copies of the status slots. All submissions have ended, or failed.
func (c *recording) hideAll() {
	for s := &c.loops; s.looked < s.shown; s.looked++ {
		snap := c.exec.snaps[s.looked%len(c.exec.snaps)]
		if c.exec.gpu.lostError() == nil {
			_, _ = c.exec.gpu.await(snap, time.Time{}) // the run has its result already
		}
		_ = snap.hide()
	}
}

// ended reports whether the host knows that the loop has ended.
func (c *recording) ended(l *loop) bool {
	seen := c.loops.seen
	return seen != nil && word(seen, l.control, kernels.LoopRuns) == l.runs &&
		word(seen, l.control, kernels.LoopActive) == 0
}

// reportLoop calls Progress with the step of a loop again from time to time, while the device works on it.
func (c *recording) reportLoop() {
	s := &c.loops
	if s.depth > 0 && s.again && c.run.Progress != nil && time.Since(s.reported) > loopReportTime {
		s.again, s.reported = false, time.Now()
		c.run.Progress(s.step)
	}
}
