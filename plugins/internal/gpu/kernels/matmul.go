package kernels

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

var (
	//go:embed matmul_finish.wgsl
	matmulFinishWGSL string
	//go:embed matmul.wgsl
	matmulWGSL string
	//go:embed matmul_dot.wgsl
	matmulDotWGSL string
)

var (
	_ = register(Kernel{Op: "matmul", Takes: "(" + floats + "...)", Shaders: products, Scratch: splitBytes})
	_ = register(
		Kernel{Op: "fused_matmul", Takes: "(" + floats + "...) if act = " + acts(), Shaders: products,
			Scratch: splitBytes})
)

func products(n *ir.Node, l Limits) []Shader {
	a, _ := productAttrs(n)
	return matmul(n, a, l)
}

// productAttrs returns the attributes of a product in the form of one with an epilogue.
func productAttrs(n *ir.Node) (a productForm, ok bool) {
	switch attrs := n.Attrs.(type) {
	case op.FusedMatMulAttrs:
		return productForm{attrs, n.In[op.FusedMatMulBias] != nil, n.In[op.FusedMatMulResidual] != nil}, true
	case op.MatMulAttrs:
		a.TransA, a.TransB = attrs.TransA, attrs.TransB
		return a, true
	case op.DequantMatMulAttrs:
		a.TransB = true
		return a, attrs.Scheme == op.SchemePacked
	}
	return a, false
}

// productForm has the attributes of a product with an epilogue, and says which operands the epilogue has.
type productForm struct {
	op.FusedMatMulAttrs
	HasBias, HasResidual bool
}

// Bias returns the index of the bias operand, or -1.
func (f productForm) Bias() int { return indexIf(f.HasBias, op.FusedMatMulBias) }

// Residual returns the index of the residual operand, or -1.
func (f productForm) Residual() int { return indexIf(f.HasResidual, op.FusedMatMulResidual) }

func indexIf(has bool, index int) int {
	if has {
		return index
	}
	return -1
}

// floats are the element types of kernels that compute in f32, in the language of rules.
const floats = "f32|f16|bf16"

// acts lists the activations that a product can apply, as values of a rule.
func acts() string {
	list := `""`
	for _, name := range op.Activations() {
		if scalars[name]["float"] != "" {
			list += "|" + strconv.Quote(name)
		}
	}
	return list
}

// product has the sizes and strides of a matmul in the form that its kernels take.
type product struct {
	m, n, k                int
	batch, aBatch, bBatch  []uint32 // sizes and strides (in elements) of the leading axes
	aM, aK, bN, bK, matrix int
	patches                bool // an operand is the patches of a convolution
}

// sizes derives a product from its shapes. If all matrices are multiplied by the same one, they become the rows of one
// matrix.
func sizes(a productForm, x, w, out []int) product {
	r := len(out)
	p := product{m: 1, n: out[r-1], k: x[len(x)-1]}
	if r > 1 { // dequant_matmul also accepts a vector
		p.m = out[r-2]
	}
	if a.TransA {
		p.k = x[len(x)-2]
	}
	// the elements of packed weights are blocks, so there are fewer
	if (len(w) == 2 || numel(w) == p.k*p.n) && !a.TransA {
		p.m, p.matrix = numel(out[:r-1]), 1
		p.batch, p.aBatch, p.bBatch = dims(nil), strides(nil), strides(nil)
	} else {
		lead := func(s []int, per int) []uint32 {
			st := strides(s[:len(s)-2])
			for i := range st {
				st[i] *= uint32(per)
			}
			return st
		}
		p.batch, p.matrix = dims(out[:r-2]), numel(out[:r-2])
		p.aBatch, p.bBatch = lead(x, p.m*p.k), lead(w, p.k*p.n)
	}
	p.aM, p.aK, p.bN, p.bK = p.k, 1, 1, p.n
	if a.TransA {
		p.aM, p.aK = 1, p.m
	}
	if a.TransB {
		p.bN, p.bK = p.k, 1
	}
	return p
}

// called returns the product of a call.
func called(a productForm, c *Call) product {
	return sizes(a, c.In[0].Shape, c.In[1].Shape, c.Out.Shape)
}

// largest returns the product at the symbols' upper bounds.
func largest(n *ir.Node, a productForm) product {
	return bounded(n, a, n.Graph.Syms.Largest)
}

