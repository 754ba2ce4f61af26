package matrix

import (
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// Attention at f32 divides queries, keys, values, weights and the vectors of relative positions into terms, as
// products do (see terms_text.go). A score is a sum over a head's dim, and the results of a tile are sums over its
// keys: both are short, so each has registers of its own for products of the same size.
//
// Unlike those of products, terms are not multiplied by powers of two, so that all products can be added to the same
// sums. That costs values below 2^-110 their last bits: the error is at most 2^-134.

// attentionType returns the type of the operands of attention and the number of their terms: 0 and 0 if there are no
// units for a precision. At tf32, attention is as at f32. Kernels with fma are faster where bf16 is less than six times
// as fast as f32, as on GPUs of capability 8.6 and 8.9.
func (d Device) attentionType(l kernels.Limits) (typ dtype.DType, terms int) {
	switch typ := narrow(l); {
	case typ != 0:
		return typ, 1
	case d.Capability == 80 || d.Capability == 90:
		return dtype.BF16, 3
	}
	return 0, 0
}

// exact reports whether operands are divided into terms.
func (x attentionText) exact() bool { return x.Terms > 1 }

// exp2 is the instruction for 2^x. Weights that are denormal count at f32, as they do in the kernels with fma.
func (x attentionText) exp2() string {
	if x.exact() {
		return "ex2.approx.f32"
	}
	return "ex2.approx.ftz.f32"
}

// termProducts returns the eight sums of two fragments of 16x8: the product of 16x16 matrices a and 16x16 matrices b of
// three terms each. a returns the fragments of a term for a step of 16 values, and b loads them.
func (t *text) termProducts(steps int, a, b func(term, step int) []string) []string {
	zeros := func() []string {
		out := t.regs("f", 8)
		for _, r := range out {
			t.add("mov.f32 %s, 0f00000000", r)
		}
		return out
	}
	sums := [3][]string{nil, zeros(), zeros()} // by the size of the products: 1, 2^-8 and 2^-16
	var parts [][]string                       // of first terms
	for k := range steps {
		if k%termSteps == 0 {
			parts = append(parts, zeros())
		}
		sums[0] = parts[len(parts)-1]
		right := [3][]string{b(0, k), b(1, k), b(2, k)}
		for i := range right {
			for j := range len(right) - i {
				for half := range 2 {
					t.mma(dtype.BF16, sums[i+j][4*half:][:4], a(i, k), right[j][2*half:][:2])
				}
			}
		}
	}
	out := sums[2]
	for i, r := range out {
		for _, p := range append([][]string{sums[1]}, parts...) {
			t.add("add.f32 %s, %s, %s", r, r, p[i])
		}
	}
	return out
}

// multiplyKeyTerms computes the scores of a tile, whose fragments begin at an address.
func (g *attending) multiplyKeyTerms(from string) {
	t, steps := g.text, g.D/16
	for pair := range keysOfTile / 16 {
		sums := t.termProducts(steps,
			func(term, k int) []string { return g.queries[4*(term*steps+k):][:4] },
			func(term, k int) []string {
				b := t.regs("r", 4)
				t.add("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%s}, [%s+%d]", strings.Join(b, ", "), from,
					pair*16*g.pitch()+2*g.D*term+32*k)
				return b
			})
		for i, r := range sums {
			t.add("mov.f32 %s, %s", g.scores[8*pair+i], r)
			check := g.check[i/2%2]
			t.add("fma.rn.f32 %s, %s, 0f00000000, %s", check, r, check)
		}
	}
}

// multiplyValueTerms adds the weighted values of a tile, whose fragments begin at an address.
func (g *attending) multiplyValueTerms(from string) {
	t := g.text
	const steps = keysOfTile / 16
	g.makeWeights()
	g.setWeights()
	for pair := range g.D / 16 {
		sums := t.termProducts(steps,
			func(term, k int) []string { return g.left[term][k] },
			func(term, k int) []string {
				b := t.regs("r", 4)
				t.add("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%s}, [%s+%d]", strings.Join(b, ", "), from,
					g.tile()+k*16*g.pitch()+2*g.D*term+32*pair)
				return b
			})
		for i, r := range sums {
			s := g.sums[8*pair+i]
			t.add("add.f32 %s, %s, %s", s, s, r)
		}
	}
}

// terms divides two values, which must be far from the largest finite one, into terms. Each pair of terms is a
// register.
func (t *text) terms(out, values []string) {
	rest := []string{values[0], values[1]}
	for i := range out {
		t.add("cvt.rn.bf16x2.f32 %s, %s, %s", out[i], rest[1], rest[0])
		if i == len(out)-1 {
			break
		}
		for e, instruction := range []string{"shl.b32 %s, %s, 16", "and.b32 %s, %s, 0xffff0000"} {
			bits := t.reg("r")
			t.add(instruction, bits, out[i])
			term := t.get("f", "mov.b32", "%s", bits)
			rest[e] = t.get("f", "sub.f32", "%s, %s", rest[e], term)
		}
	}
}

// value returns the pair of values whose first terms are at an address. The next terms are apart bytes further on.
func (t *text) value(load, at string, apart int) (out [2]string) {
	for term := 2; term >= 0; term-- {
		word := t.get("r", load, "[%s+%d]", at, term*apart)
		high := t.get("r", "and.b32", "%s, 0xffff0000", word)
		t.add("shl.b32 %s, %s, 16", word, word)
		for e, bits := range []string{word, high} {
			v := t.get("f", "mov.b32", "%s", bits)
			if term < 2 {
				t.add("add.f32 %s, %s, %s", v, out[e], v)
			}
			out[e] = v
		}
	}
	return out
}

// nearest returns the first term of any value, as bf16 of terms.wgsl does.
func (t *text) nearest(value string) string {
	bits := t.get("r", "mov.b32", "%s", value)
	up := t.get("r", "shr.u32", "%s, 16", bits)
	t.add("and.b32 %s, %s, 1", up, up)
	t.add("add.u32 %s, %s, %s", up, up, bits)
	t.add("add.u32 %s, %s, 0x7fff", up, up)
	t.add("and.b32 %s, %s, 0xffff0000", up, up)
	out := t.get("f", "mov.b32", "%s", up)
	lower := t.get("r", "and.b32", "%s, 0xffff0000", bits)
	low := t.get("f", "mov.b32", "%s", lower)
	finite := t.finite(out)
	t.add("@!%s mov.f32 %s, %s", finite, out, low)
	t.add("@!%s mov.f32 %s, %s", t.finite(value), out, value)
	return out
}

// rest returns what a value has beyond its first term: 0 if it is not finite.
func (t *text) rest(value string) string {
	out := t.get("f", "sub.f32", "%s, %s", value, t.nearest(value))
	t.add("@!%s mov.f32 %s, 0f00000000", t.finite(value), out)
	return out
}
