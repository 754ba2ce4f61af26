package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// Layouts of queries, keys and values: B batch, S sequence, H heads, D head dim, E = H*D.
const (
	BSE  = "bse"
	BHSD = "bhsd"
	BSHD = "bshd"
)

// Mask kinds of attention.
const (
	MaskNone    = "none"
	MaskCausal  = "causal"  // keys up to i + offset; a fourth operand may be the offset
	MaskSliding = "sliding" // keys from i + offset - window to i + offset; likewise
	MaskCustom  = "custom"  // a fourth operand says which keys
	MaskBias    = "bias"    // a fourth operand is added to the scores
)

// AttentionAttrs are the attributes of attention.
type AttentionAttrs struct {
	Heads   int     `attr:"heads"`    // of q
	KVHeads int     `attr:"kv_heads"` // of k and v; 0: as many as heads. Query head h reads kv head h*kv_heads/heads
	Layout  string  `attr:"layout"`   // bse, bhsd or bshd, of all of q, k, v and the result
	Scale   float64 `attr:"scale"`    // 0: 1/sqrt(D)
	Softcap float64 `attr:"softcap"`  // 0: none
	Mask    string  `attr:"mask"`     // none, causal, sliding, custom or bias
	Window  int     `attr:"window"`   // of sliding: keys before the query's own position
	QOffset int     `attr:"q_offset"` // of causal and sliding: position of query 0 among the keys, if use_q_offset
	// UseQOffset: without it the position is the fourth operand, or else S_k - S_q, so that the last query sees the last key.
	UseQOffset bool `attr:"use_q_offset"`
}

// AttentionShape are the sizes of an attention: batch, query and key lengths, heads, kv heads and head dim.
type AttentionShape struct {
	B, Sq, Sk ir.Dim
	H, HKV, D int64
}

// AttentionDef is scaled dot-product attention.
var AttentionDef = ir.Define(ir.Def[AttentionAttrs]{
	Name: "attention",
	Doc: "Scaled dot-product attention (Vaswani et al. 2017) of q, k, v and perhaps a mask, per batch and head: " +
		"s[i,j] = scale * q[i].k[j]; s = softcap * tanh(s/softcap) if softcap is set; mask; p = softmax over j; " +
		"o[i] = sum of p[i,j] * v[j]. A key that is masked out, or whose biased score is -Inf, takes no part; a query without " +
		"keys gives zeros. custom: bool, or a number where less than 0.5 masks out, of shape [B,Sk], [B,Sq,Sk] or [B,H,Sq,Sk] " +
		"with dims of 1 repeated. bias: of shape [B,H,Sq,Sk] with dims of 1 repeated. causal, sliding: i32[], the position of query 0 among the keys, which changes " +
		"from run to run; keys after the last query's position may be stale rows of a cache. Scores need not be stored.",
	MinIn: 3, MaxIn: 4,
	Infer: func(s ir.Sig[AttentionAttrs]) (ir.Type, error) {
		if err := checkAttention(s.Attrs, s.In); err != nil {
			return ir.Type{}, err
		}
		return s.In[0], nil
	},
	Eval: evalAttention,
	Memory: func(s ir.Sig[AttentionAttrs], _ ir.Type) int64 {
		shape, err := s.Attrs.Sizes(s.In[0], s.In[1])
		if err != nil {
			panic("BUG: op: " + err.Error()) // the types were checked by Infer
		}
		_, keys := s.Syms.Bounds(shape.Sk)
		return 8 * keys
	},
	FLOPs: attentionFLOPs,
	Tol: func(_ AttentionAttrs, _ []ir.Type, out ir.Type) ir.Tolerance {
		return forDType(out.DType, 1e-5, 1e-5)
	},
	Cases: attentionCases,
})

// Attention adds attention of q, k and v; mask is nil unless the mask kind is custom or bias. An empty Mask means none.
func Attention(q, k, v, mask *ir.Node, attrs AttentionAttrs) *ir.Node {
	if attrs.Mask == "" {
		attrs.Mask = MaskNone
	}
	return q.Graph.Add(AttentionDef, attrs, withOptional(mask, q, k, v)...)
}

// EffectiveScale is the factor of q.k.
func (a AttentionAttrs) EffectiveScale(headDim int64) float64 {
	if a.Scale != 0 {
		return a.Scale
	}
	return 1 / math.Sqrt(float64(headDim))
}

