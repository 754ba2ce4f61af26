package kernels

import (
	_ "embed"
	"math/bits"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed sort.wgsl
var sortWGSL string

const (
	sortTile  = 1024 // elements that a workgroup sorts in its memory
	sortGroup = 256
	sortEach  = 8 // elements that an invocation merges
)

// Lines that fit a tile are sorted in the memory of a workgroup, longer ones tile by tile; passes then merge neighbours until a line
// is whole. What runs moves keys and indices; the last shader fetches the values.
var _ = register(Kernel{
	Op: "sort", Takes: "(any) -> any",
	Shaders: func(n *ir.Node, _ Limits) []Shader {
		a, x := n.Attrs.(op.SortAttrs), n.In[0].Type
		axis, most := positive(a.Axis, x.Rank()), sortedMost(n)
		tile := 2
		for tile < min(most, sortTile) {
			tile *= 2
		}
		index := Binding{Name: "index", Operand: Result(1), DType: n.Results[1].DType}
		lines := func(c *Call) (lines, size, inner int) {
			outer, size, inner := around(c.In[0].Shape, axis)
			return outer * inner, size, inner
		}
		shader := func(name string, width int, last bool, elements int, loops func(size int) int) Shader {
			s := Shader{
				Name: "sort", Body: part(keysWGSL+sortWGSL, name), Fields: []string{"lines", "size", "inner"},
				Consts: withKeys(x.DType, map[string]any{"Tile": tile, "Lines": max(1, 2*sortGroup/tile), "Group": sortGroup, "Width": width, "Each": sortEach, "Last": last,
					"Descending": a.Descending, "Index": elementType(index.DType), "Odd": bits.Len(uint(width/sortTile))%2 == 0}),
				Params: func(c *Call) []uint32 {
					l, size, inner := lines(c)
					if l*size == 0 {
						return nil
					}
					return []uint32{uint32(l), uint32(size), uint32(inner)}
				},
				Groups: func(c *Call) int {
					l, size, _ := lines(c)
					if name == "tiles" && last {
						return ceilDiv(l, max(1, 2*sortGroup/tile))
					}
					return l * ceilDiv(size, elements)
				},
				Loops: func(c *Call) int { _, size, _ := lines(c); return loops(size) },
			}
			if name == "tiles" {
				s.Bindings = append(s.Bindings, Binding{Name: "x0", Operand: 0, DType: x.DType})
			}
			if last {
				s.Bindings = append(s.Bindings, index)
			}
			if !last || name != "tiles" {
				s.Bindings = append(s.Bindings, Binding{Name: "pairs", Operand: Scratch, DType: dtype.U32})
			}
			return s
		}
		stages := bits.Len(uint(tile))
		each := ceilDiv(max(tile, 2*sortGroup), sortGroup)
		shaders := []Shader{shader("tiles", 0, most <= sortTile, tile, func(int) int {
			return 2*loop(each, 0) + stages*loop(stages, loop(each, 0))
		})}
		for width := sortTile; width < most; width *= 2 {
			shaders = append(shaders, shader("merge", width, 2*width >= most, sortGroup*sortEach, func(size int) int {
				return loop(bits.Len(uint(size)), 0) + loop(sortEach, 0)
			}))
		}
		values := coarsened(n, "sort", part(sortWGSL, "values"), nil, []string{"size", "inner"}, func(c *Call) []uint32 {
			_, size, inner := lines(c)
			return []uint32{uint32(size), uint32(inner)}
		})
		values.Bindings = slices.Insert(values.Bindings, 1, index)
		return append(shaders, values)
	},
	Scratch: func(n *ir.Node) int64 {
		if sortedMost(n) <= sortTile {
			return 0
		}
		return 16 * int64(numel(n.Graph.Syms.Largest(n.In[0].Type.Shape)))
	},
})

// sortedMost is the largest size of a line.
func sortedMost(n *ir.Node) int {
	x := n.In[0].Type
	return n.Graph.Syms.Largest(x.Shape)[positive(n.Attrs.(op.SortAttrs).Axis, x.Rank())]
}
