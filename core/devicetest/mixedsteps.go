package devicetest

import (
	"slices"
	"sync"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// steps returns functions that compute a value from x, or return nil if x does not fit. Important ones occur several
// times.
func (m *mixer) steps() []func(x *ir.Node) *ir.Node {
	float := func(do func(x *ir.Node) *ir.Node) func(x *ir.Node) *ir.Node {
		return func(x *ir.Node) *ir.Node {
			if !x.Type.DType.IsFloat() {
				return nil
			}
			return do(x)
		}
	}
	return []func(x *ir.Node) *ir.Node{
		m.binary, m.binary, m.binary, m.compare, m.where, m.where, m.cast, m.cast, m.transpose, m.transpose, m.reshape,
		m.reshape,
		m.narrow, m.narrow, m.concat, m.concat, m.pad, m.expand, m.gather, m.gather, m.iota, m.reduce, m.reduce, m.topK,
		m.topK, m.arg, m.scan, m.sort,
		m.unary, m.unary, m.unary, float(m.softmax), float(m.fourier), float(m.norm), float(m.channelNorm),
		float(m.matmul), float(m.matmul),
		float(m.conv), float(m.conv), float(m.conv), m.pooling, float(m.adaptivePool), m.im2col, float(m.attention),
		float(m.attention), float(m.rope),
	}
}

func (m *mixer) unary(x *ir.Node) *ir.Node {
	defs := unaries()
	def, d := defs[m.IntN(len(defs))], x.Type.DType
	cases := def.Cases()
	c := cases[m.IntN(len(cases))]
	if _, err := def.Infer(c.Attrs, []ir.Type{x.Type}, ir.Type{}, m.graph.Syms); err != nil {
		return nil
	}
	// the function is not defined everywhere, or has poles
	if r := cases[0].Fill[0]; d.IsFloat() && (r.Lo > -6 || r.Hi < 6) {
		x = op.Max(op.Min(x, m.number(r.Hi, d)), m.number(r.Lo, d))
	}
	return m.add(def, c.Attrs, x)
}

// unaries returns the elementwise functions of one operand, except cast.
var unaries = sync.OnceValue(func() []*ir.OpDef {
	return slices.DeleteFunc(
		ir.Defs(), func(d *ir.OpDef) bool { return !op.CanBeInRegion(d) || len(d.Operands) != 1 || d == op.CastDef })
})

// exact reports whether a value has no rounding errors. Within a region a backend may round differently than the
// definition does, and a discontinuous function, such as floor(sin(x)) or x*x <= x, would make the difference visible.
func (m *mixer) exact(x *ir.Node) bool {
	if known, ok := m.exactness[x]; ok {
		return known
	}
	if m.size.whole {
		return true
	}
	known := !slices.ContainsFunc(x.Op.Tol(x.Attrs, x.InTypes(), x.ResultTypes()...), func(t ir.Tolerance) bool {
		return t != ir.Tolerance{}
	})
	for _, y := range x.Operands() {
		known = known && m.exact(y)
	}
	m.exactness[x] = known
	return known
}

func (m *mixer) binary(x *ir.Node) *ir.Node {
	y, d := m.partner(x), x.Type.DType
	bits := []*ir.OpDef{op.AndDef, op.OrDef, op.XorDef}
	if d == dtype.Bool {
		return m.add(bits[m.IntN(3)], op.NoAttrs{}, x, y)
	}
	switch m.IntN(8) {
	case 0:
		return m.add(op.DivDef, op.NoAttrs{}, x, op.Max(y, m.number(1, d)))
	case 1:
		if d.IsFloat() {
			return m.add(op.PowDef, op.NoAttrs{}, op.Max(x, m.number(0.5, d)), op.Min(y, m.number(2, d)))
		}
		return m.add(append(bits, op.ShiftLeftDef, op.ShiftRightDef)[m.IntN(5)], op.NoAttrs{}, x, y)
	case 2:
		if z := m.add([]*ir.OpDef{op.ModDef, op.RemainderDef}[m.IntN(2)], op.NoAttrs{}, x,
			op.Max(y, m.number(1, d))); z != nil {
			return z
		}
	}
	def := []*ir.OpDef{op.AddDef, op.SubDef, op.MulDef, op.MaxDef, op.MinDef}[m.IntN(5)]
	if m.IntN(2) == 0 {
		x, y = y, x
	}
	return m.add(def, op.NoAttrs{}, x, y)
}

func (m *mixer) compare(x *ir.Node) *ir.Node {
	def := []*ir.OpDef{op.EqDef, op.NeDef, op.LtDef, op.LeDef, op.GtDef, op.GeDef}[m.IntN(6)]
	return m.add(def, op.NoAttrs{}, x, m.partner(x))
}

func (m *mixer) where(x *ir.Node) *ir.Node {
	for range 10 {
		if c := m.any(); c.Type.DType == dtype.Bool && broadcasts(c, x) {
			return m.add(op.WhereDef, op.NoAttrs{}, c, x, m.partner(x))
		}
	}
	y := m.partner(x)
	if c := m.add(op.LtDef, op.NoAttrs{}, x, y); c != nil {
		return m.add(op.WhereDef, op.NoAttrs{}, c, y, x)
	}
	return nil
}

func (m *mixer) cast(x *ir.Node) *ir.Node {
	return m.add(op.CastDef, op.CastAttrs{To: m.types[m.IntN(len(m.types))]}, x)
}

func (m *mixer) transpose(x *ir.Node) *ir.Node {
	return m.add(op.TransposeDef, op.TransposeAttrs{Perm: m.Perm(x.Type.Rank())}, x)
}

// reshape merges two neighbouring axes, splits an axis, or adds an axis of size 1.
func (m *mixer) reshape(x *ir.Node) *ir.Node {
	if _, ok := x.Type.Shape.Numel(); !ok {
		return nil
	}
	s := slices.Clone(x.Type.Shape)
	k := m.static(x, 4)
	switch i := m.IntN(3); {
	case i == 0 && k >= 0 && len(s) < 8:
		for _, f := range []int64{2, 3, 4, 5, 7} {
			if s[k].Const%f == 0 && m.IntN(2) == 0 {
				return op.Reshape(
					x, slices.Insert(slices.Concat(s[:k], s[k+1:]), k, ir.Static(f), ir.Static(s[k].Const/f)))
			}
		}
	case i == 1 && len(s) < 6:
		return op.Reshape(x, slices.Insert(s, m.IntN(len(s)+1), ir.Static(1)))
	case len(s) > 1:
		k := m.IntN(len(s) - 1)
		if d, ok := s[k].Mul(s[k+1]); ok {
			return op.Reshape(x, slices.Insert(slices.Delete(s, k, k+2), k, d))
		}
	}
	return nil
}

func (m *mixer) narrow(x *ir.Node) *ir.Node {
	k := m.static(x, 2)
	if k < 0 {
		return nil
	}
	size := int(x.Type.Shape[k].Const)
	start := m.IntN(size)
	return op.Narrow(x, k, start, 1+m.IntN(size-start))
}

func (m *mixer) concat(x *ir.Node) *ir.Node {
	if x.Type.Rank() == 0 {
		return nil
	}
	k := m.IntN(x.Type.Rank())
	in := []*ir.Node{x}
	for range 1 + m.IntN(3) {
		in = append(in, m.like(x, func(y *ir.Node) bool {
			_, err := op.ConcatDef.Infer(op.ConcatAttrs{Axis: k}, []ir.Type{x.Type, y.Type}, ir.Type{}, m.graph.Syms)
			return err == nil
		}))
	}
	m.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
	return m.add(op.ConcatDef, op.ConcatAttrs{Axis: k}, in...)
}

func (m *mixer) pad(x *ir.Node) *ir.Node {
	a := op.PadAttrs{Before: make([]int, x.Type.Rank()), After: make([]int, x.Type.Rank()), Value: float64(m.IntN(3))}
	if x.Type.DType == dtype.Bool {
		a.Value = float64(m.IntN(2))
	}
	for range 2 {
		if k := m.static(x, 1); k >= 0 {
			a.Before[k], a.After[k] = m.IntN(3), m.IntN(3)
		}
	}
	return m.add(op.PadDef, a, x)
}

func (m *mixer) expand(x *ir.Node) *ir.Node {
	s := slices.Clone(x.Type.Shape)
	if k := m.static(x, 1); k >= 0 {
		x = op.Narrow(x, k, m.IntN(int(s[k].Const)), 1)
		s[k] = ir.Static(1 + m.Int64N(6))
	}
	if m.IntN(2) == 0 && len(s) < 6 {
		s = slices.Insert(s, 0, ir.Static(1+m.Int64N(3)))
	}
	if t := (ir.Type{DType: x.Type.DType, Shape: s}); m.most(t) > m.size.elements {
		return nil
	}
	return op.Expand(x, s)
}

func (m *mixer) gather(x *ir.Node) *ir.Node {
	k := m.static(x, 1)
	for range 10 {
		i := m.any()
		if d := i.Type.DType; k < 0 || d != dtype.I32 && d != dtype.U32 || m.most(i.Type) > 60 {
			continue
		}
		d := i.Type.DType
		inside := op.Max(op.Min(i, m.number(float64(x.Type.Shape[k].Const-1), d)), m.number(0, d))
		return m.add(op.GatherDef, op.GatherAttrs{Axis: k}, x, inside)
	}
	return nil
}

// iota adds a value that gather can use as indices.
func (m *mixer) iota(*ir.Node) *ir.Node {
	n := 1 + m.Int64N(9)
	t := ir.TypeOf([]dtype.DType{dtype.I32, dtype.U32, dtype.F32}[m.IntN(3)], n, 1+m.Int64N(3))
	if !slices.Contains(m.types, t.DType) {
		return nil
	}
	return op.Iota(m.graph, m.IntN(2), t)
}

func (m *mixer) reduce(x *ir.Node) *ir.Node {
	a := op.ReduceAttrs{KeepDims: m.IntN(2) == 0}
	count := int64(1)
	for k, d := range x.Type.Shape {
		if _, most := m.graph.Syms.Bounds(d); m.IntN(2) == 0 {
			a.Axes = append(a.Axes, k)
			count *= most
		}
	}
	if len(a.Axes) == 0 {
		return nil
	}
	defs := []*ir.OpDef{op.ReduceMaxDef, op.ReduceMinDef, op.ReduceSumDef, op.ReduceMeanDef, op.LogSumExpDef,
		op.ReduceProdDef}
	if count > 5 { // a product would overflow in f16
		defs = defs[:5]
	}
	if x.Type.DType == dtype.Bool {
		defs = []*ir.OpDef{op.AnyDef, op.AllDef}
	}
	return m.add(defs[m.IntN(len(defs))], a, x)
}

// scan folds only short lines, because products of long ones would overflow f16.
func (m *mixer) scan(x *ir.Node) *ir.Node {
	if x.Type.Rank() == 0 || x.Type.DType == dtype.Bool {
		return nil
	}
	a := op.ScanAttrs{Axis: m.IntN(x.Type.Rank()), Exclusive: m.IntN(2) == 0, Reverse: m.IntN(2) == 0}
	defs := []*ir.OpDef{op.CumsumDef, op.CumprodDef, op.CummaxDef}
	if _, most := m.graph.Syms.Bounds(x.Type.Shape[a.Axis]); most > 5 {
		defs[1] = op.CummaxDef
	}
	if a.Exclusive { // an exclusive cummax would begin with -Inf
		defs = defs[:1]
	}
	return m.add(defs[m.IntN(len(defs))], a, x)
}

// fourier normalizes its transforms, so that they keep the sum of squares and values stay small.
func (m *mixer) fourier(x *ir.Node) *ir.Node {
	r := x.Type.Rank()
	if r == 0 || !x.Type.Shape[r-1].IsStatic() || x.Type.DType != dtype.F32 {
		return nil
	}
	last := int(x.Type.Shape[r-1].Const)
	switch {
	case m.IntN(3) == 0:
		return m.add(op.RFFTDef, op.FFTAttrs{Norm: op.NormOrtho}, x)
	case last%2 == 0 && m.IntN(3) == 0:
		return m.add(op.IRFFTDef, op.IRFFTAttrs{N: last - 2 + m.IntN(2), Norm: op.NormOrtho}, x)
	case last%2 == 0:
		return m.add([]*ir.OpDef{op.FFTDef, op.IFFTDef}[m.IntN(2)], op.FFTAttrs{Norm: op.NormOrtho}, x)
	}
	return nil
}

// topK returns the values or the indices. A later step may read the other result.
func (m *mixer) topK(x *ir.Node) *ir.Node {
	if x.Type.Rank() == 0 {
		return nil
	}
	least, _ := m.graph.Syms.Bounds(x.Type.Shape[x.Type.Rank()-1])
	a := op.TopKAttrs{K: 1 + m.IntN(int(min(least, 9)))}
	if d := []dtype.DType{dtype.I32, dtype.U32, dtype.F32}[m.IntN(3)]; slices.Contains(m.types, d) {
		a.IndexDType = d
	}
	return m.add(op.TopKDef, a, x)
}

func (m *mixer) arg(x *ir.Node) *ir.Node {
	if x.Type.Rank() == 0 {
		return nil
	}
	return m.add([]*ir.OpDef{op.ArgMaxDef, op.ArgMinDef}[m.IntN(2)],
		op.ArgAttrs{Axis: m.IntN(x.Type.Rank()), KeepDims: m.IntN(2) == 0}, x)
}

func (m *mixer) sort(x *ir.Node) *ir.Node {
	if x.Type.Rank() == 0 {
		return nil
	}
	return m.add(op.SortDef, op.SortAttrs{Axis: m.IntN(x.Type.Rank()), Descending: m.IntN(2) == 0}, x)
}
