package matrix

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

//go:embed group_places.wgsl
var groupPlacesWGSL string

// grouped_matmul, as in a mixture of experts: a shader sorts the rows by their groups, so that a tile has rows of one
// group, whose matrix it reads once.
var _ = register("grouped_matmul", func(d Device) (kernels.Own, bool) {
	return kernels.Own{
		Shaders: func(n *ir.Node, l kernels.Limits) []kernels.Shader {
			g, ok := d.groupedOf(n, l)
			if !ok {
				return nil
			}
			return g.shaders()
		},
		Scratch: func(n *ir.Node, l kernels.Limits) int64 {
			g, _ := d.groupedOf(n, l)
			return g.scratch
		},
		Kept: func(n *ir.Node, l kernels.Limits) int64 {
			g, _ := d.groupedOf(n, l)
			return g.right.kept
		},
	}, d.tiles() != nil
})

const (
	mostGroups = 1024
	// fewGrouped is the number of rows up to which another kernel runs, which reads the matrix of each row.
	fewGrouped = 16
	noGroup    = "0xffffffffu"
)

// grouped is a grouped_matmul on matrix units.
type grouped struct {
	Tile
	node            *ir.Node
	typ             dtype.DType
	n, k, groups    int
	left, right     operand
	tiles           int   // the most that the rows can need
	places, scratch int64 // where the list of tiles and places begins in scratch memory, and all of that memory
}

// groupedOf returns the product of a node, or false if it does not run on matrix units.
func (d Device) groupedOf(n *ir.Node, l kernels.Limits) (g grouped, ok bool) {
	a, isGrouped := n.Attrs.(op.GroupedMatMulAttrs)
	g.typ = narrow(l)
	if !isGrouped || g.typ == 0 || !a.TransB || n.Type.DType != dtype.F32 || n.In[0].Type.DType != dtype.F32 ||
		!n.In[1].Type.Shape.IsStatic() || n.In[2].Type.DType.Size() != 4 {
		return g, false
	}
	w := n.In[1].Type.Shape.Eval(nil)
	g.node, g.groups, g.n, g.k = n, w[0], w[1], w[2]
	rows := n.Graph.Syms.Largest(n.In[0].Type.Shape)[0]
	if rows <= fewGrouped || g.groups > mostGroups || g.k%4 != 0 || !kernels.BeginsAt(n.In[0], 16) ||
		!kernels.BeginsAt(n.In[1], 16) || int64(rows)*int64(g.n)*int64(g.k) < leastWork {
		return g, false
	}
	g.Tile, _ = d.choose(d.tiles(), max(1, rows/g.groups), g.n, min(rows, g.groups))
	g.tiles = min(rows, rows/g.M+g.groups)
	bytes := func(rows int) int64 { return halfBytes(int64(rows) * int64(padded(g.k))) }
	g.left = operand{terms: 1, packed: true, scratch: bytes(rows)}
	g.right = operand{node: 1, terms: 1, packed: n.In[1].Type.DType != g.typ || g.k%depth != 0}
	if g.right.packed && l.Keeps && kernels.IsWeight(n.In[1]) {
		g.right.kept = bytes(g.groups * g.n)
	} else if g.right.packed {
		g.right.begin, g.right.scratch = g.left.scratch, bytes(g.groups*g.n)
	}
	g.places = g.left.scratch + g.right.scratch
	g.scratch = g.places + 4*int64(g.tiles)*int64(1+g.M)
	return g, g.scratch <= mostBytes && bytes(g.groups*g.n) <= mostBytes && 4*int64(rows)*int64(g.n) <= mostBytes
}

