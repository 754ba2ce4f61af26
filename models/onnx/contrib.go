package onnx

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file has ops of com.microsoft that ONNX Runtime's optimizers and exporters write: activations, products and
// norms. contrib_attention.go and contrib_quantized.go have the others. Their definitions are in ONNX Runtime's
// docs/ContribOperators.md.

const microsoft = "com.microsoft"

func contrib(name, note string, convert func(n *node) []*value) struct{} {
	return registerIn(microsoft, name, conversion{since: 1, note: note, convert: convert})
}

// The ranks of inputs.
var (
	_ = ranks("1+ 1+", "com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul")
	_ = ranks("2 2 0-2", "com.microsoft.FusedGemm")
	_ = ranks("3-5 3-5 1", "com.microsoft.FusedConv")
	_ = ranks("2 2 2 2 2 1 1 2 2", "com.microsoft.EmbedLayerNormalization")
	_ = ranks("1+ 2-3 1-3", "com.microsoft.MatMulNBits")
	_ = ranks("1+ 1+ 1 1 1", "com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization")
)

var (
	_ = contrib("Gelu", "", unary(op.Gelu))
	_ = contrib("FastGelu", "", func(n *node) []*value { return one(op.GeluTanh(n.biased(n.x(0), 1))) })
	_ = contrib("BiasGelu", "", func(n *node) []*value { return one(op.Gelu(n.biased(n.x(0), 1))) })
	_ = contrib("QuickGelu", "", func(n *node) []*value {
		x := n.x(0)
		return one(op.Mul(x, op.Sigmoid(op.Mul(x, number(n.float("alpha", 1.702), x)))))
	})
	_ = contrib("BiasAdd", "", func(n *node) []*value { return one(op.Add(n.biased(n.x(0), 1), n.x(2))) })
	_ = contrib("FusedMatMul", "", func(n *node) []*value { return one(n.fusedMatMul(n.x(0), n.x(1))) })
	_ = contrib("TransposeMatMul", "", func(n *node) []*value { return one(n.fusedMatMul(n.x(0), n.x(1))) })
	_ = contrib("FusedGemm", "", func(n *node) []*value {
		return one(n.activated(find("", "Gemm", 13).convert(n)[0].node))
	})
	_ = contrib("FusedConv", "", func(n *node) []*value {
		y := n.conv(n.x(0), n.x(1), n.maybe(2))
		if n.has(3) {
			y = op.Add(y, n.x(3))
		}
		return one(n.activated(y))
	})
	_ = contrib("SkipLayerNormalization", "", func(n *node) []*value { return n.skipNorm(3, 4, false) })
	_ = contrib("SkipSimplifiedLayerNormalization", "", func(n *node) []*value { return n.skipNorm(-1, 3, true) })
	_ = contrib("SimplifiedLayerNormalization", "", simplifiedNorm)
	_ = on("SimplifiedLayerNormalization", 1, simplifiedNorm) // which has no domain in most files
	_ = contrib("LayerNormalization", "", layerNorm)
	_ = contrib("EmbedLayerNormalization", "", embedNorm)
	_ = contrib("MatMulNBits", "2, 4 and 8 bits; with g_idx, zero points count, which ONNX Runtime ignores on CPUs",
		matMulBits)
)

// biased returns x plus input i, if the node has it.
func (n *node) biased(x *ir.Node, i int) *ir.Node {
	if !n.has(i) {
		return x
	}
	return op.Add(x, n.x(i))
}

