package product

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// PackedWeights is the second operand of products, packed in advance because it is used more than once.
type PackedWeights struct {
	n, k      int
	precision Precision
	panels    []float32
}

const (
	// The largest number of rows for which f32 weights are kept. To pack a panel takes about as long as to multiply 16
	// rows by it, so with more rows packing in advance saves little.
	keptRows = 512
	// The largest matrix of f32 that is kept, in elements. The packed copy takes as much memory as the weights.
	keptSize = 3 << 20
	// The largest matrix that is kept if it is stored as [N, K]. Larger products of such weights read them as they lie,
	// see gemmRows, and those of a few rows take dot products, see gemv.
	keptSmall = 1 << 16
)

// Keeps reports whether the weights of products of least to most rows are worth packing in advance. It reads what
// ScratchSize reads, without M. Large weights of f32 are not if B is stored as [N, K], and neither are those of
// products of one row; see gemmRow.
func (g *GemmArgs) Keeps(p *pool.Pool, least, most int) bool {
	switch {
	case g.N*g.K == 0:
		return false
	case TakesBlocked(p, g.Precision):
		return true
	}
	if g.B.Kind != dtype.F32 || g.Precision != Float32 || least > keptRows {
		return false
	}
	if g.TransB {
		return g.K*g.N <= keptSmall && most > smallDots(p.Set)
	}
	return g.K*g.N <= keptSize && most > 1
}

// ReadsPacked reports whether a product whose weights are kept reads the packed copy: one of a few rows does not.
func (g *GemmArgs) ReadsPacked(p *pool.Pool) bool { return !g.dots(p.Set) }

// KeptSize returns the bytes that PackWeights keeps.
func (g *GemmArgs) KeptSize(p *pool.Pool) int64 { return pool.FloatBytes(g.packedMatrix(p.Set)) }

// PackWeights packs B of g for products with the same B, N, K and Precision.
func PackWeights(p *pool.Pool, g *GemmArgs) *PackedWeights {
	w := &PackedWeights{g.N, g.K, g.Precision, make([]float32, g.packedMatrix(p.Set))}
	PackPanels(p, g, w.panels, 0, 1, 0, pool.CeilDiv(g.N, On(p.Set).NR))
	return w
}
