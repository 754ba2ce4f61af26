package host

import (
	"cmp"
	"slices"
)

// span is a range of bytes [from, to) in the data of the shared region.
type span struct{ from, to int64 }

// spans is a set of bytes, as disjoint ranges in ascending order.
type spans []span

// with returns s with the bytes [from, to) added. It may use the memory of s.
func (s spans) with(from, to int64) spans {
	if from >= to {
		return s
	}
	if len(s) == 0 || s[0].from >= from && s[len(s)-1].to <= to {
		return append(s[:0], span{from, to})
	}
	out := append(s.without(from, to), span{from, to})
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return out
}

// without returns s with the bytes [from, to) removed.
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

// within returns the intersection of s and [from, to).
func (s spans) within(from, to int64) (out spans) {
	for _, p := range s {
		if p.from, p.to = max(p.from, from), min(p.to, to); p.from < p.to {
			out = append(out, p)
		}
	}
	return out
}
