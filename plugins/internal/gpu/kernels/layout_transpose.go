package kernels

import (
	_ "embed"
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed layout_transpose.wgsl
var transposeWGSL string

var _ = register(
	Kernel{Op: "transpose", Takes: "(any+)", Shaders: func(n *ir.Node, _ Limits) []Shader {
		return []Shader{transpose(n)}
	}})

// transpose copies whole rows if the innermost axis stays innermost. Otherwise it moves square tiles of the operand's
// and the result's innermost axes through workgroup memory, so that both reads and writes are coalesced. If a tile
// would be mostly empty because one of these axes is short, it gathers elements one by one.
func transpose(n *ir.Node) Shader {
	t := permutation{x: n.In[0].Type.Shape, size: n.Type.DType.Size()}
	t.axes = mergedAxes(t.x, n.Attrs.(op.TransposeAttrs).Perm)
	last := len(t.axes) - 1
	if t.from(last) < last && t.size <= 4 {
		if a, b := t.most(n, t.from(last)), t.most(n, last); a*b >= smallestSquare && min(a, b) > 1 {
			return t.tiled(n, a, b)
		}
	}
	u := element(n.Type.DType)
	if t.from(last) == last {
		u = units(n.Type.DType, []int{commonDivisor(t.dims(last))}, n.In[0])
	}
	return strided(n, u, last+1, func(c *Call) (offset int, dims, stride []int) {
		dims, stride = t.sizes(c)
		return 0, dims, stride
	})
}

// smallestSquare is the least number of elements of two axes that are transposed through workgroup memory.
const smallestSquare = 128

// permutation is a permutation of axes. Axes that stay neighbours are merged.
type permutation struct {
	x    ir.Shape // shape of the operand
	axes [][]int  // by axis of the result: the operand's axes that are merged in it
	size int      // bytes per element
}

// mergedAxes returns the merged axes of a permuted shape, at least one. It drops axes of size 1 and merges axes that
// are neighbours before and after the permutation.
func mergedAxes(x ir.Shape, perm []int) [][]int {
	order, rank := make([]int, len(x)), 0 // numbers the operand's axes without those of size 1
	for i, d := range x {
		if !d.Is(1) {
			order[i] = rank
			rank++
		}
	}
	var out [][]int
	for _, p := range perm {
		if x[p].Is(1) {
			continue
		}
		if k := len(out) - 1; k >= 0 && order[p] == order[out[k][len(out[k])-1]]+1 {
			out[k] = append(out[k], p)
		} else {
			out = append(out, []int{p})
		}
	}
	if len(out) == 0 {
		return [][]int{{}}
	}
	return out
}

// from returns the axis of the result that contains the operand's innermost axis.
func (t permutation) from(last int) int {
	best := last
	for i, a := range t.axes {
		if len(a) > 0 && a[len(a)-1] > t.axes[best][len(t.axes[best])-1] {
			best = i
		}
	}
	return best
}

func (t permutation) dims(axis int) (out []ir.Dim) {
	for _, a := range t.axes[axis] {
		out = append(out, t.x[a])
	}
	return out
}

// most returns the size of an axis at the symbols' upper bounds.
func (t permutation) most(n *ir.Node, axis int) int {
	return numel(n.Graph.Syms.Largest(t.dims(axis)))
}

// sizes returns the sizes of the result's axes and their strides in the operand.
func (t permutation) sizes(c *Call) (dims, stride []int) {
	shape := c.In[0].Shape
	for _, axes := range t.axes {
		d, s := 1, 1
		for _, a := range axes {
			d *= shape[a]
		}
		if len(axes) > 0 {
			s = numel(shape[axes[len(axes)-1]+1:])
		}
		dims, stride = append(dims, d), append(stride, s)
	}
	return dims, stride
}

// tileWords bounds the workgroup memory of a tile, because several workgroups share the memory of a processor.
const tileWords = 2560

// square describes how a tile is moved. Words have Per elements: a word of the operand extends along the operand's
// innermost axis, a word of the result along the result's.
type square struct {
	Per, Width   int // elements per word, and bits per element
	Across, Down int // size of a tile: words of the operand along one axis, words of the result along the other
	// rows do not begin at words: elements are read one by one, and a word may contain the start of the next row
	Loose       bool
	Load, Store int   // words per access, 1 or 4
	Group       int   // invocations per workgroup
	Others      []int // axes of the result that are not in the tile
	Batch       []int // their indices in Others, innermost first
	Axes        []int // all axes except the first, innermost first; used if Loose
}

// Rows is the number of the operand's rows in a tile: enough for all words of the result that begin in the tile.
func (s square) Rows() int {
	if s.Loose {
		return s.Down*s.Per + s.Per - 1
	}
	return s.Down * s.Per
}

// Columns is the width of a tile in words, or in elements if Loose.
func (s square) Columns() int {
	if s.Loose {
		return s.Across * s.Per
	}
	return s.Across
}

// Pitch is the distance between rows in workgroup memory. It puts the elements of a column in different banks.
func (s square) Pitch() int { return s.Columns() + 1 }

// LoadLanes is the number of invocations that read a row together, StoreLanes the number that write one: enough for a
// memory burst, more if the tile has few rows.
func (s square) LoadLanes() int {
	return min(s.Across, max(min(32, s.Across), s.Load*s.Group/s.Rows())) / s.Load
}

func (s square) StoreLanes() int {
	return min(s.Down, max(min(32, s.Down), s.Store*s.Group/s.Across)) / s.Store
}

// Mask selects the bits of one element.
func (s square) Mask() int { return 1<<s.Width - 1 }

// clampedPower2 returns the least power of two that is at least 4 and at least n, but not more than most, a power of
// two.
func clampedPower2(n, most int) int {
	p := 4
	for p < n && p < most {
		p *= 2
	}
	return p
}

// tiled transposes in tiles. a and b are the sizes of the innermost axes of the operand and of the result.
func (t permutation) tiled(n *ir.Node, a, b int) Shader {
	last := len(t.axes) - 1
	inner := t.from(last)
	s := square{Per: 4 / t.size, Width: 8 * t.size, Load: 1, Store: 1, Group: 256}
	if s.Per == 1 { // on an H200, half the invocations with twice the loads in flight are 7 % faster
		s.Group = 128
	}
	s.Across, s.Down = clampedPower2(ceilDiv(a, s.Per), 32), clampedPower2(ceilDiv(b, s.Per), 32)
	// Make a narrow tile longer.
	for s.Across*s.Down < 1024 && s.Down < 256 && s.Down*s.Per < b {
		s.Down *= 2
	}
	for s.Across*s.Down < 1024 && s.Across < 256 && s.Across*s.Per < a {
		s.Across *= 2
	}
	ca, cb := commonDivisor(t.dims(inner)), commonDivisor(t.dims(last))
	s.Loose = ca%s.Per != 0 || cb%s.Per != 0 || !beginsAt(n.In[0], 4)
	for s.Rows()*s.Pitch() > tileWords {
		if s.Across >= s.Down {
			s.Across /= 2
		} else {
			s.Down /= 2
		}
	}
	if !s.Loose {
		if ca%(4*s.Per) == 0 && beginsAt(n.In[0], 16) {
			s.Load = 4
		}
		if cb%(4*s.Per) == 0 {
			s.Store = 4
		}
	}
	fields := []string{"tiles", "na", "nb", "sa", "sb", "ta", "tb"}
	for i := range last + 1 {
		if i != last && i != inner {
			s.Others = append(s.Others, i)
		}
	}
	s.Batch = downTo(len(s.Others)-1, 0)
	if k := len(s.Others); k > 0 {
		fields = append(fields, fmt.Sprint("dims:", k), fmt.Sprint("source:", k), fmt.Sprint("dest:", k))
	}
	if s.Loose {
		fields = append(fields, "n", fmt.Sprint("size:", last+1), fmt.Sprint("stride:", last+1))
		s.Axes = downTo(last, 1)
	}
	shader := Shader{
		Name: n.Op.Name, Consts: s, Fields: fields, Body: part(transposeWGSL, "words"),
		Bindings: []Binding{{Name: "x0", Operand: 0, Vec: vecOf(s.Load), DType: dtype.U32},
			{Name: "y", Operand: Out, Vec: vecOf(s.Store), DType: dtype.U32}},
		Params: func(c *Call) []uint32 { p, _ := t.params(c, s, inner); return p },
		Groups: func(c *Call) int { _, tiles := t.params(c, s, inner); return tiles },
	}
	if s.Loose {
		shader.Body = part(transposeWGSL, "loose")
		shader.Bindings[0].DType, shader.Bindings[1].DType = n.Type.DType, n.Type.DType
	}
	return shader
}

// params returns the parameters of a tiled transpose and the number of its tiles.
func (t permutation) params(c *Call, s square, inner int) (p []uint32, tiles int) {
	count := numel(c.Out.Shape)
	if count == 0 {
		return nil, 0
	}
	dims, from := t.sizes(c)
	last := len(dims) - 1
	to := make([]int, len(dims))
	for i := range to {
		to[i] = numel(dims[i+1:])
	}
	// Strides are in units of one read or write.
	load, store := s.Per*s.Load, s.Per*s.Store
	if s.Loose {
		load, store = 1, 1
	}
	ta, tb := ceilDiv(dims[inner], s.Across*s.Per), ceilDiv(dims[last], s.Down*s.Per)
	tiles = count / dims[inner] / dims[last] * ta * tb
	pick := func(of []int, unit int) (out []uint32) {
		for _, i := range s.Others {
			out = append(out, uint32(of[i]/unit))
		}
		return out
	}
	all := func(of []int) (out []uint32) {
		for _, v := range of {
			out = append(out, uint32(v))
		}
		return out
	}
	p = []uint32{uint32(tiles), uint32(dims[inner] / load), uint32(dims[last]), uint32(to[inner] / store),
		uint32(from[last] / load), uint32(ta), uint32(tb)}
	p = slices.Concat(p, pick(dims, 1), pick(from, load), pick(to, store))
	if s.Loose {
		p = slices.Concat(p, []uint32{uint32(count)}, all(dims), all(from))
	}
	return p, tiles
}
