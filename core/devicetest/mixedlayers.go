package devicetest

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

func (m *mixer) softmax(x *ir.Node) *ir.Node {
	if x.Type.Rank() == 0 {
		return nil
	}
	return m.add([]*ir.OpDef{op.SoftmaxDef, op.LogSoftmaxDef}[m.IntN(2)], op.SoftmaxAttrs{Axis: m.IntN(x.Type.Rank())},
		x)
}

func (m *mixer) norm(x *ir.Node) *ir.Node {
	if x.Type.Rank() == 0 || !x.Type.Shape[x.Type.Rank()-1].IsStatic() {
		return nil
	}
	width, d := x.Type.Shape[x.Type.Rank()-1].Const, x.Type.DType
	gamma, beta := m.param(d, width), m.param(d, width)
	if m.IntN(2) == 0 {
		return op.RmsNorm(x, gamma, beta, 0.1)
	}
	return op.LayerNorm(x, gamma, beta, 0.1)
}

func (m *mixer) channelNorm(x *ir.Node) *ir.Node {
	if x.Type.Rank() < 2 || !x.Type.Shape[1].IsStatic() {
		return nil
	}
	c, d := x.Type.Shape[1].Const, x.Type.DType
	gamma, beta := m.param(d, c), m.param(d, c)
	switch m.IntN(3) {
	case 0:
		return op.InstanceNorm(x, gamma, beta, 0.1)
	case 1:
		return op.BatchNorm(x, gamma, beta, beta, op.Abs(gamma), 0.5)
	}
	groups := 1
	for _, g := range []int{2, 3, 4} {
		if c%int64(g) == 0 && m.IntN(2) == 0 {
			groups = g
		}
	}
	return op.GroupNorm(x, gamma, beta, groups, 0.1)
}

func (m *mixer) matmul(x *ir.Node) *ir.Node {
	r, d := x.Type.Rank(), x.Type.DType
	if r < 2 {
		return nil
	}
	a := op.MatMulAttrs{TransA: m.IntN(3) == 0, TransB: m.IntN(2) == 0}
	inner := x.Type.Shape[r-1]
	if a.TransA {
		inner = x.Type.Shape[r-2]
	}
	y := m.like(x, func(y *ir.Node) bool {
		_, err := op.MatMulDef.Infer(a, []ir.Type{x.Type, y.Type}, ir.Type{}, m.graph.Syms)
		return err == nil
	})
	if inner.IsStatic() && m.IntN(3) > 0 {
		n := []int64{1, 3, 4, 8, 16, 20, 33}[m.IntN(7)]
		dims := []int64{inner.Const, n}
		if a.TransB {
			dims = []int64{n, inner.Const}
		}
		// a weight that is stored in a narrower type
		if w := m.types[m.IntN(len(m.types))]; d == dtype.F32 && w.IsFloat() {
			d = w
		}
		y = m.param(d, dims...)
	}
	return m.add(op.MatMulDef, a, x, y)
}

// layout chooses a layout for x, which says which axes are the batch and the channels. axes is the number of spatial
// axes. ok is false if x is not a static value with 1 to 3 spatial axes.
func (m *mixer) layout(x *ir.Node) (layout string, axes int, ok bool) {
	axes = x.Type.Rank() - 2
	if axes < 1 || axes > 3 || !x.Type.Shape.IsStatic() {
		return "", 0, false
	}
	return [][]string{{op.NCW, op.NWC}, {op.NCHW, op.NHWC}, {op.NCDHW, op.NDHWC}}[axes-1][m.IntN(2)], axes, true
}

// numbers returns n random numbers from least to least+most-1.
func (m *mixer) numbers(n, least, most int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = least + m.IntN(most)
	}
	return out
}

// conv adds a convolution or a transposed convolution, with one group or with one group per channel.
func (m *mixer) conv(x *ir.Node) *ir.Node {
	layout, axes, ok := m.layout(x)
	if !ok {
		return nil
	}
	in, out, groups := x.Type.Shape[1].Const, 1+m.Int64N(8), int64(1)
	if layout[len(layout)-1] == 'c' {
		in = x.Type.Shape[axes+1].Const
	}
	if m.IntN(3) == 0 && in > 0 {
		out, groups = in, in
	}
	stride, padding := m.numbers(axes, 1, 2), m.numbers(axes, 0, 2)
	def := []*ir.OpDef{op.Conv1DDef, op.Conv2DDef, op.Conv3DDef}[axes-1]
	attrs, channels := any(op.ConvAttrs{Layout: layout, Padding: padding, Stride: stride, Groups: int(groups)}),
		[]int64{out, in / groups}
	if m.IntN(3) == 0 {
		def = []*ir.OpDef{op.ConvTranspose1DDef, op.ConvTranspose2DDef, op.ConvTranspose3DDef}[axes-1]
		attrs, channels = op.ConvTransposeAttrs{Layout: layout, Padding: padding, Stride: stride, Groups: int(groups)},
			[]int64{in, out / groups}
	}
	for range axes {
		channels = append(channels, 1+m.Int64N(3))
	}
	operands := []*ir.Node{x, m.param(x.Type.DType, channels...)}
	if m.IntN(2) == 0 {
		operands = append(operands, m.param(x.Type.DType, out))
	}
	return m.add(def, attrs, operands...)
}

