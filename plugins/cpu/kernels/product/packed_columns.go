package product

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// Products with packed weights stored [K, N], whose blocks lie along N: the gradient of a product with weights [N, K].
// As many rows of the weights as fit decodedSize are decoded at a time, and their products added to C.

const decodedSize = 1 << 20 // floats

// GemmPackedColumns computes a product of A and packed weights stored [K, N], without bias, activation and residual.
func GemmPackedColumns(p *pool.Pool, g *GemmArgs) {
	if g.TransA || g.TransB || g.Bias != nil || g.Act != elementwise.Identity || g.Residual != nil ||
		(g.B.Start|g.N)%g.B.Kind.Values() != 0 || g.LDB != g.N {
		panic("BUG: GemmPackedColumns: a product that it cannot compute")
	}
	if g.M*g.N*g.K == 0 || g.inParts(p.Set, 1) {
		Gemm(p, g)
		return
	}
	gemmDecoded(p, g)
}

// decodedRows returns how many rows of the weights are decoded at a time.
func (g *GemmArgs) decodedRows() int {
	return min(g.K, max(KBlock, decodedSize/max(1, g.N)/KBlock*KBlock))
}

func gemmDecoded(p *pool.Pool, g *GemmArgs) {
	kept := pool.Keep[decodedWeights](p)
	rows := g.decodedRows()
	kept.values = pool.Sized(kept.values, rows*g.N)
	for k := 0; k < g.K; k += rows {
		n := min(rows, g.K-k)
		values := kept.values[:n*g.N]
		DecodeRows(p, values, g.B.From(k*g.LDB), n, g.N)
		one := *g
		one.A, one.K, one.B, one.LDB = g.A[k:], n, stored.F32(values), g.N
		if k > 0 {
			one.Residual, one.LDR = one.C, one.LDC
		}
		Gemm(p, &one)
	}
}

// decodedWeights are the rows that are decoded.
type decodedWeights struct{ values []float32 }

// PackedColumnsScratch returns the memory that GemmPackedColumns needs for up to M rows.
func (g *GemmArgs) PackedColumnsScratch(p *pool.Pool) pool.Size {
	one := *g
	one.K, one.B = g.decodedRows(), stored.F32(nil)
	r := one.ScratchSize(p).With(g.ScratchSize(p))
	r.Other += 4 * int64(one.K) * int64(g.N)
	return r
}
