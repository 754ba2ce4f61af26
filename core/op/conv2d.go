package op

import "github.com/rlx-go/rlx/core/ir"

// Conv2DDef defines the 2-D convolution of neural networks.
var Conv2DDef = conv(2, func() []ir.Case[ConvAttrs] {
	c, pair := convCase, []int{1, 1}
	return []ir.Case[ConvAttrs]{
		c(ConvAttrs{Layout: NCHW}, f32(1, 1, 1, 1), f32(1, 1, 1, 1)),
		c(ConvAttrs{Layout: NCHW}, f32(0, 2, 5, 5), f32(3, 2, 3, 3)),
		c(ConvAttrs{Layout: NCHW, Padding: pair}, f32(2, 3, 7, 5), f32(4, 3, 3, 3), f32(4)),
		c(ConvAttrs{Layout: NHWC, Padding: pair}, f32(2, 7, 5, 3), f32(4, 3, 3, 3)),
		c(ConvAttrs{Layout: NHWC, Padding: pair}, f32(1, 9, 8, 19), f32(17, 19, 3, 3), f32(17)),
		c(ConvAttrs{Layout: NCHW, Stride: []int{4, 4}}, f32(1, 3, 16, 12), f32(5, 3, 4, 4), f32(5)),
		c(ConvAttrs{Layout: NHWC, Stride: []int{2, 3}, Padding: []int{0, 2}, Dilation: []int{2, 1}}, f32(1, 11, 9, 2),
			f32(3, 2, 3, 4)),
		c(ConvAttrs{Layout: NCHW, Groups: 2}, f32(1, 4, 5, 5), f32(6, 2, 2, 2), f32(6)),
		c(ConvAttrs{Layout: NHWC, Groups: 6, Padding: pair}, f32(1, 5, 5, 6), f32(6, 1, 3, 3), f32(6)),
		c(ConvAttrs{Layout: NCHW, Groups: 5, Padding: pair, Stride: []int{2, 2}}, f32(2, 5, 9, 37), f32(5, 1, 3, 3),
			f32(5)),
		c(ConvAttrs{Layout: NCHW, Groups: 3, Padding: []int{2, 0}, Dilation: []int{2, 1}}, f32(1, 3, 6, 21),
			f32(6, 1, 3, 2)),
		c(ConvAttrs{Layout: NHWC, Groups: 32, Padding: []int{2, 2}, Stride: []int{1, 2}}, f32(1, 5, 8, 32),
			f32(32, 1, 5, 5)),
		c(ConvAttrs{Layout: NHWC}, f32(1, 3, 5, 7), bf16(4, 7, 1, 1), f32(4)),
		c(ConvAttrs{Layout: NCHW}, f32(1, 7, 3, 5), f16(4, 7, 1, 1), f32(4)),
		c(ConvAttrs{Layout: NCHW}, f32(1, 2, 5, 5), f16(3, 2, 2, 2)),
		// Channels, and pixels of a line, in fours.
		c(ConvAttrs{Layout: NCHW, Padding: pair}, f32(2, 8, 3, 8), f32(5, 8, 3, 3), f32(5)),
		c(ConvAttrs{Layout: NHWC, Padding: pair, Stride: []int{2, 1}}, f32(2, 5, 4, 20), f32(8, 20, 3, 3)),
		c(ConvAttrs{Layout: NCHW}, f16(1, 2, 5, 5), f16(3, 2, 2, 2)),
	}
})

// Conv2D adds a convolution of x with w. bias may be nil.
func Conv2D(x, w, bias *ir.Node, attrs ConvAttrs) *ir.Node {
	return x.Graph.Add(Conv2DDef, attrs, x, w, bias)
}
