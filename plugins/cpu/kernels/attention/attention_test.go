package attention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// attention64 computes attention in float64 by its definition, one query at a time.
func attention64(g *Args) []float64 {
	out := make([]float64, len(g.Out))
	for i := range out {
		out[i] = guard64
	}
	round := func(x float32) float64 {
		if g.Precision == product.BFloat16 {
			x = product.RoundBF16(x)
		}
		return float64(x)
	}
	for b := range g.B {
		for h := range g.Heads {
			kv := h / (g.Heads / g.KVHeads)
			for i := range g.SQ {
				keys, offset := g.span(b)
				s := make([]float64, keys)
				top, sum := math.Inf(-1), 0.0
				if g.Sinks != nil {
					top = float64(g.Sinks[h])
				}
				for j := range s {
					for d := range g.DK {
						s[j] += round(g.Q[b*g.QStride.Batch+h*g.QStride.Head+i*g.QStride.Seq+d]) * round(
							kerneltest.WeightAt(g.K,
								g.element(b)*g.KStride.Batch+kv*g.KStride.Head+j*g.KStride.Seq+d))
					}
					s[j] *= float64(g.Scale)
					if c := float64(g.Softcap); c != 0 {
						s[j] = c * math.Tanh(s[j]/c)
					}
					q := i + offset
					at := b*g.MaskStride[0] + h*g.MaskStride[1] + i*g.MaskStride[2] + j*g.MaskStride[3]
					allowed := true
					switch g.Mask {
					case MaskCausal:
						allowed = j <= q
					case MaskSliding:
						allowed = j <= q && j >= q-g.Window
					case MaskCustom:
						allowed = g.MaskBool != nil && g.MaskBool[at] != 0 || g.MaskBool == nil && g.MaskF32[at] >= 0.5
					case MaskBias:
						s[j] += float64(g.MaskF32[at])
					}
					if !allowed {
						s[j] = math.Inf(-1)
					}
					top = max(top, s[j])
				}
				o := out[b*g.OutStride.Batch+h*g.OutStride.Head+i*g.OutStride.Seq:][:g.DV]
				clear(o)
				if g.Sinks != nil {
					sum = math.Exp(float64(g.Sinks[h]) - top)
				}
				for j := range s {
					if math.IsInf(s[j], -1) {
						continue
					}
					w := math.Exp(s[j] - top)
					sum += w
					for d := range o {
						o[d] += w * round(kerneltest.WeightAt(g.V,
							g.element(b)*g.VStride.Batch+kv*g.VStride.Head+j*g.VStride.Seq+d))
					}
				}
				for d := range o {
					if sum > 0 {
						o[d] /= sum
					}
				}
			}
		}
	}
	return out
}

// halves returns the elements of w rounded to f16 or bf16.
func halves(w stored.Values, try int) stored.Values {
	out := stored.Values{Kind: dtype.F16}
	for _, x := range w.Floats {
		out.Halves = append(out.Halves, dtype.F32ToF16(x))
	}
	if try%2 == 0 {
		out.Kind = dtype.BF16
		for i, x := range w.Floats {
			out.Halves[i] = dtype.F32ToBF16(x)
		}
	}
	return out
}

const guard64 = -12345678

func layout(r *rand.Rand, n, heads, d int) Strides {
	if r.IntN(2) == 0 {
		return Strides{heads*n*d + 3, d, n * d} // BHSD, with a gap between batches
	}
	return Strides{heads * n * d, heads * d, d} // BSHD
}

func randomAttention(r *rand.Rand, b, heads, kv, sq, sk, dk, dv int, mask MaskKind) *Args {
	g := &Args{B: b, Heads: heads, KVHeads: kv, SQ: sq, SK: sk, DK: dk, DV: dv,
		Scale: float32(1 / math.Sqrt(float64(dk))), Mask: mask,
		QOffset: sk - sq, Window: r.IntN(sk + 1),
		QStride: layout(r, sq, heads, dk), KStride: layout(r, sk, kv, dk), VStride: layout(r, sk, kv, dv),
		OutStride: layout(r, sq, heads, dv)}
	caches := b
	if r.IntN(3) == 0 { // batch elements of k and v are chosen
		caches += r.IntN(3)
		for range b {
			g.Elements = append(g.Elements, r.IntN(caches))
		}
	}
	g.Q, g.K, g.V = kerneltest.Randoms(r, b*g.QStride.Batch), stored.F32(kerneltest.Randoms(r, caches*g.KStride.Batch)),
		stored.F32(kerneltest.Randoms(r, caches*g.VStride.Batch))
	g.Out = make([]float32, b*g.OutStride.Batch)
	for i := range g.Out {
		g.Out[i] = guard64
	}
	if r.IntN(3) == 0 {
		g.Softcap = 0.5 + r.Float32()
	}
	if mask == MaskCustom || mask == MaskBias {
		g.MaskStride = [4]int{heads * sq * sk, sq * sk, sk, 1}
		for i := range 3 {
			if r.IntN(3) == 0 { // broadcast
				g.MaskStride[i] = 0
			}
		}
		g.MaskF32 = kerneltest.Randoms(r, b*heads*sq*sk)
		for i := range g.MaskF32 {
			if r.IntN(5) == 0 && mask == MaskBias {
				g.MaskF32[i] = float32(math.Inf(-1))
			}
		}
		if mask == MaskCustom && r.IntN(2) == 0 {
			g.MaskBool = make([]uint8, len(g.MaskF32))
			for i := range g.MaskBool {
				g.MaskBool[i] = uint8(r.IntN(3))
			}
			g.MaskF32 = nil
		}
	}
	return g
}

