package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/splat"
	"github.com/rlx-go/rlx/core/tensor"
)

// The ops gaussian_splat_... share their operands: the splats, and meta.
const (
	splatOperands = "positions, scales, rotations, opacities, colors, sh, meta"

	splatScene = "positions [3N], scales [3N] (logarithms), rotations [4N] (quaternions w, x, y, z of any length but 0), opacities [N] " +
		"(clamped to 0..1), colors [3N], sh [N*C*3] with the spherical harmonics, coefficient k of splat n at (n*C+k)*3, C of 1 to 16, and meta [23]; all f32. " +
		"meta: camera position 0-2, target 3-5, up 6-8, vertical field of view in degrees 9, near 10 and far 11 (without effect), background 12-14, " +
		"radius_scale 18, alpha_cutoff 19, max_splat_steps 20 (less than 1: unlimited), transmittance_thr 21. The attributes give the sizes, so 15-17 and 22 are not read. "

	splatImage = "With f = norm(target-position), r = norm(up x f) and u = f x r, pixel (x, y) looks along f + (r*(x+0.5-width/2) + u*(y+0.5-height/2))/focal, " +
		"focal = height/2/tan(fov/2); rows grow along u, so that up is at the bottom. norm of a vector of at most 1e-8 is (0,0,1). A splat has semi-axes " +
		"a = max(exp(scale)*radius_scale*3, 1e-6). Where a ray is closest to its centre, at the distance q in units of a along its axes, alpha = opacity*exp(-4.5*q^2). " +
		"A pixel takes the splats in the order of the distance from the camera to their centres, equal ones in their order; it skips those with alpha < alpha_cutoff, with opacity <= alpha_cutoff, with a " +
		"closest point behind the camera, and with a centre that lies less than 1e-4 in front of it. Each adds T*alpha*colour, then T *= 1-alpha, from T = 1; " +
		"the pixel ends after the splat that makes T < transmittance_thr, and after max_splat_steps splats. Its value is max(0, colour + T*background)^2.2, and 1-T. " +
		"A splat's colour is 0.5 plus the harmonics of norm(camera-position) up to degree 3 (C >= 4: degree 1, 9: 2, 16: 3), 0.28209479*sh0 - 0.48860251*(y*sh1 - z*sh2 + x*sh3) + ... . " +
		"If |sh0| <= 1e-8 in the whole scene, colors clamped to 0..1 take the place of 0.5 and sh0. "

	splatErrors = "Numbers that are not finite, a quaternion of 0, a scale above 80, a field of view that is not between 0 and 180, a radius_scale that is not above 0, and an alpha_cutoff below 1e-9 are errors."
)

// maxImage is the largest width and height of a rendered image.
const maxImage = 1 << 15

// splatChecked are the operands of a scene whose values the ops check.
var splatChecked = []ir.Checked{{Operand: 0, Safe: 0}, {Operand: 1, Safe: 0}, {Operand: 2, Safe: 1},
	{Operand: 3, Safe: 0}, {Operand: 4, Safe: 0}, {Operand: 5, Safe: 0}, {Operand: 6, Safe: 1}}

// checkImage checks the sizes of an image and its tiles.
func checkImage(width, height, tile int) error {
	if width < 1 || height < 1 || width > maxImage || height > maxImage {
		return fmt.Errorf("width is %d and height %d; want 1 to %d", width, height, maxImage)
	}
	if tile < 1 || tile > maxImage {
		return fmt.Errorf("tile is %d; want 1 to %d", tile, maxImage)
	}
	return nil
}

func imageType(width, height int) ir.Type { return f32(int64(height), int64(width), 4) }

