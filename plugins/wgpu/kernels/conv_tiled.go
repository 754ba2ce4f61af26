package kernels

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// patch is the geometry of a convolution of one group over [batch, depth, height, width, channels], as the tiled product takes it.
type patch struct {
	convSizes
	Block int  // channels that are read before the next tap
	Lined bool // four pixels of the result, from a multiple of four on, are in one line
	// Sizes of the images, as WGSL: numbers where they are known, else parameters. Bordered are those of x with its padding.
	In, Made, Bordered [3]string
	Copied             bool // the product reads the copy of x that conv_image.wgsl makes
	Image              int  // its place in scratch memory, in vectors of four
}

// Blocks is the number of blocks of channels.
func (p *patch) Blocks() int { return p.CIn / p.Block }

func newPatch(n *ir.Node, s convSizes) *patch {
	p := &patch{convSizes: s, Block: 4, In: [3]string{"1u", "1u", "1u"}, Made: [3]string{"1u", "1u", "1u"}}
	first := 2 // spatial axis
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
	if s.Last && p.CIn%copyBlock == 0 || p.Copied { // of more channels first, fewer sectors of the weights would be read whole
		p.Block = copyBlock
	}
	width := n.Type.Shape[first+s.Axes-1]
	p.Lined = width.IsStatic() && width.B%4 == 0
	return p
}

// sizeText is a size in WGSL, a parameter if it is not known yet.
func sizeText(d ir.Dim, field string) string {
	if d.IsStatic() {
		return fmt.Sprintf("%du", d.B)
	}
	return "P." + field
}

// wider is the size in WGSL of an axis with its padding.
func wider(size string, padding int) string {
	if n, err := strconv.Atoi(strings.TrimSuffix(size, "u")); err == nil {
		return fmt.Sprintf("%du", n+padding)
	}
	return fmt.Sprintf("(%s + %du)", size, padding)
}

// takesTiles reports whether a convolution is a tiled product: of one group of f32, with channels in fours.
func takesTiles(n *ir.Node, s convSizes) bool {
	switch {
	case s.Groups != 1 || n.In[0].Type.DType != dtype.F32 || n.Type.DType != dtype.F32 || !allAligned(n.In) || s.CIn%4 != 0:
		return false
	case s.Transposed:
		return s.Last && s.COut%4 == 0 && s.disjoint()
	case s.Last:
		return s.COut%4 == 0
	}
	return s.Taps()*s.CIn >= 16
}

// often is the number of pixels of the result from which on weights are brought into the order of patches first: each tile reads them, and in
// the order in which they are stored each lane would read another line of the cache.
const often = 8192

// arranged reports whether the weights of a tiled convolution are copied to scratch memory, in the order of the patches.
func arranged(n *ir.Node, s convSizes) bool {
	return takesTiles(n, s) && !s.Transposed && s.Taps() > 1 && numel(n.Graph.Syms.Smallest(n.Type.Shape)) >= often*s.COut
}

// copyBlock is the number of channels that lie together in the copy of x: as many as a tile is deep.
const copyBlock = 16

// copied reports whether x is copied to scratch memory first, with its padding and in blocks of channels. Then the product reads it in vectors, and
// without conditions, which would make it wait for what it reads ahead.
func copied(n *ir.Node, s convSizes) bool { return arranged(n, s) && s.CIn%copyBlock == 0 }

// padded reports whether patches of a tiled convolution reach into the padding. It takes no part, but a product multiplies it by weights, and 0 times one that
// is not finite is NaN. So a shader looks at the weights before, and another one mends the result if it has to.
func (s convSizes) padded() bool { return !s.Transposed && s.Padding != [3]int{} }

// flags are as many words behind the weights in scratch memory: for each workgroup that looked at weights, whether one was not finite.
const flags = 256

