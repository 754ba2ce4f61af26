package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/splat"
	"github.com/rlx-go/rlx/core/tensor"
)

// GaussianSplatPrepareAttrs are the attributes of gaussian_splat_prepare.
type GaussianSplatPrepareAttrs struct {
	Width          int `attr:"width"`
	Height         int `attr:"height"`
	Tile           int `attr:"tile"`             // side of the square tiles
	MaxListEntries int `attr:"max_list_entries"` // length of the list; 0 means N for each tile, which always suffices
}

// Grid returns the tiles.
func (a GaussianSplatPrepareAttrs) Grid() splat.Grid {
	return splat.Grid{Width: a.Width, Height: a.Height, Tile: a.Tile}
}

// GaussianSplatPrepareDef projects splats and lists them by tile.
var GaussianSplatPrepareDef = ir.DefineTuple(ir.TupleDef[GaussianSplatPrepareAttrs]{
	Name: "gaussian_splat_prepare",
	Doc: "What gaussian_splat_rasterize needs of a scene and a camera. Operands: " + splatScene + splatImage +
		"colors has red, green, blue and opacity of each splat. forms has 16 values for each: x, y, u, ux, uy, v, vy, dx, dy, dxx, dxy, dyy, s, sx, sy, limit. With X = column-x and Y = row-y, " +
		"U = u + ux*X + uy*Y, V = v + vy*Y and D = 1 + dx*X + dy*Y + dxx*X*X + dxy*X*Y + dyy*Y*Y, alpha = opacity*2^-((U*U+V*V)/D) in a pixel where the exponent is between 0 and limit = log2(opacity/alpha_cutoff) and s + sx*X + sy*Y > 0. " +
		"x and y are the pixel nearest to the centre. (U,V) is the cross product of camera and ray in the splat's axes, in units of its semi-axes and times sqrt(4.5*log2(e)), and D is the square of the ray; both are divided by the ray at x, y. " +
		"Splats that no pixel shows have zeros. list has the splats of each tile in the order of the distance, tile by tile, then -1; ranges has the begin and the end of each tile's part, row by row. " +
		"A tile lists each splat that one of its pixels may show. max_list_entries is the length of the list. A scene that needs more is an error, which says how many; 0 makes room for each splat in each tile. " + splatErrors,
	Results:  "colors f32[N,4], forms f32[N,16], list i32[max_list_entries], ranges i32[tiles,2]",
	Operands: splatOperands,
	Checked:  splatChecked,
	Infer: func(s ir.Sig[GaussianSplatPrepareAttrs]) ([]ir.Type, error) {
		a := s.Attrs
		if err := checkImage(a.Width, a.Height, a.Tile); err != nil {
			return nil, err
		}
		n, err := checkScene(s.In, s.Syms)
		if err != nil {
			return nil, err
		}
		tiles := int64(a.Grid().Columns()) * int64(a.Grid().Rows())
		list, ok := n.Mul(ir.Static(tiles))
		if a.MaxListEntries != 0 {
			if err := checkSize("max_list_entries", a.MaxListEntries, 0); err != nil {
				return nil, err
			}
			list, ok = ir.Static(int64(a.MaxListEntries)), true
		}
		if _, most := s.Syms.Bounds(list); !ok || most > 1<<31-1 {
			return nil, fmt.Errorf("%v splats in %d tiles do not fit into a list of all; want max_list_entries or larger tiles",
				n, tiles)
		}
		return []ir.Type{{DType: dtype.F32, Shape: ir.Shape{n, ir.Static(4)}},
			{DType: dtype.F32, Shape: ir.Shape{n, ir.Static(splat.FormLen)}},
			{DType: dtype.I32, Shape: ir.Shape{list}}, i32(tiles, 2)}, nil
	},
	Eval: func(a GaussianSplatPrepareAttrs, in, out []*tensor.Array) error {
		s, v, err := sceneOf(in, a.Width, a.Height)
		if err != nil {
			return err
		}
		p := splat.Prepare(v, s)
		for i := range s.N {
			copy(out[0].Floats[4*i:], p.Colors[i][:])
			copy(out[1].Floats[splat.FormLen*i:], p.Forms[i][:])
		}
		list, ranges := make([]int32, out[2].Len()), make([]int32, out[3].Len())
		if err := p.Lists(a.Grid(), list, ranges); err != nil {
			return err
		}
		for i, x := range list {
			out[2].Ints[i] = int64(x)
		}
		for i, x := range ranges {
			out[3].Ints[i] = int64(x)
		}
		return nil
	},
	Memory: func(s ir.Sig[GaussianSplatPrepareAttrs], out []ir.Type) int64 {
		return splatMemory(s.In, s.Syms) + s.Syms.MaxBytes(out[2]) + s.Syms.MaxBytes(out[3])
	},
	FLOPs: func(a GaussianSplatPrepareAttrs, in, out []ir.Type) int64 { return 500 * numel(in[3]) },
	Tol: func(_ GaussianSplatPrepareAttrs, _, out []ir.Type) []ir.Tolerance {
		return []ir.Tolerance{{Abs: 1e-6, Rel: 1e-5}, {Abs: 1e-6, Rel: 1e-5}, {}, {}}
	},
	Cases: func() []ir.Case[GaussianSplatPrepareAttrs] {
		c := func(w, h, tile, list int, n, terms int64) ir.Case[GaussianSplatPrepareAttrs] {
			return splatCase(GaussianSplatPrepareAttrs{w, h, tile, list}, n, terms, nil)
		}
		return []ir.Case[GaussianSplatPrepareAttrs]{
			c(9, 7, 16, 0, 1, 1), c(24, 17, 16, 0, 12, 4), c(40, 24, 8, 0, 20, 1), c(33, 20, 5, 900, 30, 9),
			c(20, 33, 16, 0, 21, 16),
		}
	},
})

// GaussianSplatPrepare adds the projection of splats. scene has the first six operands.
func GaussianSplatPrepare(a GaussianSplatPrepareAttrs, meta *ir.Node,
	scene ...*ir.Node) (colors, forms, list, ranges *ir.Node) {
	r := meta.Graph.AddResults(4, GaussianSplatPrepareDef, a, append(scene[:6:6], meta)...)
	return r[0], r[1], r[2], r[3]
}
