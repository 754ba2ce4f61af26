package op

import "github.com/rlx-go/rlx/core/ir"

// Conv1DDef defines the 1-D convolution of neural networks.
var Conv1DDef = conv(1, func() []ir.Case[ConvAttrs] {
	return []ir.Case[ConvAttrs]{
		convCase(ConvAttrs{Layout: NCW}, f32(1, 1, 1), f32(1, 1, 1)),
		convCase(ConvAttrs{Layout: NCW}, f32(0, 2, 5), f32(3, 2, 3)),
		convCase(ConvAttrs{Layout: NCW, Padding: []int{1}}, f32(2, 3, 17), f32(4, 3, 3), f32(4)),
		convCase(ConvAttrs{Layout: NWC, Padding: []int{1}, Stride: []int{2}}, f32(2, 17, 3), f32(5, 3, 3), f32(5)),
		convCase(ConvAttrs{Layout: NWC, Padding: []int{4}, Dilation: []int{3}}, f32(1, 29, 8), f32(12, 8, 4)),
		// as state-space models use it
		convCase(ConvAttrs{Layout: NCW, Padding: []int{3}, Groups: 6}, f32(2, 6, 37), f32(6, 1, 4), f32(6)),
		convCase(ConvAttrs{Layout: NWC, Padding: []int{3}, Groups: 20}, f32(2, 9, 20), f32(20, 1, 4), f32(20)),
		convCase(ConvAttrs{Layout: NCW, Groups: 2, Stride: []int{3}}, f32(1, 4, 11), f32(6, 2, 2), f32(6)),
		convCase(ConvAttrs{Layout: NCW}, f32(1, 4, 9), bf16(3, 4, 3), f32(3)),
		convCase(ConvAttrs{Layout: NWC}, f16(1, 9, 4), f16(3, 4, 3)),
		convCase(ConvAttrs{Layout: NCW}, f64(1, 2, 5), f64(3, 2, 2), f64(3)),
	}
})

// Conv1D adds a convolution of x with w. bias may be nil.
func Conv1D(x, w, bias *ir.Node, attrs ConvAttrs) *ir.Node {
	return x.Graph.Add(Conv1DDef, attrs, x, w, bias)
}
