package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
)

// Layouts of images.
const (
	NCHW = "nchw" // [batch, channels, height, width]
	NHWC = "nhwc" // [batch, height, width, channels], channels last
)

// ConvGeometry is what conv2d and conv_transpose2d mean once the defaults are filled in. Pairs are height, width.
type ConvGeometry struct {
	Stride, Padding, OutputPadding, Dilation [2]int
	Groups                                   int
	// Axes are the positions of channels, height and width in a tensor of the layout; the batch is axis 0.
	C, H, W int
}

// geometry fills in defaults and checks ranges: stride 1, no padding, dilation 1, one group, layout spelled out.
func geometry(stride, padding, outputPadding, dilation []int, groups int, layout string) (ConvGeometry, error) {
	g := ConvGeometry{Groups: max(groups, 1)}
	if groups < 0 {
		return g, fmt.Errorf("groups is %d; want 1 or more", groups)
	}
	switch layout {
	case NCHW:
		g.C, g.H, g.W = 1, 2, 3
	case NHWC:
		g.C, g.H, g.W = 3, 1, 2
	default:
		return g, fmt.Errorf("layout is %q; want %q or %q", layout, NCHW, NHWC)
	}
	for _, p := range []struct {
		name  string
		list  []int
		to    *[2]int
		least int
	}{
		{"stride", stride, &g.Stride, 1}, {"padding", padding, &g.Padding, 0},
		{"output_padding", outputPadding, &g.OutputPadding, 0}, {"dilation", dilation, &g.Dilation, 1},
	} {
		*p.to = [2]int{p.least, p.least}
		if len(p.list) == 0 {
			continue
		}
		if len(p.list) != 2 {
			return g, fmt.Errorf("%s is %v; want two numbers, for height and width", p.name, p.list)
		}
		for _, v := range p.list {
			if v < p.least || v > maxWindow {
				return g, fmt.Errorf("%s is %v; want numbers from %d to %d", p.name, p.list, p.least, maxWindow)
			}
		}
		*p.to = [2]int(p.list)
	}
	return g, nil
}

// maxWindow bounds strides, paddings, dilations and kernels, so that no size computed from them can wrap.
const maxWindow = 1 << 20

// checkConv checks the operands' ranks and element types and the kernel.
func (g ConvGeometry) checkConv(in []ir.Type) error {
	x, w := in[0], in[1]
	if err := weightDType(x, w); err != nil {
		return err
	}
	if x.Rank() != 4 || w.Rank() != 4 || !w.Shape.IsStatic() {
		return fmt.Errorf("operands are %v and %v; want rank 4 and a static weight", x, w)
	}
	for _, k := range w.Shape[2:] {
		if k.B < 1 || k.B > maxWindow {
			return fmt.Errorf("kernel of %v; want sizes from 1 to %d", w, maxWindow)
		}
	}
	if groups := int64(g.Groups); w.Shape[0].B%groups != 0 || w.Shape[0].B == 0 {
		return fmt.Errorf("axis 0 of the weight %v is not a positive multiple of groups %d", w, groups)
	}
	return nil
}

// shape puts sizes in the layout's order.
func (g ConvGeometry) shape(n, c, h, w ir.Dim) ir.Shape {
	s := make(ir.Shape, 4)
	s[0], s[g.C], s[g.H], s[g.W] = n, c, h, w
	return s
}
