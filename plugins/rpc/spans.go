package rpc

import (
	"cmp"
	"slices"
)

// span is the bytes [from, to) of the shared region's data.
type span struct{ from, to int64 }

// spans are disjoint and in order.
type spans []span

// with adds the bytes [from, to).
func (s spans) with(from, to int64) spans {
	if from >= to {
		return s
	}
	out := append(s.without(from, to), span{from, to})
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return out
}

// without removes the bytes [from, to).
func (s spans) without(from, to int64) (out spans) {
	for _, p := range s {
		if before := min(p.to, from); before > p.from {
			out = append(out, span{p.from, before})
		}
		if after := max(p.from, to); after < p.to {
			out = append(out, span{after, p.to})
		}
	}
	return out
}

// within returns the parts of s in [from, to).
func (s spans) within(from, to int64) (out spans) {
	for _, p := range s {
		if p.from, p.to = max(p.from, from), min(p.to, to); p.from < p.to {
			out = append(out, p)
		}
	}
	return out
}
