package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/splat"
	"github.com/rlx-go/rlx/core/tensor"
)

// GaussianSplatRenderBackwardAttrs are the attributes of gaussian_splat_render_backward.
type GaussianSplatRenderBackwardAttrs struct {
	Width        int     `attr:"width"`
	Height       int     `attr:"height"`
	LossGradClip float64 `attr:"loss_grad_clip"` // 0 means no limit
}

// GaussianSplatRenderBackwardDef is the gradient of gaussian_splat_render.
var GaussianSplatRenderBackwardDef = ir.DefineTuple(ir.TupleDef[GaussianSplatRenderBackwardAttrs]{
	Name: "gaussian_splat_render_backward",
	Doc: "The gradient of a loss with respect to the splats of gaussian_splat_render, from its gradient d_rgba " +
		"[height,width,4] with respect to the image, whose alpha is not read. It is the exact derivative of " +
		"the image, in which the order of the splats, cutoffs and ends of pixels count as constants. It is 0 " +
		"where max(0, .) is 0, where an opacity or color is outside of 0..1, for a scale whose semi-axis is " +
		"1e-6, and for operands that take no part: colors, or sh0 if colors take part. It goes through the " +
		"normalised quaternion and through the direction of the harmonics. If loss_grad_clip is above 0, the " +
		"gradient with respect to the linear colour of a pixel is scaled down to this norm.",
	Results:  "d_positions, d_scales, d_rotations, d_opacities, d_colors, d_sh, each of its operand's type",
	Operands: splatOperands + ", d_rgba",
	Checked:  append(splatChecked[:7:7], ir.Checked{Operand: 7, Safe: 0}),
	Infer: func(s ir.Sig[GaussianSplatRenderBackwardAttrs]) ([]ir.Type, error) {
		a := s.Attrs
		if err := checkImage(a.Width, a.Height, 1); err != nil {
			return nil, err
		}
		if !(a.LossGradClip >= 0 && a.LossGradClip <= math.MaxFloat32) {
			return nil, fmt.Errorf("loss_grad_clip is %v; want a finite number, 0 or more", a.LossGradClip)
		}
		if _, err := checkScene(s.In, s.Syms); err != nil {
			return nil, err
		}
		if want := imageType(a.Width, a.Height); !s.In[7].Equal(want) {
			return nil, ir.TypesDiffer(s.In[7], want, "d_rgba is %v; want %v", s.In[7], want)
		}
		return s.In[:6], nil
	},
	Eval: func(a GaussianSplatRenderBackwardAttrs, in, out []*tensor.Array) error {
		s, v, err := sceneOf(in, a.Width, a.Height)
		if err == nil {
			err = splat.CheckImageGradient(in[7].Floats, a.Width)
		}
		if err != nil {
			return err
		}
		splat.Backward(v, s, in[7].Floats, a.LossGradClip, &splat.Gradient[float64]{Positions: out[0].Floats,
			Scales: out[1].Floats, Rotations: out[2].Floats, Opacities: out[3].Floats, Colors: out[4].Floats,
			SH: out[5].Floats})
		return nil
	},
	Memory: func(s ir.Sig[GaussianSplatRenderBackwardAttrs], _ []ir.Type) int64 { return splatMemory(s.In, s.Syms) },
	FLOPs: func(a GaussianSplatRenderBackwardAttrs, in, _ []ir.Type) int64 {
		return 3 * splatFLOPs(in, a.Width, a.Height)
	},
	Tol: func(_ GaussianSplatRenderBackwardAttrs, _, out []ir.Type) []ir.Tolerance {
		tol := make([]ir.Tolerance, len(out))
		for k := range tol {
			tol[k] = ir.Tolerance{Abs: 2e-4, Rel: 2e-4}
		}
		return tol
	},
	Cases: func() []ir.Case[GaussianSplatRenderBackwardAttrs] {
		c := func(w, h int, n, terms int64, clip float64,
			change map[int]float64) ir.Case[GaussianSplatRenderBackwardAttrs] {
			a := GaussianSplatRenderBackwardAttrs{Width: w, Height: h, LossGradClip: clip}
			x := splatCase(a, n, terms, change, imageType(w, h))
			x.Fill = append(x.Fill, ir.Range{Lo: -1, Hi: 1})
			return x
		}
		inside := map[int]float64{splat.MetaPosition + 2: -0.5, splat.MetaFovY: 100}
		steps := map[int]float64{splat.MetaMaxSteps: 3}
		return []ir.Case[GaussianSplatRenderBackwardAttrs]{
			c(9, 7, 1, 1, 0, nil), c(24, 17, 12, 4, 0, nil), c(40, 24, 30, 1, 0, inside), c(33, 20, 30, 9, 0, steps),
			c(20, 33, 21, 16, 0.5, nil), c(9, 7, 5, 1, 0, nil), c(11, 8, 5, 4, 0, nil),
		}
	},
})