// convScratch is the scratch memory of a convolution: for weights, for flags, and for a copy of x. All are in words; the copy is the last.
func convScratch(n *ir.Node, s convSizes) (weights, image, words int) {
	if !takesTiles(n, s) {
		return 0, 0, 0
	}
	if arranged(n, s) {
		weights = s.COut * s.CIn * s.Taps()
	}
	image = weights
	if s.padded() {
		image += flags
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

// prepared are the constants of the shaders before and after the product.
type prepared struct {
	*patch
	Arrange, Padded bool
	Flags, Parts    int // the place of the flags, and their number
}

func prepare(n *ir.Node, p *patch) prepared {
	weights, _, _ := convScratch(n, p.convSizes)
	c := prepared{patch: p, Arrange: weights > 0, Padded: p.padded(), Flags: weights}
	c.Parts = min(ceilDiv(p.COut*p.CIn*p.Taps(), 256), flags)
	return c
}

// spread sets how many workgroups share the elements that count returns.
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

// convWeights looks at the weights, and copies them.
func convWeights(n *ir.Node, c prepared) Shader {
	count := c.COut * c.CIn * c.Taps()
	s := Shader{
		Name: n.Op.Name, Body: convWeightsWGSL, Consts: c, Loops: func(*Call) int { return loop(ceilDiv(count, 256*c.Parts), 0) },
		Bindings: []Binding{{Name: "w", Operand: 1, DType: n.In[1].Type.DType}, {Name: "made", Operand: Scratch, DType: dtype.F32}},
	}
	return spread(s, c.Parts, func(*Call) int { return count }, func(*Call) []uint32 { return nil })
}

//go:embed conv_image.wgsl
var convImageWGSL string

// convImage copies x.
func convImage(n *ir.Node, p *patch) Shader {
	s := Shader{
		Name: n.Op.Name, Body: convImageWGSL, Consts: p, Fields: append([]string{"groups"}, convFields...),
		Bindings: []Binding{{Name: "x", Operand: 0, DType: dtype.F32}, {Name: "made", Operand: Scratch, DType: dtype.F32, Vec: 4}},
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

// convFinish computes the result again if a weight is not finite.
func convFinish(n *ir.Node, c prepared) Shader {
	const most = 256
	s := Shader{Name: n.Op.Name, Body: convDirectWGSL + convFinishWGSL, Consts: c, Fields: convFields}
	for i, x := range n.In {
		s.Bindings = append(s.Bindings, Binding{Name: operandNames[i], Operand: i, DType: x.Type.DType})
	}
	s.Bindings = append(s.Bindings, Binding{Name: "made", Operand: Scratch, DType: dtype.F32}, Binding{Name: "y", Operand: Out, DType: n.Type.DType})
	count := func(c *Call) int { return numel(c.Out.Shape) }
	s.Loops = func(call *Call) int {
		return loop(ceilDiv(count(call), 256*min(ceilDiv(count(call), 256), most)), c.loops())
	}
	return spread(s, most, count, c.images)
}

// convTiled is a convolution as a tiled product; none if it is not.
func convTiled(n *ir.Node, s convSizes, l Limits) []Shader {
	if !takesTiles(n, s) {
		return nil
	}
	p := newPatch(n, s)
	c := tiled{Bias: s.Bias}
	x, w := Binding{Name: "a", Operand: 0, DType: dtype.F32}, Binding{Name: "b", Operand: 1, DType: n.In[1].Type.DType}
	filter, ready := p, prepare(n, p)
	if ready.Arrange {
		filter = nil
		w = Binding{Name: "b", Operand: Scratch, DType: dtype.F32, Vec: 4}
	}
	if p.Copied {
		_, image, _ := convScratch(n, s)
		p.Image = image / 4
		x = Binding{Name: "a", Operand: Scratch, DType: dtype.F32, Vec: 4}
	}
	with := func(product Shader) []Shader {
		var all []Shader
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
	switch {
	case s.Transposed:
		// The pixels of x by the weight, [in, out, taps] seen as a matrix: each becomes as many others as there are taps, which no
		// other one adds to.
		c.Spread, c.B.Across, x.Vec, w.Vec = p, true, 4, 4
		return with(convProduct(n, s, c, l, x, w, s.CIn, func(in, _ []int) product {
			return product{m: numel(in[:len(in)-1]), n: s.COut * s.Taps(), matrix: 1}
		}))
	case s.Last: // the patches of x by the weight, which is stored [out, in, taps]
		c.Vec, c.A.Patch, c.B.Filter, x.Vec = 4, p, filter, 4
		return with(convProduct(n, s, c, l, x, w, s.CIn*s.Taps(), func(in, out []int) product {
			return product{m: numel(out[:len(out)-1]), n: s.COut, matrix: 1}
		}))
	}
	// The weight by the patches of each image.
	if common(n.Type.Shape[2:])%4 == 0 {
		c.Vec = 4
	}
	c.A.Filter, c.B.Patch, c.B.Across, c.RowBias = filter, p, !p.Copied, s.Bias
	x.Name, w.Name = "b", "a"
	return with(convProduct(n, s, c, l, w, x, s.CIn*s.Taps(), func(_, out []int) product {
		return product{m: s.COut, n: numel(out[2:]), matrix: out[0]}
	}))
}

// disjoint reports a transpose whose patches do not overlap, and leave no element out.
func (s *convSizes) disjoint() bool {
	return s.Stride == s.Kernel && s.Padding == [3]int{} && s.Dilation == [3]int{1, 1, 1} && s.OutputPadding == [3]int{}
}

// convProduct makes the shader of a convolution as a product of operands a and b, of sums of so many values; sizes gives those of the
// product for shapes of x and the result.
func convProduct(n *ir.Node, s convSizes, c tiled, l Limits, a, b Binding, depth int, sizes func(in, out []int) product) Shader {
	of := func(in, out []int) product {
		p := sizes(in, out)
		p.k = depth
		return p
	}
	most := n.Graph.Syms.Largest
	c.Tile = chooseTile(of(most(n.In[0].Type.Shape), most(n.Type.Shape)), l)
	c.Splits = 0
	known := of(fixed(n.In[0].Type), fixed(n.Type))
	c = c.specialise(known.m, known.n, depth)
	bias := -1
	if c.Bias {
		bias = 2
	}
	sh := Shader{Name: n.Op.Name, Body: matmulFinishWGSL + matmulWGSL, Consts: c, Fields: slices.Concat(productFields, convFields), Bindings: []Binding{a, b}}
	sh.Bindings = append(sh.Bindings, epilogue(bias, -1, c.Vec)...)
	if c.RowBias {
		sh.Bindings[2].Vec = 0
	}
	sh.Loops = func(*Call) int { return c.loops(depth) }
	sh.Groups = func(call *Call) int { return c.groups(of(call.In[0].Shape, call.Out.Shape)) }
	sh.Params = func(call *Call) []uint32 {
		if numel(call.Out.Shape) == 0 {
			return nil
		}
		p := of(call.In[0].Shape, call.Out.Shape)
		p.batch, p.aBatch, p.bBatch = dims([]int{p.matrix}), strides(nil), strides(nil)
		p.bBatch[maxRank-1] = uint32(p.n) // images of patches; there is one where rows are patches
		return append(c.params(p, finish{}), s.images(call)...)
	}
	return sh
}
