package kernels

import (
	_ "embed"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

//go:embed matmul_rows.wgsl
var matmulRowsWGSL string

// maxFewRows is the largest number of rows for matmulRows, which computes eight rows at a time. With so few rows, tiles
// would be mostly empty, and few workgroups would read all of the weight.
const maxFewRows = 96

// maxFewOwn is that number if the device has a kernel of its own. matmulRows reads weights once for eight rows.
const maxFewOwn = 8

// RowBounds returns the numbers of rows of products, and queries of attention, between which kernels of a device add in
// another order. Those for up to maxFewOwn rows depend on their number.
func RowBounds(l Limits) []int {
	bounds := append([]int{maxFewRows}, l.OwnRowBounds...)
	for n := range maxFewOwn {
		bounds = append(bounds, n+1)
	}
	slices.Sort(bounds)
	return slices.Compact(bounds)
}

// mostFewRows returns the largest number of rows with which a product that byRows accepts runs on matmulRows.
func mostFewRows(l Limits, n *ir.Node) int {
	if l.own(n) != nil {
		return maxFewOwn
	}
	return maxFewRows
}

// matmulRows multiplies x [M,K] with few rows by a weight [N,K].
func matmulRows(n *ir.Node, a productForm) Shader {
	lanes := 32
	if k := n.In[0].Type.Shape[n.In[0].Type.Rank()-1].Const; k >= 1024 {
		lanes = 128 // more invocations for long sums
	}
	columns := 256 / lanes
	s := Shader{
		Name: n.Op.Name, Body: matmulRowsWGSL,
		Consts: map[string]any{"Lanes": lanes, "Columns": columns, "Bias": a.HasBias, "Residual": a.HasResidual,
			"Act": a.Act},
		Fields:   []string{"groups", "m_size", "n_size", "k_size"},
		Bindings: []Binding{{Name: "a", Operand: 0, Vec: 4, DType: dtype.F32}, weights("b", n, 1)},
	}
	s.Bindings = append(s.Bindings, epilogue(a.Bias(), a.Residual(), 0)...)
	s.Groups = func(c *Call) int {
		p := called(a, c)
		return ceilDiv(p.m, 8) * ceilDiv(p.n, columns)
	}
	s.Loops = func(c *Call) int {
		k := called(a, c).k
		return loop(ceilDiv(k/4, lanes), 0) + loop(lanes/8, 0)
	}
	s.Params = func(c *Call) []uint32 {
		if numel(c.Out.Shape) == 0 {
			return nil
		}
		p := called(a, c)
		return []uint32{uint32(s.Groups(c)), uint32(p.m), uint32(p.n), uint32(p.k)}
	}
	return s
}
