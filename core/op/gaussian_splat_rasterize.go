package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/splat"
	"github.com/rlx-go/rlx/core/tensor"
)

// GaussianSplatRasterizeAttrs are the attributes of gaussian_splat_rasterize.
type GaussianSplatRasterizeAttrs struct {
	Width  int `attr:"width"`
	Height int `attr:"height"`
	Tile   int `attr:"tile"` // side of the square tiles
}

// Grid returns the tiles.
func (a GaussianSplatRasterizeAttrs) Grid() splat.Grid {
	return splat.Grid{Width: a.Width, Height: a.Height, Tile: a.Tile}
}

// GaussianSplatRasterizeDef makes an image of prepared splats.
var GaussianSplatRasterizeDef = ir.Define(ir.Def[GaussianSplatRasterizeAttrs]{
	Name: "gaussian_splat_rasterize",
	Doc: "The image [height,width,4] of splats that gaussian_splat_prepare projected, with the same width, height, tile and meta. A pixel takes the splats that list has for its tile, in that order, as " +
		"gaussian_splat_render does; each covers alpha as its form says (see gaussian_splat_prepare). Entries of list between 0 and N-1, and ranges inside of list, are all that it takes.",
	Operands: "colors, forms, list, ranges, meta",
	Checked: []ir.Checked{{Operand: 2, Safe: 0}, {Operand: 3, Safe: 0},
		{Operand: 4, Safe: 1}},
	Infer: func(s ir.Sig[GaussianSplatRasterizeAttrs]) (ir.Type, error) {
		a := s.Attrs
		if err := checkImage(a.Width, a.Height, a.Tile); err != nil {
			return ir.Type{}, err
		}
		colors, list := s.In[0], s.In[2]
		if colors.DType != dtype.F32 || colors.Rank() != 2 || colors.Shape[1] != ir.Static(4) {
			return ir.Type{}, fmt.Errorf("colors are %v; want f32[N,4]", colors)
		}
		forms := ir.Type{DType: dtype.F32, Shape: ir.Shape{colors.Shape[0], ir.Static(splat.FormLen)}}
		if !s.In[1].Equal(forms) {
			return ir.Type{}, ir.TypesDiffer(s.In[1], forms, "forms are %v; want %v", s.In[1], forms)
		}
		if list.DType != dtype.I32 || list.Rank() != 1 {
			return ir.Type{}, fmt.Errorf("list is %v; want i32 of rank 1", list)
		}
		ranges := i32(int64(a.Grid().Columns())*int64(a.Grid().Rows()), 2)
		if !s.In[3].Equal(ranges) {
			return ir.Type{}, ir.TypesDiffer(s.In[3], ranges, "ranges are %v; want %v", s.In[3], ranges)
		}
		return imageType(a.Width, a.Height), checkMeta(s.In[4])
	},
	Eval: func(a GaussianSplatRasterizeAttrs, in []*tensor.Array, out *tensor.Array) error {
		v, err := splat.NewView(in[4].Floats, a.Width, a.Height)
		if err == nil {
			err = splat.CheckLists(in[2].Ints, in[3].Ints, in[0].Shape[0])
		}
		if err != nil {
			return err
		}
		form := func(i int) *splat.Form { return (*splat.Form)(in[1].Floats[splat.FormLen*i:]) }
		color := func(i int) []float64 { return in[0].Floats[4*i:][:4] }
		for y := range a.Height {
			for x := range a.Width {
				tile := in[3].Ints[2*(y/a.Tile*a.Grid().Columns()+x/a.Tile):]
				c := v.Pixel(x, y, func(yield func(int) bool) {
					for _, i := range in[2].Ints[tile[0]:tile[1]] {
						if !yield(int(i)) {
							return
						}
					}
				}, form, color)
				copy(out.Floats[(y*a.Width+x)*4:], c[:])
			}
		}
		return nil
	},
	FLOPs: func(a GaussianSplatRasterizeAttrs, in []ir.Type, _ ir.Type) int64 {
		return 40 * min(numel(in[2]), 32) * int64(a.Width) * int64(a.Height)
	},
	Tol: func(GaussianSplatRasterizeAttrs, []ir.Type, ir.Type) ir.Tolerance {
		return ir.Tolerance{Abs: 2e-5, Rel: 2e-5}
	},
	Cases: func() []ir.Case[GaussianSplatRasterizeAttrs] {
		c := func(w, h, tile int, n int64) ir.Case[GaussianSplatRasterizeAttrs] {
			a := GaussianSplatRasterizeAttrs{w, h, tile}
			tiles := int64(a.Grid().Columns() * a.Grid().Rows())
			var forms, list, ranges []float64
			for i := range n {
				f := splat.Form{splat.FormX: float64(i) / float64(n) * float64(w), splat.FormY: float64(h) / 2,
					splat.FormUX: 0.3, splat.FormVY: 0.5, splat.FormS: 1, splat.FormLimit: 8}
				forms = append(forms, f[:]...)
			}
			for t := range tiles {
				ranges = append(ranges, float64(t*n), float64((t+1)*n))
				for i := range n {
					list = append(list, float64(i))
				}
			}
			small := ir.Range{Lo: 0, Hi: 1.0 / 16}
			return ir.Case[GaussianSplatRasterizeAttrs]{Attrs: a,
				In:   []ir.Type{f32(n, 4), f32(n, splat.FormLen), i32(n * tiles), i32(tiles, 2), f32(splat.MetaLen)},
				Fill: []ir.Range{{Lo: 0, Hi: 1}, small, {}, {}, {Lo: 0, Hi: 1.0 / 64}},
				Base: [][]float64{1: forms, 2: list, 3: ranges, 4: splatMeta(nil)}}
		}
		return []ir.Case[GaussianSplatRasterizeAttrs]{c(5, 3, 16, 1), c(20, 17, 16, 7), c(24, 9, 8, 12),
			c(31, 33, 11, 5), c(16, 16, 16, 30)}
	},
})

// GaussianSplatRasterize adds an image of prepared splats.
func GaussianSplatRasterize(a GaussianSplatRasterizeAttrs, colors, forms, list, ranges, meta *ir.Node) *ir.Node {
	return colors.Graph.Add(GaussianSplatRasterizeDef, a, colors, forms, list, ranges, meta)
}
