package split

import (
	"math/bits"
	"slices"
)

// unit is an op with all of its results. Its values are computed on one backend.
type unit struct {
	on    uint64 // bit b is set if backend b may compute the unit
	in    []int  // units whose values this one reads
	after []int  // other units that must not run in a later segment
	extra []int  // inputs of the method that this unit reads
	bytes int64  // size of the unit's values
}

// order is the graph of units. fewest and place search it for the best division.
type order struct {
	units  []unit  // in topological order
	inputs []int64 // size in bytes of each input of the method
	before [][]int // by unit: in and after together
	next   [][]int // by unit: the reverse of before
	reads  [][]int // by unit: the units that read it
	feeds  [][]int // by input: the units that read it
}

func newOrder(units []unit, inputs []int64) *order {
	o := &order{units: units, inputs: inputs, before: make([][]int, len(units)), next: make([][]int, len(units)),
		reads: make([][]int, len(units)),
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

// run returns done and all units that one backend can compute if those in done are computed already.
func (o *order) run(done set, backend int) set {
	done = slices.Clone(done)
	var ready []int
	visit := func(i int) {
		if !done.has(i) && o.units[i].on>>backend&1 != 0 &&
			!slices.ContainsFunc(o.before[i], func(x int) bool { return !done.has(x) }) {
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

// maxCandidates limits how many sequences of each length fewest keeps.
const maxCandidates = 64

// fewest returns the shortest sequence of backends that can compute all units. Among several it prefers low numbers. It
// returns nil if units wait for each other.
//
// The active backend computes all units that it can before the next one takes over, because computing fewer could not
// help the backends that follow. So a sequence determines which units are done after it, and fewest need only search
// sequences, shortest first. It drops a sequence if another one of the same length gets at least the same units done.
// With two backends at most two sequences remain, and the result is the minimum. With more backends it is the minimum
// unless fewest drops sequences because of maxCandidates.
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
				if slices.ContainsFunc(next, func(y candidate) bool { return x.done.within(y.done) }) ||
					x.done.within(c.done) {
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

// place chooses a segment for each unit so that few bytes pass between segments. It tries two starts: each unit in its
// earliest and in its latest segment. From each it moves one unit at a time if that saves bytes, or if it saves none
// but brings a unit to backend 0.
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

// earliest returns, for each unit, the first segment that can compute it.
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

// latest returns, for each unit, the last segment that can compute it.
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

// sorted returns the units in reverse topological order.
func (o *order) sorted() []int {
	waits := make([]int, len(o.units))
	var out []int
	for i := range o.units {
		if waits[i] = len(o.next[i]); waits[i] == 0 {
			out = append(out, i)
		}
	}
	for k := 0; k < len(out); k++ { // out grows in the loop
		for _, x := range o.before[out[k]] {
			if waits[x]--; waits[x] == 0 {
				out = append(out, x)
			}
		}
	}
	return out
}

// cost is the cost of a placement: the bytes that pass between the host and backends, without the bytes that pass in
// every placement, and the number of units that are not on backend 0.
type cost struct{ bytes, elsewhere int64 }

func (c cost) less(d cost) bool {
	return c.bytes < d.bytes || c.bytes == d.bytes && c.elsewhere < d.elsewhere
}

func (c cost) minus(d cost) cost { return cost{c.bytes - d.bytes, c.elsewhere - d.elsewhere} }
func (c *cost) add(d cost)       { c.bytes, c.elsewhere = c.bytes+d.bytes, c.elsewhere+d.elsewhere }

// cost returns the cost of a placement: the sum over all units and inputs.
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

// valueCost counts the bytes of a unit's values for each other segment that reads them, and once more for leaving their
// own segment.
func (o *order) valueCost(at []int, i int) cost {
	if n := int64(segments(at, o.reads[i], at[i])); n > 0 {
		return cost{bytes: o.units[i].bytes * (n + 1)}
	}
	return cost{}
}

// inputCost counts the bytes of a method's input for each segment that reads it.
func (o *order) inputCost(at []int, i int) cost {
	return cost{bytes: o.inputs[i] * int64(segments(at, o.feeds[i], -1))}
}

func (o *order) unitCost(seq, at []int, i int) cost {
	if seq[at[i]] != 0 {
		return cost{elsewhere: 1}
	}
	return cost{}
}

// segments returns the number of segments that contain a reader, without the segment but.
func segments(at, readers []int, but int) (n int) {
	for k, x := range readers {
		first := !slices.ContainsFunc(readers[:k], func(y int) bool { return at[y] == at[x] })
		if at[x] != but && first {
			n++
		}
	}
	return n
}

// maxSweeps limits how often improve goes through all units.
const maxSweeps = 16

// improve moves single units to other segments as long as that lowers the cost.
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