// smallest returns the product at the symbols' lower bounds.
func smallest(n *ir.Node, a productForm) product {
	return bounded(n, a, n.Graph.Syms.Smallest)
}

func bounded(n *ir.Node, a productForm, at func(ir.Shape) []int) product {
	return sizes(a, at(n.In[0].Type.Shape), at(n.In[1].Type.Shape), at(n.Type.Shape))
}

// fours reports whether a size is static and a multiple of four.
func fours(d ir.Dim) bool { return d.IsStatic() && d.Const%4 == 0 && d.Const > 0 }

// matmul chooses among the kernels that read vectors of four, for one row, few rows and many, and the general kernel.
// If the number of rows is known only at run time, each run uses the kernel for its number.
func matmul(n *ir.Node, a productForm, l Limits) []Shader {
	if s, ok := matmulHalves(n, a, l); ok {
		return []Shader{s}
	}
	own := l.own(n)
	if !inVectors(n) {
		if own != nil {
			return own
		}
		return []Shader{matmulDot(n, a)}
	}
	tiled := func() []Shader {
		if own != nil {
			return own
		}
		return matmulTiled(n, a, l)
	}
	most := largest(n, a)
	if !byRows(n, a, l) {
		return tiled()
	}
	least := smallest(n, a)
	var out []Shader
	take := func(from, to int, make func() []Shader) {
		if least.m <= to && from <= most.m {
			for _, s := range make() {
				out = append(out, s.forRows(a, from, to))
			}
		}
	}
	take(0, 1, func() []Shader { return []Shader{matmulVector(n, a, l)} })
	few := mostFewRows(l, n)
	next := 2
	if own, _ := l.ownFew(n, a); own != nil {
		take(2, maxFewOwn, func() []Shader { return own })
		next = maxFewOwn + 1
	}
	if next <= few {
		take(next, few, func() []Shader { return []Shader{matmulRows(n, a)} })
	}
	take(few+1, most.m, tiled)
	return out
}

// inVectors reports whether both operands can be read in vectors of four.
func inVectors(n *ir.Node) bool {
	x, w := n.In[0].Type, n.In[1].Type
	// the axis along which vectors are read
	axis := func(t ir.Type, fromEnd int) ir.Dim { return t.Shape[t.Rank()-fromEnd] }
	if w.DType.IsPacked() {
		return aligned(n.In[0])
	}
	return x.DType == dtype.F32 && n.Type.DType == dtype.F32 && fours(axis(x, 1)) && fours(axis(w, 1)) &&
		allAligned(n.In[:2])
}

// byRows reports whether each run chooses its kernel by the number of rows. That requires a single weight [N,K] for all
// rows.
func byRows(n *ir.Node, a productForm, l Limits) bool {
	return inVectors(n) && largest(n, a).matrix == 1 && a.TransB && !a.TransA && l.Tile == nil
}

// forRows returns a shader that does something only if the product has from to to rows.
func (s Shader) forRows(a productForm, from, to int) Shader {
	if s.Once {
		return s
	}
	params := s.Params
	s.Params = func(c *Call) []uint32 {
		if m := called(a, c).m; m < from || m > to {
			return nil
		}
		return params(c)
	}
	return s
}

// aligned reports whether a value begins at a multiple of four elements.
func aligned(n *ir.Node) bool { return beginsAt(n, 4*int64(n.Type.DType.Size())) }

func allAligned(nodes []*ir.Node) bool {
	return !slices.ContainsFunc(nodes, func(n *ir.Node) bool { return n != nil && !aligned(n) })
}

func matmulDot(n *ir.Node, a productForm) Shader {
	return mapped(n, n.Op.Name, matmulDotWGSL, map[string]any{"Bias": a.Bias(), "Residual": a.Residual(), "Act": a.Act},
		[]string{"m_size", "n_size", "k_size", "a_m", "a_k", "b_n", "b_k", "batch:8", "a_batch:8", "b_batch:8"},
		func(c *Call) []uint32 {
			p := called(a, c)
			return slices.Concat(
				[]uint32{uint32(p.m), uint32(p.n), uint32(p.k), uint32(p.aM), uint32(p.aK), uint32(p.bN), uint32(p.bK)},
				p.batch, p.aBatch, p.bBatch)
		}).withLoops(n, func(c *Call) int {
		return loop(maxRank, 0) + loop(called(a, c).k, 0)
	})
}

