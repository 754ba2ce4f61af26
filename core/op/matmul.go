package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// MatMulAttrs are the attributes of matmul.
type MatMulAttrs struct {
	TransA bool `attr:"trans_a"` // the last two axes of a are [K,M]
	TransB bool `attr:"trans_b"` // the last two axes of b are [N,K], as checkpoints store linear layers
}

// MatMulDef defines the batched matrix product.
var MatMulDef = ir.Define(ir.Def[MatMulAttrs]{
	Name: "matmul",
	Doc: "c[..,m,n] = sum over k of a[..,m,k] * b[..,k,n]; leading axes broadcast as in NumPy, rank at least 2. trans_a and " +
		"trans_b mean that the last two axes of an operand are stored in the other order. b may be f16 or bf16 while a is " +
		"f32. K = 0 gives zeros. f16 and bf16 are multiplied and summed in f32.",
	Operands: "a, b",
	Infer:    func(s ir.Sig[MatMulAttrs]) (ir.Type, error) { return inferMatMul(s.Attrs, s.In[0], s.In[1]) },
	Eval: func(a MatMulAttrs, in []*tensor.Array, out *tensor.Array) error {
		evalMatMul(a, in[0], in[1], out)
		return nil
	},
	FLOPs: func(a MatMulAttrs, in []ir.Type, out ir.Type) int64 { return 2 * numel(out) * depth(a, in[0]) },
	Tol: func(a MatMulAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		return summed(out.DType, depth(a, in[0]))
	},
	Cases: func() []ir.Case[MatMulAttrs] {
		c := func(a, b ir.Type, trans ...bool) ir.Case[MatMulAttrs] {
			var attrs MatMulAttrs
			if trans != nil {
				attrs = MatMulAttrs{trans[0], trans[1]}
			}
			return ir.Case[MatMulAttrs]{Attrs: attrs, In: []ir.Type{a, b}}
		}
		return []ir.Case[MatMulAttrs]{
			c(f32(1, 1), f32(1, 1)), c(f32(3, 5), f32(5, 7)), c(f32(0, 5), f32(5, 7)), c(f32(3, 0), f32(0, 7)),
			c(f32(3, 5), f32(5, 0)),
			c(f32(1, 64), f32(64, 33)), c(f32(65, 33), f32(33, 17)), c(f32(13, 300), f32(300, 9)),
			c(f32(3, 5), f32(7, 5), false, true), c(f32(5, 3), f32(5, 7), true, false),
			c(f32(5, 3), f32(7, 5), true, true),
			c(f32(33, 65), f32(19, 65), false, true), c(f32(2, 3, 4), f32(2, 4, 5)), c(f32(2, 3, 4), f32(4, 5)),
			c(f32(3, 4), f32(2, 4, 5)),
			c(f32(2, 1, 3, 4), f32(5, 4, 6)), c(f32(2, 3, 7, 8), f32(2, 3, 9, 8), false, true),
			c(f32(3, 17), bf16(5, 17), false, true),
			c(f32(3, 17), f16(17, 5)), c(f16(3, 5), f16(5, 7)), c(bf16(3, 5), bf16(5, 7)), c(f64(3, 5), f64(5, 7)),
			c(f16(65, 36), f16(20, 36), false, true), // four divides the last axes: products on matrices of halves
		}
	},
})

// MatMul adds the matrix product of a and b. Packed weights need TransB and do not allow TransA.
func MatMul(a, b *ir.Node, attrs MatMulAttrs) *ir.Node {
	if b.Type.DType.IsPacked() && attrs == (MatMulAttrs{TransB: true}) {
		return DequantMatMul(a, b, ActivationsF32)
	}
	return a.Graph.Add(MatMulDef, attrs, a, b)
}

// depth returns K.
func depth(a MatMulAttrs, x ir.Type) int64 {
	if a.TransA {
		return x.Shape[x.Rank()-2].Const
	}
	return x.Shape[x.Rank()-1].Const
}