func TestAttention(t *testing.T) {
	eachTiledPool(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(1)
		for _, mask := range []MaskKind{MaskNone, MaskCausal, MaskSliding, MaskCustom, MaskBias} {
			for _, c := range [][7]int{{1, 1, 1, 1, 1, 1, 1}, {2, 4, 2, 5, 9, 8, 8}, {1, 2, 1, 33, 300, 16, 16},
				{1, 6, 3, 70, 17, 20, 7}, {1, 2, 2, 9, 4, 5, 64}, {2, 1, 1, 40, 257, 64, 33},
				{2, 6, 2, 3, 700, 20, 37}} {
				for try := range 3 {
					if testing.Short() && try != int(mask)%3 {
						continue
					}
					g := randomAttention(r, c[0], c[1], c[2], c[3], c[4], c[5], c[6], mask)
					if try > 0 {
						g.K, g.V = halves(g.K, try), halves(g.V, try)
						for range g.B {
							keys := r.IntN(g.SK + 1)
							g.Spans = append(g.Spans, KeySpan{keys, keys - r.IntN(2*g.SQ)})
						}
						g.Sinks = kerneltest.Randoms(r, g.Heads)
					}
					want := attention64(g)
					Attend(p, g)
					kerneltest.Compare(t, fmt.Sprint("mask ", mask, " sizes ", c, " window ", g.Window, " cap ",
						g.Softcap), g.Out,
						want, 1e-5, 1e-5)
					g.Precision = product.BFloat16
					want = attention64(g)
					Attend(p, g)
					kerneltest.Compare(t, fmt.Sprint("bf16, mask ", mask, " sizes ", c), g.Out, want, 4e-3, 1e-5)
				}
			}
		}
	})
}

// TestAttentionFullyMasked checks that a query without keys gives zeros, and that tiles without a key for a query
// change nothing.
func TestAttentionFullyMasked(t *testing.T) {
	eachTiledPool(t, func(t *testing.T, p *pool.Pool) {
		g := randomAttention(kerneltest.RNG(2), 1, 1, 1, 4, 600, 8, 8, MaskCustom)
		g.Softcap, g.MaskBool, g.MaskF32, g.MaskStride = 0, make([]uint8, 4*600), nil, [4]int{0, 0, 600, 1}
		g.MaskBool[600+599] = 1 // query 1 sees the last key only, the others nothing
		want := attention64(g)
		Attend(p, g)
		kerneltest.Compare(t, "masked", g.Out[:32], want[:32], 1e-6, 1e-6)
		if g.Out[g.OutStride.Seq*3] != 0 {
			t.Error("a masked query is not zero")
		}
		g.SK = 0
		Attend(p, g)
		for i := range 4 {
			if x := g.Out[i*g.OutStride.Seq]; x != 0 {
				t.Errorf("without keys, the result is %v, want 0", x)
			}
		}
	})
}

// TestAttentionThreads checks that the result has the same bits for any number of threads, at sizes for which the tasks
// depend on it.
func TestAttentionThreads(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute where the processor is emulated; how work is divided does not depend on it")
	}
	for i, c := range []struct{ b, heads, kv, sq, sk, d, window int }{
		{1, 1, 1, 129, 129, 16, 7}, {1, 2, 1, 300, 300, 16, 40}, {1, 1, 1, 600, 600, 32, 200},
		{10, 3, 3, 129, 129, 16, 7},
	} {
		for _, mask := range []MaskKind{MaskNone, MaskCausal, MaskSliding, MaskCustom, MaskBias} {
			if i > 0 && mask == MaskCustom || i > 0 && mask == MaskBias {
				continue
			}
			for _, precision := range []product.Precision{product.Float32, product.BFloat16} {
				kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
					g := randomAttention(kerneltest.RNG(uint64(i)), c.b, c.heads, c.kv, c.sq, c.sk, c.d, c.d, mask)
					g.Precision, g.Window = precision, c.window
					for k := range g.V.Floats {
						// sums of -0 only, and of values that become -0 when multiplied by a weight below 1/2
						if k%c.d < 3 {
							g.V.Floats[k] = []float32{float32(math.Copysign(0, -1)),
								-math.SmallestNonzeroFloat32}[k/c.d%3/2]
						}
					}
					Attend(p, g)
					return g.Out
				})
			}
		}
	}
}