// operand tells how the tiled kernel reads A or B.
type operand struct {
	Name   string
	Rows   string // parameter with the number of its rows; the rows of B are the columns of the result
	Across bool   // stored as [K, rows]
	Patch  *patch // set if it is the images of a convolution
	Filter *patch // set if it is the weights of a convolution
	Whole  bool   // the tile size divides the number of rows
	WholeK bool   // the tile depth divides K

	At    string // WGSL type of the offsets of a unit's vectors
	Fours int    // rows of a tile / 4
	Quads int    // values of K of a tile / 4
	Line  int    // see line; of a tile with matrices
	Size  int    // vectors in workgroup memory, of a tile with matrices
	Pad   int    // vectors of padding between groups of four values of K in workgroup memory
}

// Guarded reports whether the operand is patches with guards.
func (o operand) Guarded() bool { return o.Patch != nil && o.Patch.Guarded() }

// tiled has the constants of the tiled kernel.
type tiled struct {
	Tile
	A, B     operand
	Whole    bool // no tile extends past the result
	Bias     bool
	RowBias  bool // the bias has a value per row instead of per column
	Addend   bool // something is added before the activation
	Residual bool
	Sliced   bool     // of a convolution: there are Splits matrices of partial sums for each matrix of the result
	Acts     []string // activations; P.act selects one, counted from 1
	Vec      int      // 4 if the number of columns is a multiple of four
	Spread   *patch   // geometry of a transposed convolution
}

// Sizes for the template.
func (t tiled) MV() int             { return t.TM / 4 }
func (t tiled) NV() int             { return t.TN / 4 }
func (t tiled) MatricesM() int      { return t.BlockM() / 8 }
func (t tiled) MatricesN() int      { return t.BlockN() / 8 }
func (t tiled) At() string          { return t.A.At }
func (t tiled) Operands() []operand { return []operand{t.A, t.B} }
func (t tiled) Guarded() bool       { return t.A.Guarded() || t.B.Guarded() }

// Taps is the argument of a fetch that says which taps are inside of the image, if it has one.
func (t tiled) Taps(pass int) string {
	if !t.Guarded() {
		return ""
	}
	return fmt.Sprintf("taps%d, ", pass)
}

// First is what the place of a part of K adds to its values of K, as WGSL.
func (t tiled) First() string {
	if t.Sliced {
		return "k_first + "
	}
	return ""
}

// Walk returns the order in which the groups of four columns in a row of sums are computed: forwards in even rows,
// backwards in odd rows.
func (t tiled) Walk(row int) []int {
	fours := make([]int, t.NV())
	for i := range fours {
		fours[i] = i
		if row%2 == 1 {
			fours[i] = t.NV() - 1 - i
		}
	}
	return fours
}

// Turned returns the swizzle that puts the columns of a group in the order of such a row. It is its own inverse.
func (t tiled) Turned(row int) string {
	if row%2 == 1 {
		return ".wzyx"
	}
	return ""
}

// step is the work for one value of K of a part.
type step struct {
	tiled
	K    int
	Held string // prefix of the variables that hold its operands; empty if they are loaded anew
}

// Assign returns the start of a statement that sets an operand.
func (s step) Assign() string {
	if s.Held == "" {
		return "let "
	}
	return s.Held
}

// Steps returns the steps of a part except the last two, which are Late and Last.
func (t tiled) Steps() (out []step) {
	for k := range t.Depth - 2 {
		out = append(out, step{tiled: t, K: k})
	}
	return out
}

// Late is the second to last step. Its sums are computed between the barriers around the store of the next part.
func (t tiled) Late() step { return step{tiled: t, K: t.Depth - 2} }

// Last is the last step. Variables hold its operands, and its sums are computed after the barriers.
func (t tiled) Last() step { return step{tiled: t, K: t.Depth - 1, Held: "last_"} }

// specialise records which of the sizes of a product are multiples of the tile. 0 stands for a size that is not static.
func (t tiled) specialise(m, n, k int) tiled {
	t.A.Name, t.A.Rows, t.A.Whole = "a", "m_size", m > 0 && m%t.TileM() == 0
	t.B.Name, t.B.Rows, t.B.Whole = "b", "n_size", n > 0 && n%t.TileN() == 0
	t.A.WholeK = k > 0 && k%t.Depth == 0
	t.B.WholeK = t.A.WholeK
	t.Whole = t.A.Whole && t.B.Whole
	t.A.Fours, t.B.Fours = t.TileM()/4, t.TileN()/4
	at := "u32"
	for _, o := range []*operand{&t.A, &t.B} {
		o.Quads = t.Depth / 4
		o.Line = line(4 * o.Fours)
		o.Size = t.Depth * o.Line
		if !o.Across {
			o.Pad = t.pad() // neighbours store different values of K
		}
		if o.Patch != nil || o.Filter != nil || !o.Across && !o.Whole {
			at = "vec4<u32>" // the last rows may be past the end
		}
	}
	t.A.At, t.B.At = at, at
	t.A.Size = t.vectorsA()
	return t
}

