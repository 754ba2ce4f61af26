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
	func(b []block) { // as the steps make them
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

// byBreadth places first what is live where memory is scarcest.
func byBreadth(b []block) {
	need := make([]int64, len(b)) // what the step that begins b[i] needs
	for i, at := range b {
		need[i] = inUse(b, at.first)
	}
	breadth := make(map[int]int64, len(b)) // by root
	for _, x := range b {
		for i, at := range b {
			if x.first <= at.first && at.first <= x.last {
				breadth[x.root] = max(breadth[x.root], need[i])
			}
		}
	}
	slices.SortFunc(b, func(x, y block) int {
		return cmp.Or(cmp.Compare(breadth[y.root], breadth[x.root]), cmp.Compare(y.size, x.size), cmp.Compare(x.root, y.root))
	})
}

// inUse is the memory that the blocks live at a step take.
func inUse(b []block, step int) (sum int64) {
	for _, x := range b {
		if x.first <= step && step <= x.last {
			sum += program.AlignUp(x.size)
		}
	}
	return sum
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
	placed := make([]block, 0, len(blocks)) // by offset
	for i := range blocks {
		b := &blocks[i]
		need := program.AlignUp(b.size)
		var end int64 // of the neighbours seen so far
		bestGap := int64(-1)
		for _, p := range placed {
			if p.last < b.first || b.last < p.first {
				continue
			}
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
		at, _ := slices.BinarySearchFunc(placed, *b, func(x, y block) int {
			return cmp.Or(cmp.Compare(x.offset, y.offset), cmp.Compare(x.root, y.root))
		})
		placed = slices.Insert(placed, at, *b)
	}
	return size
}
