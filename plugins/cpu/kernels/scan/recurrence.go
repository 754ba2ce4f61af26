package scan

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Recurrences over tokens. The columns of their states do not depend on each other, so threads share strips of columns.
// A thread goes through all tokens with one strip, which stays in its cache.

// strips are an instruction set's routines for one token of a recurrence.
type strips struct {
	// delta is a token of the gated delta rule, on a strip s [n, deltaWidth] of the state, with n = len(k): e =
	// decay*(k s), d = beta*(v-e), s = decay*s + k^T d, o = scale*(q s).
	deltaWidth int
	delta      func(s, q, k, v, o []float32, decay, beta, scale float32)
	// The other strips have len(delta), len(y) or len(dst) columns, a multiple of lanes. decay is dst[j] = a[j]*delta
	// for all rows j. scan is s[j] = decay[j]*s[j] + b[j]*dx for all rows j, and y = the sum of c[j]*s[j] over j.
	decay func(dst, a, delta []float32)
	scan  func(s, decay, dx, b, c, y []float32)
	// taps is dst = bias + sum of x[j*ldx:]*w[j*ldw:] over j < k.
	taps func(dst, bias, x []float32, ldx int, w []float32, ldw, k int)
}

// stripsInGo returns the routines as loops in Go.
func stripsInGo() *strips {
	return &strips{
		deltaWidth: 16,
		delta: func(s, q, k, v, o []float32, decay, beta, scale float32) {
			var d, sum [16]float32
			for i, x := range k {
				for j, y := range s[16*i:][:16] {
					d[j] += x * y
				}
			}
			for j := range d {
				d[j] = beta * (v[j] - decay*d[j])
			}
			for i, x := range k {
				row := s[16*i:][:16]
				for j := range row {
					row[j] = decay*row[j] + x*d[j]
					sum[j] += q[i] * row[j]
				}
			}
			for j := range sum {
				o[j] = scale * sum[j]
			}
		},
		decay: func(dst, a, delta []float32) {
			for i := range dst {
				dst[i] = a[i] * delta[i%len(delta)]
			}
		},
		scan: func(s, decay, dx, b, c, y []float32) {
			clear(y)
			for j := range b {
				for i := range y {
					at := j*len(y) + i
					s[at] = decay[at]*s[at] + b[j]*dx[i]
					y[i] += c[j] * s[at]
				}
			}
		},
		taps: func(dst, bias, x []float32, ldx int, w []float32, ldw, k int) {
			for i := range dst {
				sum := bias[i]
				for j := range k {
					sum += x[j*ldx+i] * w[j*ldw+i]
				}
				dst[i] = sum
			}
		},
	}
}

// Delta are the sizes of GatedDelta: q and k are [B, T, Groups, N], v [B, T, Heads, M].
type Delta struct{ B, T, Groups, Heads, N, M int }

// GatedDelta computes op.GatedDeltaNetDef: o [B, T, Heads, M] and the final state [B, Heads, N, M]. The first state may
// be nil, for zeros.
//
// It goes token by token. Other implementations turn chunks of tokens into matrix products; that takes more
// multiplications, which pays only if these are much faster than updating a strip of the state in the L1 cache.
func GatedDelta(p *pool.Pool, d Delta, q, k, v, g, beta, state, o, final []float32) {
	gates := d.B * d.T * d.Heads
	if len(q) < d.B*d.T*d.Groups*d.N || len(k) < len(q) || len(v) < gates*d.M || len(g) < gates || len(beta) < gates ||
		len(o) < gates*d.M ||
		len(final) < d.B*d.Heads*d.N*d.M || state != nil && len(state) < d.B*d.Heads*d.N*d.M {
		panic("BUG: GatedDelta: a slice is short")
	}
	if d.N == 0 || d.M == 0 {
		return
	}
	width := recOn(p.Set).deltaWidth
	strips := (d.M + width - 1) / width
	pool.Split(p, d.B*d.Heads*strips, 1+pool.Grain/(width*d.N*(d.T+1)),
		deltaStrips{p, d, strips, q, k, v, g, beta, state, o, final})
}

type deltaStrips struct {
	p *pool.Pool
	Delta
	strips                            int
	q, k, v, g, beta, state, o, final []float32
}

