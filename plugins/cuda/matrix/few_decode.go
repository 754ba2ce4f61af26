package matrix

import "github.com/rlx-go/rlx/core/dtype"

// fewDecoder reads packed weights for products of few rows. Layouts are those of GGUF.
type fewDecoder struct {
	minima bool // weights are scale * integer - minimum, and else scale * integer
	each   int  // weights that have a scale of their own: 32, or 16
	read   func(u *fewUnit) fewWeights
}

// fewWeights are 64 weights of each of eight rows in the registers of a warp: by 32 and 16 of them, those that the lane
// has, two in a register. Of 16 weights, lane l has four, of row l / 4 from 4 (l % 4) on.
type fewWeights struct {
	values [2][2][2]string
	scales [2][2]string
	minima [2]string // negated
}

// fewUnit is what is read: a run of 64 weights of a chunk, of the row that begins at an offset from an address.
type fewUnit struct {
	*fewKernel
	run, at string
	offset  int
}

var fewDecoders = map[dtype.DType]*fewDecoder{
	dtype.Q4_0: {each: 32, read: readQ4_0},
	dtype.Q8_0: {each: 32, read: readQ8_0},
	dtype.Q4_K: {each: 32, read: readQ4K, minima: true},
	dtype.Q6_K: {each: 16, read: readQ6K},
}

// plain reads weights that are not packed.
func (g *fewKernel) plain(run, at string, offset int) (w fewWeights) {
	t := g.text
	from := t.get("r", "mad.lo.u32", "%s, %d, %s", run, 2*fewRun, at)
	t.add("mad.lo.u32 %s, %s, 8, %s", from, g.quarter, from)
	for b := range 2 {
		for s := range 2 {
			r := t.regs("r", 2)
			t.add("ld.shared.v2.u32 {%s, %s}, [%s+%d]", r[0], r[1], from, offset+64*b+32*s)
			w.values[b][s] = [2]string{r[0], r[1]}
		}
	}
	return w
}

// word loads a word of the row.
func (u *fewUnit) word(at string, offset int) string {
	return u.get("r", "ld.shared.u32", "[%s+%d]", at, u.offset+offset)
}

// half returns an f16 in a word as f32: the lower half, or the upper one.
func (u *fewUnit) half(word string, upper int) string { return u.halvesOf(word, dtype.F16)[upper] }

// joined returns the word from the upper half of one word to the lower half of the next.
func (u *fewUnit) joined(low, high string) string {
	return u.get("r", "prmt.b32", "%s, %s, 0x5432", low, high)
}

// magic returns the constants that make integers of a byte: the upper byte of a value whose lowest bits are those of
// the byte, and that value without them plus less, negated: 128 in bf16, to which bytes of up to 127 can be added, and
// 1024 in f16. less is at most 127.
func (u *fewUnit) magic(less int) (high, minus, one string) {
	word := func(n int) string { return u.get("r", "mov.u32", "0x%04x%04x", n, n) }
	if u.Type == dtype.F16 {
		return word(0x6464), word(0xe400 | less), word(0x3c00)
	}
	return word(0x4343), word(0xc300 | less), word(0x3f80)
}

// bytes returns four bytes of up to 127, minus less.
func (u *fewUnit) bytes(word string, less int) (out [2]string) {
	high, minus, one := u.magic(less)
	for i, selector := range []string{"0x4140", "0x4342"} {
		v := u.get("r", "prmt.b32", "%s, %s, %s", word, high, selector)
		out[i] = u.get("r", "fma.rn."+u.Type.String()+"x2", "%s, %s, %s", v, one, minus)
	}
	return out
}

// nibbles returns the low halves of four bytes, and the high ones, minus less.
func (u *fewUnit) nibbles(word string, less int) [2][2]string {
	low := u.get("r", "and.b32", "%s, 0x0f0f0f0f", word)
	high := u.get("r", "shr.u32", "%s, 4", word)
	u.add("and.b32 %s, %s, 0x0f0f0f0f", high, high)
	return [2][2]string{u.bytes(low, less), u.bytes(high, less)}
}

