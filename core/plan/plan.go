// Package plan assigns values offsets in one block of memory. Make is deterministic: the same values give the same
// offsets on every machine, so compiling twice gives the same bytes. Check proves that a layout is correct, however it
// was made.
//
// It imports core/program and what that imports, but neither core/op nor a device.
package plan

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/program"
)

// None is the Parent of a value that has its own storage.
const None = -1

// Value is something that needs memory during some steps. Steps are counted from 0. First and Last are inclusive, so a
// step's result never shares bytes with what the step reads, unless it is InPlace.
type Value struct {
	ID          int    // unique; breaks ties
	Name        string // for reports
	Size        int64  // in bytes, with the symbols at their upper bounds
	First, Last int    // the step that writes it and the last one that reads it
	// Parent is the index of the value whose storage this one shares, or None. It is smaller than this value's own
	// index. A view begins Offset bytes into its parent, an in-place result at its first byte.
	Parent  int
	Offset  int64 // in bytes
	InPlace bool  // this value overwrites Parent; otherwise it is a view
}

// Plan is a layout of values.
type Plan struct {
	Values  []Value
	Offsets []int64 // of each value, in bytes from the start of the block
	Size    int64   // of the block in bytes; a multiple of program.Align
	// Peak is the most memory that any step needs, with each value rounded up to program.Align. No layout for the same
	// order of steps can be smaller. Naive is the memory needed if every value except views had its own storage.
	Peak, Naive int64
}

// block is a set of values that share storage: a root, its views and the in-place results over them.
type block struct {
	root        int // index of the root value
	size        int64
	first, last int
	offset      int64
}

// Make returns the smallest of several layouts, which place the values in different orders. On a tie the first one
// wins. Make panics if a parent is not an earlier value or does not contain its view, because callers derive both from
// the graph.
func Make(values []Value) Plan {
	p := Plan{Values: values, Offsets: make([]int64, len(values))}
	blocks, owner := blocksOf(values)
	p.Peak = slices.Max(inUse(blocks))
	for _, v := range values {
		if v.Parent == None || v.InPlace {
			p.Naive += program.AlignUp(v.Size)
		}
	}
	var best []block
	p.Size = -1
	for _, order := range orders {
		for _, fit := range []fit{lowest, tightest} {
			placed := slices.Clone(blocks)
			order(placed)
			if size := pack(placed, fit); p.Size < 0 || size < p.Size {
				p.Size, best = size, placed
			}
		}
	}
	start := make([]int64, len(values)) // by root
	for _, b := range best {
		start[b.root] = b.offset
	}
	for i, v := range values {
		if v.Parent == None {
			p.Offsets[i] = start[owner[i]]
		} else {
			p.Offsets[i] = p.Offsets[v.Parent] + v.Offset
		}
	}
	return p
}

// Root follows parents to the value that owns the storage of value i. It returns its index and the offset of i in it,
// in bytes.
func Root(values []Value, i int) (root int, offset int64) {
	for values[i].Parent != None {
		offset += values[i].Offset
		i = values[i].Parent
	}
	return i, offset
}

// blocksOf groups values that share storage into blocks. owner has the root of each value.
func blocksOf(values []Value) (blocks []block, owner []int) {
	owner = make([]int, len(values))
	at := make([]int, len(values)) // root -> index in blocks
	for i, v := range values {
		if v.First > v.Last || v.Size < 0 || v.Parent >= i || v.Parent < None {
			panic(
				fmt.Sprintf("BUG: plan: value %s has interval %d..%d, size %d, parent %d", v.Name, v.First, v.Last,
					v.Size, v.Parent))
		}
		root, off := Root(values, i)
		owner[i] = root
		if root == i {
			at[i] = len(blocks)
			blocks = append(blocks, block{root: i, size: v.Size, first: v.First, last: v.Last})
			continue
		}
		b := &blocks[at[root]]
		if v.Offset < 0 || off+v.Size > b.size || v.InPlace && v.Offset != 0 {
			panic(
				fmt.Sprintf("BUG: plan: value %s at %d+%d is outside the %d bytes of %s", v.Name, off, v.Size, b.size,
					values[root].Name))
		}
		b.first, b.last = min(b.first, v.First), max(b.last, v.Last)
	}
	return blocks, owner
}
