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

//go:embed keys.wgsl
var keysWGSL string

const (
	mostSlots = 1024 // most elements that a workgroup sorts at the end of a radix select
	radixFrom = 1024 // rows of at least this many elements use a radix select rather than k searches
)

// Two shaders: the first finds the indices, in long rows by radix select and in short rows by k searches. The second
// fetches the values.
var _ = register(Kernel{
	Op: "top_k", Takes: "(any) -> any", // an index has 4 bytes, so that no two workgroups write the same word
	Shaders: func(n *ir.Node, _ Limits) []Shader {
		k := n.Attrs.(op.TopKAttrs).K
		index := Binding{Name: "index", Operand: Result(1), DType: n.Results[1].DType}
		x := n.In[0].Type
		last := x.Rank() - 1
		longest := numel(n.Graph.Syms.Largest(x.Shape[last:]))
		perGroup, lanes := rowsAndLanes(longest, false, 1, leastReads)
		size := func(c *Call) int { return c.In[0].Shape[last] }
		rows := func(c *Call) int { return numel(c.Out.Shape) / k }
		choose := Shader{
			Name: "top_k", Body: part(keysWGSL+topKWGSL, "select"), Fields: []string{"rows", "size", "k"},
			Bindings: []Binding{{Name: "x0", Operand: 0, DType: x.DType}, index},
			Params: func(c *Call) []uint32 {
				if rows(c) == 0 {
					return nil
				}
				return []uint32{uint32(rows(c)), uint32(size(c)), uint32(k)}
			},
			Groups: func(c *Call) int { return ceilDiv(rows(c), perGroup) },
			Loops: func(c *Call) int {
				// each step of the reduction halves the lanes
				return loop(k, loop(ceilDiv(size(c), lanes), 0)+loop(bits.Len(uint(lanes))-1, 0))
			},
		}
		consts := map[string]any{"Rows": perGroup, "Lanes": lanes, "Index": elementType(index.DType)}
		if k <= mostSlots && longest >= radixFrom {
			slots := ceilPower2(k, 2)
			consts["Tile"], consts["Lines"], consts["Group"] = slots, 1, 256
			choose.Body = part(keysWGSL+topKWGSL, "radix")
			choose.Groups = rows
			choose.Loops = func(c *Call) int {
				each, stages, pairs := ceilDiv(size(c), 256), bits.Len(uint(slots)), ceilDiv(slots, 512)
				digits := loop(3, loop(8, 0)+loop(each, 0)+3*loop(16, 0)+loop(8, 0))
				return digits + 3*loop(each, 0) + loop(256, 0) + 2*loop(2*pairs, 0) +
					loop(stages, loop(stages, loop(pairs, 0)))
			}
		}
		choose.Consts = withKeys(x.DType, consts)
		values := coarsened(n, "top_k", part(topKWGSL, "values"), nil, []string{"size", "k"}, func(c *Call) []uint32 {
			return []uint32{uint32(size(c)), uint32(k)}
		})
		values.Bindings = slices.Insert(values.Bindings, 1, index)
		return []Shader{choose, values}
	},
})

// withKeys adds the constants that map elements of type d to keys. A 16-bit float is shifted to the upper half of a
// word, which keeps the order.
func withKeys(d dtype.DType, c map[string]any) map[string]any {
	c["Float"], c["Signed"], c["Shift"], c["Infinity"] = d.IsFloat(), d == dtype.I32, 32-8*d.Size(), 0x7f800000
	if d == dtype.F16 {
		c["Infinity"] = 0x7c000000
	}
	return c
}
