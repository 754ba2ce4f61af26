package kernels

import (
	_ "embed"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/splat"
)

var (
	//go:embed splat_pairs.wgsl
	splatPairsWGSL string
	//go:embed splat_project.wgsl
	splatProjectWGSL string
	//go:embed splat_tiles.wgsl
	splatTilesWGSL string
	//go:embed splat_render.wgsl
	splatRenderWGSL string
)

// splatTexts has the templates of all shaders of splats.
var splatTexts = splatPairsWGSL + splatProjectWGSL + splatTilesWGSL + splatRenderWGSL + splatBackwardWGSL

const splatRefuses = "a number is not finite, a quaternion is 0, a scale is above 80, or meta has a field of view, radius_scale or alpha_cutoff that is out of range"

// splatSide is the side of a tile of an image in pixels.
const splatSide = 16

// mostBins bounds the memory of the maps: mostBins/8 bytes for each splat.
const mostBins = 256

// splatting makes the shaders for a scene.
//
// The splats are projected, in arithmetic of about 48 bits so that forms are as exact as in f64, and sorted by
// distance. The image is cut into at most mostBins bins of tiles, and each bin has a map with a bit for each splat in
// this order. A tile reads the map of its bin and picks the splats whose rectangles it meets, batch by batch, until its
// pixels are finished. So the memory depends on the number of splats alone, and no list can overflow.
type splatting struct {
	n                   *ir.Node
	width, height, tile int
	terms               int // coefficients of harmonics
	most, words         int // splats, and words of a map
	side, across, bins  int // of bins, in pixels
	sort                sorting

	consts map[string]any
	at     map[string]int // where regions of scratch memory begin
	total  int            // words of scratch memory
}

// newSplatting plans memory: pairs of the sort first, then the view and the regions by name with words per splat.
func newSplatting(n *ir.Node, l Limits, g splat.Grid, regions ...region) *splatting {
	syms := n.Graph.Syms
	s := &splatting{n: n, width: g.Width, height: g.Height, tile: g.Tile, most: syms.Largest(n.In[3].Type.Shape)[0]}
	s.terms = syms.Largest(n.In[5].Type.Shape)[0] / (3 * s.most)
	s.words = ceilDiv(s.most, 32)
	s.side = g.Tile
	across := func(size int) int { return ceilDiv(size, s.side) }
	for across(g.Width)*across(g.Height) > mostBins {
		s.side *= 2
	}
	s.across, s.bins = across(g.Width), across(g.Width)*across(g.Height)
	s.sort = sorting{name: "splat_sort", most: s.most, tile: sortedTile(s.most, l),
		lines: func(c *Call) (lines, size, inner int) { return 1, c.In[3].Shape[0], 1 }}
	s.consts = map[string]any{"Count": splat.Terms(s.terms), "Batch": splatBatch, "Forms5": splatBatch}
	maps.Copy(s.consts, pairConstants)
	s.at = map[string]int{}
	s.total = int(s.sort.scratch(s.most) / 4)
	all := append([]region{{"view", 64, 0}, {"rects", 0, 2}, {"sorted", 0, 2}, {"high", 0, 1}, {"low", 0, 1},
		{"first", 0, 1}, {"order", 0, 1}, {"maps", s.bins * s.words, 0}}, regions...)
	for _, flag := range []string{"Conics", "Frames", "Limbs", "Pixels"} {
		s.consts[flag] = slices.ContainsFunc(regions, func(r region) bool { return r.name == strings.ToLower(flag) })
	}
	for _, r := range all {
		s.at[r.name] = s.total
		s.total += r.words + r.each*s.most
	}
	return s
}

// region is a part of scratch memory.
type region struct {
	name        string
	words, each int // in all, and for each splat
}

const splatBatch = 128 // splats in workgroup memory

func (s *splatting) scratch() int64 { return 4 * int64(s.total) }

var splatOperandNames = []string{"positions", "scales", "rotations", "opacities", "colors", "sh", "cam"}

// operands returns bindings of operands of a scene by name, after scratch memory.
func sceneBindings(names ...string) []Binding {
	out := []Binding{{Name: "scratch", Operand: Scratch, DType: dtype.U32}}
	for _, name := range names {
		out = append(out, Binding{Name: name, Operand: slices.Index(splatOperandNames, name), DType: dtype.F32})
	}
	return out
}

// shader makes a shader with one invocation for each splat, or another number of them.
func (s *splatting) shader(part_ string, group int, bindings []Binding, change map[string]any) Shader {
	consts := maps.Clone(s.consts)
	maps.Copy(consts, change)
	return Shader{
		Name: "splat_" + part_, Body: part(splatTexts, part_), Bindings: bindings, Consts: consts,
		Fields: slices.Concat([]string{"n", "words", "tiles", "columns", "list", "one:f32", "width", "height", "tile",
			"side", "across", "bins", "terms"}, splatRegions),
		Params: func(c *Call) []uint32 { return s.params(c.In[3].Shape[0], 0) },
		Groups: func(c *Call) int { return ceilDiv(c.In[3].Shape[0], group) },
		Loops:  func(*Call) int { return 1000 },
	}
}

