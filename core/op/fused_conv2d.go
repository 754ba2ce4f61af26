package op

import "github.com/rlx-go/rlx/core/ir"

// FusedConv2DDef defines the 2-D convolution with an activation and sums.
var FusedConv2DDef = fusedConv(Conv2DDef, 2, func() []ir.Case[FusedConvAttrs] {
	c, pair := fusedConvCase, []int{1, 1}
	cases := []ir.Case[FusedConvAttrs]{
		c(FusedConvAttrs{Layout: NCHW}, f32(1, 1, 1, 1), f32(1, 1, 1, 1)),
		c(FusedConvAttrs{Layout: NCHW, Act: "relu"}, f32(0, 2, 5, 5), f32(3, 2, 3, 3)),
		c(FusedConvAttrs{Layout: NCHW, Act: "relu", Padding: pair}, f32(2, 3, 7, 5), f32(4, 3, 3, 3), f32(4),
			f32(2, 4, 7, 5)),
		c(FusedConvAttrs{Layout: NHWC, Act: "relu", Padding: pair}, f32(1, 9, 8, 19), f32(17, 19, 3, 3), f32(17),
			f32(1, 9, 8, 17)),
		c(FusedConvAttrs{Layout: NCHW, Act: "gelu", Stride: []int{4, 4}}, f32(1, 3, 16, 12), f32(5, 3, 4, 4), f32(5),
			f32(1, 5, 4, 3), f32(1, 5, 4, 3)),
		c(FusedConvAttrs{Layout: NHWC, Stride: []int{2, 3}, Padding: []int{0, 2}, Dilation: []int{2, 1}},
			f32(1, 11, 9, 2), f32(3, 2, 3, 4), ir.Type{}, ir.Type{}, f32(1, 4, 4, 3)),
		c(FusedConvAttrs{Layout: NCHW, Act: "silu", Groups: 2}, f32(1, 4, 5, 5), f32(6, 2, 2, 2), f32(6)),
		c(FusedConvAttrs{Layout: NHWC, Act: "silu", Groups: 6, Padding: pair}, f32(1, 5, 5, 6), f32(6, 1, 3, 3),
			f32(6)),
		c(FusedConvAttrs{Layout: NCHW, Act: "hardswish", Groups: 5, Padding: pair, Stride: []int{2, 2}},
			f32(2, 5, 9, 37), f32(5, 1, 3, 3), f32(5), ir.Type{}, f32(2, 5, 5, 19)),
		c(FusedConvAttrs{Layout: NHWC, Act: "gelu"}, f32(1, 3, 5, 7), bf16(4, 7, 1, 1), f32(4), f32(1, 3, 5, 4)),
		c(FusedConvAttrs{Layout: NCHW, Act: "gelu"}, f32(1, 7, 3, 5), f16(4, 7, 1, 1), f32(4), ir.Type{},
			f32(1, 4, 3, 5)),
		// Channels, and pixels of a line, in fours.
		c(FusedConvAttrs{Layout: NCHW, Act: "relu", Padding: pair}, f32(2, 8, 3, 8), f32(4, 8, 3, 3), f32(4),
			f32(2, 4, 3, 8)),
		c(FusedConvAttrs{Layout: NHWC, Act: "relu", Padding: pair, Stride: []int{2, 1}}, f32(2, 5, 4, 20),
			f32(8, 20, 3, 3)),
		// by Winograd's algorithm, with a whole channel and with parts of one in a task
		c(FusedConvAttrs{Layout: NCHW, Act: "relu", Padding: pair}, f32(2, 16, 11, 13), f32(19, 16, 3, 3), f32(19),
			f32(2, 19, 11, 13)),
		c(FusedConvAttrs{Layout: NCHW}, f16(1, 2, 5, 5), f16(3, 2, 2, 2), f16(3), f16(1, 3, 4, 4)),
	}
	for _, name := range Activations() {
		def, _ := ir.Find(name)
		cases = append(cases, c(FusedConvAttrs{Act: FormatActivation(def, def.Cases()[0].Attrs), Layout: NCHW},
			f32(1, 5, 3, 4), f32(6, 5, 1, 2), f32(6)))
	}
	return cases
})
