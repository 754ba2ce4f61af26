package kernels

import (
	"cmp"
	_ "embed"
	"maps"
	"math/bits"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed sort.wgsl
var sortWGSL string

const (
	sortTile   = 4096 // elements that a workgroup sorts in its memory, at most
	radixSorts = 512  // elements of a tile from which on it is sorted by digits
	radixEach  = 16   // elements of an invocation there
	sortGroup  = 256
	sortEach   = 8 // elements that an invocation merges
)

// sorting makes the shaders that sort lines of keys with their places. Lines that fit a tile are sorted in the memory of a workgroup, longer
// ones tile by tile; passes then merge neighbours until a line is whole.
type sorting struct {
	name  string
	most  int // elements of a line
	tile  int
	lines func(c *Call) (lines, size, inner int)

	keys   []Binding      // what the keys are made of
	consts map[string]any // and how
	// Keys differ in the bits from fromBit to toBit only; 0 is 32.
	fromBit, toBit int
	fields         []string // parameters behind the sizes of lines
	params         func(c *Call) []uint32
	// results are written by the last shader. Without any, pairs of keys and places stay in the scratch memory, from pair begins*lines*size on.
	results []Binding
}

// sortedTile is the size of tiles for lines of so many elements.
func sortedTile(most int, l Limits) int {
	tile := sortTile
	for tile > radixSorts && sortedBytes(tile) > l.WorkgroupStorage {
		tile /= 2
	}
	return ceilPower2(min(most, tile), 2)
}

// sortedBytes is the workgroup memory that a radix sort takes.
func sortedBytes(tile int) int {
	return 4 * (2*(tile+tile/32) + 8*countStride(tile/radixEach) + tile/radixEach + 16)
}

// countStride is the distance of the counts of two digits: in words, whole rounds of the 32 banks.
func countStride(group int) int { return ceilDiv(group+group/32, 32) * 32 }

// ceilPower2 is the least power of two that is neither below n nor below from, which is one.
func ceilPower2(n, from int) int {
	for from < n {
		from *= 2
	}
	return from
}

// merges is how often runs are merged.
func (s sorting) merges() int { return bits.Len(uint(max(1, ceilDiv(s.most, s.tile)) - 1)) }

// begins is 1 where the pairs lie in the second half of the scratch memory at the end.
func (s sorting) begins() int { return s.merges() % 2 }

// scratch is the memory of the pairs: twice, where they are merged.
func (s sorting) scratch(elements int) int64 {
	return 8 * int64(elements) * int64(1+min(s.merges(), 1))
}

func (s sorting) shaders() []Shader {
	tile, radix := s.tile, s.tile >= radixSorts
	consts := map[string]any{"Tile": tile, "Lines": max(1, 2*sortGroup/tile), "Group": sortGroup, "Radix": radix, "Pairs": true, "Each": radixEach, "Whole": s.merges() == 0, "Slots": max(tile, 2*sortGroup)}
	if radix {
		group := tile / radixEach
		consts["Lines"], consts["Group"], consts["Slots"] = 1, group, tile+tile/32
		consts["Stride"], consts["From"], consts["To"] = countStride(group), s.fromBit, cmp.Or(s.toBit, 32)
		// The place of an element in a tile takes 12 bits of a word.
		narrow := s.toBit > 0 && s.toBit <= 20
		consts["Narrow"], consts["Pairs"] = narrow, !narrow && s.fromBit < 12
		if narrow {
			consts["From"], consts["To"] = 12+s.fromBit, 12+s.toBit
		}
	}
	maps.Copy(consts, s.consts)
	lines := consts["Lines"].(int)
	tiles := s.shader("tiles", s.merges() == 0, consts, s.keys)
	tiles.Groups = func(c *Call) int {
		l, size, _ := s.lines(c)
		if s.merges() == 0 {
			return ceilDiv(l, lines)
		}
		return l * ceilDiv(size, tile)
	}
	tiles.Loops = func(*Call) int {
		if radix {
			return 2*loop(radixEach/4, 0) + 2*loop(8, 0)
		}
		each, stages := loop(max(tile, 2*sortGroup)/sortGroup, 0), bits.Len(uint(tile))
		return 2*each + stages*loop(stages, each)
	}
	out := []Shader{tiles}
	for i := range s.merges() {
		width := tile << i
		merge := s.shader("merge", i == s.merges()-1, map[string]any{"Width": width, "Each": sortEach, "Group": sortGroup, "Odd": i%2 == 1, "Index": s.consts["Index"]}, nil)
		merge.Groups = func(c *Call) int {
			l, size, _ := s.lines(c)
			return l * ceilDiv(size, sortGroup*sortEach)
		}
		merge.Loops = func(c *Call) int {
			_, size, _ := s.lines(c)
			return loop(bits.Len(uint(size)), 0) + loop(sortEach, 0)
		}
		out = append(out, merge)
	}
	return out
}

// shader is one of those of sort.wgsl.
func (s sorting) shader(name string, last bool, consts map[string]any, bindings []Binding) Shader {
	consts["Last"] = last && s.results != nil
	if consts["Last"] == true {
		bindings = slices.Concat(bindings, s.results)
	}
	if !last || s.results == nil || name == "merge" {
		bindings = append(slices.Clone(bindings), Binding{Name: "pairs", Operand: Scratch, DType: dtype.U32})
	}
	return Shader{
		Name: s.name, Body: part(keysWGSL+sortWGSL, name), Consts: consts, Bindings: bindings, Fields: slices.Concat([]string{"lines", "size", "inner"}, s.fields),
		Params: func(c *Call) []uint32 {
			l, size, inner := s.lines(c)
			if l*size == 0 {
				return nil
			}
			p := []uint32{uint32(l), uint32(size), uint32(inner)}
			if s.params != nil {
				p = append(p, s.params(c)...)
			}
			return p
		},
	}
}

// Of lines in one tile whose elements are words, the shader that sorts writes the values, too; otherwise another one fetches them.
var _ = register(Kernel{
	Op: "sort", Takes: "(any) -> any",
	Shaders: func(n *ir.Node, l Limits) []Shader {
		a, x := n.Attrs.(op.SortAttrs), n.In[0].Type
		index := Binding{Name: "index", Operand: Result(1), DType: n.Results[1].DType}
		s := sortedLines(n, l)
		s.keys, s.results = []Binding{{Name: "x0", Operand: 0, DType: x.DType}}, []Binding{index}
		values := s.merges() == 0 && x.DType.Size() == 4
		if values {
			s.results = append(s.results, Binding{Name: "y", Operand: Out, DType: x.DType})
		}
		s.consts = withKeys(x.DType, map[string]any{"Descending": a.Descending, "Index": elementType(index.DType), "Values": values})
		if x.DType.Size() == 2 {
			s.fromBit = 16 // see withKeys
		}
		if values {
			return s.shaders()
		}
		fetch := coarsened(n, "sort", part(sortWGSL, "values"), nil, []string{"size", "inner"}, func(c *Call) []uint32 {
			_, size, inner := s.lines(c)
			return []uint32{uint32(size), uint32(inner)}
		})
		fetch.Bindings = slices.Insert(fetch.Bindings, 1, index)
		return append(s.shaders(), fetch)
	},
	Scratch: func(n *ir.Node, l Limits) int64 {
		s := sortedLines(n, l)
		if s.merges() == 0 {
			return 0
		}
		return s.scratch(numel(n.Graph.Syms.Largest(n.In[0].Type.Shape)))
	},
})

// sortedLines are the lines of a sort along its axis.
func sortedLines(n *ir.Node, l Limits) sorting {
	x := n.In[0].Type
	axis := positive(n.Attrs.(op.SortAttrs).Axis, x.Rank())
	most := n.Graph.Syms.Largest(x.Shape)[axis]
	return sorting{name: "sort", most: most, tile: sortedTile(most, l), lines: func(c *Call) (lines, size, inner int) {
		outer, size, inner := around(c.In[0].Shape, axis)
		return outer * inner, size, inner
	}}
}
