package op

import "github.com/rlx-go/rlx/core/ir"

// FusedConv3DDef defines the 3-D convolution with an activation and sums.
var FusedConv3DDef = fusedConv(Conv3DDef, 3, func() []ir.Case[FusedConvAttrs] {
	c, three := fusedConvCase, []int{1, 1, 1}
	return []ir.Case[FusedConvAttrs]{
		c(FusedConvAttrs{Layout: NCDHW, Act: "relu"}, f32(0, 2, 3, 3, 3), f32(3, 2, 3, 3, 3)),
		c(FusedConvAttrs{Layout: NCDHW, Act: "relu", Padding: three}, f32(2, 3, 3, 5, 7), f32(4, 3, 3, 3, 3), f32(4),
			f32(2, 4, 3, 5, 7)),
		c(FusedConvAttrs{Layout: NDHWC, Act: "silu", Padding: three}, f32(1, 3, 4, 5, 8), f32(12, 8, 3, 3, 3), f32(12),
			ir.Type{}, f32(1, 3, 4, 5, 12)),
		c(FusedConvAttrs{Layout: NCDHW, Act: "gelu", Stride: []int{1, 2, 2}, Padding: []int{1, 3, 3}},
			f32(1, 3, 4, 9, 11), f32(5, 3, 3, 7, 7), ir.Type{}, f32(1, 5, 4, 5, 6)),
		c(FusedConvAttrs{Layout: NCDHW, Act: "relu", Groups: 5, Padding: three}, f32(1, 5, 3, 4, 19),
			f32(5, 1, 3, 3, 3), f32(5), f32(1, 5, 3, 4, 19), f32(1, 5, 3, 4, 19)),
		c(FusedConvAttrs{Layout: NDHWC, Act: "relu"}, f16(1, 2, 3, 3, 2), f16(3, 2, 2, 2, 2)),
	}
})