// kvHeads is the number of heads of k and v.
func (a AttentionAttrs) kvHeads() int {
	if a.KVHeads != 0 {
		return a.KVHeads
	}
	return a.Heads
}

// HeadStrides are the distances, in elements, between batches, positions and heads. The elements of one head are side by side.
type HeadStrides struct{ Batch, Seq, Head int }

// AttentionGeometry says where the values of an attention are, once sizes are known.
type AttentionGeometry struct {
	B, Sq, Sk, H, HKV, D int         // as in AttentionShape
	Q, K                 HeadStrides // of q and the result, and of k and v
	QOffset              int         // position of query 0 among the keys
	// Mask are the distances in the mask, in elements, between batches, heads, queries and keys; 0 where it has one for all.
	Mask [4]int
}

// positional masks compare positions of queries and keys.
func (a AttentionAttrs) positional() bool { return a.Mask == MaskCausal || a.Mask == MaskSliding }

// HasPosition reports whether an attention of so many operands takes the position of query 0 from operand 3. Then it is not in
// AttentionGeometry.
func (a AttentionAttrs) HasPosition(operands int) bool { return a.positional() && operands == 4 }

// Geometry works out where values are from the shapes of q, k and operand 3, nil for none. The shapes have passed type inference.
// It allocates nothing.
func (a AttentionAttrs) Geometry(q, k, mask []int) AttentionGeometry {
	g := AttentionGeometry{B: q[0], H: a.Heads, HKV: a.kvHeads()}
	g.Sq, g.D, g.Q = a.packing(q, g.H)
	g.Sk, _, g.K = a.packing(k, g.HKV)
	g.QOffset = g.Sk - g.Sq
	if a.UseQOffset {
		g.QOffset = a.QOffset
	}
	if mask != nil && !a.positional() {
		shape, n := maskShape(mask, 1), 1
		for i := len(shape) - 1; i >= 0; i-- {
			if shape[i] != 1 {
				g.Mask[i] = n
			}
			n *= shape[i]
		}
	}
	return g
}

// packing reads positions, head dim and strides off a shape.
func (a AttentionAttrs) packing(s []int, heads int) (seq, d int, st HeadStrides) {
	d = s[len(s)-1]
	if a.Layout == BSE {
		d /= heads
	}
	seq, st = headStrides(a.Layout, s, d)
	return seq, d, st
}

// symbolicOffset is AttentionGeometry.QOffset for sizes with symbols; ok is false where no dim says it.
func (a AttentionAttrs) symbolicOffset(s AttentionShape) (offset ir.Dim, ok bool) {
	if a.UseQOffset {
		return ir.Static(int64(a.QOffset)), true
	}
	return s.Sk.Sub(s.Sq)
}

// maskShape is the shape of a mask [B,Sk], [B,Sq,Sk] or [B,H,Sq,Sk] with all four dims; one is the dim 1.
func maskShape[D any](shape []D, one D) [4]D {
	switch len(shape) {
	case 2:
		return [4]D{shape[0], one, one, shape[1]}
	case 3:
		return [4]D{shape[0], one, shape[1], shape[2]}
	}
	return [4]D(shape)
}

