package op

import "github.com/rlx-go/rlx/core/ir"

// FusedConv1DDef defines the 1-D convolution with an activation and sums.
var FusedConv1DDef = fusedConv(Conv1DDef, 1, func() []ir.Case[FusedConvAttrs] {
	c := fusedConvCase
	return []ir.Case[FusedConvAttrs]{
		c(FusedConvAttrs{Layout: NCW, Act: "relu"}, f32(0, 2, 5), f32(3, 2, 3)),
		c(FusedConvAttrs{Layout: NCW, Act: "gelu", Padding: []int{1}}, f32(2, 3, 17), f32(4, 3, 3), f32(4),
			f32(2, 4, 17)),
		c(FusedConvAttrs{Layout: NWC, Act: "silu", Padding: []int{1}, Stride: []int{2}}, f32(2, 17, 3), f32(5, 3, 3),
			f32(5), ir.Type{}, f32(2, 9, 5)),
		c(FusedConvAttrs{Layout: NCW, Act: "silu", Padding: []int{3}, Groups: 6}, f32(2, 6, 37), f32(6, 1, 4), f32(6)),
		c(FusedConvAttrs{Layout: NWC, Padding: []int{3}, Groups: 20}, f32(2, 9, 20), f32(20, 1, 4), ir.Type{},
			f32(2, 12, 20)),
		c(FusedConvAttrs{Layout: NCW, Act: "tanh"}, f32(1, 4, 9), bf16(3, 4, 3), f32(3), f32(1, 3, 7), f32(1, 3, 7)),
		c(FusedConvAttrs{Layout: NWC, Act: "relu"}, f16(1, 9, 4), f16(3, 4, 3)),
		c(FusedConvAttrs{Layout: NCW, Act: "relu"}, f64(1, 2, 5), f64(3, 2, 2), f64(3)),
	}
})