// checkScene checks the types of the operands in splatOperands and returns the number of splats.
func checkScene(in []ir.Type, syms ir.Syms) (n ir.Dim, err error) {
	if in[3].Rank() != 1 || in[3].DType != dtype.F32 {
		return n, fmt.Errorf("opacities are %v; want f32[N]", in[3])
	}
	n = in[3].Shape[0]
	if least, most := syms.Bounds(n); least < 1 || most > 1<<27 {
		return n, fmt.Errorf("opacities are %v, for %d to %d splats; want 1 to %d", in[3], least, most, 1<<27)
	}
	for k, each := range []int64{3, 3, 4, 1, 3} {
		total, ok := n.Mul(ir.Static(each))
		if !ok {
			return n, fmt.Errorf("opacities are %v; that is too many splats", in[3])
		}
		if err := vectorOf([]string{"positions", "scales", "rotations", "opacities", "colors"}[k], in[k], dtype.F32,
			total); err != nil {
			return n, err
		}
	}
	sh := in[5]
	c := ir.Dim{}
	ok := sh.Rank() == 1 && sh.DType == dtype.F32
	if ok {
		each, _ := n.Mul(ir.Static(3))
		c, ok = sh.Shape[0].Div(each)
	}
	if !ok || !c.IsStatic() || c.Const < 1 || c.Const > 16 {
		return n, fmt.Errorf("sh is %v, with opacities %v; want f32[N*C*3] with C of 1 to 16", sh, in[3])
	}
	return n, checkMeta(in[6])
}

func checkMeta(t ir.Type) error {
	return vectorOf("meta", t, dtype.F32, ir.Static(splat.MetaLen))
}

// sceneOf returns the scene and the camera of the operands, or an error for values that they must not have.
func sceneOf(in []*tensor.Array, width, height int) (*splat.Scene[float64], *splat.View, error) {
	n := in[3].Len()
	s := &splat.Scene[float64]{N: n, C: in[5].Len() / (3 * n), Positions: in[0].Floats, Scales: in[1].Floats,
		Rotations: in[2].Floats, Opacities: in[3].Floats, Colors: in[4].Floats, SH: in[5].Floats}
	if err := s.Check(); err != nil {
		return nil, nil, err
	}
	v, err := splat.NewView(in[6].Floats, width, height)
	return s, &v, err
}

// splatMemory bounds the memory of the definitions: forms, colours, sums and orders of n splats, and the memory for the
// pixels of an image.
func splatMemory(in []ir.Type, syms ir.Syms) int64 {
	_, n := syms.Bounds(in[3].Shape[0])
	return 1024 * n
}

// splatFLOPs estimates the work: 500 operations for each splat, and 40 for each of 32 splats that a pixel shows.
func splatFLOPs(in []ir.Type, width, height int) int64 {
	n := numel(in[3])
	return 500*n + 40*min(n, 32)*int64(width)*int64(height)
}

// splatCase returns the operands of a case: n splats in a box before a camera, with c coefficients of harmonics each.
// meta has values for tests; change overwrites some of them.
func splatCase[A any](attrs A, n, c int64, change map[int]float64, more ...ir.Type) ir.Case[A] {
	in := append([]ir.Type{f32(3 * n), f32(3 * n), f32(4 * n), f32(n), f32(3 * n), f32(n * c * 3), f32(splat.MetaLen)},
		more...)
	return ir.Case[A]{Attrs: attrs, In: in,
		Fill: []ir.Range{{Lo: -1, Hi: 1}, {Lo: -3.5, Hi: -1.5}, {Lo: -1, Hi: 1}, {Lo: 0, Hi: 1.1}, {Lo: -0.2, Hi: 1.2},
			{Lo: -0.5, Hi: 1}, {Lo: 0, Hi: 1.0 / 64}},
		Base: [][]float64{6: splatMeta(change)}}
}

func splatMeta(change map[int]float64) []float64 {
	meta := []float64{0.2, -0.3, -3, 0, 0, 0, 0, 1, 0, 55, 0.1, 100, 0.1, 0.2, 0.3, 0, 0, 0, 1.2, 0.003, 0, 0.01, 0}
	for k, v := range change {
		meta[k] = v
	}
	return meta
}
