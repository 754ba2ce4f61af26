// Package plan assigns values offsets in one block of memory. Make is pure and deterministic: the same values give the same
// offsets on every machine, so that compiling twice gives the same bytes. Check proves a layout correct without knowing
// how it was made.
//
// It imports core/program and below, and neither core/op nor a device.
package plan

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/program"
)

// None is the Parent of a value with storage of its own.
const None = -1

// Value is something that needs memory for some steps. Steps are counted from 0; both ends are inclusive, so a value
// that a step writes never shares bytes with one that the step reads, unless it is planned over it (InPlace).
type Value struct {
	ID          int    // breaks ties; unique
	Name        string // in reports
	Size        int64  // bytes at the symbols' upper bounds
	First, Last int    // the step that writes it and the last one that reads it
	// Parent is the index (in the list given to Make, smaller than this value's own) of the value whose storage this
	// one shares, or None: a view begins Offset bytes into it, an in-place result at its first byte.
	Parent  int
	Offset  int64 // in Parent
	InPlace bool  // this value overwrites Parent; otherwise it is a view
}

// Plan is a layout.
type Plan struct {
	Values  []Value
	Offsets []int64 // of each value, in bytes from the start of the block
	Size    int64   // of the block; a multiple of program.Align
	// Peak is the most memory that any step needs, each value rounded up to program.Align: no layout of the same order
	// can be smaller. Naive is the memory if every value but the views had its own.
	Peak, Naive int64
}

// block is a set of values that share storage: one root and its views and in-place successors.
type block struct {
	root        int // index of the root value
	size        int64
	first, last int
	offset      int64
}

// Make returns the smallest of several layouts, which place the values in different orders. On a tie the earlier order wins.
// It panics where a parent is not an earlier value or does not contain its view: callers derive both from the graph.
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

// Root follows parents to the value that owns the storage, and gives the offset inside it.
func Root(values []Value, i int) (root int, offset int64) {
	for values[i].Parent != None {
		offset += values[i].Offset
		i = values[i].Parent
	}
	return i, offset
}

// blocksOf merges every value into the block of its root; owner gives the root of each value.
func blocksOf(values []Value) (blocks []block, owner []int) {
	owner = make([]int, len(values))
	at := make([]int, len(values)) // root -> index in blocks
	for i, v := range values {
		if v.First > v.Last || v.Size < 0 || v.Parent >= i || v.Parent < None {
			panic(fmt.Sprintf("BUG: plan: value %s has interval %d..%d, size %d, parent %d", v.Name, v.First, v.Last, v.Size, v.Parent))
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
			panic(fmt.Sprintf("BUG: plan: value %s at %d+%d is outside the %d bytes of %s", v.Name, off, v.Size, b.size, values[root].Name))
		}
		b.first, b.last = min(b.first, v.First), max(b.last, v.Last)
	}
	return blocks, owner
}
