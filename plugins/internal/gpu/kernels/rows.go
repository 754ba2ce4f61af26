package kernels

import (
	_ "embed"
	"maps"

	"github.com/rlx-go/rlx/core/ir"
)

//go:embed rows.wgsl
var rowsWGSL string

// rowFields are the parameters of shaders that begin with rows.wgsl; see rowPlan.params.
var rowFields = []string{"rows", "n", "inner", "parts", "span"}

// enoughGroups is the number of workgroups that occupies a large GPU. If rows make fewer, they are split into parts.
const enoughGroups = 1024

// leastReads is the least number of elements per lane. Reading that many takes longer than combining the lanes.
const leastReads = 16

// rowPlan tells how the rows of an operand are divided among workgroups. The operand is viewed as [outer, n, inner]: a
// row has n units, inner units apart. A lane is one of the invocations that share a row.
type rowPlan struct {
	rows, lanes int  // rows of a workgroup, and lanes of a row
	per         int  // rows is a multiple of per
	reads       int  // least number of units that a lane reads
	divided     int  // approximate number of workgroups if rows are split
	inner       bool // neighbouring units belong to different rows
	// split is set if there may be too few rows to occupy the device. Then one shader computes a partial result for
	// each part of a row, and another combines them.
	split bool
	sizes func(shape []int) (outer, n, inner int) // derived from the shape of operand 0
	most  [3]int                                  // outer, n and inner at the symbols' upper bounds
}

// planRows plans the rows of operand 0. The number of rows of a workgroup is a multiple of per.
func planRows(node *ir.Node, per int, sizes func(shape []int) (outer, n, inner int)) rowPlan {
	return planReads(node, per, sizes, leastReads, enoughGroups)
}

// planReads is planRows with the least number of units that a lane reads, and the number of workgroups if rows are
// split.
func planReads(node *ir.Node, per int, sizes func(shape []int) (outer, n, inner int), reads, divided int) rowPlan {
	p := rowPlan{sizes: sizes, per: per, reads: reads, divided: divided}
	shape, syms := node.In[0].Type.Shape, node.Graph.Syms
	outer, n, inner := sizes(syms.Largest(shape))
	p.most, p.inner = [3]int{outer, n, inner}, inner > 1
	p.rows, p.lanes = rowsAndLanes(n, p.inner, per, reads)
	least, _, in := sizes(syms.Smallest(shape))
	parts, _ := p.parts(least*in, n)
	p.split = parts > 1
	return p
}

// rowsAndLanes divides a workgroup among rows of length units. It uses as many lanes per row as possible, while each
// lane still has the given number of reads. inner tells whether neighbouring units belong to different rows. rows is a
// multiple of per.
func rowsAndLanes(length int, inner bool, per, reads int) (rows, lanes int) {
	const group = 256
	lanes = 8
	if !inner {
		for lanes = 4; lanes < group/per && reads*lanes < length; {
			lanes *= 2
		}
	}
	return group / lanes, lanes
}

// parts returns the number of parts of a row and the units of each but the last. Rows are not split if they make enough
// workgroups.
func (p rowPlan) parts(rows, n int) (parts, span int) {
	groups := max(1, ceilDiv(rows, p.rows))
	if groups < enoughGroups && n >= 2*p.reads*p.lanes {
		// Rounded up: one part less could make a few lanes read once more.
		parts = min(ceilDiv(n, p.reads*p.lanes), ceilDiv(p.divided, groups))
	}
	parts = max(1, parts)
	span = max(1, ceilDiv(n, parts))
	return max(1, ceilDiv(n, span)), span
}

// mostParts is an upper bound of the number of parts of all rows together.
func (p rowPlan) mostParts() int {
	if !p.split {
		return 0
	}
	rows := p.most[0] * p.most[2]
	return (p.divided + ceilDiv(rows, p.rows)) * p.rows
}

func (p rowPlan) params(c *Call) []uint32 {
	outer, n, inner := p.sizes(c.In[0].Shape)
	if outer*inner == 0 {
		return nil
	}
	parts, span := p.parts(outer*inner, n)
	return []uint32{uint32(outer * inner), uint32(n), uint32(inner), uint32(parts), uint32(span)}
}

func (p rowPlan) groups(c *Call) int {
	outer, n, inner := p.sizes(c.In[0].Shape)
	parts := 1
	if p.split {
		parts, _ = p.parts(outer*inner, n)
	}
	return ceilDiv(outer*inner, p.rows) * parts
}

// rounds returns the number of units that a lane reads.
func (p rowPlan) rounds(c *Call) int {
	outer, n, inner := p.sizes(c.In[0].Shape)
	if p.split {
		_, n = p.parts(outer*inner, n)
	}
	return ceilDiv(n, p.lanes)
}

// shader makes a shader that begins with rows.wgsl.
func (p rowPlan) shader(name, body string, consts map[string]any, loops func(c *Call) int, bindings ...Binding) Shader {
	all := map[string]any{"Rows": p.rows, "Lanes": p.lanes, "Inner": p.inner, "Split": p.split}
	maps.Copy(all, consts)
	return Shader{Name: name, Body: rowsWGSL + body, Fields: rowFields, Consts: all, Bindings: bindings,
		Params: p.params, Groups: p.groups, Loops: loops}
}

// combining plans the rows of the partial results, [rows, parts] in scratch memory.
func (p rowPlan) combining(per int) rowPlan {
	c := rowPlan{per: per, reads: p.reads}
	c.rows, c.lanes = rowsAndLanes(p.divided, false, per, leastReads)
	c.sizes = func(shape []int) (outer, n, inner int) {
		outer, n, inner = p.sizes(shape)
		parts, _ := p.parts(outer*inner, n)
		return outer * inner, parts, 1
	}
	return c
}
