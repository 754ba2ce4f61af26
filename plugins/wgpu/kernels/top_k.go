package kernels

import (
	_ "embed"
	"math/bits"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed top_k.wgsl
var topKWGSL string

// Two shaders: the first finds the indices, in time that grows with k; the second fetches the values.
var _ = register(Kernel{
	Op: "top_k", Takes: "(any)", // an index has 4 bytes, so that no two workgroups write the same word
	Shaders: func(n *ir.Node, _ Limits) []Shader {
		k := n.Attrs.(op.TopKAttrs).K
		index := Binding{Name: "index", Operand: Result(1), DType: n.Results[1].DType}
		x := n.In[0].Type
		last := x.Rank() - 1
		perGroup, lanes := rowsAndLanes(numel(n.Graph.Syms.Largest(x.Shape[last:])), false, 1)
		size := func(c *Call) int { return c.In[0].Shape[last] }
		rows := func(c *Call) int { return numel(c.Out.Shape) / k }
		choose := Shader{
			Name: "top_k", Body: part(topKWGSL, "select"), Fields: []string{"rows", "size", "k"},
			Consts:   topKConsts(x.DType, index.DType, perGroup, lanes),
			Bindings: []Binding{{Name: "x0", Operand: 0, DType: x.DType}, index},
			Params: func(c *Call) []uint32 {
				if rows(c) == 0 {
					return nil
				}
				return []uint32{uint32(rows(c)), uint32(size(c)), uint32(k)}
			},
			Groups: func(c *Call) int { return ceilDiv(rows(c), perGroup) },
			Loops: func(c *Call) int {
				return loop(k, loop(ceilDiv(size(c), lanes), 0)+loop(bits.Len(uint(lanes))-1, 0)) // lanes are halved down to 1
			},
		}
		values := coarsened(n, "top_k", part(topKWGSL, "values"), nil, []string{"size", "k"}, func(c *Call) []uint32 {
			return []uint32{uint32(size(c)), uint32(k)}
		})
		values.Bindings = slices.Insert(values.Bindings, 1, index)
		return []Shader{choose, values}
	},
})

// topKConsts is the constants for the keys of elements of a type. A float of 16 bits is moved to the upper half of a word, which keeps
// the order.
func topKConsts(d, index dtype.DType, rows, lanes int) map[string]any {
	c := map[string]any{"Rows": rows, "Lanes": lanes, "Float": d.IsFloat(), "Signed": d == dtype.I32, "Index": elementType(index), "Shift": 32 - 8*d.Size()}
	switch d {
	case dtype.F16:
		c["Infinity"] = 0x7c000000
	default: // f32 and bf16
		c["Infinity"] = 0x7f800000
	}
	return c
}
