package matrix

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

var (
	//go:embed pack.wgsl
	packWGSL string
	//go:embed terms.wgsl
	termsWGSL string
)

var (
	_ = register("matmul", products)
	_ = register("fused_matmul", products)
	_ = register("dequant_matmul", products)
)

// products runs matrix products at precisions bf16 and f16, and those at f32 as products of terms in bf16. Operands
// that are not rows of that type along K are first written to scratch memory in that form, so that one kernel runs
// products of all types and layouts.
func products(d Device) (kernels.Own, bool) {
	return kernels.Own{
		Shaders: func(n *ir.Node, l kernels.Limits) []kernels.Shader {
			p, ok := d.productOf(n, l)
			if !ok {
				return nil
			}
			return p.shaders()
		},
		Scratch: func(n *ir.Node, l kernels.Limits) int64 {
			p, ok := d.productOf(n, l)
			if !ok {
				return 0
			}
			return p.sums + p.sumBytes(p.Largest(n))
		},
		Kept: func(n *ir.Node, l kernels.Limits) int64 {
			p, _ := d.productOf(n, l)
			return p.right.kept
		},
		ReadsRounded: func(n *ir.Node, l kernels.Limits) dtype.DType {
			if p, ok := d.productOf(n, l); ok && p.roundsLeft() {
				return p.typ
			}
			return 0
		},
		WritesRounded: func(n *ir.Node, l kernels.Limits) bool {
			p, ok := d.productOf(n, l)
			return ok && !p.exact && p.pairs()
		},
		Few: d.fewShaders,
	}, d.tiles() != nil
}

// leastWork is the least number of products of numbers for which rounding operands first is worth it.
const leastWork = 1 << 18

// leastTermsWork is leastWork at f32, where products of terms replace products with fma.
const leastTermsWork = 1 << 28

// least returns the least number of products of numbers for which matrix units are worth it. exact says whether the
// operands are divided into terms.
func (d Device) least(exact bool) int64 {
	if exact && !d.Small {
		return leastTermsWork
	}
	return leastWork
}

// halfBytes returns the bytes of values of 16 bits, up to where the next operand may begin.
func halfBytes(values int64) int64 { return (2*values + 255) &^ 255 }

// mostBytes is the largest size of an operand. It lies in one binding.
const mostBytes = 2<<30 - 1<<12

// product is a node that runs on matrix units.
type product struct {
	kernels.Product
	device      Device
	node        *ir.Node
	typ         dtype.DType // to which operands are rounded; f32 means TF32
	exact       bool        // they are divided into terms instead
	left, right operand
	list        []plan
	sums        int64       // where sums over parts of K begin in scratch memory
	also        dtype.DType // to which the result is also rounded; 0 if it is not
	only        bool        // nothing reads the result itself
	direct      fewPlan     // how few rows are multiplied; its zero value if they are not
}

// operand is an operand of a product.
type operand struct {
	node    int // operand index
	across  bool
	shared  bool  // all products have the same matrix
	terms   int   // of each value: 1 if it is rounded
	rounded bool  // it was written in 16 bits, too: see kernels.RoundedIn
	packed  bool  // it is rounded, or divided into terms, and copied to scratch memory
	begin   int64 // in scratch memory
	scratch int64 // bytes in scratch memory
	kept    int64 // bytes in memory that is kept, if the operand is a weight
}

// productOf returns the product of a node, or false if it does not run on matrix units.
func (d Device) productOf(n *ir.Node, l kernels.Limits) (x product, ok bool) {
	p, ok := kernels.ProductOf(n)
	x.typ = narrow(l)
	switch {
	case l.Precision == "tf32":
		x.typ = dtype.F32
	case l.Precision == "" && d.TermTiles() != nil:
		x.typ, x.exact = dtype.BF16, true
	}
	if !ok || x.typ == 0 || n.Type.DType != dtype.F32 || activation(p.Act) == nil {
		return x, false
	}
	x.Product, x.device, x.node, x.also = p, d, n, l.Rounds
	x.only = l.RoundsOnly
	most := p.Largest(n)
	if int64(most.M)*int64(most.N)*int64(most.K)*int64(most.Count) < d.least(x.exact) {
		return x, false
	}
	for i, across := range []bool{p.TransA, !p.TransB} {
		o, ok := x.operand(i, across, most, l.Keeps)
		if !ok {
			return x, false
		}
		if i == 0 {
			if l.Rounded[0] {
				o.rounded, o.packed, o.scratch = true, false, 0
			}
			x.left = o
		} else {
			x.right = o
		}
	}
	x.list = x.plans(most)
	x.multiplyFew(l)
	x.sums = x.left.scratch + x.right.scratch
	result := 4 * int64(most.Count) * int64(most.M) * int64(most.N)
	return x, x.sums+x.sumBytes(most) <= mostBytes && result <= mostBytes
}

