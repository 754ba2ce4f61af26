package pass

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// findQuantized replaces products of numbers that were dequantized, whose result is quantized, by products of integers.
// Static quantization writes models in this form:
//
//	x, w, b = (qx - zx)*sx, (qw - zw)*sw, qb*sb          with sb = sx*sw
//	y = conv2d x, w, b
//	qy = cast (clamp (round (y/sy) + zy))       ->       qy = qconv2d qx, qw, sx*sw/sy, qb {x_zero, w_zero, y_zero}
//
// Scales of w and b may differ by channel. A relu before the quantization is dropped where the clamp does the same. The
// pass runs before fold, which would compute w. It does the same for every target; a target without products of
// integers gets their expansion.
func findQuantized(c *context, g *ir.Graph) (*ir.Graph, error) {
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		q, ok := c.quantizedAt(n)
		if !ok {
			return nil
		}
		if views := c.sameNumbers(n, q); views != nil {
			c.fired("view", n)
			return views(lookup)
		}
		f, ok, miss := c.quantizedProduct(n, q)
		switch {
		case !ok:
			return nil
		case miss != "":
			c.missed("product", n, miss)
			return nil
		}
		c.fired("product", n)
		return f.build(lookup)
	})
}

// quantization is y = (q - zero)*scale.
type quantization struct {
	q     *ir.Node // the integers; for a result, the value that is quantized
	zero  int
	scale *ir.Node
}

// quantizedAt recognises round(y/scale) + zero, limited to the range of n's type.
func (c *context) quantizedAt(n *ir.Node) (q quantization, ok bool) {
	if !n.Is(op.CastDef) || !n.In[0].Is(op.ClampDef) || n.Type.DType != dtype.I8 && n.Type.DType != dtype.U8 {
		return q, false
	}
	a := n.In[0].Attrs.(op.ClampAttrs)
	lo, hi := 0.0, 255.0
	if n.Type.DType == dtype.I8 {
		lo, hi = -128, 127
	}
	if a.Min != lo || a.Max != hi {
		return q, false
	}
	r := n.In[0].In[0]
	if r.Is(op.AddDef) {
		if q.zero, ok = c.zeroOf(r.In[1]); !ok || !sameElems(r, r.In[0]) {
			return q, false
		}
		r = r.In[0]
	}
	if !r.Is(op.RoundDef) || !r.In[0].Is(op.DivDef) || !sameElems(r, r.In[0].In[0]) {
		return q, false
	}
	q.q, q.scale = r.In[0].In[0], r.In[0].In[1]
	return q, true
}

// dequantizedAt recognises (q - zero)*scale in f32.
func (c *context) dequantizedAt(n *ir.Node) (d quantization, ok bool) {
	if !n.Is(op.MulDef) || n.Type.DType != dtype.F32 {
		return d, false
	}
	for i := range 2 {
		x := n.In[i]
		if !x.Is(op.CastDef) || !sameElems(n, x) {
			continue
		}
		x = x.In[0]
		d = quantization{scale: n.In[1-i]}
		if x.Is(op.SubDef) && x.Type.DType == dtype.I32 {
			if d.zero, ok = c.zeroOf(x.In[1]); !ok || !sameElems(x, x.In[0]) {
				continue
			}
			x = x.In[0]
		}
		if x.Is(op.CastDef) && x.Type.DType == dtype.I32 {
			x = x.In[0]
		}
		if t := x.Type.DType; t == dtype.I8 || t == dtype.U8 || t == dtype.I32 {
			d.q = x
			return d, true
		}
	}
	return d, false
}

// zeroOf returns the value of a zero point, which is known and equal for all elements.
func (c *context) zeroOf(n *ir.Node) (int, bool) {
	for n.Is(op.CastDef, op.ReshapeDef, op.ExpandDef) {
		n = n.In[0]
	}
	if v, ok := scalarOf(n); ok {
		return int(v), true
	}
	a := c.known(n)
	if a == nil || a.Len() == 0 {
		return 0, false
	}
	for i := range a.Len() {
		if a.At(i) != a.At(0) {
			return 0, false
		}
	}
	return int(a.At(0)), true
}

