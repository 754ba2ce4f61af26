package campaign

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
)

// maker makes the inputs of one worker. Input n depends on n, the test's name and the seeds only.
type maker struct {
	run  *run
	hash uint64
	rand *rand.PCG
	r    *rand.Rand
	args []any
	bufs [][]byte // the memory of the arguments
	tmp  []byte
}

func newMaker(r *run) *maker {
	pcg := &rand.PCG{}
	n := r.body.Type().NumIn() - 1
	return &maker{run: r, hash: r.hash(), rand: pcg, r: rand.New(pcg), args: make([]any, n), bufs: make([][]byte, n)}
}

// make sets args to input n.
func (m *maker) make(n uint64) {
	m.rand.Seed(n, m.hash)
	seed := m.seed()
	for range 2 { // prefer small ones: they are fast, and a change is more likely to matter
		if other := m.seed(); size(other) < size(seed) && m.r.IntN(16) > 0 {
			seed = other
		}
	}
	if len(seed) == 1 {
		if _, ok := seed[0].(uint64); ok {
			m.args[0] = n
			return
		}
	}
	which := m.r.IntN(len(seed)) // the argument that surely changes
	for i, a := range seed {
		switch a := a.(type) {
		case uint8:
			m.args[i] = a
			if i == which {
				m.args[i] = uint8(m.r.Uint32())
			}
		case uint64:
			m.args[i] = m.r.Uint64()
		case string:
			m.args[i] = string(m.bytes(i, []byte(a), i == which))
		case []byte:
			m.args[i] = m.bytes(i, a, i == which)
		default:
			panic("BUG: an argument of a type that campaigns cannot change")
		}
	}
}

func (m *maker) seed() []any { return m.run.seeds[m.r.IntN(len(m.run.seeds))] }

// size returns how many bytes arguments have.
func size(args []any) (n int) {
	for _, a := range args {
		switch a := a.(type) {
		case string:
			n += len(a)
		case []byte:
			n += len(a)
		}
	}
	return n
}

// bytes returns a changed copy of a, or, if it need not change, sometimes an equal one.
func (m *maker) bytes(i int, a []byte, change bool) []byte {
	b := append(m.bufs[i][:0], a...)
	if m.r.IntN(4) == 0 { // a part of it
		from := m.r.IntN(len(b) + 1)
		b = b[from:]
		b = b[:min(len(b), 1<<m.r.IntN(8))]
	}
	if change || m.r.IntN(2) == 0 {
		for range 1 + m.r.IntN(1<<m.r.IntN(4)) {
			b = m.change(b, i)
		}
	}
	m.bufs[i] = b
	return b
}

// interesting are the bytes that formats treat specially: codes and bounds of msgpack, JSON and lengths.
var interesting = []byte(
	"\x00\x01\x02\x03\x04\x08\x10\x1f\x20\x7e\x7f\x80\x81\x8f\x90\x91\x9f\xa0\xa1\xbf\xc0\xc2\xc3\xc4\xc5\xc6\xca\xcb\xcc\xcd\xce\xcf" +
		"\xd0\xd1\xd2\xd3\xd9\xda\xdb\xdc\xdd\xde\xdf\xe0\xfe\xff\"\\{}[]:,0123456789-.eEntf/|%")

// change changes b once.
func (m *maker) change(b []byte, arg int) []byte {
	if len(b) == 0 {
		return append(b, byte(m.r.Uint32()))
	}
	at := m.r.IntN(len(b))
	switch m.r.IntN(12) {
	case 0: // a bit
		b[at] ^= 1 << m.r.IntN(8)
	case 1: // a byte
		b[at] = byte(m.r.Uint32())
	case 2, 3:
		b[at] = interesting[m.r.IntN(len(interesting))]
	case 4: // a little more or less
		b[at] += byte(m.r.IntN(9) - 4)
	case 5: // a number
		edges := [...]uint64{0, 1, 255, 256, 1 << 16, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 40, 1 << 62,
			math.MaxInt64, 1 << 63, math.MaxUint64, uint64(len(b)), m.r.Uint64()}
		var n [8]byte
		v := edges[m.r.IntN(len(edges))] + uint64(m.r.IntN(3)) - 1
		if size := 1 << m.r.IntN(4); m.r.IntN(2) == 0 {
			binary.LittleEndian.PutUint64(n[:], v)
			copy(b[at:], n[:size])
		} else {
			binary.BigEndian.PutUint64(n[:], v)
			copy(b[at:], n[8-size:])
		}
	case 6: // remove
		b = slices.Delete(b, at, min(len(b), at+1<<m.r.IntN(6)))
	case 7: // insert
		b = m.insert(b, at, nil, 1+m.r.IntN(4))
	case 8: // repeat a part
		from := m.r.IntN(len(b))
		n := min(len(b)-from, 1<<m.r.IntN(8))
		b = m.insert(b, at, b[from:from+n], n)
	case 9: // move a part
		from := m.r.IntN(len(b))
		n := min(len(b)-from, len(b)-at, 1<<m.r.IntN(6))
		copy(b[at:], b[from:from+n])
	case 10: // a part of another seed
		other, ok := m.seed()[arg].([]byte)
		if !ok || len(other) == 0 {
			return b[:at]
		}
		from := m.r.IntN(len(other))
		n := min(len(other)-from, 1<<m.r.IntN(9))
		b = m.insert(b, at, other[from:from+n], n)
	case 11:
		if m.r.IntN(4) > 0 { // swap
			k := m.r.IntN(len(b))
			b[at], b[k] = b[k], b[at]
			return b
		}
		b = b[:at]
	}
	return b
}

// insert inserts part, or n random bytes, at a position. part may be in b.
func (m *maker) insert(b []byte, at int, part []byte, n int) []byte {
	if len(b)+n > maxInput {
		return b
	}
	m.tmp = append(m.tmp[:0], part...)
	for len(m.tmp) < n {
		m.tmp = append(m.tmp, byte(m.r.Uint32()))
	}
	return slices.Insert(b, at, m.tmp...)
}
