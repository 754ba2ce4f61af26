package shim

import (
	"fmt"
	"strconv"
)

// This file has barriers in shared memory (mbarrier), on which some threads wait for others, and copies. Copies
// complete as late as PTX allows: when a thread looks at the barrier that they arrive at.

// mbarrier is the state of a barrier.
type mbarrier struct {
	count, arrived int
	phase          uint32 // number of the phase that is not complete
	late           []late // arrivals that wait for copies
	// For each warp, the time up to which its accesses come before what a thread does after it has waited. next belongs
	// to the phase that is not complete.
	seen, next []uint32
}

// late is an arrival of a thread as soon as its copies are complete.
type late struct {
	lane int32
	list []pending
}

// mbarrierOp returns a function that reads the operands of an instruction of this file. It returns nil for others.
func (p *program) mbarrierOp(op string) func(in *instruction, args []string) error {
	switch op {
	case "mbarrier.init.shared::cta.b64":
		return func(in *instruction, args []string) (err error) {
			if in.n, err = strconv.Atoi(args[1]); err != nil {
				return err
			}
			in.run = (*machine).initBarrier
			return p.address(in, 0, wordClass, args[0])
		}
	case "mbarrier.arrive.shared::cta.b64":
		return func(in *instruction, args []string) error {
			in.run = (*machine).arrive
			if err := p.operands(in, "d=", args[:1]); err != nil {
				return err
			}
			return p.address(in, 0, wordClass, args[1])
		}
	case "cp.async.mbarrier.arrive.noinc.shared::cta.b64":
		return func(in *instruction, args []string) error {
			in.run = (*machine).arriveLate
			return p.address(in, 0, wordClass, args[0])
		}
	case "mbarrier.try_wait.parity.shared::cta.b64":
		return func(in *instruction, args []string) error {
			if len(args) != 3 || in.guard >= 0 {
				return fmt.Errorf("want 3 operands and no guard")
			}
			in.kind = await
			if err := p.operands(in, "p=r", []string{args[0], args[2]}); err != nil {
				return err
			}
			return p.address(in, 0, wordClass, args[1])
		}
	}
	return nil
}

// mbarrierAt returns the barrier at the address of an instruction. It returns nil after an error.
func (m *machine) mbarrierAt(in *instruction, lane int32) *mbarrier {
	at := int64(m.words[in.a[15]][lane]) + in.offset[0]
	b := m.barriers[at]
	if b == nil {
		m.fail(in, lane, "no barrier at %d in shared memory", at)
	}
	return b
}

func (m *machine) initBarrier(in *instruction, lanes []int32) {
	for _, l := range lanes {
		at := int64(m.words[in.a[15]][l]) + in.offset[0]
		if at%8 != 0 || at < 0 || at+8 > int64(4*len(m.shared)) {
			m.fail(in, l, "a barrier at %d in shared memory", at)
			return
		}
		for k := range 2 { // accesses to its words are races, like those to others
			m.wrote(in, l, int(at/4)+k, false)
		}
		warps := len(m.all)/warp + 1
		m.barriers[at] = &mbarrier{count: in.n, seen: make([]uint32, warps), next: make([]uint32, warps)}
		m.made = m.epoch
	}
}

// learn makes what a warp knows about the others part of a phase.
func (b *mbarrier) learn(m *machine, lane int32) {
	w := int(lane / warp)
	for i, t := range m.known[w] {
		b.next[i] = max(b.next[i], t)
	}
	b.next[w] = m.time
	b.arrived++
}

// advance completes the phase if all have arrived.
func (b *mbarrier) advance(m *machine, in *instruction) {
	if b.arrived+len(b.late) < b.count {
		return
	}
	for _, l := range b.late {
		m.complete(in, l.lane, l.list)
		b.learn(m, l.lane)
	}
	b.late = nil
	copy(b.seen, b.next)
	b.arrived = 0
	b.phase++
}

func (m *machine) arrive(in *instruction, lanes []int32) {
	for _, l := range lanes {
		b := m.mbarrierAt(in, l)
		if b == nil {
			return
		}
		b.advance(m, in) // an earlier phase that nobody has looked at
		b.learn(m, l)
		m.doubles[in.a[0]][l] = uint64(b.phase)
	}
}

func (m *machine) arriveLate(in *instruction, lanes []int32) {
	for _, l := range lanes {
		b := m.mbarrierAt(in, l)
		if b == nil {
			return
		}
		b.advance(m, in)
		c := &m.copies[l]
		b.late = append(b.late, late{l, c.open})
		c.open = nil
	}
}

// await returns the lanes whose barriers have completed the phase of the parity that they wait for, and the others.
func (m *machine) await(in *instruction, lanes []int32) (done, waiting []int32) {
	m.time++
	for _, l := range lanes {
		b := m.mbarrierAt(in, l)
		if b == nil {
			return nil, nil
		}
		if m.made == m.epoch {
			m.fail(in, l, "a race: the barrier is made, and no bar.sync follows")
			return nil, nil
		}
		b.advance(m, in)
		if b.phase&1 == m.words[in.a[1]][l]&1 {
			waiting = append(waiting, l)
			continue
		}
		for i, t := range b.seen {
			m.known[l/warp][i] = max(m.known[l/warp][i], t)
		}
		m.bools[in.a[0]][l] = true
		m.passed++
		done = append(done, l)
	}
	return done, waiting
}

// after reports whether what a thread does now comes after what another one did at a time, because of barriers in
// shared memory. The threads of a warp count as one.
func (m *machine) after(lane, other int32, time uint32) bool {
	return len(m.barriers) > 0 && other >= 0 && m.known[lane/warp][other/warp] >= time
}

// groupAfter is after for all threads of the warpgroup that begins at a lane.
func (m *machine) groupAfter(first, other int32, time uint32) bool {
	for l := first; l < first+group4; l += warp {
		if !m.after(l, other, time) {
			return false
		}
	}
	return true
}

// afterReads reports whether what a thread does now comes after the reads of a word.
func (m *machine) afterReads(lane int32, a *access) bool {
	if a.group == 0 {
		return m.after(lane, a.reader, a.readTime)
	}
	for l := a.group - 1; a.group > 0 && l < a.group-1+group4; l += warp {
		if !m.after(lane, l, a.readTime) {
			return false
		}
	}
	return a.group > 0
}

// readBy records the read of a word by a product of the warpgroup that begins at a lane.
func (m *machine) readBy(a *access, first int32) {
	if a.read == m.epoch && a.group != first+1 && a.time <= a.readTime {
		a.group = -1
	} else if a.read != m.epoch || a.group >= 0 || a.time > a.readTime {
		a.group = first + 1
	}
	a.read, a.reader, a.readTime = m.epoch, -1, m.time
}

// unfinished returns the barrier of a block that has ended at which copies would still arrive, or -1.
func (m *machine) unfinished() int64 {
	for at, b := range m.barriers {
		if len(b.late) > 0 {
			return at
		}
	}
	return -1
}
