package matrix

import (
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
)

// decoder multiplies 256 packed weights of each of eight rows. Layouts are those of GGUF.
type decoder struct {
	minima   bool // weights are scale * integer - minimum, and else scale * integer
	multiply func(u *unit, at string)
}

// unit is what a warp multiplies at a time.
type unit struct {
	*text
	quarter     string
	x           [][]string  // terms of 32 values of each half, by which the block is multiplied
	sums        [2][]string // of x, of each 32 values, by half
	zero        string
	acc, minima []string
}

var decoders = map[dtype.DType]*decoder{
	dtype.Q4_0: {multiply: multiplyQ4_0},
	dtype.Q8_0: {multiply: multiplyQ8_0},
	dtype.Q4_K: {minima: true, multiply: multiplyQ4K},
	dtype.Q6_K: {multiply: multiplyQ6K},
}

// word loads a word of shared memory.
func (u *unit) word(at string, offset int) string {
	return u.get("r", "ld.shared.u32", "[%s+%d]", at, offset)
}

// lower and upper return an f16 in a word as f32.
func (u *unit) lower(word string) string {
	h := u.regs("h", 2)
	u.add("mov.b32 {%s, %s}, %s", h[0], h[1], word)
	return u.get("f", "cvt.f32.f16", "%s", h[0])
}

func (u *unit) upper(word string) string {
	h := u.regs("h", 2)
	u.add("mov.b32 {%s, %s}, %s", h[0], h[1], word)
	return u.get("f", "cvt.f32.f16", "%s", h[1])
}

// halves returns the words from the upper half of one word to the lower half of the next.
func (u *unit) halves(low, high string) string {
	return u.get("r", "prmt.b32", "%s, %s, 0x5432", low, high)
}

// nibbles returns eight values of four bits as bf16, minus less: those of the low halves of bytes 0 and 2, 1 and 3, and
// those of the high halves.
func (u *unit) nibbles(word string, less int) [4]string {
	var out [4]string
	for i, by := range []int{0, 8, 4, 12} {
		w := word
		if by > 0 {
			w = u.get("r", "shr.u32", "%s, %d", word, by)
		}
		out[i] = u.small(w, "0x000f000f", less)
	}
	return out
}

// bytes returns four bytes of up to 127 as bf16, minus less: bytes 0 and 2, 1 and 3.
func (u *unit) bytes(word string, less int) [2]string {
	high := u.get("r", "shr.u32", "%s, 8", word)
	return [2]string{u.small(word, "0x00ff00ff", less), u.small(high, "0x00ff00ff", less)}
}

// small returns two integers of up to 127, which a mask selects, as bf16, minus less, up to 127: the bits of 128 + n
// are those of n in the lowest bits of 128.
func (u *unit) small(word, mask string, less int) string {
	pair := u.get("r", "lop3.b32", "%s, %s, 0x43004300, 0xea", word, mask) // word & mask | 128
	minus := 0xc300 | less                                                 // of 128 + less
	one, c := u.get("r", "mov.u32", "0x3f803f80"), u.get("r", "mov.u32", "0x%04x%04x", minus, minus)
	return u.get("r", "fma.rn.bf16x2", "%s, %s, %s", pair, one, c)
}

// mma returns the sums of products of values of both halves with term pair k of block i, added to sums.
func (u *unit) mma(sums []string, first, second [2]string, i, k int) []string {
	out := u.regs("f", 4)
	if sums == nil {
		sums = []string{u.zero, u.zero, u.zero, u.zero}
	}
	list := func(regs ...string) string { return strings.Join(regs, ", ") }
	u.add("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%s}, {%s}, {%s}, {%s}", list(out...),
		list(first[0], second[0], first[1], second[1]), list(u.x[i][2*k:2*k+2]...), list(sums...))
	return out
}

// scale adds sums times the scales of both halves.
func (u *unit) scale(sums []string, first, second string) {
	for i, c := range sums {
		s := first
		if i >= 2 {
			s = second
		}
		u.add("fma.rn.f32 %s, %s, %s, %s", u.acc[i], c, s, u.acc[i])
	}
}

