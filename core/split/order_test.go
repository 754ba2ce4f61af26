package split

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// randomUnits returns up to eight units with random edges, and the sizes of the inputs. Most units may run on one
// backend only.
func randomUnits(r *rand.Rand, backends int) ([]unit, []int64) {
	inputs := []int64{1 + r.Int64N(9), 1 + r.Int64N(9)}
	units := make([]unit, 2+r.IntN(7))
	for i := range units {
		u := &units[i]
		u.bytes = 1 + r.Int64N(20)
		for u.on = 1 << r.IntN(backends); r.IntN(3) == 0; {
			u.on |= 1 << r.IntN(backends)
		}
		for x := range i {
			if r.IntN(3) == 0 {
				u.in = append(u.in, x)
			}
		}
		if len(u.in) == 0 || r.IntN(4) == 0 {
			u.extra = append(u.extra, r.IntN(2))
		}
		if i > 0 && r.IntN(6) == 0 && !slices.Contains(u.in, i-1) {
			u.after = append(u.after, i-1)
		}
	}
	return units, inputs
}

// sequences calls f with each sequence of n backends in which neighbours differ, until f returns true.
func sequences(backends, n int, seq []int, f func([]int) bool) bool {
	if len(seq) == n {
		return f(seq)
	}
	for b := range backends {
		if len(seq) > 0 && seq[len(seq)-1] == b {
			continue
		}
		if sequences(backends, n, append(slices.Clip(seq), b), f) {
			return true
		}
	}
	return false
}

// placements calls f with each placement of the units in the segments of a sequence.
func placements(o *order, seq []int, at []int, f func([]int)) {
	i := len(at)
	if i == len(o.units) {
		f(at)
		return
	}
	for s, b := range seq {
		if o.units[i].on>>b&1 == 0 || slices.ContainsFunc(o.before[i], func(x int) bool { return at[x] > s }) {
			continue
		}
		placements(o, seq, append(slices.Clip(at), s), f)
	}
}

// TestFewest compares fewest and place with all sequences and placements of small graphs. The number of segments must
// be the minimum, and placements must be valid. The sum of the bytes that pass between segments must be within 1% of
// the minimum.
func TestFewest(t *testing.T) {
	var sum, least int64
	longest := 0
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 7))
		backends := 2 + r.IntN(2)
		units, inputs := randomUnits(r, backends)
		o := newOrder(units, inputs)
		seq := o.fewest(backends)
		for n := 1; n < len(seq); n++ {
			sequences(backends, n, nil, func(s []int) bool {
				placements(o, s, nil, func(at []int) {
					t.Fatalf("seed %d: %d segments %v; %v in %v is possible", seed, len(seq), seq, at, s)
				})
				return false
			})
		}
		longest = max(longest, len(seq))
		if seq == nil {
			t.Fatalf("seed %d: no sequence for %+v", seed, units)
		}
		at := o.place(seq)
		for i, u := range units {
			if u.on>>seq[at[i]]&1 == 0 || slices.ContainsFunc(o.before[i], func(x int) bool { return at[x] > at[i] }) {
				t.Fatalf("seed %d: unit %d of %+v in segment %d of %v, all in %v", seed, i, units, at[i], seq, at)
			}
		}
		best := o.cost(seq, at)
		placements(o, seq, nil, func(at []int) {
			if c := o.cost(seq, at); c.less(best) {
				best = c
			}
		})
		sum, least = sum+o.cost(seq, at).bytes, least+best.bytes
	}
	t.Logf("%d bytes; the minimum is %d; up to %d segments", sum, least, longest)
	if sum > least+least/100 || longest < 5 {
		t.Errorf("%d bytes pass between segments; the minimum is %d; up to %d segments, want at least 5", sum, least,
			longest)
	}
}

// TestCycle checks that there is no sequence for units that wait for each other.
func TestCycle(t *testing.T) {
	if seq := newOrder([]unit{{on: 1, after: []int{1}}, {on: 1, in: []int{0}}}, nil).fewest(2); seq != nil {
		t.Error(seq)
	}
}
