// Package ranking sorts, and finds the largest elements of rows.
package ranking

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/layout"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Order says how elements are compared: by their keys, as integers.
type Order[T any] struct {
	Keys func(dst []uint64, src []T)
	// Low is the number of low bits of keys that can be ignored, because elements whose keys differ there differ in
	// higher bits, too. Keys of floats narrower than f64 have such bits.
	Low int
}

// Sort sorts along the middle axis of src [outer, n, inner]; equal elements stay in their order. values receives the
// elements, and indices their former positions on the axis, as elements of type index (i32, i64, u32 or f32).
//
// A line is the n elements along the axis. Each element becomes a word, which has the significant bits of its key above
// its index. A radix sort orders the words by key, which is stable. Threads share lines, or parts of long ones.
func Sort[T any](p *pool.Pool, values []T, indices []byte, index dtype.DType, src []T, outer, n, inner int,
	descending bool,
	by Order[T]) {
	if len(src) < outer*n*inner || len(values) < outer*n*inner || len(indices) < outer*n*inner*index.Size() {
		panic(fmt.Sprintf("BUG: sort: a slice is short for %d x %d x %d", outer, n, inner))
	}
	if n == 0 {
		return
	}
	g := pool.Keep[sorting[T]](p)
	g.p, g.values, g.indices, g.src, g.n, g.inner, g.descending, g.by = p, values,
		layout.Indices{Bytes: indices, Index: index}, src, n,
		inner, descending, by
	if g.lines == nil {
		g.lines = make([]sortedLine[T], p.Threads())
	}
	if lines := outer * inner; lines < p.Threads() && n >= sortedAlone {
		for line := range lines {
			g.lines[0].sort(g, line, p.Threads())
		}
	} else {
		p.Share(lines, 1+pool.Grain/(8*n), g)
	}
}

const (
	sortedAlone = 1 << 14 // lines of at least this many elements may be divided among threads
	sortedPlain = 256     // lines of up to this many elements are sorted by comparisons
	digitBits   = 11      // maximum number of bits that a pass sorts by
)

// sorting holds the arguments of Sort, and the memory of each worker.
type sorting[T any] struct {
	p           *pool.Pool
	values, src []T
	indices     layout.Indices
	n, inner    int
	descending  bool
	by          Order[T]
	lines       []sortedLine[T]
}

func (g *sorting[T]) Do(lo, hi, worker int) {
	for line := lo; line < hi; line++ {
		g.lines[worker].sort(g, line, 1)
	}
}

// sortedLine is the state of one line. It is divided into parts, which threads share.
type sortedLine[T any] struct {
	g     *sorting[T]
	at    int // index of its first element in src
	src   []T // its elements, contiguous
	own   []T // memory for src if inner > 1
	parts []sortedPart

	words, next []uint64 // keys, then words in the order of the last pass; memory for the next pass
	least       uint64   // the least key
	dropped     int      // low bits of keys that do not fit into words
	place       int      // bits of an index
	digit, from int      // a pass sorts by bits [from, from+digit)
	phase       sortPhase
	pending     []ranked
	one         [1]uint64
}

// sortedPart is the part of a line that one thread works on: elements or words [lo, hi).
type sortedPart struct {
	lo, hi      int
	least, most uint64 // keys
	counts      [1 << digitBits]uint32
}

func (l *sortedLine[T]) sort(g *sorting[T], line, parts int) {
	n := g.n
	l.g, l.at = g, line/g.inner*n*g.inner+line%g.inner
	l.words, l.next = pool.Sized(l.words, n), pool.Sized(l.next, n)
	l.src = g.src[l.at:]
	if g.inner > 1 {
		l.own = pool.Sized(l.own, n)
		l.src = l.own
	}
	if len(l.parts) < parts {
		l.parts = make([]sortedPart, parts)
	}
	for i := range parts {
		l.parts[i].lo, l.parts[i].hi = i*n/parts, (i+1)*n/parts
	}
	l.each(parts, keyPhase)
	least, most := uint64(math.MaxUint64), uint64(0)
	for i := range parts {
		least, most = min(least, l.parts[i].least), max(most, l.parts[i].most)
	}
	width := bits.Len64(most - least)
	l.least, l.place = least, bits.Len(uint(n-1))
	l.dropped = max(0, width+l.place-64)
	width -= l.dropped
	l.each(parts, packPhase)
	if n <= sortedPlain {
		slices.Sort(l.words)
	} else if passes := (width + digitBits - 1) / digitBits; passes > 0 {
		l.digit = (width + passes - 1) / passes
		for pass := range passes {
			l.from = l.place + pass*l.digit
			l.each(parts, countPhase)
			if l.offsets(parts) {
				l.each(parts, scatterPhase)
				l.words, l.next = l.next, l.words
			}
		}
	}
	if l.dropped > 0 {
		l.finish()
	}
	l.each(parts, putPhase)
	l.g, l.src = nil, nil
}

// sortPhase is a step that is done for all parts in parallel.
type sortPhase int