func (a *deltaStrips) Do(lo, hi, worker int) {
	steps, width := recOn(a.p.Set), recOn(a.p.Set).deltaWidth
	scratch := a.p.Scratch(worker)
	s, padded := scratch.Floats(a.N*width), scratch.Floats(2*width)
	scale := float32(1 / math.Sqrt(float64(a.N)))
	for item := lo; item < hi; item++ {
		head, from := item/a.strips, item%a.strips*width
		b, h, w := head/a.Heads, head%a.Heads, min(width, a.M-from)
		if clear(padded); a.state == nil || w < width {
			clear(s)
		}
		if a.state != nil {
			for i := range a.N {
				copy(s[i*width:][:w], a.state[(head*a.N+i)*a.M+from:])
			}
		}
		for t := range a.T {
			at := (b*a.T+t)*a.Heads + h
			key := ((b*a.T+t)*a.Groups + h*a.Groups/a.Heads) * a.N
			v, o := a.v[at*a.M+from:][:w], a.o[at*a.M+from:][:w]
			to := o
			if w < width {
				copy(padded, v)
				v, to = padded[:width], padded[width:]
			}
			steps.delta(s, a.q[key:][:a.N], a.k[key:][:a.N], v, to, float32(math.Exp(float64(a.g[at]))), a.beta[at],
				scale)
			if w < width {
				copy(o, to)
			}
		}
		for i := range a.N {
			copy(a.final[(head*a.N+i)*a.M+from:][:w], s[i*width:])
		}
	}
}

// GatedDeltaScratch returns what GatedDelta needs.
func GatedDeltaScratch(p *pool.Pool, d Delta) pool.Size {
	width := recOn(p.Set).deltaWidth
	return pool.Size{Worker: pool.FloatBytes(d.N*width, 2*width)}
}

// selectiveWidth is the largest number of channels of a strip of SelectiveScan.
const selectiveWidth = 64

// Selective are the sizes of SelectiveScan: x and delta are [B, T, C], a [C, N], b and c [B, T, N].
type Selective struct{ B, T, C, N int }

// SelectiveScan computes op.SelectiveScanDef: y [B, T, C] and the final state [B, C, N]. The first state may be nil,
// for zeros. A worker transposes its strip of a and of the state, so that vectors run along the channels.
func SelectiveScan(p *pool.Pool, d Selective, x, delta, a, b, c, state, y, final []float32) {
	if all := d.B * d.T * d.C; len(x) < all || len(delta) < all || len(y) < all || len(a) < d.C*d.N ||
		len(b) < d.B*d.T*d.N || len(c) < d.B*d.T*d.N ||
		len(final) < d.B*d.C*d.N || state != nil && len(state) < d.B*d.C*d.N {
		panic("BUG: SelectiveScan: a slice is short")
	}
	strips := (d.C + selectiveWidth - 1) / selectiveWidth
	pool.Split(p, d.B*strips, 1+pool.Grain/(8*selectiveWidth*(d.N+1)*(d.T+1)),
		selectiveStrips{p, d, strips, x, delta, a, b, c, state, y, final})
}

type selectiveStrips struct {
	p *pool.Pool
	Selective
	strips                             int
	x, delta, a, b, c, state, y, final []float32
}

func (g *selectiveStrips) Do(lo, hi, worker int) {
	set, steps := g.p.Set, recOn(g.p.Set)
	scratch := g.p.Scratch(worker)
	states, factors, decays := scratch.Floats(g.N*selectiveWidth), scratch.Floats(g.N*selectiveWidth),
		scratch.Floats(g.N*selectiveWidth)
	row := scratch.Floats(3 * selectiveWidth)
	for item := lo; item < hi; item++ {
		b, from := item/g.strips, item%g.strips*selectiveWidth
		have := min(selectiveWidth, g.C-from)
		w := (have + set.Lanes - 1) / set.Lanes * set.Lanes
		s, a, decay := states[:g.N*w], factors[:g.N*w], decays[:g.N*w]
		clear(row)
		clear(s)
		clear(a)
		g.turn(a, w, g.a[from*g.N:], have)
		if g.state != nil {
			g.turn(s, w, g.state[(b*g.C+from)*g.N:], have)
		}
		delta, dx, y := row[:w], row[selectiveWidth:][:w], row[2*selectiveWidth:][:w]
		for t := range g.T {
			at := (b*g.T+t)*g.C + from
			copy(delta, g.delta[at:][:have])
			copy(dx, g.x[at:][:have])
			elementwise.On(set).Binary[elementwise.Mul](dx, dx, delta)
			if g.N > 0 {
				steps.decay(decay, a, delta)
				elementwise.Apply(set, elementwise.Exp, decay, decay)
				steps.scan(s, decay, dx, g.b[(b*g.T+t)*g.N:][:g.N], g.c[(b*g.T+t)*g.N:][:g.N], y)
			}
			copy(g.y[at:][:have], y)
		}
		final := g.final[(b*g.C+from)*g.N:]
		if have == w && g.N == set.Lanes { // transpose writes whole vectors
			vec.On(set).Transpose(final, g.N, s, w, g.N, w)
			continue
		}
		for i := range have {
			for j := range g.N {
				final[i*g.N+j] = s[j*w+i]
			}
		}
	}
}

