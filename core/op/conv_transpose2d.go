package op

import "github.com/rlx-go/rlx/core/ir"

// ConvTranspose2DDef defines the transpose (gradient) of a 2-D convolution.
var ConvTranspose2DDef = convTranspose(2, func() []ir.Case[ConvTransposeAttrs] {
	c, two := convTransposeCase, []int{2, 2}
	return []ir.Case[ConvTransposeAttrs]{
		c(ConvTransposeAttrs{Layout: NCHW}, f32(1, 1, 1, 1), f32(1, 1, 1, 1)),
		c(ConvTransposeAttrs{Layout: NCHW, Stride: two}, f32(1, 3, 4, 5), f32(3, 2, 2, 2), f32(2)),
		c(ConvTransposeAttrs{Layout: NHWC, Stride: two}, f32(1, 4, 5, 3), f32(3, 2, 2, 2), f32(2)),
		c(ConvTransposeAttrs{Layout: NHWC, Stride: two}, f32(2, 3, 3, 17), f32(17, 19, 2, 2)),
		c(ConvTransposeAttrs{Layout: NHWC, Stride: two}, f32(0, 3, 3, 2), f32(2, 3, 2, 2)),
		c(ConvTransposeAttrs{Layout: NCHW, Stride: []int{2, 3}, Padding: []int{1, 0}, OutputPadding: []int{1, 2}},
			f32(1, 2, 4, 3), f32(2, 3, 3, 3), f32(3)),
		c(ConvTransposeAttrs{Layout: NCHW, Dilation: []int{2, 1}, Padding: []int{1, 1}}, f32(1, 2, 4, 4),
			f32(2, 3, 2, 3)),
		c(ConvTransposeAttrs{Layout: NHWC, Groups: 2, Stride: two}, f32(1, 3, 3, 4), f32(4, 3, 2, 2), f32(6)),
		c(ConvTransposeAttrs{Layout: NHWC, Stride: two}, f32(1, 3, 3, 4), bf16(4, 3, 2, 2), f32(3)),
		c(ConvTransposeAttrs{Layout: NCHW, Stride: two}, f16(1, 4, 3, 3), f16(4, 3, 2, 2)),
	}
})

// ConvTranspose2D adds a transposed convolution of x with w; bias may be nil.
func ConvTranspose2D(x, w, bias *ir.Node, attrs ConvTransposeAttrs) *ir.Node {
	return x.Graph.Add(ConvTranspose2DDef, attrs, x, w, bias)
}
