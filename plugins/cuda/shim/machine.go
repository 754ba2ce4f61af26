package shim

import (
	"fmt"
	"slices"
)

// machine runs the blocks of a launch, one after another. A register has a value for each thread (lane) of a block. The
// threads that are at the same instruction run it together; those at the earliest one run first, so threads meet again
// where the branches of a condition join.
type machine struct {
	p       *program
	words   [][]uint32 // registers r, then f, then constants
	bools   [][]bool
	doubles [][]uint64
	halves  [][]uint16
	params  []uint64
	pieces  []piece

	shared []uint32
	access []access // of each word of shared memory
	epoch  uint32   // number of barriers so far, of all blocks
	first  uint32   // epoch in which the block began

	copies  []copies        // of each thread
	flights []flight        // of each warpgroup
	flying  []map[int32]int // products that use a register as sum, of each warpgroup
	held    []map[int32]int // and as left operand
	time    uint32          // number of instructions so far
	fenced  []uint32        // time of the last fence of each thread

	barriers map[int64]*mbarrier // by their addresses
	passed   int                 // threads that have passed one
	made     uint32              // epoch in which the last one was made
	known    [][]uint32          // for each warp: see mbarrier.seen

	ctaid, nctaid [3]uint32
	all           []int32 // 0, 1, 2, ...
	spare         []int32 // for lanes that a guard selects
	err           error
}

// group is a set of threads at one instruction, in increasing order.
type group struct {
	pc    int
	lanes []int32
}

// launch runs a grid of x times y blocks.
func (d *opened) launch(p *program, b bindings, x, y uint32) error {
	m := p.idle
	if m == nil {
		m = newMachine(p)
	}
	p.idle, m.params, m.pieces = nil, m.params[:0], m.pieces[:0]
	for _, of := range b {
		buf := of.Buffer.(*buffer)
		if of.Offset%16 != 0 {
			return errorf("a binding at offset %d; want a multiple of 16", of.Offset)
		}
		m.params = append(m.params, buf.address()+uint64(of.Offset), uint64(of.Size))
		m.pieces = append(m.pieces,
			piece{buf.address() + uint64(of.Offset), buf.data[of.Offset : of.Offset+of.Size]})
	}
	m.nctaid = [3]uint32{x, y, 1}
	for i := range y {
		for k := range x {
			m.ctaid = [3]uint32{k, i, 0}
			if err := m.block(); err != nil {
				return err
			}
		}
	}
	p.idle = m
	return nil
}

func newMachine(p *program) *machine {
	m := &machine{p: p, epoch: 1, copies: make([]copies, p.threads), fenced: make([]uint32, p.threads),
		held:    make([]map[int32]int, p.threads/group4+1),
		flights: make([]flight, p.threads/group4+1), flying: make([]map[int32]int, p.threads/group4+1),
		shared: make([]uint32, p.shared/4), access: make([]access, p.shared/4)}
	n := p.threads
	m.words = columns[uint32](p.declared[wordClass]+p.declared[floatClass]+len(p.words), n)
	m.doubles = columns[uint64](p.declared[doubleClass]+len(p.doubles), n)
	m.bools = columns[bool](p.declared[boolClass]+2, n)
	m.halves = columns[uint16](p.declared[halfClass], n)
	for c, at := range p.words {
		fill(m.words[at], c)
	}
	for c, at := range p.doubles {
		fill(m.doubles[at], c)
	}
	fill(m.bools[p.declared[boolClass]+1], true)
	for i := range n {
		m.all = append(m.all, int32(i))
	}
	return m
}

// columns returns count slices of n elements each.
func columns[T any](count, n int) [][]T {
	all, out := make([]T, count*n), make([][]T, count)
	for i := range out {
		out[i] = all[i*n : (i+1)*n : (i+1)*n]
	}
	return out
}

func fill[T any](s []T, v T) {
	for i := range s {
		s[i] = v
	}
}

