package kernels

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed conv_direct.wgsl
var convDirectWGSL string

// Convolutions over one, two and three axes share one kernel.
func init() {
	for axes := 1; axes <= 3; axes++ {
		for _, name := range []string{"conv%dd", "conv_transpose%dd", "fused_conv%dd"} {
			name = fmt.Sprintf(name, axes)
			takes := "(" + floats + "...)"
			if strings.HasPrefix(name, "fused") {
				takes += " if act = " + acts()
			}
			register(Kernel{Op: name, Takes: takes, Shaders: convolution, Scratch: convBytes,
				Kept: convKept})
		}
	}
}

// convBytes is Kernel.Scratch of a convolution.
func convBytes(n *ir.Node, l Limits) int64 {
	if l.own(n) != nil {
		return l.ownBytes(n)
	}
	s, err := convolved(n)
	if err != nil {
		return 0
	}
	if m := pixelProduct(n, s); m != nil {
		return splitBytes(m, withoutOwn(l))
	}
	_, _, words := convScratch(n, s)
	if parts := convParts(n, s, l); parts.Parts > 0 {
		words += parts.Parts * numel(n.Graph.Syms.Largest(n.Type.Shape))
	}
	return int64(words) * 4
}

func convolution(n *ir.Node, l Limits) []Shader {
	sizes, err := convolved(n)
	if err != nil {
		return nil
	}
	if own := l.own(n); own != nil {
		return own
	}
	if m := pixelProduct(n, sizes); m != nil {
		return convPixel(m, l)
	}
	if s := convTiled(n, sizes, l); s != nil {
		return s
	}
	return convDirect(n, sizes, l)
}

// convolved returns the sizes of a node.
func convolved(n *ir.Node) (convSizes, error) {
	var g op.Geometry
	var err error
	switch a := n.Attrs.(type) {
	case op.ConvTransposeAttrs:
		g, err = a.Geometry()
	case op.FusedConvAttrs:
		g, err = a.Conv().Geometry()
	case op.ConvAttrs:
		g, err = a.Geometry()
	}
	if err != nil {
		return convSizes{}, err
	}
	s := newConvSizes(n, g)
	if a, ok := n.Attrs.(op.FusedConvAttrs); ok {
		s.Act, s.Addend, s.Residual = a.Act, n.In[op.FusedConvAddend] != nil, n.In[op.FusedConvResidual] != nil
	}
	return s, nil
}

// convSizes has the sizes of a convolution that are known when its shader is made.
type convSizes struct {
	op.Geometry
	CIn, COut, PerIn, PerOut int
	Transposed, Bias         bool
	// What follows a fused convolution.
	Act              string
	Addend, Residual bool
	// Wide is the number of output channels that an invocation computes. Kept means that it reads weights that
	// convWeightsOnce has copied.
	Wide int
	Kept bool
	// Summed means that conv_sum.wgsl follows conv_direct.wgsl in the text of a shader.
	Summed bool
}

// fused reports whether anything but a bias follows the convolution.
func (s convSizes) fused() bool { return s.Act != "" || s.Addend || s.Residual }

// Taps is the number of positions of a filter.
func (s convSizes) Taps() int { return s.Kernel[0] * s.Kernel[1] * s.Kernel[2] }

// spatial is a spatial axis with the names that the shader's text uses.
type spatial struct {
	Var, Size                     string
	Kernel, Stride, Pad, Dilation int
}

// Spatial lists the axes depth, height and width.
func (s convSizes) Spatial() (out []spatial) {
	for i, name := range []string{"zd", "yh", "xw"} {
		out = append(out, spatial{name[:1], name[1:], s.Kernel[i], s.Stride[i], s.Padding[i], s.Dilation[i]})
	}
	return out
}

// convFields are the parameters for the spatial sizes of x and of the result.
var convFields = []string{"d_in", "h_in", "w_in", "d_out", "h_out", "w_out"}

