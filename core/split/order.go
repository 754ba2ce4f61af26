package split

import (
	"math/bits"
	"slices"
)

// unit is what is computed in one piece: an op, with all of its results.
type unit struct {
	on    uint64 // bit b: backend b may compute it
	in    []int  // units whose values it reads
	after []int  // units that must not run later, though it does not read them
	extra []int  // inputs of the method that it reads
	bytes int64  // of its values
}

// order is what partition works on.
type order struct {
	units  []unit // each after those that it reads
	inputs []int64
	before [][]int // by unit: in and after
	next   [][]int // by unit: those that have it in before
	reads  [][]int // by unit: those that read it
	feeds  [][]int // by input: the units that read it
}

func newOrder(units []unit, inputs []int64) *order {
	o := &order{units: units, inputs: inputs, before: make([][]int, len(units)), next: make([][]int, len(units)), reads: make([][]int, len(units)),
		feeds: make([][]int, len(inputs))}
	for i, u := range units {
		o.before[i] = append(slices.Clone(u.in), u.after...)
		for _, x := range o.before[i] {
			o.next[x] = append(o.next[x], i)
		}
		for _, x := range u.in {
			o.reads[x] = append(o.reads[x], i)
		}
		for _, x := range u.extra {
			o.feeds[x] = append(o.feeds[x], i)
		}
	}
	return o
}

// set is a set of units.
type set []uint64

func (s set) has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }
func (s set) add(i int)      { s[i/64] |= 1 << (i % 64) }

func (s set) len() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

func (s set) within(t set) bool {
	for i, w := range s {
		if w&^t[i] != 0 {
			return false
		}
	}
	return true
}

// run adds to done all that a backend can compute from it without another.
func (o *order) run(done set, backend int) set {
	done = slices.Clone(done)
	var ready []int
	visit := func(i int) {
		if !done.has(i) && o.units[i].on>>backend&1 != 0 && !slices.ContainsFunc(o.before[i], func(x int) bool { return !done.has(x) }) {
			done.add(i)
			ready = append(ready, i)
		}
	}
	for i := range o.units {
		visit(i)
	}
	for len(ready) > 0 {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, x := range o.next[i] {
			visit(x)
		}
	}
	return done
}

// maxCandidates bounds the search of fewest for three backends and more.
const maxCandidates = 64

// fewest returns the shortest sequence of backends that can compute all units, preferring backends with low numbers. It
// returns nil if units wait for each other.
//
// The active backend computes all units that it can before the next one takes over. Computing fewer could only leave
// less for the backends that follow. So a sequence determines which units are done, and it suffices to search
// sequences, shortest first. Among those of equal length, one whose done units are a subset of another's is dropped.
// For two backends at most two sequences remain, and the result is the minimum. For more backends it is the minimum
// unless more than maxCandidates remain.
func (o *order) fewest(backends int) []int {
	type candidate struct {
		done set
		seq  []int
	}
	all := len(o.units)
	list := []candidate{{done: make(set, (all+63)/64)}}
	for {
		var next []candidate
		for _, c := range list {
			for b := range backends {
				if n := len(c.seq); n > 0 && c.seq[n-1] == b {
					continue
				}
				x := candidate{o.run(c.done, b), append(slices.Clip(c.seq), b)}
				if x.done.len() == all {
					return x.seq
				}
				if slices.ContainsFunc(next, func(y candidate) bool { return x.done.within(y.done) }) || x.done.within(c.done) {
					continue
				}
				next = append(slices.DeleteFunc(next, func(y candidate) bool { return y.done.within(x.done) }), x)
			}
		}
		if len(next) == 0 {
			return nil
		}
		slices.SortStableFunc(next, func(x, y candidate) int { return y.done.len() - x.done.len() })
		list = next[:min(len(next), maxCandidates)]
	}
}

// place chooses the segment of each unit for a sequence of backends, such that few bytes pass from segment to segment.
// It begins with each unit as early as it can be, and in a second try as late, and moves one unit at a time as long as
// that saves bytes, or at the same number of them takes a unit to an earlier backend.
func (o *order) place(seq []int) []int {
	early := o.earliest(seq)
	late := o.latest(seq)
	o.improve(seq, early)
	o.improve(seq, late)
	if o.cost(seq, late).less(o.cost(seq, early)) {
		return late
	}
	return early
}

