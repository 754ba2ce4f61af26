package kernels

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// patch is the geometry of a convolution with one group over [batch, depth, height, width, channels], for the tiled
// product (implicit GEMM).
type patch struct {
	convSizes
	Block int // number of channels that are read before the next tap
	// Image sizes as WGSL: a number if known, else a parameter. Made is the size of the result, and Bordered that of x
	// with padding.
	In, Made, Bordered [3]string
	Copied             bool // the product reads the copy of x that conv_image.wgsl makes
	Image              int  // offset of that copy in scratch memory, in vectors of four
}

// Blocks is the number of blocks of channels.
func (p *patch) Blocks() int { return p.CIn / p.Block }

func newPatch(n *ir.Node, s convSizes) *patch {
	p := &patch{convSizes: s, Block: 4, In: [3]string{"1u", "1u", "1u"}, Made: [3]string{"1u", "1u", "1u"}}
	first := 2 // first spatial axis
	if s.Last {
		first = 1
	}
	for i := range s.Axes {
		axis := 3 - s.Axes + i
		p.In[axis] = sizeText(n.In[0].Type.Shape[first+i], convFields[axis])
		p.Made[axis] = sizeText(n.Type.Shape[first+i], convFields[3+axis])
	}
	for axis := range p.In {
		p.Bordered[axis] = wider(p.In[axis], 2*p.Padding[axis])
	}
	p.Copied = copied(n, s)
	// larger blocks would read some memory sectors of the weights only partly
	if s.Last && p.CIn%copyBlock == 0 || p.Copied {
		p.Block = copyBlock
	}
	return p
}

// guard tells which taps along an axis with padding are inside of x: each has a bit in a word, from bit Shift on.
type guard struct {
	Var, Size, Tap          string // of a pixel's first tap, of x, and of the number of a tap along the axis, in WGSL
	Kernel, Dilation, Shift int
}

// Bit is the bit of a tap along the axis.
func (g guard) Bit(tap int) uint32 { return 1 << (g.Shift + tap) }

// Guards lists the axes with padding.
func (p *patch) Guards() (out []guard) {
	k, shift := p.Kernel, 0
	taps := []string{fmt.Sprintf("tap / %du", k[1]*k[2]), fmt.Sprintf("tap / %du %% %du", k[2], k[1]),
		fmt.Sprintf("tap %% %du", k[2])}
	for i, name := range []string{"z", "y", "x"} {
		if p.Padding[i] > 0 {
			out = append(out, guard{name, p.In[i], taps[i], k[i], p.Dilation[i], shift})
			shift += k[i]
		}
	}
	return out
}

// guardBits is the number of bits of all Guards.
func (p *patch) guardBits() (bits int) {
	for _, g := range p.Guards() {
		bits += g.Kernel
	}
	return bits
}

// Many reports whether a word has too few bits for the guards.
func (p *patch) Many() bool { return p.guardBits() > 32 }

// Guarded reports whether reads outside of x are found by guards.
func (p *patch) Guarded() bool { return p.padded() && !p.Copied && !p.Many() }

// sizeText returns a size as WGSL: a number, or a parameter if it is not static.
func sizeText(d ir.Dim, field string) string {
	if d.IsStatic() {
		return fmt.Sprintf("%du", d.Const)
	}
	return "P." + field
}

// wider returns the WGSL for a size plus padding.
func wider(size string, padding int) string {
	if n, err := strconv.Atoi(strings.TrimSuffix(size, "u")); err == nil {
		return fmt.Sprintf("%du", n+padding)
	}
	return fmt.Sprintf("(%s + %du)", size, padding)
}

// takesTiles reports whether a convolution runs as a tiled product: f32, one group, and channels in multiples of four.
func takesTiles(n *ir.Node, s convSizes) bool {
	switch {
	case s.Groups != 1 || n.In[0].Type.DType != dtype.F32 || n.Type.DType != dtype.F32 || !allAligned(n.In) ||
		s.CIn%4 != 0:
		return false
	case s.Transposed:
		return s.Last && s.COut%4 == 0 && s.disjoint()
	case s.Last:
		return s.COut%4 == 0
	}
	return s.Taps()*s.CIn >= 16
}

// arrangePixels is the smallest number of result pixels for which the weights are first copied in patch order. Every
// tile reads them, and in their stored order each lane would read another cache line.
const arrangePixels = 8192