// fusedMatMul is a product of transposed tensors. transBatch moves the first axis before the last one.
func (n *node) fusedMatMul(a, b *ir.Node) *ir.Node {
	moved := func(x *ir.Node, name string) *ir.Node {
		rank := x.Type.Rank()
		if n.int(name, 0) == 0 || rank < 3 {
			return x
		}
		var perm []int
		for i := 1; i < rank-1; i++ {
			perm = append(perm, i)
		}
		return op.Transpose(x, append(perm, 0, rank-1)...)
	}
	a, b = moved(a, "transBatchA"), moved(b, "transBatchB")
	turned := func(x *ir.Node, name string) bool { return n.int(name, 0) != 0 && x.Type.Rank() > 1 }
	var y *ir.Node
	if a.Type.Rank() > 1 && b.Type.Rank() > 1 {
		y = op.MatMul(a, b, op.MatMulAttrs{TransA: turned(a, "transA"), TransB: turned(b, "transB")})
	} else {
		y = n.matmul(a, b)
	}
	if alpha := n.float("alpha", 1); alpha != 1 {
		y = op.Mul(y, number(alpha, y))
	}
	return y
}

// activated applies the activation of a fused node.
func (n *node) activated(x *ir.Node) *ir.Node {
	params := n.attr("activation_params").GetFloats()
	param := func(i int, name string, otherwise float64) float64 {
		if i < len(params) {
			return float64(params[i])
		}
		return n.float(name, otherwise)
	}
	switch a := n.str("activation", ""); a {
	case "":
		return x
	case "Relu":
		return op.Relu(x)
	case "Sigmoid":
		return op.Sigmoid(x)
	case "Tanh":
		return op.Tanh(x)
	case "Softplus":
		return op.Softplus(x, 1, 1e9)
	case "LeakyRelu":
		return op.LeakyRelu(x, param(0, "activation_alpha", 0.01))
	case "HardSigmoid":
		return op.Hardsigmoid(x, param(0, "activation_alpha", 0.2), param(1, "activation_beta", 0.5))
	case "Clip":
		return op.Clamp(x, param(0, "activation_alpha", math.Inf(-1)), param(1, "activation_beta", math.Inf(1)))
	default:
		n.fail("activation is %q; allowed are Relu, Sigmoid, Tanh, Softplus, LeakyRelu, HardSigmoid and Clip", a)
		return nil
	}
}

// skipNorm converts a norm of the sum of two tensors and a bias. beta is the input with the shift, or -1. The fourth
// result is the sum.
func (n *node) skipNorm(beta, bias int, simplified bool) []*value {
	x := op.Add(n.x(0), n.x(1))
	x = n.biased(x, bias)
	gain := n.x(2)
	zero := op.Const(n.b.g, 0, gain.Type)
	eps := n.float32("epsilon", 1e-12)
	if simplified {
		return many(op.RmsNorm(x, gain, zero, eps), nil, nil, x)
	}
	shift := zero
	if n.has(beta) {
		shift = n.x(beta)
	}
	return many(op.LayerNorm(x, gain, shift, eps), nil, nil, x)
}

// simplifiedNorm is an RMS norm over the last axis.
func simplifiedNorm(n *node) []*value {
	x, gain := n.x(0), n.x(1)
	if n.axis(n.int("axis", -1), x.Type.Rank()) != x.Type.Rank()-1 {
		n.fail("axis is %d; allowed is the last one", n.int("axis", -1))
	}
	return many(op.RmsNorm(x, gain, op.Const(n.b.g, 0, gain.Type), n.float32("epsilon", 1e-5)))
}

// embedNorm is EmbedLayerNormalization: the norm of the sum of the embeddings of words, positions and segments. The
// second result is the number of words of each row that the mask keeps.
func embedNorm(n *node) []*value {
	return n.embedded(n.x(2), n.x(3), n.maybe(4), n.x(5), n.x(6), 7, 8)
}

// embedded is embedNorm with the given tables. mask and positions are inputs, -1 for none.
func (n *node) embedded(words, places, segments, gain, shift *ir.Node, mask, positions int) []*value {
	ids := n.x(0)
	s := ids.Type.Shape
	sum := op.Gather(words, ids, 0)
	if positions >= 0 && n.has(positions) {
		sum = op.Add(sum, op.Gather(places, n.x(positions), 0))
	} else {
		sum = op.Add(sum, op.Gather(places, op.Iota(n.b.g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{s[1]}}), 0))
	}
	if n.has(1) && segments != nil {
		sum = op.Add(sum, op.Gather(segments, n.x(1), 0))
	}
	count := op.Const(n.b.g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{s[0]}})
	if n.has(mask) {
		count = op.ReduceSum(cast(n.x(mask), dtype.I32), false, 1)
	}
	return many(op.LayerNorm(sum, gain, shift, n.float32("epsilon", 1e-12)), count, sum)
}

