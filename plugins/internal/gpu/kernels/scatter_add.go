package kernels

import (
	"math/bits"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

var _ = register(
	Kernel{Op: "scatter_add", Takes: "(f32|f16|bf16|i32|u32, i32|i64|u32)", Shaders: scatterAdd,
		Scratch: func(n *ir.Node, l Limits) int64 {
			s := scatterSort(n, l)
			return s.scratch(max(s.most, 1))
		}})

// scatterAdd sorts the indices, so that each row of the result finds its addends in the operand's order. The sums are
// then the same in every run, unlike with atomic additions.
func scatterAdd(n *ir.Node, l Limits) []Shader {
	inner := func(shape []int) int { return numel(shape[1:]) }
	width, four := inner(n.Graph.Syms.Largest(n.Type.Shape)), commonDivisor(n.Type.Shape[1:])%4 == 0 && aligned(n.In[0])
	d := n.Type.DType
	if d.Size() < 4 && !four { // neighbouring elements share words
		s := mapped(n, "scatter_add", part(movementWGSL, "scatter_elements"), map[string]any{"Type": elementType(d)},
			[]string{"inner", "rows", "count"}, func(c *Call) []uint32 {
				return []uint32{uint32(inner(c.Out.Shape)), uint32(c.Out.Shape[0]), uint32(c.In[1].Shape[0])}
			}).withStatus()
		return []Shader{s.withLoops(n, func(c *Call) int { return loop(c.In[1].Shape[0], 0) })}
	}
	if !d.IsFloat() {
		d = dtype.U32 // sums of i32 have the same bits
	}
	sorted := scatterSort(n, l)
	consts := map[string]any{"Type": elementType(d), "Four": four, "Read": "x0", "Begins": sorted.begins() == 1}
	x, y, unit := Binding{Name: "x0", Operand: 0, DType: d}, Binding{Name: "y", Operand: Out, DType: d}, 1
	if four {
		unit, x.Vec, y.Vec = 4, 4, 4
		consts["Type"], consts["Read"] = "vec4<"+elementType(d)+">", "x04"
	}
	const group = 256
	units := max(1, width/unit)
	lanes := min(group, ceilPower2(units, 1))
	rows, each := group/lanes, min(scatterEach, ceilDiv(units, lanes))
	consts["Lanes"], consts["Rows"], consts["Each"] = lanes, rows, each
	blocks := func(c *Call) int { return ceilDiv(inner(c.Out.Shape)/unit, lanes*each) }
	sums := Shader{
		Name: "scatter_add", Body: part(movementWGSL, "scatter_sums"), Consts: consts,
		Fields:   []string{"inner", "rows", "count", "blocks"},
		Bindings: []Binding{x, y, {Name: "pairs", Operand: Scratch, DType: dtype.U32}},
		Params: func(c *Call) []uint32 {
			if numel(c.Out.Shape) == 0 {
				return nil
			}
			return []uint32{uint32(inner(c.Out.Shape) / unit), uint32(c.Out.Shape[0]), uint32(c.In[1].Shape[0]),
				uint32(blocks(c))}
		},
		Groups: func(c *Call) int { return ceilDiv(c.Out.Shape[0], rows) * blocks(c) },
		Loops: func(c *Call) int {
			count := c.In[1].Shape[0]
			return loop(bits.Len(uint(count)), 0) + loop(count, 0)
		},
	}
	return append(sorted.shaders(), sums)
}

const scatterEach = 4 // most units per invocation

// scatterSort sorts the indices. It compares only as many bits as the number of rows needs.
func scatterSort(n *ir.Node, l Limits) sorting {
	most, rows := n.Graph.Syms.Largest(n.In[1].Type.Shape)[0], n.Graph.Syms.Largest(n.Type.Shape)[0]
	s := sorting{name: n.Op.Name, most: most, tile: sortedTile(most, l)}
	s.lines = func(c *Call) (lines, size, inner int) { return 1, c.In[1].Shape[0], 1 }
	s.keys = []Binding{{Name: "x1", Operand: 1, DType: n.In[1].Type.DType},
		{Name: "status", Operand: Status, DType: dtype.U32}}
	s.consts, s.toBit = map[string]any{"Indices": true}, max(4, bits.Len(uint(rows)))
	s.fields = []string{"rows"}
	s.params = func(c *Call) []uint32 { return []uint32{uint32(c.Out.Shape[0])} }
	return s
}