// block runs a block.
func (m *machine) block() error {
	m.epoch++
	m.first = m.epoch
	m.barriers = map[int64]*mbarrier{}
	m.known = columns[uint32](len(m.all)/warp+1, len(m.all)/warp+1)
	live := len(m.all)
	groups := []group{{0, m.all}} // by increasing pc
	var waiting []group           // at a barrier
	var asleep []group            // at a barrier in shared memory
	woken := -1                   // m.passed when they were last woken
	for live > 0 {
		if len(groups) == 0 && len(asleep) > 0 && woken != m.passed {
			groups, asleep, woken = asleep, nil, m.passed
		}
		if len(groups) == 0 {
			if len(asleep) > 0 {
				return m.stuck(asleep)
			}
			if len(waiting) != 1 || len(waiting[0].lanes) != len(m.all) {
				return m.diverged(waiting)
			}
			m.epoch++
			groups = append(groups, group{waiting[0].pc + 1, waiting[0].lanes})
			waiting = waiting[:0]
		}
		g := groups[0]
		groups = groups[1:]
		limit := len(m.p.code)
		if len(groups) > 0 {
			limit = groups[0].pc
		}
		next, stop := m.run(g, limit)
		switch {
		case m.err != nil:
		case stop == barrier:
			waiting = join(waiting, next[0])
		case stop == await:
			asleep = join(asleep, next[0])
			if len(next) > 1 {
				groups = join(groups, next[1])
			}
		case stop == end:
			live -= len(next[0].lanes)
			m.ended(next[0])
			next = next[1:]
			fallthrough
		default:
			for _, g := range next {
				groups = join(groups, g)
			}
		}
		if m.err != nil {
			return m.err
		}
	}
	if at := m.unfinished(); at >= 0 {
		return errorf("block %v: copies would arrive at the barrier at %d when the block has ended", m.ctaid, at)
	}
	return nil
}

// diverged reports a barrier that only some threads have reached. The others wait at another one, or have ended.
func (m *machine) diverged(waiting []group) error {
	in := m.p.code[waiting[0].pc]
	return m.p.at(in.line, fmt.Errorf("block %v: %d of %d threads reach the barrier", m.ctaid, len(waiting[0].lanes),
		len(m.all)))
}

// stuck reports threads that wait for others which do not arrive.
func (m *machine) stuck(asleep []group) error {
	in, n := m.p.code[asleep[0].pc], len(asleep[0].lanes)
	return m.p.at(in.line, fmt.Errorf("block %v: %d threads wait at the barrier forever", m.ctaid, n))
}

// join adds a group to groups that are ordered by pc.
func join(groups []group, g group) []group {
	i, same := slices.BinarySearchFunc(groups, g.pc, func(a group, pc int) int { return a.pc - pc })
	if !same {
		return slices.Insert(groups, i, g)
	}
	both := append(slices.Clone(groups[i].lanes), g.lanes...)
	slices.Sort(both)
	groups[i].lanes = both
	return groups
}

// run runs a group until it reaches the instruction limit, splits, waits at a barrier or ends. It returns the groups
// into which it has split. If stop is barrier or end, the first one has stopped there.
func (m *machine) run(g group, limit int) (next []group, stop kind) {
	pc := g.pc
	for pc < limit || pc == g.pc {
		in := &m.p.code[pc]
		lanes := g.lanes
		if in.guard >= 0 {
			lanes = m.chosen(in, lanes)
		}
		switch in.kind {
		case compute:
			m.time++
			if len(lanes) > 0 {
				if in.run(m, in, lanes); m.err != nil {
					return nil, compute
				}
			}
			pc++
		case barrier:
			return []group{{pc, g.lanes}}, barrier
		case await:
			done, waiting := m.await(in, g.lanes)
			if m.err != nil {
				return nil, await
			}
			if len(waiting) > 0 {
				next = []group{{pc, waiting}}
				if len(done) > 0 {
					next = append(next, group{pc + 1, done})
				}
				return next, await
			}
			pc++
		case branch, end:
			if len(lanes) == 0 {
				pc++
				continue
			}
			if in.kind == end {
				out := []group{{pc, slices.Clone(lanes)}}
				if len(lanes) < len(g.lanes) {
					out = append(out, group{pc + 1, others(g.lanes, lanes)})
				}
				return out, end
			}
			if len(lanes) < len(g.lanes) {
				return []group{{in.target, slices.Clone(lanes)}, {pc + 1, others(g.lanes, lanes)}}, branch
			}
			if pc = in.target; pc <= g.pc {
				return []group{{pc, g.lanes}}, branch
			}
		}
	}
	return []group{{pc, g.lanes}}, branch
}

// chosen returns the lanes whose guard holds. They are valid until the next call.
func (m *machine) chosen(in *instruction, lanes []int32) []int32 {
	p, out := m.bools[in.guard], m.spare[:0]
	for _, l := range lanes {
		if p[l] != in.not {
			out = append(out, l)
		}
	}
	m.spare = out
	if len(out) == len(lanes) {
		return lanes
	}
	return out
}

// others returns the lanes that are not among some, both in increasing order.
func others(lanes, some []int32) []int32 {
	out := make([]int32, 0, len(lanes)-len(some))
	for _, l := range lanes {
		if len(some) > 0 && some[0] == l {
			some = some[1:]
		} else {
			out = append(out, l)
		}
	}
	return out
}

// fail records the error of a thread.
func (m *machine) fail(in *instruction, lane int32, format string, args ...any) {
	if m.err == nil {
		m.err = m.p.at(in.line, fmt.Errorf("block %v, thread %d: %s", m.ctaid, lane, fmt.Sprintf(format, args...)))
	}
}
