package kernels

import (
	_ "embed"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

//go:embed matmul_sum.wgsl
var matmulSumWGSL string

// A product with a few hundred rows has fewer tiles than a large GPU has processors. Then K is split (split-K): each
// workgroup sums over a part of K, and a second shader adds the partial sums.

// part returns the number of values of K in a part.
func (t Tile) part(k int) int { return ceilDiv(ceilDiv(k, max(t.Splits, 1)), t.Depth) * t.Depth }

// split returns the product with its parts of K as separate matrices.
func (t Tile) split(p product) product {
	if t.Splits < 2 {
		return p
	}
	p.matrix, p.batch, p.aBatch, p.bBatch = t.Splits, dims([]int{t.Splits}), strides(nil), strides(nil)
	p.aBatch[maxRank-1], p.bBatch[maxRank-1] = uint32(t.part(p.k)*p.aK), uint32(t.part(p.k)*p.bK)
	return p
}

// productTile chooses the tile of a product.
func productTile(n *ir.Node, a productForm, l Limits) Tile {
	p := largest(n, a)
	size := sizes(a, fixed(n.In[0].Type), fixed(n.In[1].Type), fixed(n.Type))
	if p.matrix != 1 || size.n%4 != 0 || size.n == 0 || size.k%16 != 0 || size.k == 0 || !allAligned(n.In[2:]) {
		t := chooseTile(p, l)
		t.Splits = 0
		return t
	}
	return chooseSplit(p, l, mostParts)
}

// splitBytes returns the scratch memory for partial sums in bytes.
func splitBytes(n *ir.Node, l Limits) int64 {
	few := int64(0)
	if a, ok := productAttrs(n); ok {
		_, few = l.ownFew(n, a)
	}
	return max(few, manyBytes(n, l))
}

// manyBytes is splitBytes without the shaders of Own.Few.
func manyBytes(n *ir.Node, l Limits) int64 {
	a, ok := productAttrs(n)
	if own := l.ownBytes(n); own > 0 {
		return own
	}
	if !ok || !inVectors(n) {
		return 0
	}
	p := largest(n, a)
	if byRows(n, a, l) && p.m <= maxFewRows {
		return 0
	}
	if t := productTile(n, a, l); t.Splits > 1 {
		return 4 * int64(t.Splits) * int64(p.m) * int64(p.n)
	}
	return 0
}

// splitShaders returns the shaders of a product whose K is split. s, made for all of K, then computes partial sums, and
// another shader adds them.
func splitShaders(a productForm, c tiled, s Shader) []Shader {
	sum := s
	sum.Body, sum.Loops = matmulFinishWGSL+matmulSumWGSL, nil
	sum.Bindings = append([]Binding{{Name: "part", Operand: Scratch, Vec: 4, DType: dtype.F32}}, s.Bindings[2:]...)
	sum.Groups = func(call *Call) int {
		p := called(a, call)
		return ceilDiv(p.m*p.n, 4*256)
	}
	params := s.Params
	s.Fields = append(slices.Clone(s.Fields), "part")
	s.Params = func(call *Call) []uint32 {
		list := params(call)
		if list == nil {
			return nil
		}
		return append(list, uint32(c.part(called(a, call).k)))
	}
	c.Bias, c.Residual, c.Acts = false, false, nil
	s.Consts = c
	s.Bindings = append(slices.Clone(s.Bindings[:2]), Binding{Name: "y", Operand: Scratch, Vec: 4, DType: dtype.F32})
	return []Shader{s, sum}
}