// arranged reports whether the weights of a tiled convolution are first copied to scratch memory, in patch order.
func arranged(n *ir.Node, s convSizes) bool {
	return takesTiles(n, s) && !s.Transposed && s.Taps() > 1 &&
		numel(n.Graph.Syms.Smallest(n.Type.Shape)) >= arrangePixels*s.COut
}

// keeps reports whether the weights of a convolution, if they stay the same, can be copied once to the order in which
// the convolution reads them.
func keeps(n *ir.Node, s convSizes) bool {
	if s.Transposed || !IsWeight(n.In[1]) {
		return false
	}
	if !takesTiles(n, s) {
		return fourChannels(n, s)
	}
	return s.Taps() > 1 && !arranged(n, s)
}

// convKept is Kernel.Kept of a convolution.
func convKept(n *ir.Node) int64 {
	s, err := convolved(n)
	if err != nil || !keeps(n, s) || pixelProduct(n, s) != nil {
		return 0
	}
	return 4 * int64(s.COut*s.PerIn*s.Taps())
}

// copyBlock is the number of channels in a block of the copy of x. It equals the depth of a tile.
const copyBlock = 16

// copied reports whether x is first copied to scratch memory, padded and in blocks of channels. The product can then
// read vectors without conditions. With a condition, it would have to wait for the data that it prefetches.
func copied(n *ir.Node, s convSizes) bool { return arranged(n, s) && s.CIn%copyBlock == 0 }

// padded reports whether patches of a tiled convolution include padding. Padding must not change the result, but the
// product multiplies it by weights, and 0 times a weight that is not finite is NaN. So one shader checks the weights
// first, and another recomputes the result if necessary.
func (s convSizes) padded() bool { return !s.Transposed && s.Padding != [3]int{} }

// maxFlags is the number of words after the weights in scratch memory. Each tells whether the weights that one
// workgroup checked are finite.
const maxFlags = 256

// convScratch returns the layout of a convolution's scratch memory in 4-byte words: the end of the weights (at 0), the
// start of the copy of x after the flags, and the total.
func convScratch(n *ir.Node, s convSizes) (weights, image, words int) {
	if !takesTiles(n, s) {
		return 0, 0, 0
	}
	if arranged(n, s) {
		weights = s.COut * s.CIn * s.Taps()
	}
	image = weights
	if s.padded() {
		image += maxFlags
	}
	if !copied(n, s) {
		return weights, image, image
	}
	image = ceilDiv(image, 4) * 4
	most := n.Graph.Syms.Largest(n.In[0].Type.Shape)
	_, _, size := s.Sizes(most)
	words = most[0] * s.CIn
	for i := range size {
		words *= size[i] + 2*s.Padding[i]
	}
	return weights, image, image + words
}

//go:embed conv_weights.wgsl
var convWeightsWGSL string

//go:embed conv_finish.wgsl
var convFinishWGSL string

// prepared has the constants of the shaders that run before and after the product.
type prepared struct {
	*patch
	Arrange, Padded bool
	Across          bool // the weights are copied for convDirect
	Flags, Parts    int  // offset and number of the flags
}

func prepare(n *ir.Node, p *patch) prepared {
	weights, _, _ := convScratch(n, p.convSizes)
	c := prepared{patch: p, Arrange: weights > 0, Padded: p.padded(), Flags: weights}
	c.Parts = min(ceilDiv(p.COut*p.CIn*p.Taps(), 256), maxFlags)
	return c
}

// spread divides count elements among at most most workgroups.
func spread(s Shader, most int, count func(c *Call) int, params func(c *Call) []uint32) Shader {
	s.Fields = append([]string{"n", "groups"}, s.Fields...)
	s.Groups = func(c *Call) int { return min(ceilDiv(count(c), 256), most) }
	s.Params = func(c *Call) []uint32 {
		if numel(c.Out.Shape) == 0 {
			return nil
		}
		return append([]uint32{uint32(count(c)), uint32(s.Groups(c))}, params(c)...)
	}
	return s
}

// convWeights checks the weights and copies them if they are arranged.
func convWeights(n *ir.Node, c prepared) Shader {
	count := c.COut * c.PerIn * c.Taps()
	s := Shader{
		Name: n.Op.Name, Body: convWeightsWGSL, Consts: c, Loops: func(*Call) int {
			return loop(ceilDiv(count, 256*c.Parts), 0)
		},
		Bindings: []Binding{{Name: "w", Operand: 1, DType: n.In[1].Type.DType},
			{Name: "made", Operand: Scratch, DType: dtype.F32}},
	}
	return spread(s, c.Parts, func(*Call) int { return count }, func(*Call) []uint32 { return nil })
}

