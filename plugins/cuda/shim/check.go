package shim

import (
	"fmt"
	"math/bits"
)

// defined checks that all registers are written before they are read, on every path.
func (p *program) defined() error {
	starts := map[int]bool{0: true} // first instructions of the basic blocks
	for i, in := range p.code {
		if in.kind == branch {
			starts[in.target], starts[i+1] = true, true
		}
		if in.kind == end {
			starts[i+1] = true
		}
	}
	n := 0
	base := map[byte]int{}
	for _, c := range []byte{wordClass, boolClass, doubleClass, halfClass} {
		base[c] = n
		n += p.declared[c]
		if c == wordClass {
			n += p.declared[floatClass]
		}
	}
	index := func(r register) int {
		if r.class == floatClass {
			return base[wordClass] + int(r.n)
		}
		return base[r.class] + int(r.n)
	}
	at := map[int]set{0: make(set, (n+63)/64)} // registers that are written before each block that is reached
	for work := []int{0}; len(work) > 0; {
		from := work[len(work)-1]
		work = work[:len(work)-1]
		have := append(set(nil), at[from]...)
		reach := func(to int) {
			old, ok := at[to]
			if !ok {
				at[to] = append(set(nil), have...)
				work = append(work, to)
			} else if old.and(have) {
				work = append(work, to)
			}
		}
		for i := from; i < len(p.code); i++ {
			in := &p.code[i]
			for _, r := range in.reads {
				if !have.has(index(r)) {
					return p.at(in.line, fmt.Errorf("register %s is read before it is written", p.name(r)))
				}
			}
			for _, r := range in.writes { // with a guard, too: what reads the register may have the same guard
				have.add(index(r))
			}
			if in.kind == branch {
				reach(in.target)
			}
			if in.kind == end && in.guard < 0 || in.kind == branch && in.guard < 0 {
				break
			}
			if starts[i+1] {
				reach(i + 1)
				break
			}
		}
	}
	return nil
}

// name returns the name of a register in the text.
func (p *program) name(r register) string {
	if r.class == floatClass {
		r.n -= int32(p.declared[wordClass])
	}
	return fmt.Sprintf("%%%c%d", r.class, r.n)
}

// set is a set of numbers.
type set []uint64

func (s set) has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }
func (s set) add(i int)      { s[i/64] |= 1 << (i % 64) }

// and removes the elements that are not in another set, and reports whether it removed any.
func (s set) and(o set) bool {
	gone := 0
	for i := range s {
		gone += bits.OnesCount64(s[i] &^ o[i])
		s[i] &= o[i]
	}
	return gone > 0
}
