package op

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/splat"
	"github.com/rlx-go/rlx/core/tensor"
)

// GaussianSplatRenderAttrs are the attributes of gaussian_splat_render.
type GaussianSplatRenderAttrs struct {
	Width  int `attr:"width"`
	Height int `attr:"height"`
}

// GaussianSplatRenderDef renders 3D Gaussian splats.
var GaussianSplatRenderDef = ir.Define(ir.Def[GaussianSplatRenderAttrs]{
	Name: "gaussian_splat_render",
	Doc: "An image [height,width,4] of N 3D Gaussian splats (Kerbl et al. 2023), with red, green and blue, and alpha. Operands: " + splatScene + splatImage +
		"It equals gaussian_splat_rasterize of gaussian_splat_prepare, bit for bit. " + splatErrors,
	Operands: splatOperands,
	Checked:  splatChecked,
	Infer: func(s ir.Sig[GaussianSplatRenderAttrs]) (ir.Type, error) {
		if err := checkImage(s.Attrs.Width, s.Attrs.Height, 1); err != nil {
			return ir.Type{}, err
		}
		_, err := checkScene(s.In, s.Syms)
		return imageType(s.Attrs.Width, s.Attrs.Height), err
	},
	Eval: func(a GaussianSplatRenderAttrs, in []*tensor.Array, out *tensor.Array) error {
		s, v, err := sceneOf(in, a.Width, a.Height)
		if err != nil {
			return err
		}
		splat.Render(v, s, out.Floats)
		return nil
	},
	Memory: func(s ir.Sig[GaussianSplatRenderAttrs], _ ir.Type) int64 { return splatMemory(s.In, s.Syms) },
	FLOPs: func(a GaussianSplatRenderAttrs, in []ir.Type, _ ir.Type) int64 {
		return splatFLOPs(in, a.Width, a.Height)
	},
	Tol: func(GaussianSplatRenderAttrs, []ir.Type, ir.Type) ir.Tolerance {
		return ir.Tolerance{Abs: 2e-5, Rel: 2e-5}
	},
	Cases: func() []ir.Case[GaussianSplatRenderAttrs] {
		a := func(w, h int) GaussianSplatRenderAttrs { return GaussianSplatRenderAttrs{w, h} }
		inside := map[int]float64{splat.MetaPosition + 2: -0.5, splat.MetaFovY: 100}
		steps := map[int]float64{splat.MetaMaxSteps: 3}
		return []ir.Case[GaussianSplatRenderAttrs]{
			splatCase(a(9, 7), 1, 1, nil), splatCase(a(24, 17), 12, 4, nil), splatCase(a(40, 24), 50, 1, inside),
			splatCase(a(33, 20), 30, 9, steps), splatCase(a(20, 33), 21, 16, nil),
		}
	},
})

// GaussianSplatRender adds an image of splats. scene has the first six operands.
func GaussianSplatRender(width, height int, meta *ir.Node, scene ...*ir.Node) *ir.Node {
	return meta.Graph.Add(GaussianSplatRenderDef, GaussianSplatRenderAttrs{width, height}, append(scene[:6:6], meta)...)
}

// There is no rule for the camera.
var _ = ir.Gradient(GaussianSplatRenderDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	a := n.Attrs.(GaussianSplatRenderAttrs)
	attrs := GaussianSplatRenderBackwardAttrs{Width: a.Width, Height: a.Height}
	scene := n.Graph.AddResults(6, GaussianSplatRenderBackwardDef, attrs, append(n.In[:7:7], dy[0])...)
	return append(scene, ir.NoGradient), nil
})