// convWeightsOnce copies weights to memory that is kept: in patch order, or for convDirect.
func convWeightsOnce(n *ir.Node, c prepared) Shader {
	c.Arrange, c.Padded = true, false
	c.Parts = min(ceilDiv(c.COut*c.PerIn*c.Taps(), 256), maxFlags)
	s := convWeights(n, c)
	s.Once, s.Bindings[1].Operand = true, Kept
	return s
}

//go:embed conv_image.wgsl
var convImageWGSL string

// convImage copies x with its padding.
func convImage(n *ir.Node, p *patch) Shader {
	s := Shader{
		Name: n.Op.Name, Body: convImageWGSL, Consts: p, Fields: append([]string{"groups"}, convFields...),
		Bindings: []Binding{{Name: "x", Operand: 0, DType: dtype.F32},
			{Name: "made", Operand: Scratch, DType: dtype.F32, Vec: 4}},
	}
	if p.Last {
		s.Bindings[0].Vec = 4
	}
	s.Groups = func(c *Call) int {
		_, _, size := p.Sizes(c.In[0].Shape)
		pixels := 1
		for i := range size {
			pixels *= size[i] + 2*p.Padding[i]
		}
		return c.In[0].Shape[0] * p.Blocks() * ceilDiv(pixels, 64)
	}
	s.Params = func(c *Call) []uint32 {
		if numel(c.Out.Shape) == 0 {
			return nil
		}
		return append([]uint32{uint32(s.Groups(c))}, p.images(c)...)
	}
	return s
}

// convFinish recomputes the result if a weight is not finite.
func convFinish(n *ir.Node, c prepared) Shader {
	made := Binding{Name: "made", Operand: Scratch, DType: dtype.F32}
	s := Shader{Name: n.Op.Name, Body: convDirectWGSL + convFinishWGSL, Consts: c, Bindings: []Binding{made}}
	return convAgain(n, s, c.convSizes)
}

// convTiled returns the shaders of a convolution as a tiled product, nil if it cannot be one.
func convTiled(n *ir.Node, s convSizes, l Limits) []Shader {
	if !takesTiles(n, s) {
		return nil
	}
	p, part := newPatch(n, s), convParts(n, s, l)
	c := tiled{Tile: part.Tile, Bias: s.Bias, Addend: s.Addend, Residual: s.Residual}
	if s.Act != "" {
		c.Acts = []string{s.Act}
	}
	x, w := Binding{Name: "a", Operand: 0, DType: dtype.F32}, Binding{Name: "b", Operand: 1, DType: n.In[1].Type.DType}
	filter, ready := p, prepare(n, p)
	var before []Shader
	switch {
	case ready.Arrange:
		filter = nil
		w = Binding{Name: "b", Operand: Scratch, DType: dtype.F32, Vec: 4}
	case l.Keeps && keeps(n, s):
		filter = nil
		w = Binding{Name: "b", Operand: Kept, DType: dtype.F32, Vec: 4}
		before = append(before, convWeightsOnce(n, ready))
	case s.Taps() == 1 && !s.Transposed: // they are in patch order
		filter, w.Vec = nil, 4
	}
	if p.Copied {
		_, image, _ := convScratch(n, s)
		p.Image = image / 4
		x = Binding{Name: "a", Operand: Scratch, DType: dtype.F32, Vec: 4}
	}
	with := func(product Shader) []Shader {
		all := before
		if p.Copied {
			all = append(all, convImage(n, p))
		}
		if ready.Arrange || ready.Padded {
			all = append(all, convWeights(n, ready))
		}
		all = append(all, product)
		if ready.Padded {
			all = append(all, convFinish(n, ready))
		}
		return all
	}
	sizes := convProductOf(n, s)
	switch {
	case s.Transposed:
		// Pixels of x times the weight, as a matrix [in, out * taps]. Each pixel of x becomes as many pixels of the
		// result as there are taps, and no two pixels of x contribute to the same one.
		c.Spread, c.B.Across, x.Vec, w.Vec = p, true, 4, 4
	case s.Last: // patches of x times the weight, which is stored [out, in, taps]
		c.Vec, c.A.Patch, c.B.Filter, x.Vec = 4, p, filter, 4
		if s.single() {
			c.A.Patch = nil // x is the matrix
		}
	default: // the weight times the patches of each image
		if commonDivisor(n.Type.Shape[2:])%4 == 0 {
			c.Vec = 4
		}
		c.A.Filter, c.B.Patch, c.B.Across, c.RowBias = filter, p, !p.Copied, s.Bias
		if s.single() && c.Vec == 4 {
			c.B.Patch, x.Vec = nil, 4
		}
		x.Name, w.Name = "b", "a"
		x, w = w, x
	}
	product := convProduct(n, s, c, part, x, w, sizes)
	if part.Parts > 0 {
		return append(before, product, convSum(n, part))
	}
	return with(product)
}