// multiplyQ4_0 takes blocks of 32 weights: a scale of f16 and 16 bytes of nibbles.
func multiplyQ4_0(u *unit, at string) {
	mine := u.get("r", "mad.lo.u32", "%s, 4, %s", u.quarter, at)
	for pair := range 2 { // of blocks, which are nine words
		var d [2][2]string // scales, by block and half
		var q [2][2]string
		for h := range 2 {
			begin := 72*h + 36*pair
			d[0][h] = u.lower(u.word(at, begin))
			d[1][h] = u.upper(u.word(at, begin+16))
			q[0][h] = u.halves(u.word(mine, begin), u.word(mine, begin+4))
			q[1][h] = u.word(mine, begin+20)
		}
		for b := range 2 {
			u.block(q[b], 8, 2*pair+b, d[b])
		}
	}
}

// block multiplies 32 weights in nibbles of each half: the first 16 are in the low halves of bytes.
func (u *unit) block(q [2]string, less, i int, d [2]string) {
	a, b := u.nibbles(q[0], less), u.nibbles(q[1], less)
	c := u.mma(nil, [2]string{a[0], a[1]}, [2]string{b[0], b[1]}, i, 0)
	c = u.mma(c, [2]string{a[2], a[3]}, [2]string{b[2], b[3]}, i, 1)
	u.scale(c, d[0], d[1])
}

// multiplyQ8_0 takes blocks of 32 weights: a scale of f16 and 32 bytes.
func multiplyQ8_0(u *unit, at string) {
	mine := u.get("r", "mad.lo.u32", "%s, 4, %s", u.quarter, at)
	for pair := range 2 { // of blocks, which are 17 words
		for b := range 2 {
			var d [2]string
			var q [2][2][2]string // by 16 weights and half
			for h := range 2 {
				begin := 136*h + 68*pair
				if b == 0 {
					d[h] = u.lower(u.word(at, begin))
				} else {
					d[h] = u.upper(u.word(at, begin+32))
				}
				for k := range 2 {
					var w string
					if b == 0 {
						w = u.halves(u.word(mine, begin+16*k), u.word(mine, begin+16*k+4))
					} else {
						w = u.word(mine, begin+36+16*k)
					}
					q[k][h] = u.signed(w)
				}
			}
			c := u.mma(nil, q[0][0], q[0][1], 2*pair+b, 0)
			c = u.mma(c, q[1][0], q[1][1], 2*pair+b, 1)
			u.scale(c, d[0], d[1])
		}
	}
}

// signed returns four signed bytes as bf16: bytes 0 and 2, 1 and 3. They are first floats: the bits of 2^23 + n are
// those of n in the lowest bits of 2^23.
func (u *unit) signed(word string) [2]string {
	word = u.get("r", "xor.b32", "%s, 0x80808080", word) // plus 128
	var f [4]string
	for i := range f {
		b := u.get("r", "prmt.b32", "%s, 0x4b000000, 0x744%d", word, i)
		v := u.get("f", "sub.rn.f32", "%s, 0f4B000080", u.get("f", "mov.b32", "%s", b))
		f[i] = u.get("r", "mov.b32", "%s", v)
	}
	pair := func(a, b string) string { return u.get("r", "prmt.b32", "%s, %s, 0x7632", a, b) }
	return [2]string{pair(f[0], f[2]), pair(f[1], f[3])}
}

// unsigned returns byte i of a word as f32.
func (u *unit) unsigned(word string, i int) string {
	b := u.get("r", "prmt.b32", "%s, 0x4b000000, 0x744%d", word, i)
	return u.get("f", "sub.rn.f32", "%s, 0f4B000000", u.get("f", "mov.b32", "%s", b))
}

