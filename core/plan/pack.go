package plan

import (
	"cmp"
	"slices"

	"github.com/rlx-go/rlx/core/program"
)

// orders are the orders in which pack can place blocks. Ties are broken by the root's index, so the result does not
// depend on the order of the input. No order is best for every graph: placing large blocks first packs long-lived
// values tightly, the order of the steps suits chains.
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
			return cmp.Or(cmp.Compare(y.last-y.first, x.last-x.first), cmp.Compare(y.size, x.size),
				cmp.Compare(x.root, y.root))
		})
	},
	byBreadth,
}

// byBreadth sorts blocks so that those come first that are live when memory use is highest.
func byBreadth(b []block) {
	need := inUse(b)
	most := newRangeMax(len(need)) // the memory in use, at the steps at which a block begins
	for _, x := range b {
		most.set(x.first, need[x.first])
	}
	breadth := make(map[int]int64, len(b)) // by root
	for _, x := range b {
		breadth[x.root] = most.over(x.first, x.last)
	}
	slices.SortFunc(b, func(x, y block) int {
		return cmp.Or(cmp.Compare(breadth[y.root], breadth[x.root]), cmp.Compare(y.size, x.size),
			cmp.Compare(x.root, y.root))
	})
}

// steps returns the number of steps that the blocks span.
func steps(b []block) (n int) {
	for _, x := range b {
		n = max(n, x.last+1)
	}
	return n
}

// inUse returns the sum of the sizes of the live blocks at each step.
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

// rangeMax finds the largest value in a range of steps. It is a binary tree whose leaves are the steps.
type rangeMax []int64

func newRangeMax(n int) rangeMax { return make(rangeMax, 2*n) }

func (t rangeMax) set(i int, v int64) {
	for i += len(t) / 2; i > 0; i /= 2 {
		t[i] = max(t[i], v)
	}
}

// over returns the largest value from step first to step last.
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

// neighbours finds the placed blocks that are live during some steps. It avoids n² comparisons for n blocks if few of
// them are live at the same time.
type neighbours struct {
	// live is a binary tree whose leaves are the steps. Each block is listed at the fewest nodes whose leaves are
	// exactly its steps.
	live [][]*block
	// begins lists the blocks that begin at each step.
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

// of appends to buf the placed blocks that are live during some step of b, sorted by offset. These are the blocks that
// are live at the first step of b, and those that begin at a later one.
func (n *neighbours) of(b *block, buf []*block) []*block {
	for i := b.first + len(n.begins); i > 0; i /= 2 {
		buf = append(buf, n.live[i]...)
	}
	for _, later := range n.begins[b.first+1 : b.last+1] {
		buf = append(buf, later...)
	}
	slices.SortFunc(
		buf, func(x, y *block) int { return cmp.Or(cmp.Compare(x.offset, y.offset), cmp.Compare(x.root, y.root)) })
	return buf
}

// fit says which gap to choose if a block fits into several.
type fit int

const (
	lowest   fit = iota // the first gap
	tightest            // the smallest gap; the first one on a tie
)

// pack places the blocks in the given order and returns the size of the whole. Each block goes between the blocks that
// are already placed and live at the same time.
func pack(blocks []block, how fit) (size int64) {
	placed := newNeighbours(steps(blocks))
	var near []*block
	for i := range blocks {
		b := &blocks[i]
		need := program.AlignUp(b.size)
		var end int64 // the end of the neighbours seen so far
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