func newConvSizes(n *ir.Node, g op.Geometry) convSizes {
	_, transposed := n.Attrs.(op.ConvTransposeAttrs)
	w := fixed(n.In[1].Type)
	g.Kernel = g.Kernels(w)
	s := convSizes{Geometry: g, CIn: w[1] * g.Groups, COut: w[0], Transposed: transposed,
		Bias: n.In[op.ConvBias] != nil, Wide: 1}
	if transposed {
		s.CIn, s.COut = w[0], w[1]*g.Groups
	}
	s.PerIn, s.PerOut = s.CIn/g.Groups, s.COut/g.Groups
	return s
}

// images returns the values of convFields.
func (s *convSizes) images(c *Call) (p []uint32) {
	for _, shape := range [][]int{c.In[0].Shape, c.Out.Shape} {
		_, _, size := s.Sizes(shape)
		p = append(p, uint32(size[0]), uint32(size[1]), uint32(size[2]))
	}
	return p
}

// loops is Shader.Loops of a shader that computes each element by itself.
func (s convSizes) loops() int {
	return loop(s.Kernel[0], loop(s.Kernel[1], loop(s.Kernel[2], loop(s.PerIn, 0))))
}

// fourChannels reports whether an invocation can compute four channels at once.
func fourChannels(n *ir.Node, s convSizes) bool {
	return s.Last && !s.Transposed && s.COut%4 == 0 && (s.Depthwise() || s.PerOut%4 == 0) && allF32(n) &&
		allAligned(n.In)
}

// Depthwise reports whether each channel is a group.
func (s convSizes) Depthwise() bool { return s.PerIn == 1 && s.PerOut == 1 }

// Fours reports whether the channels of a group can be read in vectors of four.
func (s convSizes) Fours() bool { return s.PerIn%4 == 0 }

func convDirect(n *ir.Node, s convSizes, l Limits) []Shader {
	loops := func(*Call) int { return s.loops() }
	if !fourChannels(n, s) {
		return []Shader{mapped(n, n.Op.Name, convDirectWGSL, s, convFields, s.images).withLoops(n, loops)}
	}
	s.Wide, s.Kept = 4, l.Keeps && keeps(n, s)
	sh := harnessed(n, n.Op.Name, convDirectWGSL, s, convFields, s.images, unit{4, 4}, 1)
	for i, b := range sh.Bindings {
		if b.Operand != 1 && (b.Operand != 0 || s.Depthwise() || s.Fours()) {
			sh.Bindings[i].Vec = 4
		}
	}
	if !s.Kept {
		return []Shader{sh.withLoops(n, loops)}
	}
	sh.Bindings[1] = Binding{Name: "kept", Operand: Kept, DType: dtype.F32, Vec: 4}
	once := convWeightsOnce(n, prepared{patch: &patch{convSizes: s}, Across: true})
	return []Shader{once, sh.withLoops(n, loops)}
}

//go:embed conv_repair.wgsl
var convRepairWGSL string

// ConvRepair returns a shader for kernels of a device's own. It runs after them, and computes the elements of a
// convolution's result that are not finite again. For a fused convolution it then does what follows the convolution,
// which those kernels leave out, except for the bias.
func ConvRepair(n *ir.Node) Shader {
	sizes, err := convolved(n)
	if err != nil {
		panic("BUG: wgpu: repair of " + err.Error())
	}
	if sizes.fused() {
		return convSum(n, convPart{convSizes: sizes, Repairs: true})
	}
	return convAgain(n, Shader{Name: n.Op.Name, Body: convDirectWGSL + convRepairWGSL, Consts: sizes}, sizes)
}

// convAgain completes a shader that may compute elements of a result again.
func convAgain(n *ir.Node, s Shader, sizes convSizes) Shader {
	const most = 256
	s.Fields = convFields
	for i, x := range n.Operands() {
		s.Bindings = append(s.Bindings, Binding{Name: operandNames[i], Operand: i, DType: x.Type.DType})
	}
	count := func(c *Call) int { return numel(c.Out.Shape) }
	s.Loops = func(call *Call) int {
		return loop(ceilDiv(count(call), 256*min(ceilDiv(count(call), 256), most)), sizes.loops())
	}
	s.Bindings = append(s.Bindings, Binding{Name: "y", Operand: Out, DType: n.Type.DType})
	return spread(s, most, count, sizes.images)
}