func (g grouped) shaders() (out []kernels.Shader) {
	if g.right.packed {
		out = append(out, g.pack(g.right, func(*kernels.Call) int { return g.groups * g.n }))
	}
	rows := func(c *kernels.Call) int { return c.In[0].Shape[0] }
	out = append(out, g.pack(g.left, rows), g.sort(rows), g.multiply())
	for i, s := range out {
		if params := s.Params; !s.Once {
			out[i].Params = func(c *kernels.Call) []uint32 {
				if empty(c) || rows(c) <= fewGrouped {
					return nil
				}
				return params(c)
			}
		}
	}
	return out
}

// pack returns the shader that rounds the rows of an operand.
func (g grouped) pack(o operand, rows func(c *kernels.Call) int) kernels.Shader {
	quads := padded(g.k) / 4
	return kernels.Shader{
		Name: "operand", Body: termsWGSL + packWGSL, Once: o.kept > 0,
		Consts: struct {
			Fours, Across, TF32 bool
			Terms               int
		}{true, false, false, 1},
		Bindings: []kernels.Binding{kernels.Weights("x", g.node, o.node),
			{Name: "y", Operand: o.memory(), Vec: 4, DType: g.typ}},
		Fields: []string{"rows", "lines", "quads", "k_size", "matrix", "line", "step", "begin"},
		Params: func(c *kernels.Call) []uint32 {
			r := uint32(rows(c))
			return []uint32{r, r, uint32(quads), uint32(g.k), 0, uint32(g.k), 1, uint32(o.begin / 8)}
		},
		Groups: func(c *kernels.Call) int { return ceilDiv(rows(c)*quads, 256) },
	}
}

// sort returns the shader that gives rows their places.
func (g grouped) sort(rows func(c *kernels.Call) int) kernels.Shader {
	return kernels.Shader{
		Name: "places of rows", Body: groupPlacesWGSL,
		Consts: struct {
			Rows, Groups, Each int
			None               string
		}{g.M, g.groups, ceilDiv(g.groups, 256), noGroup},
		Bindings: []kernels.Binding{{Name: "x2", Operand: 2, DType: g.node.In[2].Type.DType},
			{Name: "list", Operand: kernels.Scratch, DType: dtype.U32},
			{Name: "status", Operand: kernels.Status, DType: dtype.U32}},
		Fields: []string{"rows", "tiles", "begin"},
		Params: func(c *kernels.Call) []uint32 {
			return []uint32{uint32(rows(c)), uint32(g.tiles), uint32(g.places / 4)}
		},
		Groups: func(*kernels.Call) int { return 1 },
		Loops: func(c *kernels.Call) int {
			return 2*ceilDiv(rows(c), 256)*260 + 2*g.groups + g.tiles + g.tiles*g.M + 8
		},
	}
}

// multiply returns the shader of the product.
func (g grouped) multiply() kernels.Shader {
	x := productText{Tile: g.Tile, Type: g.typ, Pairs: g.n%2 == 0, Grouped: true}
	w := kernels.Binding{Name: "b", Operand: 1, DType: g.typ}
	if g.right.packed {
		w = kernels.Binding{Name: "b", Operand: g.right.memory(), DType: dtype.U32}
	}
	bindings := []kernels.Binding{{Name: "a", Operand: kernels.Scratch, DType: dtype.U32}, w,
		{Name: "list", Operand: kernels.Scratch, DType: dtype.U32}, {Name: "y", Operand: kernels.Out, DType: dtype.F32}}
	groups := g.Tile.groups(g.tiles*g.M, g.n, 1)
	row := padded(g.k) / 8
	return kernels.Shader{
		Name: "product", Consts: x, Bindings: bindings, Fields: append(append([]string{}, productFields...), "list_at"),
		Source: x.source(bindings),
		Params: func(*kernels.Call) []uint32 {
			return []uint32{uint32(groups), uint32(g.tiles * g.M), uint32(g.n), uint32(padded(g.k) / depth), 0,
				uint32(row), 0, uint32(g.right.begin / 16), uint32(row), uint32(g.n * row), 0, uint32(g.places / 4)}
		},
		Groups: func(*kernels.Call) int { return groups },
	}
}