func inferMatMul(a MatMulAttrs, x, y ir.Type) (ir.Type, error) {
	if err := weightDType(x, y); err != nil {
		return ir.Type{}, err
	}
	if x.Rank() < 2 || y.Rank() < 2 {
		return ir.Type{}, fmt.Errorf("operands are %v and %v; want rank 2 or more", x, y)
	}
	m, kx := x.Shape[x.Rank()-2], x.Shape[x.Rank()-1]
	if a.TransA {
		m, kx = kx, m
	}
	ky, n := y.Shape[y.Rank()-2], y.Shape[y.Rank()-1]
	if a.TransB {
		ky, n = n, ky
	}
	if kx != ky {
		return ir.Type{},
			ir.Differ(
				kx, ky, "operands %v and %v are multiplied over sizes %v and %v (trans_a=%v, trans_b=%v); want equal ones",
				x, y, kx, ky, a.TransA, a.TransB)
	}
	lead, err := broadcast(x.Shape[:x.Rank()-2], y.Shape[:y.Rank()-2])
	return ir.Type{DType: x.DType, Shape: append(lead, m, n)}, err
}

func evalMatMul(a MatMulAttrs, x, y, out *tensor.Array) {
	lead, r := out.Shape[:len(out.Shape)-2], len(x.Shape)
	m, n, k := out.Shape[len(lead)], out.Shape[len(lead)+1], x.Shape[r-1]
	sxm, sxk := k, 1
	if a.TransA {
		k = x.Shape[r-2]
		sxm, sxk = 1, m
	}
	syk, syn := n, 1
	if a.TransB {
		syk, syn = 1, k
	}
	at := [][]int{strides(x.Shape[:r-2], lead), strides(y.Shape[:len(y.Shape)-2], lead)}
	tensor.Walk(lead, at, func(b int, p []int) {
		xb, yb, ob := x.Floats[p[0]*m*k:], y.Floats[p[1]*k*n:], out.Floats[b*m*n:]
		for i := range m {
			for j := range n {
				var sum float64
				for l := range k {
					sum += xb[i*sxm+l*sxk] * yb[l*syk+j*syn]
				}
				ob[i*n+j] = sum
			}
		}
	})
}

// A transposed operand is transposed first.
var _ = ir.Plainer(MatMulDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, x, w := n.Attrs.(MatMulAttrs), in[0], in[1]
	if a == (MatMulAttrs{}) {
		return nil
	}
	if a.TransA {
		x = transposed(x)
	}
	if a.TransB {
		w = transposed(w)
	}
	return MatMul(x, w, MatMulAttrs{})
})

// transposed exchanges the last two axes of x.
func transposed(x *ir.Node) *ir.Node {
	r := x.Type.Rank()
	return Transpose(x, swapped(r-2, r-1, r)...)
}

// da = dy b^T and db = a^T dy, each in the order in which the operand is stored, summed over broadcast leading axes.
var _ = gradient(MatMulDef, func(n *ir.Node, a MatMulAttrs, dy *ir.Node) []*ir.Node {
	x, w := n.In[0], n.In[1]
	return []*ir.Node{matmulGradA(x, w, a, dy), matmulGradB(x, w, a, dy)}
})

// matmulGradA returns the gradient of a matmul's operand a, given the gradient of its result.
func matmulGradA(a, b *ir.Node, t MatMulAttrs, dy *ir.Node) *ir.Node {
	var da *ir.Node
	if t.TransA {
		da = MatMul(castTo(b, dy.Type.DType), dy, MatMulAttrs{TransA: t.TransB, TransB: true})
	} else {
		da = MatMul(dy, b, MatMulAttrs{TransB: !t.TransB})
	}
	return castTo(sumTo(da, a.Type.Shape), a.Type.DType)
}

// matmulGradB returns the gradient of a matmul's operand b, given the gradient of its result.
func matmulGradB(a, b *ir.Node, t MatMulAttrs, dy *ir.Node) *ir.Node {
	if b.Type.Rank() == 2 && !t.TransA { // one product over all leading axes
		a, dy = rows(a), rows(dy)
	}
	var db *ir.Node
	if t.TransB {
		db = MatMul(dy, a, MatMulAttrs{TransA: true, TransB: t.TransA})
	} else {
		db = MatMul(a, dy, MatMulAttrs{TransA: !t.TransA})
	}
	return castTo(sumTo(db, b.Type.Shape), b.Type.DType)
}

// rows returns x as a matrix of its last axis.
func rows(x *ir.Node) *ir.Node {
	if x.Type.Rank() == 2 {
		return x
	}
	return Reshape(x, ir.Shape{ir.Static(-1), x.Type.Shape[x.Type.Rank()-1]})
}