// multiplyQ4K takes a block of 256 weights: two factors of f16, for scales and minima, eight scales and eight minima of
// six bits, and 128 bytes of nibbles. The low halves of 32 bytes are 32 weights, and the high halves the next 32.
func multiplyQ4K(u *unit, at string) {
	mine := u.get("r", "mad.lo.u32", "%s, 4, %s", u.quarter, at)
	d := u.word(at, 0)
	x, y, z := u.word(at, 4), u.word(at, 8), u.word(at, 12)
	both := func(a, ma, b string, shift, mb string) string {
		low := u.get("r", "and.b32", "%s, %s", a, ma)
		if b == "" {
			return low
		}
		high := u.get("r", "shr.u32", "%s, %s", b, shift)
		high = u.get("r", "and.b32", "%s, %s", high, mb)
		return u.get("r", "or.b32", "%s, %s", low, high)
	}
	z4 := u.get("r", "shr.u32", "%s, 4", z)
	scales := [2]string{both(x, "0x3f3f3f3f", "", "", ""), both(z, "0x0f0f0f0f", x, "2", "0x30303030")}
	minima := [2]string{both(y, "0x3f3f3f3f", "", "", ""), both(z4, "0x0f0f0f0f", y, "2", "0x30303030")}
	factor, least := u.lower(d), u.upper(d)
	sums := u.regs("f", 4) // without the factor
	for _, s := range sums {
		u.add("mov.f32 %s, 0f00000000", s)
	}
	acc := u.acc
	u.acc = sums
	for pair := range 2 { // of 32 weights, in each half
		var words [2][2][4]string // by 16 bytes and half
		for h := range 2 {
			for k := range 2 {
				words[k][h] = u.nibbles(u.word(mine, 16+64*h+32*pair+16*k), 0)
			}
		}
		for b := range 2 {
			values := func(k, h int) [2]string { return [2]string{words[k][h][2*b], words[k][h][2*b+1]} }
			c := u.mma(nil, values(0, 0), values(0, 1), 2*pair+b, 0)
			c = u.mma(c, values(1, 0), values(1, 1), 2*pair+b, 1)
			u.scale(c, u.unsigned(scales[0], 2*pair+b), u.unsigned(scales[1], 2*pair+b))
		}
	}
	u.acc = acc
	u.scale(sums, factor, factor)
	for h := range 2 {
		sum := u.get("f", "mov.f32", "0f00000000")
		for i := range 4 {
			u.add("fma.rn.f32 %s, %s, %s, %s", sum, u.unsigned(minima[h], i), u.sums[h][i], sum)
		}
		u.add("fma.rn.f32 %s, %s, %s, %s", u.minima[h], sum, least, u.minima[h])
	}
}

// multiplyQ6K takes a block of 256 weights: their lower four bits, 128 bytes; their upper two, 64 bytes; 16 scales of a
// signed byte each; and a factor of f16. Blocks begin at even addresses.
func multiplyQ6K(u *unit, at string) {
	odd := u.get("r", "and.b32", "%s, 2", at)
	base := u.get("r", "sub.u32", "%s, %s", at, odd)
	is := u.get("p", "setp.ne.u32", "%s, 0", odd)
	pick := u.get("r", "selp.b32", "0x5432, 0x3210, %s", is)
	mine := u.get("r", "mad.lo.u32", "%s, 4, %s", u.quarter, base)
	even := func(at string, offset int) string {
		return u.get("r", "prmt.b32", "%s, %s, %s", u.word(at, offset), u.word(at, offset+4), pick)
	}
	last := u.word(base, 208)
	last = u.get("r", "shr.u32", "%s, %s", last, u.get("r", "shl.b32", "%s, 3", odd))
	factor := u.lower(last)
	var scales [2][2]string // by half, of four groups of 16 weights each
	for h := range 2 {
		for k := range 2 {
			scales[h][k] = u.get("r", "xor.b32", "%s, 0x80808080", even(base, 192+8*h+4*k))
		}
	}
	scale := func(h, group int) string {
		b := u.get("r", "prmt.b32", "%s, 0x4b000000, 0x744%d", scales[h][group/4], group%4)
		return u.get("f", "sub.rn.f32", "%s, 0f4B000080", u.get("f", "mov.b32", "%s", b))
	}
	sums := u.regs("f", 4) // without the factor
	for _, s := range sums {
		u.add("mov.f32 %s, 0f00000000", s)
	}
	acc := u.acc
	u.acc = sums
	for k := range 2 { // of 16 bytes
		var values [2][4][2]string // by half and 32 weights
		for h := range 2 {
			low := [2]string{even(mine, 64*h+16*k), even(mine, 64*h+32+16*k)}
			high := even(mine, 128+32*h+16*k)
			for i := range 4 {
				l, by := low[i%2], 4
				if i >= 2 {
					l = u.get("r", "shr.u32", "%s, 4", l)
				}
				l = u.get("r", "and.b32", "%s, 0x0f0f0f0f", l)
				m := high
				if by -= 2 * i; by > 0 {
					m = u.get("r", "shl.b32", "%s, %d", m, by)
				} else if by < 0 {
					m = u.get("r", "shr.u32", "%s, %d", m, -by)
				}
				m = u.get("r", "and.b32", "%s, 0x30303030", m)
				values[h][i] = u.bytes(u.get("r", "or.b32", "%s, %s", l, m), 32)
			}
		}
		for i := range 4 {
			c := u.mma(nil, values[0][i], values[1][i], i, k)
			u.scale(c, scale(0, 2*i+k), scale(1, 2*i+k))
		}
	}
	u.acc = acc
	u.scale(sums, factor, factor)
}
