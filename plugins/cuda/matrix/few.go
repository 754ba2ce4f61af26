package matrix

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// Products of few rows, as for the tokens of several texts: their time is that of reading weights. These kernels read
// weights as they are stored, and decode packed ones in registers. The weights' rows are those of the matrices that
// mma.sync multiplies, and the rows of x its columns, so that eight rows of x fill a matrix.

const (
	// mostTerms is the largest number of rows whose values are not rounded. They are divided into terms in bf16.
	mostTerms = 8
	// mostFew is the largest number of rows of x for packed weights, and mostFewPlain for others: with more, other
	// kernels are faster. Both are bounds of text.Batch.
	mostFew, mostFewPlain = 96, 64
	// mostSmallTile is the largest K with which tiles are smaller than leastFewTile.
	mostSmallTile = 4096
	// mostWide is the largest number of rows of x that each block rounds itself.
	mostWide = 16
)

// fewColumns are the numbers of rows of x for which there are kernels.
var fewColumns = []int{mostWide, 32, mostFewPlain, mostFew}

// fewPlan is how a node's products of few rows are divided. It must not depend on the number of rows, so that the
// results of a row do not.
type fewPlan struct {
	rows   int // of weights of a block
	depth  int // values along K that it copies at a time
	most   int // rows of x
	splits int // parts into which K is divided
	lasts  bool
}

// few returns the plan for products of few rows, or false if their kernels do not take a node. x has the columns of the
// largest kernel.
func (d Device) few(n *ir.Node, p kernels.Product, x fewText, l kernels.Limits) (f fewPlan, ok bool) {
	w, in := n.In[1], n.In[0].Type
	columns, depth := n.Type.Shape[n.Type.Rank()-1], in.Shape[in.Rank()-1]
	if d.Capability < 80 || d.NoFew || !p.TransB || p.TransA || p.Largest(n).Count != 1 || !columns.IsStatic() ||
		!depth.IsStatic() || !kernels.BeginsAt(w, 16) || activation(p.Act) == nil || n.Type.DType != dtype.F32 {
		return f, false
	}
	size, k, weights := int(columns.Const), int(depth.Const), w.Type.DType
	if size == 0 || k == 0 || k%fewDepth != 0 || fewDecoders[weights] == nil && weights != x.Type ||
		rowBytes(weights, k)%16 != 0 || size*rowBytes(weights, k) > mostBytes || 4*size*mostFew > mostBytes {
		return f, false
	}
	f.most = mostFewPlain
	if weights.IsPacked() {
		f.most = mostFew
	}
	x.Columns = min(x.Columns, f.most)
	x.Weights, f.splits = weights, 1
	if !f.tile(d, x, size, k) {
		return f, false
	}
	f.split(d, n, p, size, k)
	f.lasts = l.Lasts != nil && l.Lasts(w)
	return f, true
}

// tile chooses the tile of a product of that many rows of weights. It reports whether there is memory for one.
func (f *fewPlan) tile(d Device, x fewText, size, k int) bool {
	fits := func(rows, depth int) bool {
		x.Rows, x.Depth = rows, depth
		return k%depth == 0 && x.withStages(d).shared() <= d.Shared
	}
	enough := func(rows, blocks int) bool { return ceilDiv(size, rows) >= blocks }
	f.depth = fewDepth
	if f.rows = 2 * leastFewTile; x.Weights.IsPacked() && enough(f.rows, 2*d.Processors) && fits(f.rows, fewDepth) {
		return true
	}
	// each tile reads all of x, so few rows of x allow smaller tiles
	f.rows = leastFewTile
	for f.rows > fewRowsOfWarp && x.Wide && k <= mostSmallTile && !enough(f.rows, d.Processors*3/4) &&
		fits(f.rows/2, 2*f.depth) {
		f.rows, f.depth = f.rows/2, 2*f.depth
	}
	return fits(f.rows, f.depth)
}

// split divides K if there are fewer tiles than processors.
func (f *fewPlan) split(d Device, n *ir.Node, p kernels.Product, size, k int) {
	tiles, chunks := ceilDiv(size, f.rows), k/f.depth
	whole := size%4 == 0 && kernels.BeginsAt(n, 16) && f.rows >= leastFewTile
	for _, i := range []int{p.Bias, p.Residual} {
		whole = whole && (i < 0 || kernels.BeginsAt(n.In[i], 16))
	}
	for s := 2; s <= mostSplits && whole; s *= 2 {
		if chunks%s == 0 && tiles*s <= d.Processors+d.Processors/8 {
			f.splits = s
		}
	}
	if d.Splits > 0 && whole && chunks%d.Splits == 0 {
		f.splits = d.Splits
	}
}

// scratch returns the memory for sums over parts of K of up to that many rows.
func (f fewPlan) scratch(rows, size int) int64 {
	if f.splits == 1 {
		return 0
	}
	return 4 * int64(f.splits) * int64(rows) * int64(size)
}

// multiplyFew decides whether few rows are multiplied by kernels of their own.
func (p *product) multiplyFew(l kernels.Limits) {
	most := p.Largest(p.node).M
	rows := p.node.Type.Shape[:max(0, p.node.Type.Rank()-1)]
	some := slices.ContainsFunc(rows, func(d ir.Dim) bool { return !d.IsStatic() })
	if p.exact || p.typ == dtype.F32 || p.left.across || most > mostFewPlain && !some || p.device.Tile != nil {
		return
	}
	f, ok := p.device.few(p.node, p.Product, fewText{Type: p.typ, Terms: 1, Columns: mostFew}, l)
	if !ok {
		return
	}
	p.direct = f
	if most <= f.most {
		p.right, p.list = operand{node: 1, shared: true}, nil
	}
}

