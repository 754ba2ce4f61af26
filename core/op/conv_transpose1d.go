package op

import "github.com/rlx-go/rlx/core/ir"

// ConvTranspose1DDef defines the transpose (gradient) of a 1-D convolution.
var ConvTranspose1DDef = convTranspose(1, func() []ir.Case[ConvTransposeAttrs] {
	c, two := convTransposeCase, []int{2}
	return []ir.Case[ConvTransposeAttrs]{
		c(ConvTransposeAttrs{Layout: NCW}, f32(1, 1, 1), f32(1, 1, 1)),
		c(ConvTransposeAttrs{Layout: NCW, Stride: two}, f32(2, 3, 7), f32(3, 2, 2), f32(2)),
		c(ConvTransposeAttrs{Layout: NWC, Stride: two}, f32(1, 7, 4), f32(4, 8, 2), f32(8)),
		c(ConvTransposeAttrs{Layout: NWC, Stride: two}, f32(0, 3, 2), f32(2, 3, 2)),
		c(ConvTransposeAttrs{Layout: NCW, Stride: []int{4}, Padding: []int{2}, OutputPadding: []int{1}}, f32(1, 5, 9),
			f32(5, 3, 8), f32(3)),
		c(ConvTransposeAttrs{Layout: NWC, Dilation: []int{3}, Padding: []int{1}, Groups: 2}, f32(1, 5, 4), f32(4, 3, 3),
			f32(6)),
		c(ConvTransposeAttrs{Layout: NCW, Stride: two}, f32(1, 4, 5), bf16(4, 3, 3)),
		c(ConvTransposeAttrs{Layout: NCW, Stride: two}, f16(1, 4, 5), f16(4, 3, 2)),
	}
})

// ConvTranspose1D adds a transposed convolution of x with w; bias may be nil.
func ConvTranspose1D(x, w, bias *ir.Node, attrs ConvTransposeAttrs) *ir.Node {
	return x.Graph.Add(ConvTranspose1DDef, attrs, x, w, bias)
}
