package op

import "github.com/rlx-go/rlx/core/ir"

// Conv3DDef defines the 3-D convolution of neural networks.
var Conv3DDef = conv(3, func() []ir.Case[ConvAttrs] {
	c, three := convCase, []int{1, 1, 1}
	return []ir.Case[ConvAttrs]{
		c(ConvAttrs{Layout: NCDHW}, f32(1, 1, 1, 1, 1), f32(1, 1, 1, 1, 1)),
		c(ConvAttrs{Layout: NCDHW}, f32(0, 2, 3, 3, 3), f32(3, 2, 3, 3, 3)),
		c(ConvAttrs{Layout: NCDHW, Padding: three}, f32(2, 3, 3, 5, 7), f32(4, 3, 3, 3, 3), f32(4)),
		c(ConvAttrs{Layout: NDHWC, Padding: three}, f32(1, 3, 4, 5, 8), f32(12, 8, 3, 3, 3), f32(12)),
		c(ConvAttrs{Layout: NDHWC, Stride: []int{2, 1, 3}, Padding: []int{0, 2, 1}, Dilation: []int{1, 2, 1}},
			f32(1, 5, 5, 8, 3), f32(5, 3, 2, 3, 3)),
		c(ConvAttrs{Layout: NCDHW, Stride: []int{1, 2, 2}, Padding: []int{1, 3, 3}}, f32(1, 3, 4, 9, 11),
			f32(5, 3, 3, 7, 7)),
		c(ConvAttrs{Layout: NCDHW, Groups: 2}, f32(1, 4, 3, 4, 5), f32(6, 2, 2, 2, 2), f32(6)),
		c(ConvAttrs{Layout: NCDHW, Groups: 5, Padding: three}, f32(1, 5, 3, 4, 19), f32(5, 1, 3, 3, 3), f32(5)),
		c(ConvAttrs{Layout: NDHWC, Groups: 8, Padding: three}, f32(1, 3, 4, 4, 8), f32(8, 1, 3, 3, 3)),
		c(ConvAttrs{Layout: NCDHW}, f32(1, 4, 2, 3, 3), bf16(3, 4, 1, 1, 1), f32(3)),
		c(ConvAttrs{Layout: NCDHW, Stride: []int{2, 1, 2}, Padding: []int{1, 1, 0}, Dilation: []int{1, 2, 1}},
			f32(2, 8, 5, 7, 17), f32(6, 8, 3, 2, 3)),
		c(ConvAttrs{Layout: NDHWC}, f16(1, 2, 3, 3, 2), f16(3, 2, 2, 2, 2)),
	}
})

// Conv3D adds a convolution of x with w. bias may be nil.
func Conv3D(x, w, bias *ir.Node, attrs ConvAttrs) *ir.Node {
	return x.Graph.Add(Conv3DDef, attrs, x, w, bias)
}
