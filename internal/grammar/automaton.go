package grammar

import (
	"encoding/binary"
	"slices"
)

// A stack is a position to continue at, and what comes after its rule. Equal stacks are the same pointer.
type stack struct {
	place
	serial uint32
}

type place struct {
	at int32
	up *stack // nil at the bottom
}

// A state is a set of stacks whose positions take bytes: all that the text so far may continue with.
type state struct {
	stacks []*stack
	ends   bool         // the text may end here
	next   *[256]int32  // states after each byte; 0 if not known yet
	mask   *[2][]uint64 // of allowed tokens, if known: for later tokens, and for the first
}

// dead is the state after a byte that does not fit.
const dead = 1

// An automaton makes states as they are needed.
type automaton struct {
	g      *Grammar
	stacks map[place]*stack
	states []state
	ids    map[string]int32
	pops   map[*stack]int32 // the state after the bottom of a stack was reached

	left    int     // of maxWork
	work    []place // scratch of closed
	visited map[place]bool
	key     []byte
}

const (
	// maxStacks bounds the places of a state: how many ways there may be to read the same text.
	maxStacks = 1 << 13
	// maxWork bounds the places that are followed for one token or mask, which takes less than a second.
	maxWork = 1 << 21
	// manyStates is how many states are kept; then all are forgotten.
	manyStates = 1 << 14
	// maxStates bounds the states that one mask needs.
	maxStates = 1 << 16
)

func newAutomaton(g *Grammar) *automaton {
	a := &automaton{g: g, stacks: map[place]*stack{}, states: make([]state, 2), ids: map[string]int32{"": dead},
		pops: map[*stack]int32{}, visited: map[place]bool{}}
	return a
}

func (a *automaton) stack(p place) *stack {
	s := a.stacks[p]
	if s == nil {
		s = &stack{p, uint32(len(a.stacks))}
		a.stacks[p] = s
	}
	return s
}

// begin returns the state before a text.
func (a *automaton) begin() (int32, error) {
	a.work = append(a.work[:0], place{a.g.start[a.g.root], nil})
	return a.closed()
}

// closed returns the state of the places in a.work: it follows what takes no bytes.
func (a *automaton) closed() (int32, error) {
	clear(a.visited)
	ends, out := false, []*stack(nil)
	for len(a.work) > 0 {
		p := a.work[len(a.work)-1]
		a.work = a.work[:len(a.work)-1]
		if a.visited[p] {
			continue
		}
		a.visited[p] = true
		if len(a.visited) > maxStacks {
			a.work = a.work[:0]
			return 0, fail("there are more than %d ways to read the text so far", maxStacks).WithHint(
				"make the grammar less ambiguous")
		}
		if a.left--; a.left < 0 {
			a.work = a.work[:0]
			return 0, fail("a mask of tokens takes too long").WithHint("make the grammar less ambiguous")
		}
		switch at := &a.g.positions[p.at]; at.kind {
		case atBytes:
			out = append(out, a.stack(p))
		case atSplit:
			for _, o := range at.outs {
				a.work = append(a.work, place{o, p.up})
			}
		case atCall:
			up := p.up
			if a.g.positions[at.next].kind != atEnd { // a call at the end of a rule leaves nothing on the stack
				up = a.stack(place{at.next, p.up})
			}
			a.work = append(a.work, place{a.g.start[at.rule], up})
		case atEnd:
			if p.up == nil {
				ends = true
			} else {
				a.work = append(a.work, p.up.place)
			}
		}
	}
	return a.state(out, ends)
}

// state returns the number of a state.
func (a *automaton) state(stacks []*stack, ends bool) (int32, error) {
	slices.SortFunc(stacks, func(x, y *stack) int { return int(x.serial) - int(y.serial) })
	a.key = a.key[:0]
	for _, s := range stacks {
		a.key = binary.LittleEndian.AppendUint32(a.key, s.serial)
	}
	if ends {
		a.key = append(a.key, 1)
	}
	id, ok := a.ids[string(a.key)]
	if !ok {
		if len(a.states) >= maxStates {
			return 0, fail("a mask of tokens needs more than %d states", maxStates).WithHint(
				"make the grammar less ambiguous")
		}
		id = int32(len(a.states))
		a.ids[string(a.key)] = id
		a.states = append(a.states, state{stacks: stacks, ends: ends})
	}
	return id, nil
}

// step returns the state after a byte.
func (a *automaton) step(from int32, c byte) (int32, error) {
	if next := a.states[from].next; next != nil {
		if to := next[c]; to != 0 {
			return to, nil
		}
	}
	a.work = a.work[:0]
	for _, s := range a.states[from].stacks {
		for _, e := range a.g.positions[s.at].edges {
			if c >= e.lo && c <= e.hi {
				a.work = append(a.work, place{e.to, s.up})
			}
		}
	}
	to, err := a.closed()
	if err != nil {
		return 0, err
	}
	s := &a.states[from]
	if s.next == nil {
		s.next = new([256]int32)
	}
	s.next[c] = to
	return to, nil
}

// popped returns the state after the rule on top of up has ended.
func (a *automaton) popped(up *stack) (int32, error) {
	if id, ok := a.pops[up]; ok {
		return id, nil
	}
	a.work = append(a.work[:0], up.place)
	id, err := a.closed()
	if err == nil {
		a.pops[up] = id
	}
	return id, err
}

// moved returns the state of another automaton of the same grammar.
func (a *automaton) moved(from *automaton, id int32) (int32, error) {
	s := &from.states[id]
	if id == dead {
		return dead, nil
	}
	known := map[*stack]*stack{nil: nil}
	var move func(s *stack) *stack
	move = func(s *stack) *stack {
		to, ok := known[s]
		if !ok {
			to = a.stack(place{s.at, move(s.up)})
			known[s] = to
		}
		return to
	}
	var out []*stack
	for _, x := range s.stacks {
		out = append(out, move(x))
	}
	return a.state(out, s.ends)
}
