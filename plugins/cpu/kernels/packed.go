package kernels

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
)

// Packed is a matrix whose rows are blocks of a packed element type, to be multiplied transposed. Indices count values.
func Packed(d dtype.DType, b []byte) Weights { return Weights{byte: b, kind: d} }

// decode widens values [i, i+len(dst)) of packed weights.
func (w Weights) decode(dst []float32, i int) {
	values, size := w.kind.Values(), w.kind.Size()
	i += w.start
	if skip := i % values; skip != 0 || len(dst) < values { // the rest of a block
		var block [256]float32
		n := min(values-skip, len(dst))
		quant.Decode(block[:values], w.kind, w.byte[i/values*size:][:size])
		copy(dst[:n], block[skip:])
		i, dst = i+n, dst[n:]
	}
	n := len(dst) / values
	quant.Decode(dst[:n*values], w.kind, w.byte[i/values*size:][:n*size])
	if rest := dst[n*values:]; len(rest) > 0 {
		w.start = 0
		w.decode(rest, i+n*values)
	}
}

// PackedProduct is a product of rows and packed weights. It keeps memory from call to call.
type PackedProduct struct {
	x     []float32 // activations, rounded
	q     []int8
	scale []float32
}

// PackedScratch is what a PackedProduct keeps for up to m rows of k values, if they are rounded.
func PackedScratch(m, k int) ScratchSize {
	return ScratchSize{Other: sizeOf[float32](m*k) + int64(m*k)*5/4}
}

// Round replaces the activations of g, M rows of K, by their values rounded to 8 bits (see quant.RoundActivations).
func (x *PackedProduct) Round(p *Pool, g *GemmArgs) {
	groups := (g.K + quant.Group - 1) / quant.Group
	x.x, x.q, x.scale = grown(x.x, g.M*g.K), grown(x.q, g.M*g.K), grown(x.scale, g.M*groups)
	split(p, g.M, rowGrain(g.K), roundingRows{x, g.A, g.K, groups})
	g.A = x.x
}

type roundingRows struct {
	x         *PackedProduct
	from      []float32
	k, groups int
}

func (r *roundingRows) do(lo, hi, _ int) {
	for m := lo; m < hi; m++ {
		to, q, scale := r.x.x[m*r.k:(m+1)*r.k], r.x.q[m*r.k:(m+1)*r.k], r.x.scale[m*r.groups:(m+1)*r.groups]
		quant.RoundActivations(q, scale, r.from[m*r.k:(m+1)*r.k])
		for i, v := range q {
			to[i] = scale[i/quant.Group] * float32(v)
		}
	}
}

// DecodeRows widens rows of k values of packed weights: dst is [rows, k].
func DecodeRows(p *Pool, dst []float32, w Weights, rows, k int) {
	if rows*k > 0 {
		split(p, rows, rowGrain(k), decodingRows{dst, w, k})
	}
}

type decodingRows struct {
	dst []float32
	w   Weights
	k   int
}

func (d *decodingRows) do(lo, hi, _ int) { d.w.decode(d.dst[lo*d.k:hi*d.k], lo*d.k) }