// operand returns operand i. ok is false if the kernel does not take it. most are the largest sizes.
func (p product) operand(i int, across bool, most kernels.ProductSizes, keeps bool) (o operand, ok bool) {
	o = operand{node: i, across: across}
	in := p.node.In[i]
	t := in.Type
	if !t.DType.IsPacked() && t.DType != dtype.F32 && t.DType != dtype.BF16 && t.DType != dtype.F16 {
		return o, false
	}
	rows, count := most.M, most.Count
	if i == 1 {
		rows = most.N
	}
	of := func(t ir.Type) ir.Shape { return t.Shape[:max(0, t.Rank()-2)] }
	switch lead := of(t); {
	case most.Count == 1 && (i == 1 || !p.TransA), ones(lead): // the rows of all matrices of A may be those of one
		o.shared, count = true, 1
	case !sameShape(lead, of(p.node.Type)):
		return o, false
	}
	k := t.Shape[t.Rank()-1]
	whole := k.IsStatic() && k.Const%depth == 0
	o.terms = 1
	if p.exact {
		o.terms = termsOf(t.DType)
	}
	o.packed = t.DType != p.typ || p.typ == dtype.F32 || across || !whole || !kernels.BeginsAt(in, 16)
	if o.packed {
		bytes := halfBytes(int64(o.terms) * int64(count) * int64(rows) * int64(p.halves(most.K)))
		if keeps && i == 1 && !t.DType.IsPacked() && kernels.IsWeight(in) {
			o.kept = bytes
		} else {
			o.scratch, o.begin = bytes, p.left.scratch
		}
	}
	return o, 4*int64(count)*int64(rows)*int64(most.K) <= mostBytes
}

// roundsLeft reports whether the left operand is rounded and copied as it lies in memory.
func (p product) roundsLeft() bool {
	in := p.node.In[0].Type
	k := in.Shape[in.Rank()-1]
	return !p.exact && p.typ != dtype.F32 && p.left.packed && !p.left.across && in.DType == dtype.F32 &&
		k.IsStatic() && k.Const%depth == 0
}

// pairs reports whether the result is written two columns at a time.
func (p product) pairs() bool {
	columns := p.node.Type.Shape[p.node.Type.Rank()-1]
	return columns.IsStatic() && columns.Const%2 == 0 &&
		(p.Residual < 0 || kernels.BeginsAt(p.node.In[p.Residual], 8))
}

// fours reports whether four columns of the result in 16 bits begin at a multiple of 8 bytes.
func (p product) fours() bool {
	columns := p.node.Type.Shape[p.node.Type.Rank()-1]
	return columns.IsStatic() && columns.Const%4 == 0 && p.pairs()
}

// halves returns the size of a row along K that has been packed, in units of 16 bits.
func (p product) halves(k int) int {
	if p.typ == dtype.F32 {
		return padded(2 * k)
	}
	return padded(k)
}

// quads is that size in units of four values.
func (p product) quads(k int) int { return p.halves(k) * 2 / (4 * p.typ.Size()) }

func padded(k int) int { return ceilDiv(k, depth) * depth }

func ones(shape ir.Shape) bool {
	for _, d := range shape {
		if !d.Is(1) {
			return false
		}
	}
	return true
}

func sameShape(a, b ir.Shape) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (p product) shaders() (out []kernels.Shader) {
	if p.right.packed {
		out = append(out, p.beyond(p.direct.most, p.pack(p.right)))
	}
	if p.left.packed {
		pack := p.pack(p.left)
		if p.wide() {
			pack = p.beyond(mostWide, pack)
		}
		out = append(out, pack)
	}
	if p.direct.rows > 0 {
		out = append(out, p.few()...)
	}
	for _, l := range p.list {
		for _, s := range p.multiply(l) {
			out = append(out, p.beyond(p.direct.most, s))
		}
	}
	return out
}

// beyond returns a shader that does nothing for up to that many rows, if kernels for few rows multiply them.
func (p product) beyond(rows int, s kernels.Shader) kernels.Shader {
	if p.direct.rows == 0 || s.Once {
		return s
	}
	params := s.Params
	s.Params = func(c *kernels.Call) []uint32 {
		if p.Sizes(c).M <= rows {
			return nil
		}
		return params(c)
	}
	return s
}

// stored are the rows of an operand in a call: lines of each matrix, and their strides in elements.
type stored struct{ lines, matrices, line, step, matrix int }

func (o operand) stored(s kernels.ProductSizes) stored {
	out := stored{s.M, s.Count, s.AM, s.AK, s.M * s.K}
	if o.node == 1 {
		out = stored{s.N, s.Count, s.BN, s.BK, s.N * s.K}
	}
	if o.shared {
		out.matrices = 1
	}
	return out
}

// memory is the operand position of what is rounded.
func (o operand) memory() int {
	if o.kept > 0 {
		return kernels.Kept
	}
	return kernels.Scratch
}

