package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed matmul_vector.wgsl
var matmulVectorWGSL string

// matmulVector is for x [1,K] and a weight [N,K].
func matmulVector(n *ir.Node, a op.FusedMatMulAttrs) Shader {
	size := largest(n, a)
	lanes, each := 32, 2
	switch {
	case size.k >= 4096:
		lanes = 128
	case size.k >= 1024:
		lanes = 64
	}
	if size.n < 2048 { // more workgroups rather than fewer reads of x
		each = 1
	}
	columns := 256 / lanes * each
	s := Shader{
		Name: n.Op.Name, Body: matmulVectorWGSL,
		Consts:   map[string]any{"Lanes": lanes, "Each": each, "Columns": columns, "Bias": a.HasBias, "Residual": a.HasResidual, "Act": a.Act},
		Fields:   []string{"groups", "n_size", "k_size"},
		Bindings: []Binding{{Name: "a", Operand: 0, Vec: 4, DType: dtype.F32}, {Name: "b", Operand: 1, Vec: 4, DType: n.In[1].Type.DType}},
	}
	s.Bindings = append(s.Bindings, epilogue(a.Bias(), a.Residual(), 0)...)
	s.Groups = func(c *Call) int { return ceilDiv(called(a, c).n, columns) }
	s.Loops = func(c *Call) int { return loop(ceilDiv(called(a, c).k/4, lanes), 0) + 1 + loop(lanes/8, 0) }
	s.Params = func(c *Call) []uint32 {
		p := called(a, c)
		if numel(c.Out.Shape) == 0 {
			return nil
		}
		return []uint32{uint32(s.Groups(c)), uint32(p.n), uint32(p.k)}
	}
	return s
}
