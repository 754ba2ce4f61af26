package backend

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

var (
	_ = register(
		kernel{op: "matmul", takes: "(f32, f32|f16|bf16)", also: "(f64...)", scratch: matmulScratch(plainAttrs),
			prepare: multiplies(plainAttrs), joins: joinsOf(plainAttrs)})
	_ = register(
		kernel{op: "fused_matmul", takes: takesF32 + " if act = " + acts(), scratch: matmulScratch(fusedAttrs),
			prepare: multiplies(fusedAttrs), joins: joinsOf(fusedAttrs), takesBlocked: matmulTakesBlocked,
			makesBlocked: matmulMakesBlocked})
)

func plainAttrs(n *ir.Node) op.FusedMatMulAttrs {
	a := n.Attrs.(op.MatMulAttrs)
	return op.FusedMatMulAttrs{TransA: a.TransA, TransB: a.TransB}
}

// matmulScratch returns the scratch memory of a product at the largest sizes. It covers both ways to compute one: as a
// single matrix product and as a batch.
func matmulScratch(attrs func(n *ir.Node) op.FusedMatMulAttrs) func(
	*pool.Pool, *ir.Node, product.Precision) pool.Size {
	return func(p *pool.Pool, n *ir.Node, precision product.Precision) pool.Size {
		a, syms := attrs(n), n.Graph.Syms
		if n.Type.DType == dtype.F64 {
			return pool.Size{}
		}
		act, _ := activation(a.Act) // exists: the rule lists it
		x, out := syms.Largest(n.In[0].Type.Shape), syms.Largest(n.Type.Shape)
		g := product.GemmArgs{N: out[len(out)-1], K: x[len(x)-1], B: weights(tensor.Tensor{DType: n.In[1].Type.DType}),
			TransA: a.TransA, TransB: a.TransB, Act: act}
		if a.TransA {
			g.K = x[len(x)-2]
		}
		// The need stops growing long before 1<<24 rows or products.
		most := int(min(syms.MaxElems(n.Type), 1<<24))
		var r pool.Size
		for g.Precision = product.Float32; g.Precision <= precision; g.Precision++ { // see fewRows
			g.M, g.Batch = most, 1
			r = r.With(g.ScratchSize(p))
			if keeps(p, n, &g) {
				r.Packed += g.KeptSize(p)
			}
			g.M, g.Batch = out[len(out)-2], most
			r = r.With(g.ScratchSize(p))
		}
		return r
	}
}

// keeps reports whether the weights of the product n are packed by its first run and kept. g has the sizes and types of
// a run.
func keeps(p *pool.Pool, n *ir.Node, g *product.GemmArgs) bool {
	least, most := 1, 1
	for _, d := range n.Type.Shape[:n.Type.Rank()-1] {
		lo, hi := n.Graph.Syms.Bounds(d)
		least, most = int(min(int64(least)*lo, 1<<24)), int(min(int64(most)*hi, 1<<24))
	}
	return param(n.In[1]) != nil && g.Keeps(p, least, most)
}

func fusedAttrs(n *ir.Node) op.FusedMatMulAttrs { return n.Attrs.(op.FusedMatMulAttrs) }

// multiplies returns the prepare function of a matrix product. Weights that are parameters are packed once, by the
// first run.
func multiplies(attrs func(n *ir.Node) op.FusedMatMulAttrs) func(n *ir.Node) func(*call) error {
	return func(n *ir.Node) func(*call) error {
		if n.Type.DType == dtype.F64 {
			return matmulF64
		}
		a := attrs(n)
		act, known := activation(a.Act)
		if !known {
			return func(c *call) error { return unknownAct(c.node, a.Act) }
		}
		// by precision, which depends on the number of rows and so may differ between runs
		packed := map[product.Precision]*product.PackedWeights{}
		return func(c *call) error {
			return matmul(c, a, act, func(g product.GemmArgs) *product.PackedWeights {
				w, packedBefore := packed[g.Precision]
				if !packedBefore && g.ReadsPacked(c.pool) {
					if keeps(c.pool, n, &g) {
						w = product.PackWeights(c.pool, &g)
					}
					packed[g.Precision] = w
				}
				return w
			})
		}
	}
}

