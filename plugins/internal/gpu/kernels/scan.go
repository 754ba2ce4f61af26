package kernels

import (
	_ "embed"
	"math"
	"math/bits"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed scan.wgsl
var scanWGSL string

// Scans combine elements like reductions. 16-bit types are not supported, because two elements that share a word may
// belong to different lines.
func init() {
	for name, reduction := range map[string]string{"cumsum": "reduce_sum", "cumprod": "reduce_prod",
		"cummax": "reduce_max"} {
		f := folds[reduction]
		register(Kernel{Op: name, Takes: "(f32|i32|u32)",
			Shaders: func(n *ir.Node, _ Limits) []Shader {
				if scanBlocks(n) == 0 {
					return []Shader{scan(n, f, false)}
				}
				return []Shader{scan(n, f, true), scan(n, f, false)}
			},
			Scratch: func(n *ir.Node, _ Limits) int64 {
				length := scanBlocks(n)
				if length == 0 {
					return 0
				}
				outer, size, inner := scanSizes(n, n.Graph.Syms.Largest(n.Type.Shape))
				return int64(outer*inner*ceilDiv(size, length)) * 4
			},
		})
	}
}

func scanSizes(n *ir.Node, shape []int) (outer, size, inner int) {
	return around(shape, n.Attrs.(op.ScanAttrs).Axis)
}

// scanBlocks returns the length of the blocks into which lines are divided so that several workgroups share a line. It
// returns 0 if each line is one block, because there are enough lines or they are short. With blocks, one shader folds
// each block, and a second scans each block, starting from the folds of the blocks before it.
func scanBlocks(n *ir.Node) int {
	const few, short, least = 512, 4096, 2048
	outer, size, inner := scanSizes(n, n.Graph.Syms.Largest(n.Type.Shape))
	if outer*inner >= few || size <= short {
		return 0
	}
	// Each block reads the totals of all blocks before it, so blocks grow with the square root of the size.
	return max(least, 1<<bits.Len(uint(4*math.Sqrt(float64(size)))))
}

// scan makes the shader that writes the folds of blocks (totals) or the one that scans them.
func scan(n *ir.Node, f fold, totals bool) Shader {
	a, t := n.Attrs.(op.ScanAttrs), elementType(n.Type.DType)
	length := scanBlocks(n)
	_, size, inner := scanSizes(n, n.Graph.Syms.Largest(n.Type.Shape))
	longest := size
	if length > 0 {
		longest = length
	}
	rows, lanes := rowsAndLanes(longest, inner > 1, 1, leastReads)
	const each = 4
	s := Shader{
		Name: n.Op.Name, Body: scanWGSL, Fields: []string{"lines", "n", "inner", "block", "blocks"},
		Bindings: []Binding{{Name: "x0", Operand: 0, DType: n.In[0].Type.DType}},
	}
	at := "k"
	if a.Reverse {
		at = "(P.n - 1u - k)"
	}
	s.Consts = map[string]any{"Type": t, "Fold": f.expr[t], "Zero": f.zero[t], "Rows": rows, "Lanes": lanes,
		"Inner": inner > 1, "Each": each, "At": at,
		"Exclusive": a.Exclusive, "Blocks": length > 0, "Totals": totals}
	if length > 0 {
		s.Bindings = append(s.Bindings, Binding{Name: "totals", Operand: Scratch, DType: n.Type.DType})
	}
	if !totals {
		s.Bindings = append(s.Bindings, Binding{Name: "y", Operand: Out, DType: n.Type.DType})
	}
	blocks := func(size int) (block, count int) {
		if length == 0 {
			return size, 1
		}
		return length, ceilDiv(size, length)
	}
	s.Params = func(c *Call) []uint32 {
		if numel(c.Out.Shape) == 0 {
			return nil
		}
		outer, size, inner := scanSizes(n, c.Out.Shape)
		block, count := blocks(size)
		return []uint32{uint32(outer * inner), uint32(size), uint32(inner), uint32(block), uint32(count)}
	}
	s.Groups = func(c *Call) int {
		outer, size, inner := scanSizes(n, c.Out.Shape)
		_, count := blocks(size)
		return ceilDiv(outer*inner*count, rows)
	}
	s.Loops = func(c *Call) int {
		_, size, _ := scanSizes(n, c.Out.Shape)
		block, count := blocks(size)
		depth := loop(bits.Len(uint(lanes))-1, 0)
		if totals {
			return loop(ceilDiv(block, lanes), 0) + depth
		}
		return loop(ceilDiv(count, lanes), 0) + depth + loop(ceilDiv(block, lanes*each), depth)
	}
	return s
}
