package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

var (
	//go:embed matmul.wgsl
	matmulWGSL string
	//go:embed matmul_dot.wgsl
	matmulDotWGSL string
)

var (
	_ = register(Kernel{Op: "matmul", Can: floats, Shaders: func(n *ir.Node, _ Limits) []Shader {
		a := n.Attrs.(op.MatMulAttrs)
		return matmul(n, op.FusedMatMulAttrs{TransA: a.TransA, TransB: a.TransB})
	}})
	_ = register(Kernel{Op: "fused_matmul", Can: floats, Shaders: func(n *ir.Node, _ Limits) []Shader {
		return matmul(n, n.Attrs.(op.FusedMatMulAttrs))
	}})
)

func floats(n *ir.Node) bool {
	for _, x := range n.In {
		if !x.Type.DType.IsFloat() {
			return false
		}
	}
	return n.Type.DType.IsFloat()
}

// product are the sizes of a matmul as its kernels take them.
type product struct {
	m, n, k                int
	batch, aBatch, bBatch  []uint32 // sizes and strides of the leading axes, in elements
	aM, aK, bN, bK, matrix int
}

// sizes reads a product off its shapes. Where all matrices are multiplied by the same one, they are rows of one matrix.
func sizes(a op.FusedMatMulAttrs, x, w, out []int) product {
	r := len(out)
	p := product{m: out[r-2], n: out[r-1], k: x[len(x)-1]}
	if a.TransA {
		p.k = x[len(x)-2]
	}
	if numel(w) == p.k*p.n && !a.TransA {
		p.m, p.matrix = numel(out[:r-1]), 1
		p.batch, p.aBatch, p.bBatch = dims(nil), strides(nil), strides(nil)
	} else {
		lead := func(s []int, per int) []uint32 {
			st := strides(s[:len(s)-2])
			for i := range st {
				st[i] *= uint32(per)
			}
			return st
		}
		p.batch, p.matrix = dims(out[:r-2]), numel(out[:r-2])
		p.aBatch, p.bBatch = lead(x, p.m*p.k), lead(w, p.k*p.n)
	}
	p.aM, p.aK, p.bN, p.bK = p.k, 1, 1, p.n
	if a.TransA {
		p.aM, p.aK = 1, p.m
	}
	if a.TransB {
		p.bN, p.bK = p.k, 1
	}
	return p
}

// matmul chooses between the tiled kernel, which fetches vectors of four, and the one that takes anything.
func matmul(n *ir.Node, a op.FusedMatMulAttrs) []Shader {
	x, w := n.In[0].Type, n.In[1].Type
	axis := func(t ir.Type, fromEnd int) ir.Dim { return t.Shape[t.Rank()-fromEnd] }
	fours := func(d ir.Dim) bool { return d.IsStatic() && d.B%4 == 0 && d.B > 0 }
	// The axis along which a vector of each operand lies.
	ok := x.DType == dtype.F32 && n.Type.DType == dtype.F32 && fours(axis(x, 1)) && fours(axis(w, 1))
	for _, in := range n.In[:2] {
		ok = ok && aligned(in)
	}
	if !ok {
		return []Shader{matmulDot(n, a)}
	}
	return []Shader{matmulTiled(n, a)}
}

// aligned reports a value that begins at a multiple of four elements. A view may begin anywhere in its parent.
func aligned(n *ir.Node) bool {
	offset, view := n.View()
	if !view {
		return true
	}
	return offset%(4*int64(n.Type.DType.Size())) == 0 && aligned(n.In[0])
}

func matmulDot(n *ir.Node, a op.FusedMatMulAttrs) Shader {
	return mapped(n, n.Op.Name, matmulDotWGSL, map[string]any{"Bias": a.Bias(), "Residual": a.Residual(), "Act": a.Act},
		[]string{"m_size", "n_size", "k_size", "a_m", "a_k", "b_n", "b_k", "batch:8", "a_batch:8", "b_batch:8"}, func(c *Call) []uint32 {
			p := sizes(a, c.In[0].Shape, c.In[1].Shape, c.Out.Shape)
			return concat([]uint32{uint32(p.m), uint32(p.n), uint32(p.k), uint32(p.aM), uint32(p.aK), uint32(p.bN), uint32(p.bK)}, p.batch, p.aBatch, p.bBatch)
		})
}

// tiles are what the tiled kernel is specialised with, but for its operands: t x t sums per invocation.
func tiles(t int) map[string]any {
	tile := 16 * t
	stride := tile/4 + 1
	return map[string]any{"TM": t, "MV": t / 4, "NV": t / 4, "TileM": tile, "TileN": tile, "StrideA": stride, "StrideB": stride,
		"SizeA": 16 * stride, "SizeB": 16 * stride, "TransA": false, "TransB": false, "Bias": false, "Residual": false, "Act": "", "Conv": false}
}

// matmulTiled takes 128 x 128 tiles where the result has enough of them, and 64 x 64 otherwise.
func matmulTiled(n *ir.Node, a op.FusedMatMulAttrs) Shader {
	columns := n.Type.Shape[n.Type.Rank()-1]
	rows := int64(1)
	for _, d := range n.Type.Shape[:n.Type.Rank()-1] {
		rows *= max(d.B, 1)
	}
	t := 4
	if rows >= 1024 && columns.B >= 512 {
		t = 8
	}
	vec := 0
	if columns.IsStatic() && columns.B%4 == 0 {
		vec = 4
	}
	tile := 16 * t
	consts := tiles(t)
	consts["TransA"], consts["TransB"], consts["Bias"], consts["Residual"], consts["Act"], consts["Vec"] = a.TransA, a.TransB, a.HasBias, a.HasResidual, a.Act, vec
	s := Shader{
		Name: n.Op.Name, Body: matmulWGSL, Consts: consts,
		Fields:   []string{"groups", "m_size", "n_size", "k_size", "batch:8", "a_batch:8", "b_batch:8"},
		Bindings: []Binding{{Name: "a", Operand: 0, Vec: 4, DType: dtype.F32}, {Name: "b", Operand: 1, Vec: 4, DType: n.In[1].Type.DType}},
	}
	if a.HasBias {
		s.Bindings = append(s.Bindings, Binding{Name: "bias", Operand: a.Bias(), Vec: vec, DType: dtype.F32})
	}
	if a.HasResidual {
		s.Bindings = append(s.Bindings, Binding{Name: "residual", Operand: a.Residual(), Vec: vec, DType: dtype.F32})
	}
	s.Bindings = append(s.Bindings, Binding{Name: "y", Operand: Out, Vec: vec, DType: dtype.F32})
	s.Groups = func(c *Call) int {
		p := sizes(a, c.In[0].Shape, c.In[1].Shape, c.Out.Shape)
		return ceilDiv(p.m, tile) * ceilDiv(p.n, tile) * p.matrix
	}
	s.Params = func(c *Call) []uint32 {
		if numel(c.Out.Shape) == 0 {
			return nil
		}
		p := sizes(a, c.In[0].Shape, c.In[1].Shape, c.Out.Shape)
		return concat([]uint32{uint32(s.Groups(c)), uint32(p.m), uint32(p.n), uint32(p.k)}, p.batch, p.aBatch, p.bBatch)
	}
	return s
}
