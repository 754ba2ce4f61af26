package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/program"
)

// Access lists the values that one step reads and writes, as indices of Plan.Values.
type Access struct{ Reads, Writes []int }

// Check simulates the steps and tracks which value each byte holds. It returns an error for
//   - a value that is not aligned, or lies outside the block or its parent,
//   - a read of a byte that holds another value, or that was not written,
//   - a step that writes over what it reads, unless the result lies exactly over its InPlace parent,
//   - a value that is written twice.
//
// before lists the values that have their content before the first step, after those that must have it after the last
// one.
//
// Check does not trust Make: of a plan it uses the values' sizes and parents and the offsets, but not the values'
// intervals.
func Check(p Plan, before []int, steps []Access, after []int) error {
	for i := range p.Values {
		if err := p.checkPlace(i); err != nil {
			return err
		}
	}
	c := checker{p: p, written: make([]bool, len(p.Values))}
	for _, v := range before {
		if err := c.write(v, nil); err != nil {
			return fmt.Errorf("before the first step: %w", err)
		}
	}
	for s, a := range steps {
		for _, v := range a.Reads {
			if err := c.read(v); err != nil {
				return fmt.Errorf("step %d: %w", s, err)
			}
		}
		for k, v := range a.Writes {
			for _, w := range a.Writes[:k] {
				if p.overlap(v, w) {
					return fmt.Errorf("step %d: writes %s over %s", s, p.Values[v].Name, p.Values[w].Name)
				}
			}
			if err := c.write(v, a.Reads); err != nil {
				return fmt.Errorf("step %d: %w", s, err)
			}
		}
	}
	for _, v := range after {
		if err := c.read(v); err != nil {
			return fmt.Errorf("after the last step: %w", err)
		}
	}
	return nil
}

// checkPlace checks the size and offset of value i against the block and its parent.
func (p Plan) checkPlace(i int) error {
	v, off := p.Values[i], p.Offsets[i]
	if v.Size < 0 || off < 0 || off > p.Size || v.Size > p.Size-off {
		return fmt.Errorf("%s: %d bytes at %d are outside the %d bytes of the block", v.Name, v.Size, off, p.Size)
	}
	if v.Parent == None {
		if off%program.Align != 0 {
			return fmt.Errorf("%s: offset %d is not a multiple of %d", v.Name, off, program.Align)
		}
		return nil
	}
	if v.Parent < 0 || v.Parent >= i {
		return fmt.Errorf("%s: shares the storage of value %d, which does not come before it", v.Name, v.Parent)
	}
	par, at := p.Values[v.Parent], off-p.Offsets[v.Parent]
	switch {
	case at != v.Offset || at < 0 || v.Size > par.Size-at:
		return fmt.Errorf("%s: %d bytes at %d of %s, which has %d; want offset %d", v.Name, v.Size, at, par.Name,
			par.Size, v.Offset)
	case v.InPlace && v.Size != par.Size:
		return fmt.Errorf("%s: %d bytes over %s, which has %d", v.Name, v.Size, par.Name, par.Size)
	}
	return nil
}

func (p Plan) overlap(v, w int) bool {
	return max(p.Offsets[v], p.Offsets[w]) < min(p.Offsets[v]+p.Values[v].Size, p.Offsets[w]+p.Values[w].Size)
}

// content returns the value whose bytes v reads: v itself, unless it is a view.
func (p Plan) content(v int) int {
	for p.Values[v].Parent != None && !p.Values[v].InPlace {
		v = p.Values[v].Parent
	}
	return v
}

// checker holds the state of memory: disjoint segments, sorted by start, each with the value that it holds.
type checker struct {
	p       Plan
	segs    []segment
	put     []segment // room for the segments of a write
	written []bool
}

type segment struct {
	start, end int64
	owner      int
}

func (c *checker) read(v int) error {
	off, end, owner := c.p.Offsets[v], c.p.Offsets[v]+c.p.Values[v].Size, c.p.content(v)
	if !c.written[owner] {
		return fmt.Errorf("reads %s before it is written", c.p.Values[v].Name)
	}
	for at := off; at < end; {
		i, found := slices.BinarySearchFunc(
			c.segs, at, func(s segment, at int64) int { return cmp.Compare(s.start, at) })
		if !found {
			i--
		}
		if i < 0 || c.segs[i].end <= at || c.segs[i].owner != owner {
			held := "nothing"
			if i >= 0 && c.segs[i].end > at {
				held = c.p.Values[c.segs[i].owner].Name
			}
			return fmt.Errorf("reads %s, but byte %d of memory holds %s", c.p.Values[v].Name, at, held)
		}
		at = c.segs[i].end
	}
	return nil
}

// write records that v is written. reads lists the values that the same step reads.
func (c *checker) write(v int, reads []int) error {
	val := c.p.Values[v]
	if c.p.content(v) != v {
		return fmt.Errorf("writes %s, which is a view", val.Name)
	}
	if c.written[v] {
		return fmt.Errorf("writes %s again", val.Name)
	}
	c.written[v] = true
	over := None
	if val.InPlace {
		over = val.Parent
		if !slices.Contains(reads, over) {
			return fmt.Errorf("writes %s over %s, which the step does not read", val.Name, c.p.Values[over].Name)
		}
	}
	for _, r := range reads {
		if r != over && c.p.overlap(v, r) {
			return fmt.Errorf("writes %s over its operand %s", val.Name, c.p.Values[r].Name)
		}
	}
	if val.Size == 0 {
		return nil
	}
	start, end := c.p.Offsets[v], c.p.Offsets[v]+val.Size
	// Replace the segments that v overlaps by v, and by the rest of the first and the last of them.
	first, _ := slices.BinarySearchFunc(
		c.segs, start, func(s segment, at int64) int { return cmp.Compare(s.end, at+1) })
	next := first
	put := c.put[:0]
	for ; next < len(c.segs) && c.segs[next].start < end; next++ {
		if s := c.segs[next]; s.start < start {
			put = append(put, segment{s.start, start, s.owner})
		}
	}
	put = append(put, segment{start, end, v})
	if next > first {
		if s := c.segs[next-1]; s.end > end {
			put = append(put, segment{end, s.end, s.owner})
		}
	}
	c.segs, c.put = slices.Replace(c.segs, first, next, put...), put
	return nil
}