// Sizes reads the sizes off the types of q and k.
func (a AttentionAttrs) Sizes(q, k ir.Type) (AttentionShape, error) {
	s := AttentionShape{H: int64(a.Heads), HKV: int64(a.kvHeads())}
	if a.Heads < 1 || a.KVHeads < 0 || s.H%s.HKV != 0 || s.H > 1<<20 {
		return s, fmt.Errorf("heads is %d and kv_heads %d; want heads of 1 or more and kv_heads that divides them", a.Heads, a.KVHeads)
	}
	rank := 4
	if a.Layout == BSE {
		rank = 3
	}
	if q.Rank() != rank || k.Rank() != rank {
		return s, fmt.Errorf("q is %v and k %v; want rank %d for layout %q", q, k, rank, a.Layout)
	}
	s.B = q.Shape[0]
	head := func(t ir.Type, axis int, heads int64, name string) (ir.Dim, error) {
		if !t.Shape[axis].Is(heads) {
			return ir.Dim{}, ir.Differ(t.Shape[axis], ir.Static(heads), "%s is %v; want %d heads on axis %d (layout %q)", name, t, heads, axis, a.Layout)
		}
		return t.Shape[3], nil
	}
	var dq, dk ir.Dim
	var err, err2 error
	switch a.Layout {
	case BSE:
		s.Sq, s.Sk = q.Shape[1], k.Shape[1]
		var ok, ok2 bool
		dq, ok = q.Shape[2].Div(ir.Static(s.H))
		dk, ok2 = k.Shape[2].Div(ir.Static(s.HKV))
		if !ok || !ok2 {
			return s, fmt.Errorf("q is %v and k %v; want a last axis that %d heads and %d kv heads divide", q, k, s.H, s.HKV)
		}
	case BHSD:
		s.Sq, s.Sk = q.Shape[2], k.Shape[2]
		dq, err = head(q, 1, s.H, "q")
		dk, err2 = head(k, 1, s.HKV, "k")
	case BSHD:
		s.Sq, s.Sk = q.Shape[1], k.Shape[1]
		dq, err = head(q, 2, s.H, "q")
		dk, err2 = head(k, 2, s.HKV, "k")
	default:
		return s, fmt.Errorf("layout is %q; want %q, %q or %q", a.Layout, BSE, BHSD, BSHD)
	}
	for _, err := range []error{err, err2} {
		if err != nil {
			return s, err
		}
	}
	const want = "q is %v and k %v; want equal batches and equal static head dims of 1 or more"
	switch s.D = dq.B; {
	case dq != dk:
		return s, ir.Differ(dk, dq, want, q, k)
	case !dq.IsStatic() || s.D < 1:
		return s, fmt.Errorf(want, q, k)
	case k.Shape[0] != s.B:
		return s, ir.Differ(k.Shape[0], s.B, want, q, k)
	}
	return s, nil
}

func checkAttention(a AttentionAttrs, in []ir.Type) error {
	q, k, v := in[0], in[1], in[2]
	if err := isFloat("q", q); err != nil {
		return err
	}
	if err := sameDType(in[:3]); err != nil {
		return err
	}
	if !v.Equal(k) {
		return ir.TypesDiffer(v, k, "v is %v; want %v, the type of k", v, k)
	}
	s, err := a.Sizes(q, k)
	if err != nil {
		return err
	}
	if !(math.Abs(a.Scale) <= math.MaxFloat32) || !(a.Softcap >= 0 && a.Softcap <= math.MaxFloat32) {
		return fmt.Errorf("scale is %v and softcap %v; want finite numbers, softcap not negative", a.Scale, a.Softcap)
	}
	positional := a.positional()
	if (a.QOffset != 0 || a.UseQOffset) && !positional || a.QOffset != 0 && !a.UseQOffset || a.QOffset > ir.MaxDim || a.QOffset < -ir.MaxDim {
		return fmt.Errorf("q_offset is %d with use_q_offset=%v and mask %q; it needs use_q_offset and a causal or sliding mask", a.QOffset, a.UseQOffset, a.Mask)
	}
	if a.Window != 0 && a.Mask != MaskSliding || a.Window < 0 || a.Window > ir.MaxDim {
		return fmt.Errorf("window is %d with mask %q; want 0 or more, and 0 unless the mask is sliding", a.Window, a.Mask)
	}
	switch a.Mask {
	case MaskNone:
		if len(in) != 3 {
			return fmt.Errorf("%d operands with mask %q; want 3", len(in), a.Mask)
		}
		return nil
	case MaskCausal, MaskSliding:
		switch {
		case len(in) == 4 && a.UseQOffset:
			return fmt.Errorf("has a position as operand 3 and q_offset; want one of them")
		case len(in) == 4 && !in[3].Equal(i32()):
			return fmt.Errorf("operand 3 is %v with mask %q; want i32[], the position of query 0", in[3], a.Mask)
		}
		return nil
	case MaskCustom, MaskBias:
		if len(in) != 4 {
			return fmt.Errorf("%d operands with mask %q; want 4", len(in), a.Mask)
		}
		return checkMask(a, in[3], q.DType, s)
	}
	return fmt.Errorf("mask is %q; want %q, %q, %q, %q or %q", a.Mask, MaskNone, MaskCausal, MaskSliding, MaskCustom, MaskBias)
}