// fixed returns the sizes of a type, 0 for those that are not static.
func fixed(t ir.Type) []int {
	out := make([]int, t.Rank())
	for i, d := range t.Shape {
		if d.IsStatic() {
			out[i] = int(d.Const)
		}
	}
	return out
}

// productFields are the parameters of a product; params returns their values.
var productFields = []string{"groups", "rows", "act", "residual", "m_size", "n_size", "k_size", "batch:8", "a_batch:8",
	"b_batch:8"}

func (t Tile) params(p product, f finish) []uint32 {
	return slices.Concat(
		[]uint32{uint32(t.groups(p)), uint32(t.rows()), f.act, f.residual, uint32(p.m), uint32(p.n), uint32(p.k)},
		p.batch, p.aBatch, p.bBatch)
}

// finish has the parameters of the epilogue. With them, products that differ only in the epilogue can share a shader.
type finish struct{ act, residual uint32 }

// finishes gives the shader of a fused product all epilogues that occur in the graph. The result selects the node's
// own.
func (t *tiled) finishes(n *ir.Node, a productForm) (f finish) {
	t.Bias, t.Residual = a.HasBias, a.HasResidual
	if a.HasResidual {
		f.residual = 1
	}
	for _, other := range n.Graph.Nodes {
		o, ok := other.Attrs.(op.FusedMatMulAttrs)
		if !ok || n.Op != other.Op {
			continue
		}
		if o.Act != "" && !slices.Contains(t.Acts, o.Act) {
			t.Acts = append(t.Acts, o.Act)
		}
		// if there is no residual, the bias can be bound in its place
		t.Residual = t.Residual || other.In[op.FusedMatMulResidual] != nil && a.HasBias
	}
	f.act = uint32(slices.Index(t.Acts, a.Act) + 1)
	return f
}

// epilogue returns the bindings of bias, residual (operand indices, or -1) and result.
func epilogue(bias, residual, vec int) (out []Binding) {
	if bias >= 0 {
		out = append(out, Binding{Name: "bias", Operand: bias, Vec: vec, DType: dtype.F32})
	}
	if residual >= 0 {
		out = append(out, Binding{Name: "residual", Operand: residual, Vec: vec, DType: dtype.F32})
	}
	return append(out, Binding{Name: "y", Operand: Out, Vec: vec, DType: dtype.F32})
}

func matmulTiled(n *ir.Node, a productForm, l Limits) []Shader {
	size := sizes(a, fixed(n.In[0].Type), fixed(n.In[1].Type), fixed(n.Type))
	c := tiled{Tile: productTile(n, a, l)}
	if size.n%4 == 0 && size.n > 0 && allAligned(n.In[2:]) {
		c.Vec = 4
	}
	c.A.Across, c.B.Across = a.TransA, !a.TransB
	f := c.finishes(n, a)
	c = c.specialise(size.m, size.n, size.k)
	residual := a.Residual()
	if c.Residual && !a.HasResidual {
		residual = a.Bias() // never read
	}
	s := Shader{
		Name: n.Op.Name, Body: matmulFinishWGSL + matmulWGSL, Consts: c,
		Fields:   productFields,
		Bindings: []Binding{{Name: "a", Operand: 0, Vec: 4, DType: dtype.F32}, weights("b", n, 1)},
	}
	s.Bindings = append(s.Bindings, epilogue(a.Bias(), residual, c.Vec)...)
	s.Groups = func(call *Call) int { return c.groups(c.split(called(a, call))) }
	s.Loops = func(call *Call) int { return c.loops(called(a, call).k) }
	s.Params = func(call *Call) []uint32 {
		if numel(call.Out.Shape) == 0 {
			return nil
		}
		return c.params(c.split(called(a, call)), f)
	}
	if c.Splits > 1 {
		return splitShaders(a, c, s)
	}
	return []Shader{s}
}
