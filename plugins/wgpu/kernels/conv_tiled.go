package kernels

import (
	_ "embed"
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// patch is the geometry of a convolution of one group over [batch, depth, height, width, channels], as the tiled product takes it.
type patch struct {
	convSizes
	Block int  // channels that are read before the next tap
	Lined bool // four pixels of the result, from a multiple of four on, are in one line
	// Sizes of the images, as WGSL: numbers where they are known, else parameters.
	In, Made [3]string
}

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
	if s.Last && p.CIn%16 == 0 { // of more channels first, fewer sectors of the weights would be read whole
		p.Block = 16
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

//go:embed conv_weights.wgsl
var convWeightsWGSL string

// convWeights copies the weights.
func convWeights(n *ir.Node, p *patch) Shader {
	count := p.COut * p.CIn * p.Taps()
	return Shader{
		Name: n.Op.Name, Body: convWeightsWGSL, Consts: p, Fields: []string{"n"},
		Bindings: []Binding{{Name: "w", Operand: 1, DType: n.In[1].Type.DType}, {Name: "arranged", Operand: Scratch, DType: dtype.F32}},
		Params: func(c *Call) []uint32 {
			if numel(c.Out.Shape) == 0 {
				return nil
			}
			return []uint32{uint32(count)}
		},
		Groups: func(*Call) int { return ceilDiv(count, 256) },
	}
}

// convTiled is a convolution as a tiled product; none if it is not.
func convTiled(n *ir.Node, s convSizes, l Limits) []Shader {
	if !takesTiles(n, s) {
		return nil
	}
	p := newPatch(n, s)
	c := tiled{Bias: s.Bias}
	x, w := Binding{Name: "a", Operand: 0, DType: dtype.F32}, Binding{Name: "b", Operand: 1, DType: n.In[1].Type.DType}
	var shaders []Shader
	filter := p
	if arranged(n, s) {
		shaders = append(shaders, convWeights(n, p))
		filter = nil
		w = Binding{Name: "b", Operand: Scratch, DType: dtype.F32, Vec: 4}
	}
	switch {
	case s.Transposed:
		// The pixels of x by the weight, [in, out, taps] seen as a matrix: each becomes as many others as there are taps, which no
		// other one adds to.
		c.Spread, c.B.Across, x.Vec, w.Vec = p, true, 4, 4
		return append(shaders, convProduct(n, s, c, l, x, w, s.CIn, func(in, _ []int) product {
			return product{m: numel(in[:len(in)-1]), n: s.COut * s.Taps(), matrix: 1}
		}))
	case s.Last: // the patches of x by the weight, which is stored [out, in, taps]
		c.Vec, c.A.Patch, c.B.Filter, x.Vec = 4, p, filter, 4
		return append(shaders, convProduct(n, s, c, l, x, w, s.CIn*s.Taps(), func(in, out []int) product {
			return product{m: numel(out[:len(out)-1]), n: s.COut, matrix: 1}
		}))
	}
	// The weight by the patches of each image.
	if common(n.Type.Shape[2:])%4 == 0 {
		c.Vec = 4
	}
	c.A.Filter, c.B.Patch, c.B.Across, c.RowBias = filter, p, true, s.Bias
	x.Name, w.Name = "b", "a"
	return append(shaders, convProduct(n, s, c, l, w, x, s.CIn*s.Taps(), func(_, out []int) product {
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