func (m *mixer) pooling(x *ir.Node) *ir.Node {
	layout, axes, ok := m.layout(x)
	if !ok || x.Type.DType == dtype.Bool {
		return nil
	}
	kinds := []string{"max", "min", "sum", "mean"}
	if !x.Type.DType.IsFloat() {
		kinds = kinds[:3]
	}
	return m.add(
		op.PoolDef, op.PoolAttrs{Kind: kinds[m.IntN(len(kinds))], Layout: layout, Kernel: m.numbers(axes, 1, 3),
			Stride:  m.numbers(axes, 1, 3),
			Padding: m.numbers(axes, 0, 2)}, x)
}

func (m *mixer) adaptivePool(x *ir.Node) *ir.Node {
	layout, axes, ok := m.layout(x)
	if !ok {
		return nil
	}
	return m.add(op.AdaptiveAvgPoolDef, op.AdaptiveAvgPoolAttrs{Layout: layout, Output: m.numbers(axes, 1, 4)}, x)
}

func (m *mixer) im2col(x *ir.Node) *ir.Node {
	if x.Type.Rank() != 4 {
		return nil
	}
	return m.add(
		op.Im2ColDef,
		op.Im2ColAttrs{Kernel: m.numbers(2, 1, 3), Stride: m.numbers(2, 1, 2), Padding: m.numbers(2, 0, 2)}, x)
}

func (m *mixer) attention(x *ir.Node) *ir.Node {
	a := op.AttentionAttrs{Heads: 1 + m.IntN(4), Layout: op.BSE, Mask: op.MaskNone}
	switch m.IntN(6) {
	case 0:
		a.Mask = op.MaskCausal
	case 1:
		a.Mask, a.Window, a.Softcap = op.MaskSliding, m.IntN(m.size.window), 2
	}
	switch x.Type.Rank() {
	case 2:
		if !x.Type.Shape.IsStatic() {
			return nil
		}
		x = op.Reshape(x, slices.Insert(slices.Clone(x.Type.Shape), 0, ir.Static(1)))
	case 4:
		a.Layout = []string{op.BHSD, op.BSHD}[m.IntN(2)]
		if h := x.Type.Shape[map[string]int{op.BHSD: 1, op.BSHD: 2}[a.Layout]]; h.IsStatic() {
			a.Heads = int(h.Const)
		}
	}
	fits := func(y *ir.Node) bool {
		_, err := op.AttentionDef.Infer(a, []ir.Type{x.Type, y.Type, y.Type}, ir.Type{}, m.graph.Syms)
		return err == nil
	}
	k := m.like(x, fits)
	v := m.like(k, func(y *ir.Node) bool { return y.Type.Equal(k.Type) })
	in := []*ir.Node{x, k, v, nil, nil, nil, nil, nil, nil}
	if s, err := a.Sizes(x.Type, k.Type, v.Type); err == nil && m.IntN(3) == 0 {
		in[op.AttentionKVLen] = m.number(float64(m.IntN(m.graph.Syms.Smallest(ir.Shape{s.Sk})[0]+1)), dtype.I32)
	}
	if m.IntN(4) == 0 {
		in[op.AttentionSinks] = m.param(x.Type.DType, int64(a.Heads))
	}
	if m.IntN(4) == 0 && x.Type.Rank() > 2 && k.Type.Rank() > 2 && k.Type.Shape[0].IsStatic() {
		b := x.Type.Shape[0]
		last := op.Const(m.graph, float64(k.Type.Shape[0].Const-1), ir.TypeOf(dtype.I32))
		if m.IntN(2) == 0 {
			each := ir.Type{DType: dtype.I32, Shape: ir.Shape{b, ir.Static(int64(1 + m.IntN(3)))}}
			in[op.AttentionPages] = op.Sub(last, op.Iota(m.graph, 0, each))
		} else {
			in[op.AttentionSequence] = op.Sub(last, op.Iota(m.graph, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{b}}))
		}
	}
	return m.add(op.AttentionDef, a, in...)
}

// rope adds a rotary embedding with angles from a base, tables or frequencies.
func (m *mixer) rope(x *ir.Node) *ir.Node {
	r := x.Type.Rank()
	if r != 3 && r != 4 || !x.Type.Shape[r-1].IsStatic() {
		return nil
	}
	last := int(x.Type.Shape[r-1].Const)
	a := op.RopeAttrs{HeadDim: last, Style: []string{op.NeoX, op.GPTJ}[m.IntN(2)],
		Layout: []string{op.BHSD, op.BSHD}[m.IntN(2)], Base: 100}
	if r == 3 {
		a.Layout = op.BSE
		if a.HeadDim = 1 + m.IntN(last); last%a.HeadDim != 0 || m.IntN(2) == 0 {
			a.Heads = 1 + m.IntN(last/a.HeadDim)
			a.Start = m.IntN(last - a.Heads*a.HeadDim + 1)
		}
	}
	if a.Rot = 2 * (1 + m.IntN(max(1, a.HeadDim/2))); a.Rot == a.HeadDim {
		a.Rot = 0
	}
	in := []*ir.Node{x, nil, nil, nil, nil}
	switch m.IntN(3) {
	case 0:
		seq := x.Type.Shape[1]
		if a.Layout == op.BHSD {
			seq = x.Type.Shape[2]
		}
		_, most := m.graph.Syms.Bounds(seq)
		table := m.param(dtype.F32, most+4, int64(a.Rotated()/2))
		a.Base, in[op.RopeCos], in[op.RopeSin], in[op.RopePositions] = 0, table, table,
			m.number(float64(m.IntN(4)), dtype.I32)
	case 1:
		a.Base, in[op.RopeFrequencies], in[op.RopePositions] = 0, m.param(dtype.F32, int64(a.Rotated()/2)),
			m.number(float64(m.IntN(99999)), dtype.I32)
	}
	return m.add(op.RopeDef, a, in...)
}