// signed returns four signed bytes. In bf16, -128 is added to the lower seven bits of those whose sign is set: 0xc380
// is -256 there, and 0xc300 is -128.
func (u *fewUnit) signed(word string) (out [2]string) {
	if u.Type == dtype.F16 {
		return u.f16Signed(word)
	}
	high, _, one := u.magic(0)
	minus := u.get("r", "mov.u32", "0xc3c3c3c3")
	value := u.get("r", "and.b32", "%s, 0x7f7f7f7f", word)
	sign := u.get("r", "and.b32", "%s, 0x80808080", word)
	for i, selector := range []string{"0x4140", "0x4342"} {
		v := u.get("r", "prmt.b32", "%s, %s, %s", value, high, selector)
		s := u.get("r", "prmt.b32", "%s, %s, %s", sign, minus, selector)
		out[i] = u.get("r", "fma.rn.bf16x2", "%s, %s, %s", v, one, s)
	}
	return out
}

// f16Signed is signed in f16, where 1024 + n + 128 has the bits of n + 128 in the lowest bits of 1024.
func (u *fewUnit) f16Signed(word string) (out [2]string) {
	high, _, one := u.magic(0)
	minus := u.get("r", "mov.u32", "0xe480e480") // -1152
	value := u.get("r", "xor.b32", "%s, 0x80808080", word)
	for i, selector := range []string{"0x4140", "0x4342"} {
		v := u.get("r", "prmt.b32", "%s, %s, %s", value, high, selector)
		out[i] = u.get("r", "fma.rn.f16x2", "%s, %s, %s", v, one, minus)
	}
	return out
}

// same sets the scale of 32 weights.
func (w *fewWeights) same(b int, scale string) { w.scales[b] = [2]string{scale, scale} }

// from returns the address of a run, if one takes so many bytes, and that of the lane's first word there.
func (u *fewUnit) from(bytes int) (at, mine string) {
	at = u.get("r", "mad.lo.u32", "%s, %d, %s", u.run, bytes, u.at)
	return at, u.get("r", "mad.lo.u32", "%s, 4, %s", u.quarter, at)
}

// readQ8_0 reads two blocks of 32 weights, which are 17 words: a scale of f16 and 32 bytes.
func readQ8_0(u *fewUnit) (w fewWeights) {
	at, mine := u.from(68)
	w.same(0, u.half(u.word(at, 0), 0))
	w.same(1, u.half(u.word(at, 32), 1))
	for s := range 2 {
		w.values[0][s] = u.signed(u.joined(u.word(mine, 16*s), u.word(mine, 16*s+4)))
		w.values[1][s] = u.signed(u.word(mine, 36+16*s))
	}
	return w
}

// readQ4_0 reads two blocks of 32 weights, which are nine words: a scale of f16 and 16 bytes. The low halves of bytes
// are 16 weights, and the high ones the next 16.
func readQ4_0(u *fewUnit) (w fewWeights) {
	at, mine := u.from(36)
	w.same(0, u.half(u.word(at, 0), 0))
	w.same(1, u.half(u.word(at, 16), 1))
	w.values[0] = u.nibbles(u.joined(u.word(mine, 0), u.word(mine, 4)), 8)
	w.values[1] = u.nibbles(u.word(mine, 20), 8)
	return w
}

// byte returns byte i of a word as f32, minus less: the bits of 2^23 + n are those of n in the lowest bits of 2^23.
func (u *fewUnit) byte(word string, i, less int) string {
	b := u.get("r", "prmt.b32", "%s, 0x4b000000, 0x744%d", word, i)
	return u.get("f", "sub.rn.f32", "%s, 0f%08X", u.get("f", "mov.b32", "%s", b), 0x4b000000|less)
}