const (
	keyPhase sortPhase = iota
	packPhase
	countPhase
	scatterPhase
	putPhase
)

func (l *sortedLine[T]) each(parts int, phase sortPhase) {
	l.phase = phase
	if parts == 1 {
		l.Do(0, 1, 0)
		return
	}
	l.g.p.Each(parts, 1, l)
}

func (l *sortedLine[T]) Do(lo, hi, _ int) {
	for i := lo; i < hi; i++ {
		switch part := &l.parts[i]; l.phase {
		case keyPhase:
			l.key(part)
		case packPhase:
			l.pack(part)
		case countPhase:
			l.count(part)
		case scatterPhase:
			l.scatter(part)
		case putPhase:
			l.put(part)
		}
	}
}

func (l *sortedLine[T]) key(part *sortedPart) {
	if g := l.g; g.inner > 1 {
		for i := part.lo; i < part.hi; i++ {
			l.own[i] = g.src[l.at+i*g.inner]
		}
	}
	words := l.words[part.lo:part.hi]
	l.g.by.Keys(words, l.src[part.lo:part.hi])
	flip, low := uint64(0), l.g.by.Low
	if l.g.descending {
		flip = math.MaxUint64
	}
	least, most := uint64(math.MaxUint64), uint64(0)
	for i, w := range words {
		w = (w ^ flip) >> low
		words[i] = w
		least, most = min(least, w), max(most, w)
	}
	part.least, part.most = least, most
}

func (l *sortedLine[T]) pack(part *sortedPart) {
	for i := part.lo; i < part.hi; i++ {
		l.words[i] = (l.words[i]-l.least)>>l.dropped<<l.place | uint64(i)
	}
}

func (l *sortedLine[T]) count(part *sortedPart) {
	counts, from, mask := &part.counts, l.from, uint64(1)<<l.digit-1
	clear(counts[:mask+1])
	for _, w := range l.words[part.lo:part.hi] {
		counts[w>>from&mask&(1<<digitBits-1)]++
	}
}

// offsets turns the counts of digits into positions: for each digit and part, where its first word goes. It returns
// false if all words have the same digit.
func (l *sortedLine[T]) offsets(parts int) bool {
	at := uint32(0)
	for d := range 1 << l.digit {
		first := at
		for i := range parts {
			c := &l.parts[i].counts[d]
			*c, at = at, at+*c
		}
		if int(at-first) == len(l.words) {
			return false
		}
	}
	return true
}

func (l *sortedLine[T]) scatter(part *sortedPart) {
	counts, next, from, mask := &part.counts, l.next, l.from, uint64(1)<<l.digit-1
	for _, w := range l.words[part.lo:part.hi] {
		c := &counts[w>>from&mask&(1<<digitBits-1)]
		next[*c] = w
		*c++
	}
}

// finish sorts words with equal keys by the bits that were dropped.
func (l *sortedLine[T]) finish() {
	for lo := 0; lo < len(l.words); {
		hi := lo + 1
		for hi < len(l.words) && l.words[hi]>>l.place == l.words[lo]>>l.place {
			hi++
		}
		if hi > lo+1 {
			l.pending = l.pending[:0]
			for _, w := range l.words[lo:hi] {
				i := int(w & (1<<l.place - 1))
				l.g.by.Keys(l.one[:], l.src[i:i+1])
				key := l.one[0]
				if l.g.descending {
					key = ^key
				}
				l.pending = append(l.pending, ranked{key, i})
			}
			slices.SortFunc(
				l.pending, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.at, b.at)) })
			for k, r := range l.pending {
				l.words[lo+k] = uint64(r.at) // put reads only the index
			}
		}
		lo = hi
	}
}

func (l *sortedLine[T]) put(part *sortedPart) {
	g, mask := l.g, uint64(1)<<l.place-1
	if g.inner == 1 && g.indices.Index.Size() == 4 && g.indices.Index.IsInt() {
		values, indices := g.values[l.at:][:g.n], g.indices.Bytes[4*l.at:][:4*g.n]
		for i := part.lo; i < part.hi; i++ {
			from := l.words[i] & mask
			values[i] = l.src[from]
			indices[4*i], indices[4*i+1], indices[4*i+2], indices[4*i+3] = byte(from), byte(from>>8), byte(from>>16),
				byte(from>>24)
		}
		return
	}
	for i := part.lo; i < part.hi; i++ {
		from, to := int(l.words[i]&mask), l.at+i*g.inner
		g.values[to] = l.src[from]
		g.indices.Put(to, from)
	}
}

// SortScratch returns what Sort needs for lines of up to n elements of size bytes.
func SortScratch(p *pool.Pool, n, size int) pool.Size {
	each := pool.SizeOf[uint64](2*n) + int64(n)*int64(size) + pool.SizeOf[ranked](n) +
		pool.SizeOf[sortedPart](p.Threads())
	return pool.Size{Other: int64(p.Threads()) * each}
}