// matMulBits is MatMulNBits: a product with weights [N,K] of 2, 4 or 8 bits, in groups with a scale and a zero point
// each. The groups are blocks, or those of g_idx.
func matMulBits(n *node) []*value {
	x, packed := n.x(0), n.x(1)
	k, rows, bits, block := n.int("K", 0), n.int("N", 0), n.int("bits", 4), n.int("block_size", 32)
	if bits != 2 && bits != 4 && bits != 8 || k < 1 || rows < 1 || block < 1 {
		n.fail("has %d bits, K %d, N %d and blocks of %d; allowed are 2, 4 and 8 bits", bits, k, rows, block)
	}
	blocks := (k + block - 1) / block
	groups := n.groupsOf(k, block, blocks)
	if groups == nil {
		if y := n.packedProduct(x, bitWeights{rows, k, bits, block}); y != nil {
			return one(n.biased(y, 5))
		}
	}
	// unpacked returns numbers of a row of bytes, the first of a byte in its lower bits.
	unpacked := func(v *ir.Node, count int) *ir.Node {
		all := n.product(v.Type.Shape)
		if !all.IsStatic() || all.Const%int64(rows) != 0 {
			n.fail("weights are %v; want a multiple of %d bytes", v.Type, rows)
		}
		v = op.Reshape(v, ir.ShapeOf(int64(rows), all.Const/int64(rows)))
		return op.Narrow(unpackedBits(v, bits), 1, 0, count)
	}
	d := x.Type.DType
	wide := dtype.F32
	w := cast(unpacked(packed, blocks*block), wide)
	// each returns a number for each block as one for each weight.
	each := func(v *ir.Node) *ir.Node {
		return op.Reshape(cast(v, wide), ir.ShapeOf(int64(rows), int64(blocks), 1))
	}
	if groups != nil {
		w = op.Narrow(w, 1, 0, k)
		each = func(v *ir.Node) *ir.Node {
			return op.Gather(op.Reshape(cast(v, wide), ir.ShapeOf(int64(rows), int64(blocks))), groups, 1)
		}
	} else {
		w = op.Reshape(w, ir.ShapeOf(int64(rows), int64(blocks), int64(block)))
	}
	switch {
	case !n.has(3):
		w = op.Sub(w, number(float64(int(1)<<(bits-1)), w))
	case n.typeOf(3).DType == dtype.U8:
		w = op.Sub(w, each(unpacked(n.x(3), blocks)))
	default:
		w = op.Sub(w, each(n.x(3)))
	}
	w = op.Mul(w, each(n.x(2)))
	if groups == nil {
		w = op.Narrow(op.Reshape(w, ir.ShapeOf(int64(rows), int64(blocks*block))), 1, 0, k)
	}
	y := op.MatMul(x, cast(w, d), op.MatMulAttrs{TransB: true})
	return one(n.biased(y, 5))
}

// groupsOf returns the group of each of k weights of a row, g_idx, i64[k], or nil if these are the blocks in order.
func (n *node) groupsOf(k, block, blocks int) *ir.Node {
	if !n.has(4) {
		return nil
	}
	if size := n.in[4].numel(); size < int64(k) {
		n.fail("g_idx is %v; want the group of each of %d weights", n.typeOf(4), k)
	}
	if n.in[4].isKnown() {
		inOrder := true
		for i, g := range n.ints(4)[:k] {
			if g < 0 || g >= blocks {
				n.fail("g_idx has group %d; allowed are 0 to %d", g, blocks-1)
			}
			inOrder = inOrder && g == i/block
		}
		if inOrder {
			return nil
		}
	}
	return op.Narrow(cast(n.flat(n.x(4)), dtype.I64), 0, 0, k)
}
