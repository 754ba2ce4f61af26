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
	sortTile   = 4096 // most elements that a workgroup sorts in its memory
	radixSorts = 512  // tiles of at least this many elements are sorted by radix
	radixEach  = 16   // elements per invocation of a radix sort
	sortGroup  = 256
	sortEach   = 8 // elements per invocation of a merge
)

// sorting makes the shaders that sort lines of keys together with their indices. Lines that fit a tile are sorted in
// workgroup memory. Longer lines are sorted tile by tile; then passes merge neighbouring runs until each line is
// sorted.
type sorting struct {
	name  string
	most  int // most elements in a line
	tile  int
	lines func(c *Call) (lines, size, inner int)

	keys   []Binding      // operands from which keys are computed
	consts map[string]any // template constants for that
	// Keys differ only in the bits from fromBit to toBit; a toBit of 0 means 32.
	fromBit, toBit int
	fields         []string // parameters after the sizes of lines
	params         func(c *Call) []uint32
	// The last shader writes results. Without results, pairs of key and index stay in scratch memory, from pair
	// begins*lines*size on.
	results []Binding
}

// sortedTile returns the tile size for lines of up to most elements.
func sortedTile(most int, l Limits) int {
	tile := sortTile
	for tile > radixSorts && sortedBytes(tile) > l.WorkgroupStorage {
		tile /= 2
	}
	return ceilPower2(min(most, tile), 2)
}

// sortedBytes returns the workgroup memory of a radix sort in bytes.
func sortedBytes(tile int) int {
	return 4 * (2*(tile+tile/32) + 8*countStride(tile/radixEach) + tile/radixEach + 16)
}

// countStride is the distance in words between the counts of two digits: a multiple of the 32 banks.
func countStride(group int) int { return ceilDiv(group+group/32, 32) * 32 }

// ceilPower2 returns the least power of two that is at least n and at least from, a power of two.
func ceilPower2(n, from int) int {
	for from < n {
		from *= 2
	}
	return from
}

// merges returns the number of merge passes.
func (s sorting) merges() int { return bits.Len(uint(max(1, ceilDiv(s.most, s.tile)) - 1)) }

// begins is 1 if the pairs end up in the second half of the scratch memory, else 0.
func (s sorting) begins() int { return s.merges() % 2 }

// scratch returns the size of the pairs in bytes: doubled if they are merged.
func (s sorting) scratch(elements int) int64 {
	return 8 * int64(elements) * int64(1+min(s.merges(), 1))
}

func (s sorting) shaders() []Shader {
	tile, radix := s.tile, s.tile >= radixSorts
	consts := map[string]any{"Tile": tile, "Lines": max(1, 2*sortGroup/tile), "Group": sortGroup, "Radix": radix,
		"Pairs": true, "Each": radixEach, "Whole": s.merges() == 0, "Slots": max(tile, 2*sortGroup)}
	if radix {
		group := tile / radixEach
		consts["Lines"], consts["Group"], consts["Slots"] = 1, group, tile+tile/32
		consts["Stride"], consts["From"], consts["To"] = countStride(group), s.fromBit, cmp.Or(s.toBit, 32)
		// The index of an element in a tile takes 12 bits of a word.
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
		merge := s.shader("merge", i == s.merges()-1,
			map[string]any{"Width": width, "Each": sortEach, "Group": sortGroup, "Odd": i%2 == 1,
				"Index": s.consts["Index"]}, nil)
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

// shader makes one of the shaders of sort.wgsl.
func (s sorting) shader(name string, last bool, consts map[string]any, bindings []Binding) Shader {
	consts["Last"] = last && s.results != nil
	if consts["Last"] == true {
		bindings = slices.Concat(bindings, s.results)
	}
	if !last || s.results == nil || name == "merge" {
		bindings = append(slices.Clone(bindings), Binding{Name: "pairs", Operand: Scratch, DType: dtype.U32})
	}
	return Shader{
		Name: s.name, Body: part(keysWGSL+sortWGSL, name), Consts: consts, Bindings: bindings,
		Fields: slices.Concat([]string{"lines", "size", "inner"}, s.fields),
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

// If a line fits one tile and its elements are words, the sorting shader also writes the values. Otherwise another
// shader fetches them.
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
		s.consts = withKeys(
			x.DType, map[string]any{"Descending": a.Descending, "Index": elementType(index.DType), "Values": values})
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

// sortedLines describes the lines of a sort along its axis.
func sortedLines(n *ir.Node, l Limits) sorting {
	x := n.In[0].Type
	axis := positive(n.Attrs.(op.SortAttrs).Axis, x.Rank())
	most := n.Graph.Syms.Largest(x.Shape)[axis]
	return sorting{name: "sort", most: most, tile: sortedTile(most, l), lines: func(c *Call) (lines, size, inner int) {
		outer, size, inner := around(c.In[0].Shape, axis)
		return outer * inner, size, inner
	}}
}