// turn transposes src [have, N] to dst [N, w].
func (g *selectiveStrips) turn(dst []float32, w int, src []float32, have int) {
	set, i := g.p.Set, 0
	if g.N > 0 && g.N%set.Lanes == 0 {
		for ; i < have; i += set.Lanes {
			vec.On(set).Transpose(dst[i:], w, src[i*g.N:], g.N, min(set.Lanes, have-i), g.N)
		}
	}
	for ; i < have; i++ {
		for j, v := range src[i*g.N:][:g.N] {
			dst[j*w+i] = v
		}
	}
}

// SelectiveScanScratch returns what SelectiveScan needs.
func SelectiveScanScratch(d Selective) pool.Size {
	return pool.Size{Worker: 3*pool.FloatBytes(d.N*selectiveWidth) + pool.FloatBytes(3*selectiveWidth)}
}

// tapsWidth is the largest number of channels of a strip of CausalConv.
const tapsWidth = 256

// Causal are the sizes of CausalConv: x is [B, T, C], w [C, K].
type Causal struct{ B, T, C, K int }

// CausalConv computes op.CausalConv1DDef: y [B, T, C], and in next the last K-1 tokens [B, K-1, C]. bias [C] and pad
// [B, K-1, C], the tokens before the first, may be nil, for zeros.
func CausalConv(p *pool.Pool, d Causal, x, w, bias, pad, y, next []float32, silu bool) {
	if all := d.B * d.T * d.C; d.K < 1 || len(x) < all || len(y) < all || len(w) < d.C*d.K || bias != nil &&
		len(bias) < d.C || pad != nil && len(pad) < d.B*(d.K-1)*d.C ||
		len(next) < d.B*(d.K-1)*d.C {
		panic("BUG: CausalConv: a slice is short")
	}
	strips := (d.C + tapsWidth - 1) / tapsWidth
	pool.Split(p, d.B*strips, 1+pool.Grain/(tapsWidth*(d.T+d.K)),
		causalStrips{p, d, strips, x, w, bias, pad, y, next, silu})
}

type causalStrips struct {
	p *pool.Pool
	Causal
	strips                   int
	x, w, bias, pad, y, next []float32
	silu                     bool
}

func (g *causalStrips) Do(lo, hi, worker int) {
	set := g.p.Set
	scratch := g.p.Scratch(worker)
	w, bias, out := scratch.Floats(g.K*tapsWidth), scratch.Floats(tapsWidth), scratch.Floats(tapsWidth)
	z := scratch.Floats(g.K * tapsWidth) // the K tokens of an output, if one is from pad or the strip is narrow
	for item := lo; item < hi; item++ {
		b, from := item/g.strips, item%g.strips*tapsWidth
		have := min(tapsWidth, g.C-from)
		width := (have + set.Lanes - 1) / set.Lanes * set.Lanes
		clear(w)
		clear(bias)
		clear(z)
		for i := range have {
			for j := range g.K {
				w[j*tapsWidth+i] = g.w[(from+i)*g.K+j]
			}
		}
		if g.bias != nil {
			copy(bias, g.bias[from:][:have])
		}
		// token returns token t of pad followed by x; nil for zeros.
		token := func(t int) []float32 {
			switch {
			case t >= g.K-1:
				return g.x[(b*g.T+t-g.K+1)*g.C+from:][:have]
			case g.pad != nil:
				return g.pad[(b*(g.K-1)+t)*g.C+from:][:have]
			}
			return nil
		}
		for t := range g.T {
			y := g.y[(b*g.T+t)*g.C+from:][:have]
			to, x, ld := y, []float32(nil), g.C
			if width > have {
				to = out[:width]
			}
			if t >= g.K-1 && width == have {
				x = g.x[(b*g.T+t-g.K+1)*g.C+from:]
			} else {
				for j := range g.K {
					if row := token(t + j); row != nil {
						copy(z[j*tapsWidth:], row)
					}
				}
				x, ld = z, tapsWidth
			}
			recOn(set).taps(to, bias, x, ld, w, tapsWidth, g.K)
			if g.silu {
				elementwise.Apply(set, elementwise.Silu, to, to)
			}
			if width > have {
				copy(y, to)
			}
		}
		for j := range g.K - 1 {
			next := g.next[(b*(g.K-1)+j)*g.C+from:][:have]
			if row := token(g.T + j); row != nil {
				copy(next, row)
			} else {
				clear(next)
			}
		}
	}
}

// CausalConvScratch returns what CausalConv needs.
func CausalConvScratch(d Causal) pool.Size {
	return pool.Size{Worker: pool.FloatBytes(d.K*tapsWidth, tapsWidth, tapsWidth, d.K*tapsWidth)}
}