func (s *splatting) params(n, list int) []uint32 {
	g := splat.Grid{Width: s.width, Height: s.height, Tile: s.tile}
	out := []uint32{uint32(n), uint32(ceilDiv(n, 32)), uint32(g.Columns() * g.Rows()), uint32(g.Columns()),
		uint32(list), math.Float32bits(1)}
	for _, x := range []int{s.width, s.height, s.tile, s.side, s.across, s.bins, s.terms} {
		out = append(out, uint32(x))
	}
	for _, name := range splatRegions {
		out = append(out, uint32(s.at[name]))
	}
	return out
}

// splatRegions are the names of regions, which are parameters, so that shaders serve scenes of all sizes.
var splatRegions = []string{"view", "rects", "sorted", "high", "low", "first", "order", "maps", "forms", "colors",
	"frames", "limbs", "pixels", "steepest", "blocks", "conics"}

func status() Binding { return Binding{Name: "status", Operand: Status, DType: dtype.U32} }

// prepare returns the shaders that project and sort the splats and map them to bins. project has more bindings of the
// projection.
func (s *splatting) prepare(project ...Binding) []Shader {
	view := s.shader("view", 1, append(sceneBindings("cam"), status()), nil)
	view.Groups = func(*Call) int {
		if s.total > math.MaxUint32 { // words have indices of 32 bits; so many workgroups are refused
			return math.MaxInt / 2
		}
		return 1
	}
	out := []Shader{view, s.shader("check", 256, append(sceneBindings(splatOperandNames[:6]...), status()), nil),
		s.shader("project", 64, append(sceneBindings(splatOperandNames...), project...), nil)}
	// Two sorts, because keys have 48 bits: the second one is stable.
	low := s.sort
	low.consts, low.toBit = map[string]any{"Words": s.at["low"]}, 16
	high := s.sort
	high.consts = map[string]any{"Words": s.at["high"], "Through": s.at["first"]}
	begins := s.sort.begins() == 1
	order := func(second bool) Shader {
		return s.shader("order", 256, sceneBindings(), map[string]any{"Begins": begins, "Second": second})
	}
	out = append(append(out, low.shaders()...), order(false))
	out = append(append(out, high.shaders()...), order(true))
	bins := s.shader("bins", 256, sceneBindings(), nil)
	bins.Loops = func(*Call) int { return loop(ceilDiv(8*s.bins, 256), loop(32, 0)) }
	return append(out, bins)
}

// walked sets the bound of the loops of a shader in which a tile takes all splats, with inner iterations each.
func (s Shader) walked(inner int) Shader {
	s.Loops = func(c *Call) int {
		n := c.In[3].Shape[0]
		// 32 iterations for the bits of a word, and as many for each of the parts into which its round is divided
		return loop(ceilDiv(n, 32*256), 200) + loop(n, inner) + loop(ceilDiv(n, splatBatch), 40)
	}
	return s
}

var _ = register(Kernel{
	Op: "gaussian_splat_render", Takes: "(f32...)", Refuses: splatRefuses,
	Shaders: func(n *ir.Node, l Limits) []Shader {
		s := newRender(n, l)
		tiles := s.shader("render", 1, append(sceneBindings("cam"), Binding{Name: "y", Operand: Out, DType: dtype.F32}),
			nil).walked(1)
		tiles.Groups = func(*Call) int { return ceilDiv(s.width, splatSide) * ceilDiv(s.height, splatSide) }
		return append(s.prepare(), tiles)
	},
	Scratch: func(n *ir.Node, l Limits) int64 { return newRender(n, l).scratch() },
})

func newRender(n *ir.Node, l Limits) *splatting {
	a := n.Attrs.(op.GaussianSplatRenderAttrs)
	return newSplatting(n, l, splat.Grid{Width: a.Width, Height: a.Height, Tile: splatSide},
		region{"forms", 0, splat.FormLen}, region{"colors", 0, 4})
}