// earliest is the first segment in which each unit can be.
func (o *order) earliest(seq []int) []int {
	at := make([]int, len(o.units))
	for i := range at {
		at[i] = -1
	}
	done := make(set, (len(at)+63)/64)
	for s, b := range seq {
		done = o.run(done, b)
		for i := range at {
			if at[i] < 0 && done.has(i) {
				at[i] = s
			}
		}
	}
	return at
}

// latest is the last segment in which each unit can be.
func (o *order) latest(seq []int) []int {
	at := make([]int, len(o.units))
	for _, i := range o.sorted() {
		s := len(seq) - 1
		for _, x := range o.next[i] {
			s = min(s, at[x])
		}
		for o.units[i].on>>seq[s]&1 == 0 {
			s--
		}
		at[i] = s
	}
	return at
}

// sorted lists the units, each after all that come after it.
func (o *order) sorted() []int {
	waits := make([]int, len(o.units))
	var out []int
	for i := range o.units {
		if waits[i] = len(o.next[i]); waits[i] == 0 {
			out = append(out, i)
		}
	}
	for k := 0; k < len(out); k++ { // grows
		for _, x := range o.before[out[k]] {
			if waits[x]--; waits[x] == 0 {
				out = append(out, x)
			}
		}
	}
	return out
}

// cost is what a placement costs: bytes that pass between host and backends beyond what any placement has, then units
// that are not with the first backend.
type cost struct{ bytes, elsewhere int64 }

func (c cost) less(d cost) bool {
	return c.bytes < d.bytes || c.bytes == d.bytes && c.elsewhere < d.elsewhere
}

func (c cost) minus(d cost) cost { return cost{c.bytes - d.bytes, c.elsewhere - d.elsewhere} }
func (c *cost) add(d cost)       { c.bytes, c.elsewhere = c.bytes+d.bytes, c.elsewhere+d.elsewhere }

// cost is the sum over all values and units.
func (o *order) cost(seq, at []int) (sum cost) {
	for i := range o.units {
		sum.add(o.valueCost(at, i))
		sum.add(o.unitCost(seq, at, i))
	}
	for i := range o.inputs {
		sum.add(o.inputCost(at, i))
	}
	return sum
}

// valueCost counts the bytes of a unit's values once for leaving their segment and once for each other segment that reads them.
func (o *order) valueCost(at []int, i int) cost {
	if n := int64(segments(at, o.reads[i], at[i])); n > 0 {
		return cost{bytes: o.units[i].bytes * (n + 1)}
	}
	return cost{}
}

// inputCost counts the bytes of an input of the method for each segment that reads it.
func (o *order) inputCost(at []int, i int) cost {
	return cost{bytes: o.inputs[i] * int64(segments(at, o.feeds[i], -1))}
}

func (o *order) unitCost(seq, at []int, i int) cost {
	if seq[at[i]] != 0 {
		return cost{elsewhere: 1}
	}
	return cost{}
}

// segments counts the segments of readers, excluding segment but.
func segments(at, readers []int, but int) (n int) {
	for k, x := range readers {
		first := !slices.ContainsFunc(readers[:k], func(y int) bool { return at[y] == at[x] })
		if at[x] != but && first {
			n++
		}
	}
	return n
}

// maxSweeps bounds improve.
const maxSweeps = 16

// improve moves units to where they cost less.
func (o *order) improve(seq, at []int) {
	touched := func(i int) (sum cost) {
		sum.add(o.unitCost(seq, at, i))
		sum.add(o.valueCost(at, i))
		for _, x := range o.units[i].in {
			sum.add(o.valueCost(at, x))
		}
		for _, x := range o.units[i].extra {
			sum.add(o.inputCost(at, x))
		}
		return sum
	}
	for range maxSweeps {
		changed := false
		for i, u := range o.units {
			lo, hi := 0, len(seq)-1
			for _, x := range o.before[i] {
				lo = max(lo, at[x])
			}
			for _, x := range o.next[i] {
				hi = min(hi, at[x])
			}
			was := at[i]
			best, bestAt := cost{}, was
			now := touched(i)
			for s := lo; s <= hi; s++ {
				if s == was || u.on>>seq[s]&1 == 0 {
					continue
				}
				at[i] = s
				if d := touched(i).minus(now); d.less(best) {
					best, bestAt = d, s
				}
			}
			at[i] = bestAt
			changed = changed || bestAt != was
		}
		if !changed {
			return
		}
	}
}
