package kernels

import (
	_ "embed"
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed matmul_vector.wgsl
var matmulVectorWGSL string

func init() { groupings = append(groupings, vectorGroup) }

// vectors is one shader for products of one row x [1,K] with weights [N,K]. It writes their results, or the elementwise
// product of two results.
type vectors struct {
	Products []vectorProduct
	Gated    bool // the results are multiplied with each other
	Quads    int  // if x is normalised first, the number of its vectors of four; else 0

	Lanes, Each, Ahead, Columns int // see matmul_vector.wgsl
}

// vectorProduct has the template constants of one product.
type vectorProduct struct {
	I                    int
	Bias, Residual, Gate bool
	Act                  string
	// Gap is not 0 if eight packed weights are read together. Then it is the number of vectors of four from the first
	// four to the others.
	Gap int
}

// vectorStep is the node of a product and its step in a group.
type vectorStep struct {
	node  *ir.Node
	attrs productForm
	of    int

	residual Binding // binding of the residual if the attributes have one
	out      int     // step whose result is written
}

func vectorStepOf(n *ir.Node, a productForm, of int) vectorStep {
	return vectorStep{n, a, of, Binding{Operand: a.Residual(), Of: of}, of}
}

// Sizes for the template.
func (v vectors) Norm() bool    { return v.Quads > 0 }
func (v vectors) Kept() int     { return ceilDiv(v.Quads, 256) }
func (v vectors) Parts() int    { return max(32, 8*v.Sums()*v.Columns) }
func (v vectors) Two() []string { return []string{"s", "t"} } // names of the two sets of sums, which alternate
func (v vectors) Last() int     { return len(v.Products) - 1 }
func (v vectors) Sums() int {
	if v.Gated {
		return len(v.Products)
	}
	return 1
}
func (v vectors) Of(i int) any {
	return struct {
		vectors
		vectorProduct
	}{v, v.Products[i]}
}

// Sum is the index of the sums that the product uses.
func (p vectorProduct) Sum() int {
	if p.Gate {
		return p.I
	}
	return 0
}

// normGroups is the largest number of workgroups for a shader that normalises x. Each workgroup normalises x once for
// all its columns. The number is a few per processor of a large GPU.
const normGroups = 528

// mostKept is the largest number of vectors of x that an invocation keeps in registers while it normalises them.
const mostKept = 8

// matmulVector multiplies x [1,K] by a weight [N,K].
func matmulVector(n *ir.Node, a productForm, l Limits) Shader {
	return vectorShader([]vectorStep{vectorStepOf(n, a, 0)}, nil, 0, l)
}

// vectorNorm is an rms_norm of x that a shader does first.
type vectorNorm struct {
	node  *ir.Node
	of    int // its step
	x     Binding
	gamma int // operand index; that of beta follows
	eps   float64
}

// vectorShader makes the shader. norm is how x is normalised, or nil. gate is the step that multiplies the results, or
// 0.
func vectorShader(steps []vectorStep, norm *vectorNorm, gate int, l Limits) Shader {
	k, columns := 0, 0
	v := vectors{Gated: gate > 0, Lanes: 32, Each: 2, Ahead: 4}
	s := Shader{Name: steps[0].node.Op.Name, Body: matmulVectorWGSL, Fields: []string{"groups", "k_size"},
		Bindings: []Binding{{Name: "a", Operand: 0, Vec: 4, DType: dtype.F32}}}
	if norm != nil {
		s.Bindings[0].Operand, s.Bindings[0].Of = norm.x.Operand, norm.x.Of
	}
	for i, p := range steps {
		size := largest(p.node, p.attrs)
		k, columns = size.k, columns+size.n
		v.Products = append(v.Products, vectorProduct{i, p.attrs.HasBias, p.attrs.HasResidual, v.Gated, p.attrs.Act,
			pairGap[p.node.In[1].Type.DType]})
		add := func(name string, b Binding) {
			b.Name, b.DType = fmt.Sprint(name, i, "_"), dtype.F32
			s.Bindings = append(s.Bindings, b)
		}
		w := weights(fmt.Sprint("b", i, "_"), p.node, 1)
		w.Of, w.Pairs = p.of, pairGap[p.node.In[1].Type.DType] > 0
		s.Bindings = append(s.Bindings, w)
		if p.attrs.HasBias {
			add("bias", Binding{Operand: p.attrs.Bias(), Of: p.of})
		}
		if p.attrs.HasResidual {
			add("residual", p.residual)
		}
		if !v.Gated {
			add("y", Binding{Operand: Out, Of: p.out})
		}
		s.Fields = append(s.Fields, fmt.Sprint("end", i), fmt.Sprint("n_size", i))
	}
	if v.Gated {
		s.Bindings = append(s.Bindings, Binding{Name: "y0_", Operand: Out, Of: gate, DType: dtype.F32})
	}
	var ofNorm []uint32
	if norm != nil {
		v.Quads = k / 4
		s.Bindings = append(s.Bindings,
			Binding{Name: "gamma", Operand: norm.gamma, Of: norm.of, Vec: 4, DType: dtype.F32},
			Binding{Name: "beta", Operand: norm.gamma + 1, Of: norm.of, Vec: 4, DType: dtype.F32})
		s.Fields = append(s.Fields, "stride", "count:f32", "eps:f32")
		ofNorm = []uint32{normGroups, math.Float32bits(float32(k)),
			math.Float32bits(float32(norm.eps))}
	}
	v.shape(k, columns, steps[0].node.In[1].Type.DType.IsPacked())
	s.Consts = v
	sizes := func(c *Call, p vectorStep) product {
		if p.of > 0 {
			c = c.Group[p.of]
		}
		return called(p.attrs, c)
	}
	tiles := func(c *Call) (end int) {
		for i, p := range steps {
			if i == 0 || !v.Gated {
				end += ceilDiv(sizes(c, p).n, v.Columns)
			}
		}
		return end
	}
	s.Groups = tiles
	if norm != nil {
		s.Groups = func(c *Call) int { return min(tiles(c), normGroups) }
	}
	s.Loops = func(c *Call) int {
		tile := 2*loop(ceilDiv(k/4, v.Lanes), 0) + 1 + loop(v.Lanes/8, 0)
		return loop(ceilDiv(tiles(c), s.Groups(c)), tile)
	}
	s.Params = func(c *Call) []uint32 {
		p := sizes(c, steps[0])
		if p.m != 1 || p.n == 0 {
			return nil
		}
		list, end := []uint32{uint32(tiles(c)), uint32(p.k)}, 0
		for _, step := range steps {
			n := sizes(c, step).n
			end += ceilDiv(n, v.Columns)
			list = append(list, uint32(end), uint32(n))
		}
		return append(list, ofNorm...)
	}
	return l.ownVectors(s, steps, norm)
}

// shape chooses the invocations and reads for products over k values with so many columns in all.
func (v *vectors) shape(k, columns int, packed bool) {
	switch {
	case k >= 4096:
		v.Lanes = 128
	case k >= 1024:
		v.Lanes = 64
	}
	if packed { // a packed vector of four has only a few bytes
		v.Ahead, v.Lanes = 8, max(32, v.Lanes/2)
	}
	v.agree()
	if columns < 2048 || v.Gated { // prefer more workgroups to fewer reads of x
		v.Each = 1
	}
	v.Columns = 256 / v.Lanes * v.Each
}

// agree decides which products read eight weights together. Products that share their reads of x read alike.
func (v *vectors) agree() {
	apart := func(p vectorProduct) bool { return p.Gap != v.Products[0].Gap || p.Gap == 0 }
	if v.Gated && slices.ContainsFunc(v.Products, apart) {
		for i := range v.Products {
			v.Products[i].Gap = 0
		}
	}
	if !slices.ContainsFunc(v.Products, func(p vectorProduct) bool { return p.Gap == 0 }) {
		v.Ahead = 4
	}
}

// vectorGroup finds products with the same x, and the steps around them: the norm that makes x, the multiplication of
// two results, a residual.
//
//	x = rms_norm h, γ, β        x = rms_norm h, γ, β
//	q = matmul x, wq            u = matmul x, wu
//	k = matmul x, wk            g = fused_matmul x, wg {act="silu"}     d = dequant_matmul x, w
//	v = matmul x, wv            y = mul u, g                            y = add r, d
func vectorGroup(nodes []*ir.Node, uses []int, l Limits) (g Group, ok bool) {
	if g, ok := sumNormGroup(nodes, uses, l); ok {
		return g, true
	}
	var norm *vectorNorm
	first, x := 0, nodes[0].In
	if n := nodes[0]; n.Is(op.RmsNormDef) && normalises(n, l) {
		norm, first = &vectorNorm{n, 0, Binding{}, 1, n.Attrs.(op.RmsNormAttrs).Eps}, 1
		steps, gate, end := vectorSteps(nodes, first, n, uses, l)
		if len(steps) == 0 || uses[n.ID] != len(steps) {
			return Group{}, false
		}
		return Group{Steps: end, Shaders: []Shader{vectorShader(steps, norm, gate, l)}}, true
	}
	if len(x) == 0 {
		return Group{}, false
	}
	steps, gate, end := vectorSteps(nodes, 0, x[0], uses, l)
	if end < 2 {
		return Group{}, false
	}
	return Group{Steps: end, Shaders: []Shader{vectorShader(steps, nil, gate, l)}}, true
}

// normalises reports whether a shader for products can do a norm first.
func normalises(n *ir.Node, l Limits) bool {
	x := n.In[0].Type
	width := int(x.Shape[x.Rank()-1].Const)
	return allF32(&ir.Node{In: n.In, Type: x}) && fourAtOnce(n) && width <= 4*256*mostKept &&
		4*width+8192 <= l.WorkgroupStorage
}

// vectorSteps finds the products of x that begin at node first, and the step after them that belongs to them. gate is
// the step that multiplies the results, or 0, and end the number of the node after all.
func vectorSteps(nodes []*ir.Node, first int, x *ir.Node, uses []int, l Limits) (steps []vectorStep, gate, end int) {
	at := first
	for ; at < len(nodes); at++ {
		n := nodes[at]
		a, ok := productAttrs(n)
		if !ok || n.In[0] != x || a.HasResidual || !byRows(n, a, l) || smallest(n, a).m > 1 {
			break
		}
		steps = append(steps, vectorStepOf(n, a, at))
	}
	if at < len(nodes) {
		switch n := nodes[at]; len(steps) {
		case 1:
			if steps[0].addTo(n, uses) {
				steps[0].residual.Of, steps[0].out = at, at
				at++
			}
		case 2:
			if multiply(n, steps, uses) {
				gate = at
				at++
			}
		}
	}
	return steps, gate, at
}

// sumNormGroup finds a product, the sum of its result and a residual, the norm of that, and products of the norm. One
// shader computes the first product and the sum, and another the rest.
//
//	d = dequant_matmul a, w
//	s, x = fused_add_rms_norm r, d, γ, β
//	q = dequant_matmul x, wq
func sumNormGroup(nodes []*ir.Node, uses []int, l Limits) (g Group, ok bool) {
	if len(nodes) < 3 || !nodes[1].Is(op.FusedAddRmsNormDef) || !normalises(nodes[1], l) {
		return g, false
	}
	d, t := nodes[0], nodes[1]
	a, ok := productAttrs(d)
	if !ok || a.HasResidual || !byRows(d, a, l) || smallest(d, a).m > 1 || uses[d.ID] != 1 ||
		!t.In[0].Type.Equal(t.In[1].Type) {
		return g, false
	}
	first := vectorStepOf(d, a, 0)
	first.attrs.HasResidual, first.out = true, 1
	first.residual = Binding{Operand: 0, Of: 1, InPlace: true}
	if t.In[0] == d {
		first.residual.Operand = 1
	} else if t.In[1] != d {
		return g, false
	}
	x := t.Values()[1]
	steps, gate, end := vectorSteps(nodes, 2, x, uses, l)
	if len(steps) == 0 || uses[x.ID] != len(steps) {
		return g, false
	}
	norm := &vectorNorm{t, 1, Binding{Operand: Out, Of: 1}, 2, t.Attrs.(op.FusedAddRmsNormAttrs).Eps}
	return Group{Steps: end, Shaders: []Shader{vectorShader([]vectorStep{first}, nil, 0, l),
		vectorShader(steps, norm, gate, l)}}, true
}

// addTo makes n the residual of the product, if n adds its other operand to the product's result and nothing else reads
// that result.
func (s *vectorStep) addTo(n *ir.Node, uses []int) bool {
	if !n.Is(op.AddDef) || uses[s.node.ID] != 1 || !n.In[0].Type.Equal(n.In[1].Type) {
		return false
	}
	s.attrs.HasResidual = true
	s.residual = Binding{InPlace: true}
	if n.In[0] == s.node {
		s.residual.Operand = 1
	}
	return true
}

// multiply reports whether n is the product of two results that nothing else reads. If n applies an activation to one
// of them, multiply moves it to that product.
func multiply(n *ir.Node, steps []vectorStep, uses []int) bool {
	if len(n.In) != 2 || uses[steps[0].node.ID] != 1 || uses[steps[1].node.ID] != 1 ||
		!steps[0].node.Type.Equal(steps[1].node.Type) {
		return false
	}
	of := map[*ir.Node]*vectorStep{steps[0].node: &steps[0], steps[1].node: &steps[1]}
	if of[n.In[0]] == nil || of[n.In[1]] == nil {
		return false
	}
	if n.Is(op.MulDef) {
		return true
	}
	r, ok := n.Attrs.(op.ElementwiseRegionAttrs)
	if !ok {
		return false
	}
	list, err := op.ParseRegion(r.Expr)
	if err != nil || len(list) != 2 || len(list[0].In) != 1 || list[1].Op != op.MulDef ||
		list[1].In[0].Kind == list[1].In[1].Kind {
		return false
	}
	for _, in := range list[1].In {
		if in.Kind == op.RegionLiteral || in.Kind == op.RegionInput && in.Index == list[0].In[0].Index {
			return false
		}
	}
	acts := of[n.In[list[0].In[0].Index]]
	act := op.FormatActivation(list[0].Op, list[0].Attrs)
	if acts.attrs.Act != "" || scalars[act]["float"] == "" || !op.IsActivation(act) {
		return false
	}
	acts.attrs.Act = act
	return true
}