// readQ4K reads a quarter of a block of 256 weights: see multiplyQ4K.
func readQ4K(u *fewUnit) (w fewWeights) {
	_, mine := u.from(32)
	d := u.word(u.at, 0)
	x, y, z := u.word(u.at, 4), u.word(u.at, 8), u.word(u.at, 12)
	late := u.get("p", "setp.ge.u32", "%s, 2", u.run)
	odd := u.get("r", "and.b32", "%s, 1", u.run)
	t16 := u.get("r", "shl.b32", "%s, 4", odd)
	and := func(a, mask string) string { return u.get("r", "and.b32", "%s, %s", a, mask) }
	shr := func(a, by string) string { return u.get("r", "shr.u32", "%s, %s", a, by) }
	// both returns the six bits of the run's two scales or minima: those of the first four blocks of 32 weights are in
	// a, and the others have their low bits in low and their high bits in a
	both := func(a, low string) string {
		early := and(a, "0x3f3f3f3f")
		high := and(shr(a, "2"), "0x30303030")
		other := u.get("r", "or.b32", "%s, %s", high, and(low, "0x0f0f0f0f"))
		return shr(u.get("r", "selp.b32", "%s, %s, %s", other, early, late), t16)
	}
	scales, minima := both(x, z), both(y, shr(z, "4"))
	factor, least := u.half(d, 0), u.get("f", "neg.f32", "%s", u.half(d, 1))
	for b := range 2 {
		w.same(b, u.get("f", "mul.rn.f32", "%s, %s", u.byte(scales, b, 0), factor))
		w.minima[b] = u.get("f", "mul.rn.f32", "%s, %s", u.byte(minima, b, 0), least)
	}
	for s := range 2 {
		v := u.nibbles(u.word(mine, 16+16*s), 0)
		w.values[0][s], w.values[1][s] = v[0], v[1]
	}
	return w
}

// readQ6K reads a quarter of a block of 256 weights: see multiplyQ6K.
func readQ6K(u *fewUnit) (w fewWeights) {
	odd := u.get("r", "and.b32", "%s, 2", u.at)
	base := u.get("r", "sub.u32", "%s, %s", u.at, odd)
	is := u.get("p", "setp.ne.u32", "%s, 0", odd)
	pick := u.get("r", "selp.b32", "0x5432, 0x3210, %s", is)
	even := func(at string, offset int) string {
		return u.get("r", "prmt.b32", "%s, %s, %s", u.word(at, offset), u.word(at, offset+4), pick)
	}
	factor := u.half(u.get("r", "shr.u32", "%s, %s", u.word(base, 208), u.get("r", "shl.b32", "%s, 3", odd)), 0)
	own := u.get("r", "mad.lo.u32", "%s, 4, %s", u.run, base)
	scales := u.get("r", "xor.b32", "%s, 0x80808080", even(own, 192))
	half, part := u.get("r", "shr.u32", "%s, 1", u.run), u.get("r", "and.b32", "%s, 1", u.run)
	by := u.get("r", "shl.b32", "%s, 2", part)
	mine := u.get("r", "mad.lo.u32", "%s, 4, %s", u.quarter, base)
	low := u.get("r", "mad.lo.u32", "%s, 64, %s", half, mine)
	high := u.get("r", "mad.lo.u32", "%s, 32, %s", half, mine)
	for s := range 2 {
		upper := u.get("r", "shr.u32", "%s, %s", even(high, 128+16*s), by)
		for b := range 2 {
			v := u.get("r", "shr.u32", "%s, %s", even(low, 32*b+16*s), by)
			v = u.get("r", "and.b32", "%s, 0x0f0f0f0f", v)
			two := u.get("r", "shl.b32", "%s, %d", upper, 4-2*b)
			two = u.get("r", "and.b32", "%s, 0x30303030", two)
			w.values[b][s] = u.bytes(u.get("r", "or.b32", "%s, %s", v, two), 32)
			w.scales[b][s] = u.get("f", "mul.rn.f32", "%s, %s", u.byte(scales, 2*b+s, 128), factor)
		}
	}
	return w
}