// takesF32 is the rule of kernels that compute in f32. The weights may be f16 or bf16; the kernels widen them.
const takesF32 = "(f32, f32|f16|bf16, f32...)"

// acts lists the activations that the matmul kernel can apply, as alternatives in a rule.
func acts() string {
	list := []string{`""`}
	for _, u := range elementwise.Unaries() {
		if slices.Contains(op.Activations(), u.String()) {
			list = append(list, strconv.Quote(u.String()))
		}
	}
	slices.Sort(list)
	return strings.Join(list, "|")
}

// activation returns the function that an act attribute names; Identity if act is empty.
func activation(act string) (elementwise.UnaryOp, bool) {
	def, attrs, err := op.ParseActivation(act)
	if def == nil {
		return elementwise.Identity, err == nil
	}
	u, ok := elementwise.ParseUnary(def.Name)
	if ok {
		u = u.With(parameters(def, attrs)...)
	}
	return u, ok
}

// unknownAct is the error for an activation that is not in acts.
func unknownAct(n *ir.Node, act string) error {
	return diag.New(device.ErrUnsupported, n.Label(), "%s: the cpu backend has no function %q to apply to a product",
		n.OpName(), act)
}

func f32(t tensor.Tensor) []float32 { return tensor.View[float32](t.Data) }

// optional returns operand k, or nil if the node does not have it.
func optional(c *call, k int) []float32 {
	if !c.has(k) {
		return nil
	}
	return f32(c.in[k])
}

func weights(t tensor.Tensor) stored.Values {
	switch t.DType {
	case dtype.F16:
		return stored.F16(tensor.View[uint16](t.Data))
	case dtype.BF16:
		return stored.BF16(tensor.View[uint16](t.Data))
	case dtype.I8:
		return stored.I8(t.Data)
	case dtype.U8:
		return stored.U8(t.Data)
	}
	if t.DType.IsPacked() {
		return stored.Packed(t.DType, t.Data)
	}
	return stored.F32(f32(t))
}

// single reports whether a product is one matrix [rows, k] times one matrix [k, n]: the leading axes of x count as
// rows.
func single(c *call, a op.FusedMatMulAttrs) (rows, k int, ok bool) {
	x, w, n := c.in[0].Shape, c.in[1].Shape, c.out.Shape[len(c.out.Shape)-1]
	k = x[len(x)-1]
	if a.TransA || tensor.Numel(w) != k*n || n == 0 {
		return 0, 0, false
	}
	return tensor.Numel(c.out.Shape) / n, k, true
}

// rounds reports whether a call is a single product (see single) computed in bfloat16.
func rounds(c *call) (rows, k int, ok bool) {
	rows, k, ok = single(c, fusedAttrs(c.node))
	return rows, k, ok && c.forRows(productRows(c)) == product.BFloat16
}

// productRows returns the number of rows that decides a product's precision; see fewRows.
func productRows(c *call) int { return tensor.Numel(c.out.Shape[:len(c.out.Shape)-1]) }

func matmulTakesBlocked(c *call) bool {
	rows, k, ok := rounds(c)
	return ok && fitsBlocked(rows, k)
}

func matmulMakesBlocked(c *call) bool {
	rows, _, ok := rounds(c)
	a := fusedAttrs(c.node)
	act, known := activation(a.Act)
	return ok && known && !c.has(op.FusedMatMulResidual) && (act == elementwise.Identity || act == elementwise.Gelu) &&
		fitsBlocked(rows, c.out.Shape[len(c.out.Shape)-1])
}