func checkMask(a AttentionAttrs, m ir.Type, d dtype.DType, s AttentionShape) error {
	full := ir.Shape{s.B, ir.Static(s.H), s.Sq, s.Sk}
	var want ir.Shape
	switch {
	case a.Mask == MaskBias && m.DType != d:
		return fmt.Errorf("bias is %v; want the element type of q, %v", m, d)
	case m.Rank() == 4:
		want = full
	case a.Mask == MaskCustom && m.Rank() == 3:
		want = ir.Shape{s.B, s.Sq, s.Sk}
	case a.Mask == MaskCustom && m.Rank() == 2:
		want = ir.Shape{s.B, s.Sk}
	default:
		return fmt.Errorf("%s mask is %v; want %v with dims of 1 repeated (custom: also [B,Sq,Sk] or [B,Sk])", a.Mask, m, full)
	}
	for i, dim := range m.Shape {
		if !dim.Is(1) && dim != want[i] {
			return ir.Differ(dim, want[i], "%s mask is %v; axis %d must be 1 or %v", a.Mask, m, i, want[i])
		}
	}
	return nil
}

func attentionFLOPs(a AttentionAttrs, in []ir.Type, _ ir.Type) int64 {
	s, err := a.Sizes(in[0], in[1])
	if err != nil {
		return 0
	}
	return s.B.B * s.H * s.Sq.B * s.Sk.B * (4*s.D + 7)
}

func attentionCases() []ir.Case[AttentionAttrs] {
	c := func(a AttentionAttrs, in ...ir.Type) ir.Case[AttentionAttrs] {
		if a.Mask == "" {
			a.Mask = MaskNone
		}
		return ir.Case[AttentionAttrs]{Attrs: a, In: in}
	}
	at := func(lo, hi float64, a AttentionAttrs, in ...ir.Type) ir.Case[AttentionAttrs] { // of a position
		x := c(a, in...)
		x.Fill = []ir.Range{{Lo: -2, Hi: 2}, {Lo: -2, Hi: 2}, {Lo: -2, Hi: 2}, {Lo: lo, Hi: hi}}
		return x
	}
	q, k := f32(2, 5, 12), f32(2, 7, 12)
	g := f32(2, 7, 6)
	return []ir.Case[AttentionAttrs]{
		c(AttentionAttrs{Heads: 1, Layout: BSE}, f32(1, 1, 1), f32(1, 1, 1), f32(1, 1, 1)),
		c(AttentionAttrs{Heads: 3, Layout: BSE}, q, k, k),
		c(AttentionAttrs{Heads: 4, Layout: BSHD, Scale: 0.3, Softcap: 2}, f32(2, 4, 4, 3), f32(2, 9, 4, 3), f32(2, 9, 4, 3)),
		c(AttentionAttrs{Heads: 2, Layout: BHSD}, f32(1, 2, 33, 17), f32(1, 2, 70, 17), f32(1, 2, 70, 17)),
		c(AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BSE}, q, g, g),
		c(AttentionAttrs{Heads: 4, KVHeads: 1, Layout: BHSD, Mask: MaskCausal}, f32(1, 4, 3, 8), f32(1, 1, 6, 8), f32(1, 1, 6, 8)),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCausal}, q, k, k),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCausal}, k, q, q), // the first queries have no keys
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCausal, UseQOffset: true}, q, k, k),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskSliding, Window: 2}, q, k, k),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskSliding, Window: 1, UseQOffset: true, QOffset: 1}, q, k, k),
		at(0, 2, AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCausal}, q, k, k, i32()),
		at(-2, 8, AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BHSD, Mask: MaskCausal}, f32(2, 4, 1, 8), f32(2, 2, 37, 8), f32(2, 2, 37, 8), i32()),
		at(3, 9, AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskSliding, Window: 2}, q, k, k, i32()),
		at(100, 400, AttentionAttrs{Heads: 2, Layout: BHSD, Mask: MaskCausal}, f32(1, 2, 3, 64), f32(1, 2, 300, 64), f32(1, 2, 300, 64), i32()),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCustom}, q, k, k, bools(2, 7)),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCustom}, q, k, k, bools(1, 5, 7)),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCustom}, q, k, k, f32(2, 1, 5, 7)),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskBias}, q, k, k, f32(2, 3, 5, 7)),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskBias}, q, k, k, f32(1, 1, 1, 7)),
		c(AttentionAttrs{Heads: 3, Layout: BSE}, f32(2, 5, 12), f32(2, 0, 12), f32(2, 0, 12)),
		c(AttentionAttrs{Heads: 3, Layout: BSE}, f32(2, 0, 12), k, k),
		c(AttentionAttrs{Heads: 2, Layout: BSE}, f16(1, 3, 8), f16(1, 5, 8), f16(1, 5, 8)),
		c(AttentionAttrs{Heads: 1, Layout: BHSD}, f32(1, 1, 130, 64), f32(1, 1, 130, 64), f32(1, 1, 130, 64)),
	}
}
