package op

import "github.com/rlx-go/rlx/core/ir"

// ConvTranspose3DDef defines the transpose (gradient) of a 3-D convolution.
var ConvTranspose3DDef = convTranspose(3, func() []ir.Case[ConvTransposeAttrs] {
	c, two := convTransposeCase, []int{2, 2, 2}
	return []ir.Case[ConvTransposeAttrs]{
		c(ConvTransposeAttrs{Layout: NCDHW}, f32(1, 1, 1, 1, 1), f32(1, 1, 1, 1, 1)),
		c(ConvTransposeAttrs{Layout: NCDHW, Stride: two}, f32(1, 3, 2, 4, 5), f32(3, 2, 2, 2, 2), f32(2)),
		c(ConvTransposeAttrs{Layout: NDHWC, Stride: two}, f32(1, 2, 3, 3, 4), f32(4, 8, 2, 2, 2), f32(8)),
		c(ConvTransposeAttrs{Layout: NDHWC, Stride: two}, f32(0, 2, 3, 3, 4), f32(4, 8, 2, 2, 2)),
		c(
			ConvTransposeAttrs{Layout: NCDHW, Stride: []int{1, 2, 3}, Padding: []int{1, 1, 0},
				OutputPadding: []int{0, 1, 2}}, f32(1, 2, 3, 4, 3), f32(2, 3, 3, 3, 3), f32(3)),
		c(ConvTransposeAttrs{Layout: NDHWC, Dilation: []int{2, 1, 2}, Padding: []int{1, 0, 1}, Groups: 2},
			f32(1, 3, 3, 4, 4), f32(4, 3, 2, 1, 3), f32(6)),
		c(ConvTransposeAttrs{Layout: NCDHW, Stride: two}, f32(1, 4, 2, 3, 3), f16(4, 3, 2, 2, 2)),
		c(ConvTransposeAttrs{Layout: NCDHW, Stride: two}, f16(1, 4, 2, 2, 3), f16(4, 3, 2, 2, 2)),
	}
})

// ConvTranspose3D adds a transposed convolution of x with w; bias may be nil.
func ConvTranspose3D(x, w, bias *ir.Node, attrs ConvTransposeAttrs) *ir.Node {
	return x.Graph.Add(ConvTranspose3DDef, attrs, x, w, bias)
}
