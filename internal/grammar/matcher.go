package grammar

import (
	"slices"
	"sync"
)

// An Engine matches texts of a vocabulary with a grammar. Its matchers share the masks that they compute. It is safe
// for concurrent use.
type Engine struct {
	g *Grammar
	v *Vocabulary

	mu     sync.Mutex
	a      *automaton
	locals [2]map[int32]*local
	bytes  int // of locals and masks
}

// maxKept bounds the memory of masks in bytes.
const maxKept = 64 << 20

// NewEngine returns an engine.
func NewEngine(g *Grammar, v *Vocabulary) *Engine {
	e := &Engine{g: g, v: v}
	e.forget()
	return e
}

// forget drops all that is kept. Matchers keep their automaton until they move.
func (e *Engine) forget() {
	e.a, e.bytes = newAutomaton(e.g), 0
	e.locals = [2]map[int32]*local{{}, {}}
}

// A Matcher follows a text. Copies of it follow the text apart from each other.
type Matcher struct {
	e     *Engine
	a     *automaton
	state int32
	later bool // there were tokens before
}

// Begin returns a matcher for the beginning of a text. The error is one of the grammar.
func (e *Engine) Begin() (Matcher, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.a.left = maxWork
	s, err := e.a.begin()
	return Matcher{e: e, a: e.a, state: s}, err
}

func (m *Matcher) table() int {
	if m.later {
		return 0
	}
	return 1
}

// settle moves the matcher to the automaton of the engine, which is new from time to time. The caller holds the lock.
func (m *Matcher) settle() (err error) {
	e := m.e
	if len(e.a.states) > manyStates || e.bytes > maxKept {
		e.forget()
	}
	if m.a != e.a {
		m.state, err = e.a.moved(m.a, m.state)
		m.a = e.a
	}
	m.a.left = maxWork
	return err
}

// run returns the state after a token.
func (m *Matcher) run(id int) (int32, error) {
	if id < 0 || id >= m.e.v.size {
		return dead, nil
	}
	b := m.e.v.bytes[m.table()][id]
	if len(b) == 0 {
		return dead, nil
	}
	s := m.state
	for _, c := range b {
		var err error
		if s, err = m.a.step(s, c); err != nil || s == dead {
			return dead, err
		}
	}
	return s, nil
}

// Accept continues the text with a token. ok is false if it does not fit; the text is then as before. An error says
// that the grammar is too ambiguous.
func (m *Matcher) Accept(id int) (ok bool, err error) {
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	if err := m.settle(); err != nil {
		return false, err
	}
	s, err := m.run(id)
	if err != nil || s == dead {
		return false, err
	}
	m.state, m.later = s, true
	return true, nil
}

// Fits reports whether a token may follow.
func (m *Matcher) Fits(id int) (bool, error) {
	next := *m
	return next.Accept(id)
}

// Ends reports whether the text may end here, and whether it must, as nothing may follow.
func (m *Matcher) Ends() (may, must bool) {
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	s := &m.a.states[m.state]
	return s.ends, s.ends && len(s.stacks) == 0
}

// Mask returns a bit for each token: whether it may follow. The caller does not change it.
func (m *Matcher) Mask() ([]uint64, error) {
	e := m.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := m.settle(); err != nil {
		return nil, err
	}
	table := m.table()
	if s := &m.a.states[m.state]; s.mask != nil && s.mask[table] != nil {
		return s.mask[table], nil
	}
	w := &walker{a: m.a, t: e.v.tries[table]}
	mask := make([]uint64, (e.v.size+63)/64)
	for _, st := range slices.Clone(m.a.states[m.state].stacks) {
		l := e.locals[table][st.at]
		if l == nil {
			var err error
			if l, err = w.localOf(st.at, e.v.size); err != nil {
				return nil, err
			}
			e.locals[table][st.at] = l
			e.bytes += 8*len(l.mask) + 4*len(l.exits)
		}
		for i, bits := range l.mask {
			mask[i] |= bits
		}
		if st.up == nil {
			continue
		}
		rest, err := m.a.popped(st.up)
		if err != nil {
			return nil, err
		}
		for _, node := range l.exits {
			if err := w.below(node, rest, func(node, _ int32) { w.t.set(mask, node) }); err != nil {
				return nil, err
			}
		}
	}
	s := &m.a.states[m.state]
	if s.mask == nil {
		s.mask = new([2][]uint64)
	}
	s.mask[table] = mask
	e.bytes += 8 * len(mask)
	return mask, nil
}
