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
)

// Keeps reports whether the weights of products of least to most rows are worth packing in advance. It reads what
// ScratchSize reads, without M. Weights of f32 are not if B is stored as [N, K], because gemmRows and gemv read them as
// they lie, and neither if all products have one row; see gemmRow.
func (g *GemmArgs) Keeps(p *pool.Pool, least, most int) bool {
	switch {
	case g.N*g.K == 0:
		return false
	case TakesBlocked(p, g.Precision):
		return true
	}
	return g.B.Kind == dtype.F32 && !g.TransB && g.Precision == Float32 && g.K*g.N <= keptSize && least <= keptRows &&
		most > 1
}

// KeptSize returns the bytes that PackWeights keeps.
func (g *GemmArgs) KeptSize(p *pool.Pool) int64 { return pool.FloatBytes(g.packedMatrix(p.Set)) }

// PackWeights packs B of g for products with the same B, N, K and Precision.
func PackWeights(p *pool.Pool, g *GemmArgs) *PackedWeights {
	w := &PackedWeights{g.N, g.K, g.Precision, make([]float32, g.packedMatrix(p.Set))}
	PackPanels(p, g, w.panels, 0, 1, 0, pool.CeilDiv(g.N, On(p.Set).NR))
	return w
}
