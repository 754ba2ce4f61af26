package tokenizer

import (
	"fmt"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// bpe is a byte pair encoding model. It encodes pieces of text.
type bpe struct {
	vocab  map[string]int32
	merges map[pair]merge

	prefix, suffix string // before each character but the first of a piece, and after the last one
	unk            int32  // -1 drops unknown characters
	fuseUnk        bool   // joins a run of unknown characters to one token
	whole          bool   // a piece that is itself a token is not merged
	bytes          [256]int32
	byteFallback   bool

	seed  maphash.Seed
	cache [1 << cacheBits]atomic.Pointer[cached]
}

const (
	cacheBits = 13
	maxCached = 64 // maximum length of a piece in bytes
)

type cached struct {
	text string
	ids  []int32
}

type pair struct{ a, b int32 }

type merge struct{ rank, to int32 }

// encode implements model.
func (m *bpe) encode(out []int, text string, s *scratch) ([]int, error) {
	if m.whole {
		if id, ok := m.vocab[text]; ok {
			return append(out, int(id)), nil
		}
	}
	var slot *atomic.Pointer[cached]
	if len(text) <= maxCached {
		slot = &m.cache[maphash.String(m.seed, text)>>(64-cacheBits)]
		if c := slot.Load(); c != nil && c.text == text {
			return appendIDs(out, c.ids), nil
		}
	}
	m.characters(text, s)
	m.merge(s)
	if slot != nil {
		slot.Store(&cached{strings.Clone(text), append([]int32(nil), s.ids...)})
	}
	return appendIDs(out, s.ids), nil
}

func appendIDs(out []int, ids []int32) []int {
	for _, id := range ids {
		out = append(out, int(id))
	}
	return out
}

// characters sets s.ids to the tokens of the characters of text.
func (m *bpe) characters(text string, s *scratch) {
	s.ids = s.ids[:0]
	unknown := false // an unknown token is pending, because fuseUnk may extend it
	for i, r := range text {
		end := i + utf8.RuneLen(r)
		c := text[i:end]
		if i > 0 && m.prefix != "" {
			c = m.prefix + c
		}
		if end == len(text) && m.suffix != "" {
			c += m.suffix
		}
		id, ok := m.vocab[c]
		switch {
		case ok:
			if unknown {
				s.ids = append(s.ids, m.unk)
				unknown = false
			}
			s.ids = append(s.ids, id)
		case m.byteFallback && m.hasBytes(c):
			for _, b := range []byte(c) {
				s.ids = append(s.ids, m.bytes[b])
			}
		case m.unk >= 0:
			if unknown && !m.fuseUnk {
				s.ids = append(s.ids, m.unk)
			}
			unknown = true
		}
	}
	if unknown {
		s.ids = append(s.ids, m.unk)
	}
}

func (m *bpe) hasBytes(c string) bool {
	for _, b := range []byte(c) {
		if m.bytes[b] < 0 {
			return false
		}
	}
	return true
}

// byteToken returns the token that stands for a byte in byte fallback.
func byteToken(b byte) string { return fmt.Sprintf("<0x%02X>", b) }

// merge joins adjacent pairs in s.ids: always one of the lowest rank, and of these the leftmost.
func (m *bpe) merge(s *scratch) {
	if len(s.ids) <= 16 {
		m.mergeShort(s)
	} else {
		m.mergeLong(s)
	}
}

// mergeShort scans all pairs after each merge. That is quadratic, but has no overhead.
func (m *bpe) mergeShort(s *scratch) {
	var found [16]merge // merge of element i and the next
	for i := range len(s.ids) - 1 {
		found[i] = m.lookup(s.ids[i], s.ids[i+1])
	}
	for n := len(s.ids); n > 1; {
		best := 0
		for i := 1; i < n-1; i++ {
			if found[i].rank < found[best].rank {
				best = i
			}
		}
		if found[best].rank == none {
			break
		}
		s.ids[best] = found[best].to
		copy(s.ids[best+1:], s.ids[best+2:n])
		copy(found[best:], found[best+1:n-1])
		n--
		s.ids = s.ids[:n]
		if best > 0 {
			found[best-1] = m.lookup(s.ids[best-1], s.ids[best])
		}
		if best < n-1 {
			found[best] = m.lookup(s.ids[best], s.ids[best+1])
		}
	}
}

const none = 1<<31 - 1

func (m *bpe) lookup(a, b int32) merge {
	if found, ok := m.merges[pair{a, b}]; ok {
		return found
	}
	return merge{none, 0}
}

// A symbol is an element of a doubly linked list.
type symbol struct{ id, prev, next int32 } // id is -1 after it was joined to its left neighbour

type candidate struct {
	rank, at, to int32
	pair         pair
}

func (c candidate) before(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.at < d.at
}

// queue is a binary heap. Package container/heap would allocate an interface value for every element.
type queue []candidate

func (q *queue) push(c candidate) {
	h := append(*q, c)
	*q = h
	i := len(h) - 1
	for up := (i - 1) / 2; i > 0 && c.before(h[up]); up = (i - 1) / 2 {
		h[i] = h[up]
		i = up
	}
	h[i] = c
}

func (q *queue) pop() candidate {
	h := *q
	top, c := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	i := 0
	for {
		down := 2*i + 1
		if down+1 < len(h) && h[down+1].before(h[down]) {
			down++
		}
		if down >= len(h) || !h[down].before(c) {
			break
		}
		h[i] = h[down]
		i = down
	}
	if len(h) > 0 {
		h[i] = c
	}
	return top
}

// mergeLong takes pairs from a heap, in O(n log n).
func (m *bpe) mergeLong(s *scratch) {
	s.syms, s.queue = s.syms[:0], s.queue[:0]
	for i, id := range s.ids {
		s.syms = append(s.syms, symbol{id, int32(i - 1), int32(i + 1)})
	}
	s.syms[len(s.syms)-1].next = -1
	at := func(i int32) (candidate, bool) {
		if i < 0 || s.syms[i].next < 0 {
			return candidate{}, false
		}
		p := pair{s.syms[i].id, s.syms[s.syms[i].next].id}
		found, ok := m.merges[p]
		return candidate{found.rank, i, found.to, p}, ok
	}
	for i := range s.syms {
		if c, ok := at(int32(i)); ok {
			s.queue.push(c)
		}
	}
	for len(s.queue) > 0 {
		c := s.queue.pop()
		left := &s.syms[c.at]
		if left.id != c.pair.a || left.next < 0 || s.syms[left.next].id != c.pair.b {
			continue // an earlier merge used one of the two
		}
		right := &s.syms[left.next]
		left.id, left.next, right.id = c.to, right.next, -1
		if left.next >= 0 {
			s.syms[left.next].prev = c.at
		}
		for _, i := range []int32{left.prev, c.at} {
			if c, ok := at(i); ok {
				s.queue.push(c)
			}
		}
	}
	s.ids = s.ids[:0]
	for i := int32(0); i >= 0; i = s.syms[i].next {
		s.ids = append(s.ids, s.syms[i].id)
	}
}