// factors returns the known values of a scale: one number, or one for each element of an axis.
func (c *context) factors(n *ir.Node) []float64 {
	for n.Is(op.ReshapeDef) {
		n = n.In[0]
	}
	if v, ok := scalarOf(n); ok {
		return []float64{v}
	}
	if n.Is(op.MulDef) {
		a, b := c.factors(n.In[0]), c.factors(n.In[1])
		if len(a) == 1 {
			a, b = b, a
		}
		if len(b) != 1 {
			return nil
		}
		for i := range a {
			a[i] *= b[0]
		}
		return a
	}
	a := c.known(n)
	if a == nil {
		return nil
	}
	out := make([]float64, a.Len())
	for i := range out {
		out[i] = a.At(i)
	}
	return out
}

// sameNumbers returns how to build n from the integers, if n quantizes values that were dequantized with the same scale
// and only moved in between.
func (c *context) sameNumbers(n *ir.Node, q quantization) func(lookup func(*ir.Node) *ir.Node) *ir.Node {
	var views []*ir.Node
	x := q.q
	for x.Is(op.ReshapeDef, op.TransposeDef) {
		views = append(views, x)
		x = x.In[0]
	}
	d, ok := c.dequantizedAt(x)
	if !ok || d.zero != q.zero || d.q.Type.DType != n.Type.DType {
		return nil
	}
	a, b := c.factors(d.scale), c.factors(q.scale)
	if len(a) != 1 || len(b) != 1 || a[0] != b[0] || !(a[0] > 0) || math.IsInf(a[0], 1) {
		return nil
	}
	return func(lookup func(*ir.Node) *ir.Node) *ir.Node {
		y := lookup(d.q)
		for _, v := range slices.Backward(views) {
			t := ir.Type{DType: n.Type.DType, Shape: v.Type.Shape}
			y = y.Graph.AddDeclared(v.Op, v.Attrs, t, y)
		}
		return y
	}
}

// quantizedForm is a recognised product of integers.
type quantizedForm struct {
	product *ir.Node
	x, w, y quantization
	bias    *ir.Node // i32; may be nil
	transB  bool
}

// quantizedProduct recognises the product whose result q quantizes. If a product of two dequantized values does not
// have this form, miss has the reason.
func (c *context) quantizedProduct(n *ir.Node, q quantization) (f quantizedForm, ok bool, miss string) {
	y := q.q
	lowest := map[dtype.DType]int{dtype.I8: -128}[n.Type.DType]
	if y.Is(op.ReluDef) && q.zero == lowest {
		y = y.In[0]
	}
	f = quantizedForm{product: y, y: q}
	var bias *ir.Node
	if y.Is(op.AddDef) {
		for i := range 2 {
			if p := y.In[i]; p.Is(op.MatMulDef) && sameElems(y, p) {
				f.product, bias = p, y.In[1-i]
			}
		}
	}
	w := (*ir.Node)(nil)
	channels := ir.Dim{}
	switch p := f.product; {
	case p.Is(op.MatMulDef):
		a := p.Attrs.(op.MatMulAttrs)
		w, f.transB = p.In[1], a.TransB
		if a.TransA || w.Type.Rank() != 2 || p.In[0].Type.Rank() < 2 {
			return f, false, ""
		}
		if w.Is(op.TransposeDef) && slices.Equal(perm(w), []int{1, 0}) {
			w, f.transB = w.In[0], !f.transB
		}
		channels = p.Type.Shape[p.Type.Rank()-1]
	case p.Is(op.Conv2DDef):
		w, bias = p.In[1], p.In[2]
		if p.Attrs.(op.ConvAttrs).Layout != op.NCHW {
			return f, false, ""
		}
		channels = p.Type.Shape[1]
	default:
		return f, false, ""
	}
	okX, okW := false, false
	f.x, okX = c.dequantizedAt(f.product.In[0])
	f.w, okW = c.dequantizedAt(w)
	if !okX || !okW {
		return f, false, ""
	}
	return f, true, c.checkQuantized(&f, n, bias, channels)
}

