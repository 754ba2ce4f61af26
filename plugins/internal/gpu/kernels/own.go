package kernels

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// Own is a kernel that a device has in place of one in WGSL, such as one for matrix units. It need not take all nodes.
type Own struct {
	// Shaders returns the shaders for a node, or nil if the kernel does not take it with these limits. Shader.Source
	// makes their texts. For a product they must work for any number of rows; kernels for few rows run instead of them
	// where those read weights once.
	Shaders func(n *ir.Node, l Limits) []Shader
	// Scratch is Kernel.Scratch.
	Scratch func(n *ir.Node, l Limits) int64
	// Kept, if not nil, returns the memory in bytes that a node's shaders keep from run to run, for what they make of
	// weights. It is 0 unless Limits.Keeps is set.
	Kept func(n *ir.Node, l Limits) int64
	// ReadsRounded, if not nil, returns the type of 16 bits to which the shaders of a node would round operand 0, if
	// Limits.Rounded can spare them that, or 0. WritesRounded is Kernel.WritesRounded.
	ReadsRounded func(n *ir.Node, l Limits) dtype.DType
	// RoundedOperands is the number of operands, from the first on, to which ReadsRounded applies; 0 means one.
	RoundedOperands int
	WritesRounded   func(n *ir.Node, l Limits) bool
	// Few, if not nil, returns shaders for runs of a product with 2 to 8 rows, which are not rounded, and the scratch
	// memory in bytes that they need. They run in place of kernels for few rows in WGSL.
	Few func(n *ir.Node, l Limits) (shaders []Shader, scratch int64)
}

// ReadsRounded returns the type of 16 bits in which a node's shaders would like to find operand 0, or 0.
func (l Limits) ReadsRounded(n *ir.Node) dtype.DType {
	if o, ok := l.Own[n.Op.Name]; ok && o.ReadsRounded != nil {
		return o.ReadsRounded(n, l)
	}
	return 0
}

// RoundedOperands returns the number of operands, from the first on, to which ReadsRounded applies.
func (l Limits) RoundedOperands(n *ir.Node) int {
	return min(max(1, l.Own[n.Op.Name].RoundedOperands), len(l.Rounded), len(n.In))
}

// WritesRounded reports whether a node's result is also written in 16 bits, if Limits.Rounds says so, in all runs in
// which the shaders of a reader look for it.
func (l Limits) WritesRounded(n, reader *ir.Node) bool {
	if o, ok := l.Own[n.Op.Name]; ok && o.WritesRounded != nil && o.WritesRounded(n, l) {
		return ownFrom(n, l) <= ownFrom(reader, l)
	}
	k := registry[n.Op.Name]
	return k.WritesRounded != nil && k.WritesRounded(n)
}

// ownFrom returns the number of rows from which a product runs on the device's own kernel, 0 if it always does. It is 0
// for other nodes.
func ownFrom(n *ir.Node, l Limits) int {
	if a, ok := productAttrs(n); ok && byRows(n, a, l) {
		if few := mostFewRows(l, n); smallest(n, a).m <= few {
			return few + 1
		}
	}
	return 0
}

// AlwaysOwn reports whether a product runs on the device's own kernel whatever its number of rows. It is true for other
// nodes.
func (l Limits) AlwaysOwn(n *ir.Node) bool { return ownFrom(n, l) == 0 }

// KeptBytes returns the memory that the shaders of a node keep, in bytes.
func (l Limits) KeptBytes(n *ir.Node) int64 {
	if o, ok := l.Own[n.Op.Name]; ok && o.Kept != nil {
		if bytes := o.Kept(n, l); bytes > 0 {
			return bytes
		}
	}
	if k := registry[n.Op.Name]; k.Kept != nil && l.Keeps && l.own(n) == nil {
		return k.Kept(n)
	}
	return 0
}

// IsWeight reports whether a value is a weight, or a view of one.
func IsWeight(n *ir.Node) bool {
	if _, view := n.View(); view {
		return IsWeight(n.In[0])
	}
	return n.Op != nil && n.Op.Name == "param"
}

// own returns the shaders of the device's own kernel for a node, or nil.
func (l Limits) own(n *ir.Node) []Shader {
	if o, ok := l.Own[n.Op.Name]; ok {
		return o.Shaders(n, l)
	}
	return nil
}

// ownFew returns the shaders of Own.Few and their scratch memory, or nil.
func (l Limits) ownFew(n *ir.Node, a productForm) ([]Shader, int64) {
	o, ok := l.Own[n.Op.Name]
	if !ok || o.Few == nil || !byRows(n, a, l) || largest(n, a).m < 2 || smallest(n, a).m > maxFewOwn {
		return nil, 0
	}
	return o.Few(n, l)
}

// ownBytes returns the scratch memory of the device's own kernel for a node.
func (l Limits) ownBytes(n *ir.Node) int64 {
	if o, ok := l.Own[n.Op.Name]; ok && o.Shaders(n, l) != nil {
		return o.Scratch(n, l)
	}
	return 0
}

// Product describes a node that is a matrix product with an epilogue, for kernels of a device's own.
type Product struct {
	Act            string // the activation, or empty
	Bias, Residual int    // operand indices, or -1
	TransA, TransB bool
	form           productForm
}

// ProductSizes are the sizes of a product: Count results of M x N, each element a sum of K products. Strides are in
// elements. The stride of a batch axis is 0 where all results share a matrix; see Batch.
type ProductSizes struct {
	M, N, K, Count        int
	Batch, ABatch, BBatch []uint32 // sizes and strides of maxRank leading axes
	AM, AK, BN, BK        int
}

// ProductOf returns the product of a node of op matmul, fused_matmul or dequant_matmul.
func ProductOf(n *ir.Node) (Product, bool) {
	a, ok := productAttrs(n)
	if !ok {
		return Product{}, false
	}
	return Product{a.Act, a.Bias(), a.Residual(), a.TransA, a.TransB, a}, true
}

// Sizes returns the sizes of a call.
func (p Product) Sizes(c *Call) ProductSizes { return called(p.form, c).export() }

// Largest returns the sizes at the symbols' upper bounds.
func (p Product) Largest(n *ir.Node) ProductSizes { return largest(n, p.form).export() }

func (p product) export() ProductSizes {
	return ProductSizes{p.m, p.n, p.k, p.matrix, p.batch, p.aBatch, p.bBatch, p.aM, p.aK, p.bN, p.bK}
}

// Weights returns the binding of an operand that may be packed weights, in vectors of four.
func Weights(name string, n *ir.Node, operand int) Binding { return weights(name, n, operand) }

// BeginsAt reports whether a value begins at a multiple of that many bytes.
func BeginsAt(n *ir.Node, bytes int64) bool { return beginsAt(n, bytes) }