// matmul runs a product. act is the function that a.Act names. pack returns the packed weights of a single product, or
// nil.
func matmul(c *call, a op.FusedMatMulAttrs, act elementwise.UnaryOp,
	pack func(g product.GemmArgs) *product.PackedWeights) error {
	x, w, out := c.in[0], c.in[1], c.out
	g, ok := gemmArgs(c, a, act)
	if ok {
		g.Packed = pack(g)
		product.Gemm(c.pool, &g)
		return nil
	}
	if g.N == 0 {
		return nil
	}
	batches(x.Shape, w.Shape, out.Shape, func(n, xi, wi, oi, xs, ws int) {
		b := g
		b.Batch, b.StrideA, b.StrideB, b.StrideC, b.StrideR = n, xs*g.M*g.K, ws*g.K*g.N, g.M*g.N, g.M*g.N
		b.A, b.C = g.A[xi*g.M*g.K:], g.C[oi*g.M*g.N:]
		b.B = weights(tensor.Tensor{DType: w.DType, Data: w.Data[wi*g.K*g.N*w.DType.Size():]})
		if g.Residual != nil {
			b.Residual = g.Residual[oi*g.M*g.N:]
		}
		product.Gemm(c.pool, &b)
	})
	return nil
}

// gemmArgs returns the product of a call. one is false if the call is a batch of products, whose first this is.
func gemmArgs(c *call, a op.FusedMatMulAttrs, act elementwise.UnaryOp) (g product.GemmArgs, one bool) {
	x, w, out := c.in[0], c.in[1], c.out
	r := len(out.Shape)
	g = product.GemmArgs{
		M: out.Shape[r-2], N: out.Shape[r-1], K: x.Shape[len(x.Shape)-1],
		A: f32(x), TransA: a.TransA, B: weights(w), TransB: a.TransB, C: f32(out),
		Act: act, Precision: c.forRows(productRows(c)),
	}
	if c.node.Is(op.FusedMatMulDef) {
		g.Bias, g.Residual = optional(c, op.FusedMatMulBias), optional(c, op.FusedMatMulResidual)
	}
	if a.TransA {
		g.K = x.Shape[len(x.Shape)-2]
	}
	g.LDA, g.LDB = x.Shape[len(x.Shape)-1], w.Shape[len(w.Shape)-1]
	g.LDC, g.LDR = g.N, g.N
	rows, _, one := single(c, a)
	if one {
		g.M = rows
		if c.inBlocked {
			g.A, g.ABlocked = nil, g.A
		}
		if c.outBlocked {
			g.C, g.CBlocked = nil, g.C
		}
	}
	return g, one
}

// joinsOf returns the joins function (see kernel) of a matrix product.
func joinsOf(attrs func(n *ir.Node) op.FusedMatMulAttrs) func(n *ir.Node) (jointStep, bool) {
	return func(n *ir.Node) (jointStep, bool) {
		a := attrs(n)
		act, ok := activation(a.Act)
		return jointStep{args: func(c *call) (product.GemmArgs, bool) { return gemmArgs(c, a, act) }}, ok
	}
}

// batches walks the leading axes of a broadcast product. It calls f for groups of n products, which begin at matrix xi
// of x, wi of w and oi of out. From one product to the next, x advances by xs matrices and w by ws: 0 if the operand is
// broadcast.
func batches(x, w, out []int, f func(n, xi, wi, oi, xs, ws int)) {
	lead := out[:len(out)-2]
	xs, ws := leadStrides(x, len(lead)), leadStrides(w, len(lead))
	last := len(lead) - 1
	if last < 0 {
		f(1, 0, 0, 0, 0, 0)
		return
	}
	var index [ir.MaxRank]int
	for o := 0; o < tensor.Numel(lead); o += lead[last] {
		xi, wi := 0, 0
		for i, v := range index[:last] {
			xi, wi = xi+v*xs[i], wi+v*ws[i]
		}
		f(lead[last], xi, wi, o, xs[last], ws[last])
		for i := last - 1; i >= 0; i-- {
			if index[i]++; index[i] < lead[i] {
				break
			}
			index[i] = 0
		}
	}
}

// leadStrides returns the strides, in matrices, of an operand's leading axes, right-aligned to rank axes; 0 for a
// broadcast axis.
func leadStrides(shape []int, rank int) (s [ir.MaxRank]int) {
	n := 1
	for i := len(shape) - 3; i >= 0; i-- {
		if shape[i] != 1 {
			s[rank-(len(shape)-2)+i] = n
		}
		n *= shape[i]
	}
	return s
}
