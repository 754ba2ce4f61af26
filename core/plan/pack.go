package plan

import (
	"cmp"
	"slices"

	"github.com/rlx-go/rlx/core/program"
)

// orders are the orders in which blocks are placed. Each ends with the root's index, so none depends on the order of the
// input. No order is best for every graph: large first packs long-lived values tightly, by time suits chains.
var orders = []func([]block){
	func(b []block) { // largest first
		slices.SortFunc(b, func(x, y block) int {
			return cmp.Or(cmp.Compare(y.size, x.size), cmp.Compare(x.root, y.root))
		})
	},
	func(b []block) { // in the order of the steps
		slices.SortFunc(b, func(x, y block) int {
			return cmp.Or(cmp.Compare(x.first, y.first), cmp.Compare(y.size, x.size), cmp.Compare(x.root, y.root))
		})
	},
	func(b []block) { // longest-lived first
		slices.SortFunc(b, func(x, y block) int {
			return cmp.Or(cmp.Compare(y.last-y.first, x.last-x.first), cmp.Compare(y.size, x.size), cmp.Compare(x.root, y.root))
		})
	},
	byBreadth,
}

// byBreadth places first the blocks that are live when memory use is highest.
func byBreadth(b []block) {
	need := inUse(b)
	most := newRangeMax(len(need)) // of the steps that begin a block
	for _, x := range b {
		most.set(x.first, need[x.first])
	}
	breadth := make(map[int]int64, len(b)) // by root
	for _, x := range b {
		breadth[x.root] = most.over(x.first, x.last)
	}
	slices.SortFunc(b, func(x, y block) int {
		return cmp.Or(cmp.Compare(breadth[y.root], breadth[x.root]), cmp.Compare(y.size, x.size), cmp.Compare(x.root, y.root))
	})
}

// steps is the number of steps that the blocks span.
func steps(b []block) (n int) {
	for _, x := range b {
		n = max(n, x.last+1)
	}
	return n
}

// inUse is the memory that the blocks live at each step take.
func inUse(b []block) []int64 {
	use := make([]int64, steps(b)+1)
	for _, x := range b {
		use[x.first] += program.AlignUp(x.size)
		use[x.last+1] -= program.AlignUp(x.size)
	}
	for i := 1; i < len(use); i++ {
		use[i] += use[i-1]
	}
	return use
}

// rangeMax answers for the largest value in a range of steps: a complete binary tree whose leaves are the steps.
type rangeMax []int64

func newRangeMax(n int) rangeMax { return make(rangeMax, 2*n) }

func (t rangeMax) set(i int, v int64) {
	for i += len(t) / 2; i > 0; i /= 2 {
		t[i] = max(t[i], v)
	}
}

// over is the largest value from step first to step last.
func (t rangeMax) over(first, last int) (most int64) {
	for lo, hi := first+len(t)/2, last+1+len(t)/2; lo < hi; lo, hi = lo/2, hi/2 {
		if lo%2 == 1 {
			most = max(most, t[lo])
			lo++
		}
		if hi%2 == 1 {
			hi--
			most = max(most, t[hi])
		}
	}
	return most
}

// neighbours finds the placed blocks that are live during some steps, so that a plan of n blocks of which few are live
// together does not take n² comparisons.
type neighbours struct {
	// live is a complete binary tree whose leaves are the steps; a block is listed at the fewest nodes whose leaves
	// are exactly its steps.
	live [][]*block
	// begins lists the blocks by their first step.
	begins [][]*block
}

func newNeighbours(steps int) *neighbours {
	return &neighbours{make([][]*block, 2*steps), make([][]*block, steps)}
}

func (n *neighbours) add(b *block) {
	size := len(n.begins)
	n.begins[b.first] = append(n.begins[b.first], b)
	for lo, hi := b.first+size, b.last+1+size; lo < hi; lo, hi = lo/2, hi/2 {
		if lo%2 == 1 {
			n.live[lo] = append(n.live[lo], b)
			lo++
		}
		if hi%2 == 1 {
			hi--
			n.live[hi] = append(n.live[hi], b)
		}
	}
}

// of appends to buf the placed blocks that are live during some step of b, by offset: those live at its first step, and
// those that begin later.
func (n *neighbours) of(b *block, buf []*block) []*block {
	for i := b.first + len(n.begins); i > 0; i /= 2 {
		buf = append(buf, n.live[i]...)
	}
	for _, later := range n.begins[b.first+1 : b.last+1] {
		buf = append(buf, later...)
	}
	slices.SortFunc(buf, func(x, y *block) int { return cmp.Or(cmp.Compare(x.offset, y.offset), cmp.Compare(x.root, y.root)) })
	return buf
}

// fit chooses among the gaps that a block fits into.
type fit int

const (
	lowest   fit = iota // the first gap
	tightest            // the gap that leaves the least; the first of those
)

// pack places blocks one by one, each between those already placed that are live at the same time, and returns the size
// of the whole.
func pack(blocks []block, how fit) (size int64) {
	placed := newNeighbours(steps(blocks))
	var near []*block
	for i := range blocks {
		b := &blocks[i]
		need := program.AlignUp(b.size)
		var end int64 // of the neighbours seen so far
		bestGap := int64(-1)
		near = placed.of(b, near[:0])
		for _, p := range near {
			gap := p.offset - end
			if gap >= need && (bestGap < 0 || how == tightest && gap < bestGap) {
				b.offset, bestGap = end, gap
				if how == lowest {
					break
				}
			}
			end = max(end, p.offset+program.AlignUp(p.size))
		}
		if bestGap < 0 {
			b.offset = end
		}
		size = max(size, b.offset+need)
		placed.add(b)
	}
	return size
}