// convProductOf returns a function for the product of a tiled convolution. It takes the shapes of x and of the result.
func convProductOf(n *ir.Node, s convSizes) func(in, out []int) product {
	return func(in, out []int) product {
		p := product{k: s.CIn * s.Taps(), matrix: 1, patches: true}
		switch {
		case s.Transposed:
			p.m, p.n, p.k = numel(in[:len(in)-1]), s.COut*s.Taps(), s.CIn
		case s.Last:
			p.m, p.n = numel(out[:len(out)-1]), s.COut
		default:
			p.m, p.n, p.matrix = s.COut, numel(out[2:]), out[0]
		}
		return p
	}
}

// single reports whether each pixel of the result is made of the pixel of x at the same place.
func (s *convSizes) single() bool {
	return s.Taps() == 1 && s.Stride == [3]int{1, 1, 1} && s.Padding == [3]int{} && !s.Transposed
}

// disjoint reports whether the patches of a transposed convolution cover the result without overlap.
func (s *convSizes) disjoint() bool {
	return s.Stride == s.Kernel && s.Padding == [3]int{} && s.Dilation == [3]int{1, 1, 1} && s.OutputPadding == [3]int{}
}

// convProduct makes the shader for a product of a and b. sizes returns the sizes of the product for the shapes of x and
// the result.
func convProduct(n *ir.Node, s convSizes, c tiled, part convPart, a, b Binding,
	sizes func(in, out []int) product) Shader {
	known := sizes(fixed(n.In[0].Type), fixed(n.Type))
	depth := known.k
	c = c.specialise(known.m, known.n, depth)
	sh := Shader{Name: n.Op.Name, Body: matmulFinishWGSL + matmulWGSL, Consts: c,
		Fields: slices.Concat(productFields, []string{"part"}, convFields), Bindings: []Binding{a, b}}
	follow := func(name string, operand int, has bool) {
		if has {
			b := Binding{Name: name, Operand: operand, Vec: c.Vec, DType: dtype.F32}
			sh.Bindings = append(sh.Bindings, b)
		}
	}
	follow("bias", op.ConvBias, c.Bias)
	follow("addend", op.FusedConvAddend, c.Addend)
	follow("residual", op.FusedConvResidual, c.Residual)
	if c.RowBias {
		sh.Bindings[2].Vec = 0
	}
	sh.Bindings = append(sh.Bindings, Binding{Name: "y", Operand: Out, Vec: c.Vec, DType: dtype.F32})
	if part.Parts > 0 {
		sh = part.parted(sh, c)
	}
	parts := max(1, part.Parts)
	sh.Loops = func(*Call) int { return c.loops(depth) }
	sh.Groups = func(call *Call) int { return parts * c.groups(sizes(call.In[0].Shape, call.Out.Shape)) }
	finish := finish{act: uint32(len(c.Acts))}
	if c.Residual {
		finish.residual = 1
	}
	sh.Params = func(call *Call) []uint32 {
		if numel(call.Out.Shape) == 0 {
			return nil
		}
		p := sizes(call.In[0].Shape, call.Out.Shape)
		p.batch, p.aBatch, p.bBatch = dims([]int{p.matrix}), strides(nil), strides(nil)
		p.bBatch[maxRank-1] = uint32(p.n) // matrices of patches, one per image; one in all if rows are patches
		if c.B.Patch == nil {
			p.bBatch[maxRank-1] *= uint32(p.k)
		}
		p.matrix *= parts
		return slices.Concat(c.params(p, finish), []uint32{uint32(c.part(depth))}, s.images(call))
	}
	return sh
}