// pack returns the shader that writes an operand to scratch memory.
func (p product) pack(o operand) kernels.Shader {
	in := p.node.In[o.node]
	k := in.Type.Shape[in.Type.Rank()-1]
	packed := in.Type.DType.IsPacked()
	whole := k.IsStatic() && k.Const%4 == 0 && kernels.BeginsAt(in, 4*int64(in.Type.DType.Size()))
	fours := !o.across && (packed || whole)
	x := kernels.Binding{Name: "x", Operand: o.node, DType: in.Type.DType}
	if fours {
		x = kernels.Weights("x", p.node, o.node)
	}
	return kernels.Shader{
		Name: "operand", Body: termsWGSL + packWGSL, Once: o.kept > 0,
		Consts: struct {
			Fours, Across, TF32 bool
			Terms               int
		}{fours, o.across, p.typ == dtype.F32, o.terms},
		Bindings: []kernels.Binding{x, {Name: "y", Operand: o.memory(), Vec: 4, DType: p.typ}},
		Fields:   []string{"rows", "lines", "quads", "k_size", "matrix", "line", "step", "begin"},
		Params: func(c *kernels.Call) []uint32 {
			s := p.Sizes(c)
			r := o.stored(s)
			if r.lines*r.matrices*s.K == 0 || o.kept == 0 && s.M*s.N*s.Count == 0 {
				return nil
			}
			return []uint32{uint32(r.lines * r.matrices), uint32(r.lines), uint32(p.quads(s.K)), uint32(s.K),
				uint32(r.matrix), uint32(r.line), uint32(r.step),
				uint32(o.begin / int64(4*p.typ.Size()))}
		},
		Groups: func(c *kernels.Call) int {
			s := p.Sizes(c)
			r := o.stored(s)
			return ceilDiv(r.lines*r.matrices*p.quads(s.K), 256)
		},
	}
}

// multiply returns the shaders of the product itself, for the numbers of rows of a plan.
func (p product) multiply(l plan) []kernels.Shader {
	x := productText{Tile: l.Tile, Type: p.typ, Terms: p.terms(), Act: p.Act, Bias: p.Bias >= 0,
		Residual: p.Residual >= 0, Pairs: p.pairs(), Fours: p.fours(), Rounded: p.also != 0, Only: p.only}
	var bindings []kernels.Binding
	add := func(name string, operand int, d dtype.DType) {
		bindings = append(bindings, kernels.Binding{Name: name, Operand: operand, DType: d})
	}
	for i, o := range []operand{p.left, p.right} {
		switch name := []string{"a", "b"}[i]; {
		case o.rounded:
			add(name, kernels.RoundedIn, p.typ)
		case o.packed:
			add(name, o.memory(), dtype.U32)
		default:
			add(name, o.node, p.typ)
		}
	}
	if x.Bias {
		add("bias", p.Bias, dtype.F32)
	}
	if x.Residual {
		add("residual", p.Residual, dtype.F32)
	}
	add("y", kernels.Out, dtype.F32)
	if x.Rounded {
		add("z", kernels.RoundedOut, p.also)
	}
	s := kernels.Shader{
		Name: "product", Consts: x, Bindings: bindings, Fields: productFields, Source: x.source(bindings),
		Params: func(c *kernels.Call) []uint32 {
			s := p.Sizes(c)
			if s.M*s.N*s.Count == 0 || !l.takes(s) {
				return nil
			}
			return p.params(l, s)
		},
		Groups: func(c *kernels.Call) int {
			s := p.Sizes(c)
			return l.blocks(p.device, s.M, s.N, s.Count*l.splits)
		},
	}
	if l.splits > 1 {
		return p.divided(l, s, x)
	}
	return []kernels.Shader{s}
}

// terms returns productText.Terms.
func (p product) terms() (n [2]int) {
	if p.exact {
		n = [2]int{p.left.terms, p.right.terms}
	}
	return n
}

// termsOf returns the number of terms in bf16 that values of a type have.
func termsOf(d dtype.DType) int {
	switch d {
	case dtype.BF16:
		return 1
	case dtype.F16:
		return 2
	}
	return 3
}

// source returns the function that makes the text of a shader with these bindings.
func (x productText) source(bindings []kernels.Binding) func(views []kernels.View) (string, error) {
	return func(views []kernels.View) (string, error) {
		var err error
		x := x
		x.Skips, err = skips(bindings, views)
		return x.text(), err
	}
}

// params returns the values of productFields. Parts of K are like matrices that begin within the rows of another.
func (p product) params(l plan, s kernels.ProductSizes) []uint32 {
	k := p.halves(s.K) / l.splits
	out := []uint32{uint32(l.groups(s.M, s.N, s.Count*l.splits)), uint32(s.M), uint32(s.N), uint32(k / depth)}
	for _, o := range []operand{p.left, p.right} {
		r := o.stored(s)
		row := o.terms * p.halves(s.K) / 8
		matrix := r.lines * row
		switch {
		case l.splits > 1:
			matrix = o.terms * k / 8
		case r.matrices == 1:
			matrix = 0
		}
		out = append(out, uint32(o.begin/16), uint32(row), uint32(matrix))
	}
	if l.splits > 1 {
		return append(out, uint32(p.sums/16))
	}
	return append(out, 0)
}