// wide reports whether blocks round x themselves, for up to mostWide rows.
func (p product) wide() bool {
	in := p.node.In[0]
	return p.direct.rows > 0 && p.left.packed && in.Type.DType == dtype.F32 && kernels.BeginsAt(in, 16)
}

// few returns the shaders for up to direct.most rows.
func (p product) few() (out []kernels.Shader) {
	least := 0
	for _, columns := range fewColumns {
		if least <= p.Largest(p.node).M && columns <= p.direct.most {
			out = append(out, p.fewOf(fewText{Type: p.typ, Terms: 1, Columns: columns,
				Wide: columns == mostWide && p.wide()}, least, columns)...)
		}
		least = columns + 1
	}
	return out
}

// fewOf returns the shaders for from to to rows.
func (p product) fewOf(x fewText, from, to int) []kernels.Shader {
	f, w := p.direct, p.node.In[1].Type.DType
	x.Depth, x.Weights, x.Rows, x.Act, x.Bias, x.Residual = f.depth, w, f.rows, p.Act, p.Bias >= 0, p.Residual >= 0
	x.Pairs, x.Rounded, x.Only, x.Lasts = p.pairs(), p.also != 0, p.only, f.lasts
	x = x.withStages(p.device)
	var bindings []kernels.Binding
	add := func(name string, operand int, d dtype.DType) {
		bindings = append(bindings, kernels.Binding{Name: name, Operand: operand, DType: d})
	}
	switch o := p.left; {
	case x.Wide:
		add("a", o.node, dtype.F32)
	case o.rounded:
		add("a", kernels.RoundedIn, p.typ)
	case o.packed:
		add("a", o.memory(), dtype.U32)
	default:
		add("a", o.node, p.typ)
	}
	weights := kernels.Binding{Name: "b", Operand: 1, DType: w}
	if w.IsPacked() {
		weights = kernels.Weights("b", p.node, 1)
	}
	bindings = append(bindings, weights)
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
	begin := uint32(p.left.begin / 16)
	if x.Wide {
		begin = 0
	}
	l := plan{splits: f.splits, from: from, to: to}
	s := kernels.Shader{
		Name: "product of few rows", Consts: x, Bindings: bindings, Fields: fewFields, Source: x.source(bindings),
		Groups: func(c *kernels.Call) int { return ceilDiv(p.Sizes(c).N, f.rows) * f.splits },
		Params: func(c *kernels.Call) []uint32 {
			s := p.Sizes(c)
			if s.M*s.N == 0 || !l.takes(s) {
				return nil
			}
			tiles, at := ceilDiv(s.N, f.rows), int64(0)
			if f.splits > 1 {
				at = p.sums
			}
			return []uint32{uint32(tiles * f.splits), uint32(s.M), uint32(s.N), uint32(s.K), uint32(rowBytes(w, s.K)),
				uint32(s.K / f.depth / f.splits), uint32(tiles), begin, uint32(at / 16)}
		},
	}
	if f.splits == 1 {
		return []kernels.Shader{s}
	}
	// as in divided
	list := p.divided(l, s,
		productText{Act: x.Act, Bias: x.Bias, Residual: x.Residual, Rounded: x.Rounded, Only: x.Only})
	x.Act, x.Bias, x.Residual, x.Rounded, x.Only, x.Pairs = "", false, false, false, false, true
	list[0].Consts, list[0].Source = x, x.source(list[0].Bindings)
	return list
}

// source returns the function that makes the text of a shader with these bindings.
func (x fewText) source(bindings []kernels.Binding) func(views []kernels.View) (string, error) {
	return func(views []kernels.View) (string, error) {
		var err error
		x := x
		x.Skips, err = skips(bindings, views)
		return x.text(), err
	}
}

// termsText is the kernel for rows that are not rounded.
var termsText = fewText{Type: dtype.BF16, Terms: packedTerms, Columns: packedTerms * mostTerms, Wide: true}

// fewTerms returns the product of a node with up to mostTerms rows, which are not rounded, or false if it has none.
func (d Device) fewTerms(n *ir.Node, l kernels.Limits) (x product, ok bool) {
	p, ok := kernels.ProductOf(n)
	if !ok || n.In[0].Type.DType != dtype.F32 || !kernels.BeginsAt(n.In[0], 16) {
		return x, false
	}
	x.Product, x.device, x.node, x.typ, x.exact = p, d, n, dtype.BF16, true
	if x.direct, ok = d.few(n, p, termsText, l); !ok {
		return x, false
	}
	return x, true
}

// fewShaders are the shaders for 2 to mostTerms rows, and the scratch memory that they need.
func (d Device) fewShaders(n *ir.Node, l kernels.Limits) ([]kernels.Shader, int64) {
	p, ok := d.fewTerms(n, l)
	if !ok {
		return nil, 0
	}
	return p.fewOf(termsText, 0, mostTerms), p.direct.scratch(mostTerms, p.Largest(n).N)
}