// checkQuantized checks types and scales, and finds the integers of the bias. It returns the reason if something does
// not fit.
func (c *context) checkQuantized(f *quantizedForm, n, bias *ir.Node, channels ir.Dim) string {
	sx, sw, sy := c.factors(f.x.scale), c.factors(f.w.scale), c.factors(f.y.scale)
	k, _ := f.w.q.Type.Shape[1:].Numel()
	if f.product.Is(op.MatMulDef) && !f.transB {
		k = f.w.q.Type.Shape[0]
	}
	switch {
	case f.x.q.Type.DType != n.Type.DType:
		return fmt.Sprintf("the operand is %v and the result %v; want one type", f.x.q.Type, n.Type)
	case f.w.q.Type.DType != dtype.I8 && f.w.q.Type.DType != dtype.U8:
		return fmt.Sprintf("the weight is %v; want i8 or u8", f.w.q.Type)
	case len(sx) != 1 || len(sy) != 1 || !(sy[0] > 0):
		return "the scales of operand and result are not one known number each"
	case len(sw) != 1 && (!channels.Is(int64(len(sw))) || !f.byChannel()):
		return fmt.Sprintf("the scale of the weight is %v; want one number, or one for each of %v channels",
			f.w.scale.Type, channels)
	case !k.IsStatic() || k.Const > 1<<15:
		return fmt.Sprintf("sums over %v elements; want a known number, at most %d", k, 1<<15)
	}
	if bias == nil {
		return ""
	}
	for bias.Is(op.ReshapeDef) {
		bias = bias.In[0]
	}
	b, ok := c.dequantizedAt(bias)
	sb := []float64{}
	if ok {
		sb = c.factors(b.scale)
	}
	if !ok || b.zero != 0 || b.q.Type.DType != dtype.I32 || len(sb) != len(sw) && len(sb) != 1 {
		return fmt.Sprintf("bias %s is not dequantized from i32 with one scale, or one for each channel", bias.Label())
	}
	e, _ := b.q.Type.Shape.Numel()
	if e != channels {
		return fmt.Sprintf("bias %v is not one number for each of %v channels", b.q.Type, channels)
	}
	for i, w := range sw {
		if v := sb[min(i, len(sb)-1)]; !(math.Abs(v-sx[0]*w) <= 1e-5*math.Abs(v)) {
			return fmt.Sprintf("the scale of bias %s is %v; want that of the products, %v", bias.Label(), v, sx[0]*w)
		}
	}
	f.bias = b.q
	return ""
}

// byChannel reports whether the scale of the weight varies along the axis of the result's channels.
func (f *quantizedForm) byChannel() bool {
	axis := 0
	if f.product.Is(op.MatMulDef) && !f.transB {
		axis = 1
	}
	s, w := f.w.scale.Type.Shape, f.w.q.Type.Shape
	for i, d := range s {
		if at := len(w) - len(s) + i; d.Is(1) == (at == axis) {
			return false
		}
	}
	return len(s) >= len(w)-axis
}

// build adds the product.
func (f *quantizedForm) build(lookup func(*ir.Node) *ir.Node) *ir.Node {
	number := func(s *ir.Node) *ir.Node { return reshaped(lookup(s), ir.Shape{}) }
	w := lookup(f.w.scale)
	if e, _ := w.Type.Shape.Numel(); e.Is(1) {
		w = reshaped(w, ir.Shape{})
	} else {
		w = reshaped(w, ir.Shape{e})
	}
	mult := op.Div(op.Mul(w, number(f.x.scale)), number(f.y.scale))
	var bias *ir.Node
	if f.bias != nil {
		e, _ := f.bias.Type.Shape.Numel()
		bias = reshaped(lookup(f.bias), ir.Shape{e})
	}
	if a, ok := f.product.Attrs.(op.ConvAttrs); ok {
		return op.QConv2D(lookup(f.x.q), lookup(f.w.q), mult, bias, op.QConv2DAttrs{Stride: a.Stride,
			Padding: a.Padding, Dilation: a.Dilation, Groups: a.Groups,
			XZero: f.x.zero, WZero: f.w.zero, YZero: f.y.zero})
	}
	return op.QMatMul(lookup(f.x.q), lookup(f.w.q), mult, bias, op.QMatMulAttrs{TransB: f.transB, XZero: f.x.zero,
		WZero: f.w.zero, YZero: f.y.zero})
}