var _ = register(Kernel{
	Op: "gaussian_splat_prepare", Takes: "(f32...) -> any",
	Refuses: splatRefuses + ", or the tiles list more splats than max_list_entries",
	Shaders: func(n *ir.Node, l Limits) []Shader {
		s := newPrepare(n, l)
		tiles, _ := s.tiles()
		list := Binding{Name: "list", Operand: Result(2), DType: dtype.I32}
		ranges := Binding{Name: "ranges", Operand: Result(3), DType: dtype.I32}
		out := s.prepare(Binding{Name: "color", Operand: Out, DType: dtype.F32},
			Binding{Name: "form", Operand: Result(1), DType: dtype.F32})
		add := func(name string, groups func(c *Call) int, change map[string]any, more ...Binding) {
			x := s.shader(name, 1, append(sceneBindings(), more...), change).walked(0)
			x.Groups = groups
			x.Params = func(c *Call) []uint32 { return s.params(c.In[3].Shape[0], c.Outs[2].Shape[0]) }
			out = append(out, x)
		}
		all := func(*Call) int { return tiles }
		add("lists", all, map[string]any{"Write": false}, ranges)
		add("ranges", func(*Call) int { return 1 }, nil, ranges, status())
		out[len(out)-1].Loops = func(*Call) int { return loop(ceilDiv(tiles, 256), loop(8, 0)) }
		add("lists", all, map[string]any{"Write": true}, list, ranges)
		add("rest", func(c *Call) int { return ceilDiv(c.Outs[2].Shape[0], 256) }, nil, list, ranges)
		return out
	},
	Scratch: func(n *ir.Node, l Limits) int64 { return newPrepare(n, l).scratch() },
})

func newPrepare(n *ir.Node, l Limits) *splatting {
	return newSplatting(n, l, n.Attrs.(op.GaussianSplatPrepareAttrs).Grid(), region{"conics", 0, 20})
}

func (s *splatting) tiles() (all, columns int) {
	g := splat.Grid{Width: s.width, Height: s.height, Tile: s.tile}
	return g.Columns() * g.Rows(), g.Columns()
}

var _ = register(Kernel{
	Op: "gaussian_splat_rasterize", Takes: "(f32, f32, i32, i32, f32)",
	Refuses: "the list has something else than splats and -1, ranges leave the list or name a -1, or meta is out of range",
	Shaders: func(n *ir.Node, _ Limits) []Shader {
		a := n.Attrs.(op.GaussianSplatRasterizeAttrs)
		s := &splatting{n: n, width: a.Width, height: a.Height, tile: a.Tile}
		tiles, _ := s.tiles()
		parts := ceilDiv(min(a.Tile, max(a.Width, a.Height)), splatSide)
		s.consts = map[string]any{"Parts": parts, "Batch": splatBatch, "Forms5": splatBatch, "Pixels": false}
		params := func(c *Call) []uint32 { return s.params(c.In[0].Shape[0], c.In[2].Shape[0]) }
		list := Binding{Name: "list", Operand: 2, DType: dtype.I32}
		ranges := Binding{Name: "ranges", Operand: 3, DType: dtype.I32}
		camera := Binding{Name: "cam", Operand: 4, DType: dtype.F32}
		check := s.shader("check_lists", 1, []Binding{list, ranges, camera, status()}, nil)
		check.Groups = func(c *Call) int { return ceilDiv(c.In[2].Shape[0]+tiles, 256) }
		check.Params = params
		draw := s.shader("rasterize", 1, []Binding{{Name: "x0", Operand: 0, DType: dtype.F32},
			{Name: "x1", Operand: 1, DType: dtype.F32}, list, ranges, camera, status(),
			{Name: "y", Operand: Out, DType: dtype.F32}}, nil)
		draw.Groups = func(*Call) int { return tiles * parts * parts }
		draw.Params = params
		draw.Loops = func(c *Call) int {
			most := c.In[2].Shape[0]
			return loop(most, 0) + loop(ceilDiv(most, splatBatch), 5)
		}
		return []Shader{check, draw}
	},
})

// pairConstants are numbers with the precision of two f32, as texts of vec2<f32>.
var pairConstants = func() map[string]any {
	out := map[string]any{"Ln2": math.Ln2, "Log2E": math.Log2E, "Over120": 1.0 / 120, "Over24": 1.0 / 24,
		"Over6": 1.0 / 6, "Degree": math.Pi / 360, "Exponent": splat.Exponent, "Smallest": math.Log2(1e-6),
		"Wider": 1 + 1e-6, "Millionth": 1e-6, "Billionth": 1e-9}
	f := 1.0
	for k := 1; k <= 6; k++ {
		f /= -float64(2*k) * float64(2*k+1)
		out[fmt.Sprint("S", k)] = f
	}
	for name, x := range out {
		x := x.(float64)
		high := float32(x)
		low, _ := new(big.Float).Sub(big.NewFloat(x), big.NewFloat(float64(high))).Float32()
		out[name] = fmt.Sprintf("vec2<f32>(%v, %v)", literalF32(high), literalF32(low))
	}
	return out
}()

// literalF32 returns a number as WGSL that keeps all bits.
func literalF32(x float32) string { return fmt.Sprintf("bitcast<f32>(0x%08xu)", math.Float32bits(x)) }
