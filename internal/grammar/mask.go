package grammar

// A local holds the effects of tokens at a position that do not depend on what is below it on the stack.
type local struct {
	mask  []uint64 // tokens that fit before the stack is reached, or just reach it
	exits []int32  // nodes of the trie after which the position below on the stack continues
}

// A walker walks a trie with states of an automaton.
type walker struct {
	a      *automaton
	t      *trie
	states []int32 // by depth
}

// below walks the nodes of the trie under node, which is in state s, and calls f for those that fit.
func (w *walker) below(node, s int32, f func(node, s int32)) error {
	t, base := w.t, w.t.depth[node]
	if len(w.states) <= t.deep {
		w.states = make([]int32, t.deep+1)
	}
	w.states[base] = s
	for i, end := node+1, t.skip[node]; i < end; {
		from := w.states[t.depth[i]-1]
		to := int32(0)
		if next := w.a.states[from].next; next != nil {
			to = next[t.label[i]]
		}
		if to == 0 {
			var err error
			if to, err = w.a.step(from, t.label[i]); err != nil {
				return err
			}
		}
		if to == dead {
			i = t.skip[i]
			continue
		}
		w.states[t.depth[i]] = to
		f(i, to)
		i++
	}
	return nil
}

// set adds the tokens that end at a node to a mask.
func (t *trie) set(mask []uint64, node int32) {
	for _, id := range t.ids[t.first[node]:t.first[node+1]] {
		mask[id>>6] |= 1 << (id & 63)
	}
}

// localOf returns the local of a position.
func (w *walker) localOf(at int32, size int) (*local, error) {
	start, err := w.a.state([]*stack{w.a.stack(place{at, nil})}, false)
	if err != nil {
		return nil, err
	}
	l := &local{mask: make([]uint64, (size+63)/64)}
	err = w.below(0, start, func(node, s int32) {
		w.t.set(l.mask, node)
		if w.a.states[s].ends && w.t.skip[node] > node+1 {
			l.exits = append(l.exits, node)
		}
	})
	return l, err
}
