package grammar

import "unicode/utf8"

// A byteRange holds the bytes from lo to hi.
type byteRange struct{ lo, hi byte }

// encodings returns the UTF-8 of the characters in ranges, as sequences of byte ranges. Surrogates have no encoding.
func encodings(ranges []rune) (out [][]byteRange) {
	for i := 0; i < len(ranges); i += 2 {
		for _, part := range [][2]rune{{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, maxRune}} {
			lo, hi := max(ranges[i], part[0]), min(ranges[i+1], part[1])
			if lo <= hi {
				var a, b [utf8.UTFMax]byte
				n := utf8.EncodeRune(a[:], lo)
				utf8.EncodeRune(b[:], hi)
				out = append(out, between(a[:n], b[:n])...)
			}
		}
	}
	return out
}

// between returns the sequences from a to b, which have the same length, in order. For example E2 82 AC to E2 84 A0 is
// E2 82 AC-BF, E2 83 80-BF and E2 84 80-A0.
func between(a, b []byte) (out [][]byteRange) {
	if len(a) == 1 {
		return [][]byteRange{{{a[0], b[0]}}}
	}
	with := func(first byteRange, rest [][]byteRange) {
		for _, r := range rest {
			out = append(out, append([]byteRange{first}, r...))
		}
	}
	least, most := filled(len(a)-1, 0x80), filled(len(a)-1, 0xBF)
	if a[0] == b[0] {
		with(byteRange{a[0], a[0]}, between(a[1:], b[1:]))
		return out
	}
	lo, hi := a[0], b[0]
	if string(a[1:]) != string(least) {
		with(byteRange{lo, lo}, between(a[1:], most))
		lo++
	}
	var last [][]byteRange
	if string(b[1:]) != string(most) {
		last = between(least, b[1:])
		hi--
	}
	if lo <= hi {
		with(byteRange{lo, hi}, between(least, most))
	}
	with(byteRange{b[0], b[0]}, last)
	return out
}

func filled(n int, b byte) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = b
	}
	return out
}
