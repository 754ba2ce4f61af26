package op

import (
	"fmt"
	"math"
	"slices"

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
	MaskCausal  = "causal"  // query i attends to keys up to i + offset; the operand position may give the offset
	MaskSliding = "sliding" // query i attends to keys from i + offset - window to i + offset; likewise
	MaskCustom  = "custom"  // the operand mask says which keys each query attends to
	MaskBias    = "bias"    // the operand mask is added to the scores
)

// Optional operands of attention.
const (
	AttentionMask     = 3 + iota // with the mask kinds custom and bias
	AttentionPosition            // with causal and sliding: position of query 0 among the keys
	AttentionKVLen               // number of keys
	AttentionSinks               // logit of each head's sink
	AttentionSequence            // batch element of k and v that each batch element of q reads
	AttentionPages               // batch elements of k and v that hold the keys of each batch element of q
)

// AttentionAttrs are the attributes of attention.
type AttentionAttrs struct {
	Heads int `attr:"heads"` // number of heads of q
	// number of heads of k and v; 0 means heads. Query head h reads kv head h*kv_heads/heads
	KVHeads int `attr:"kv_heads"`
	// Layout of q, k, v and the result: bse, bhsd or bshd. In bse, E is the heads one after the other: head h has
	// elements h*D to h*D+D-1 of a row.
	Layout  string  `attr:"layout"`
	Scale   float64 `attr:"scale"`   // 0 means 1/sqrt(D)
	Softcap float64 `attr:"softcap"` // 0 means no cap
	Mask    string  `attr:"mask"`    // none, causal, sliding, custom or bias
	// for sliding: number of keys before the query's own position that it attends to, besides the one at it
	Window  int `attr:"window"`
	QOffset int `attr:"q_offset"` // for causal and sliding: position of query 0 among the keys, if use_q_offset
	// UseQOffset selects QOffset. Otherwise the position is an operand, or else S_k - S_q, so that the last query is at
	// the last key.
	UseQOffset bool `attr:"use_q_offset"`
	// Packed has the elements at which the heads of q, k and v begin in their rows, which may be longer. It needs
	// HeadDim and layout bse.
	Packed  []int `attr:"packed"`
	HeadDim int   `attr:"head_dim"` // with packed: the head dim of q, k and v
}

// AttentionShape has the sizes of an attention: batch, query and key lengths, heads, kv heads, the head dim of q and k,
// and that of v.
type AttentionShape struct {
	B, Sq, Sk     ir.Dim
	H, HKV, D, DV int64
	Page          ir.Dim // number of keys of a page, with the operand pages
}

// AttentionOperands are the optional operands of an attention. Any of them may be nil.
type AttentionOperands struct{ Mask, Position, KVLen, Sinks, Sequence, Pages *ir.Node }

// AttentionDef defines scaled dot-product attention.
var AttentionDef = ir.Define(ir.Def[AttentionAttrs]{
	Name: "attention",
	Doc: "Scaled dot-product attention (Vaswani et al. 2017) of q, k and v, per batch and head: " +
		"s[i,j] = scale * q[i].k[j]; s = softcap * tanh(s/softcap) if softcap is set; mask; p = softmax over j; " +
		"o[i] = sum of p[i,j] * v[j]. A key that is masked out, or whose biased score is -Inf, takes no part; a query without " +
		"keys gives zeros. v may have another head dim than q and k. k and v have q's type, or f16 or bf16 where q is f32. They may have more batch elements than q, of which the first count: a cache with room for more sequences. " +
		"mask, with the attribute mask = custom: bool, or a number where less than 0.5 masks out, of shape [B,Sk], [B,Sq,Sk] or [B,H,Sq,Sk] " +
		"with dims of 1 repeated; with bias: of shape [B,H,Sq,Sk] with dims of 1 repeated. A query at position t sees with causal the keys 0 to t, with sliding t-window to t: window+1 of them. " +
		"Query i is at position offset+i. position, with causal and sliding: i32[] or i32[B], the position of query 0 among the keys, which changes " +
		"from run to run; keys after the last query's position may be stale rows of a cache. kv_len: i32[] or i32[B], how many keys there are; those after them " +
		"do not exist, for the default position either. A number outside 0 to Sk is a run error. sinks: one logit per head, of q's type, which takes part in the softmax as a key without a value " +
		"does (gpt-oss). packed: q, k and v are rows [B,S,W] of which heads*head_dim elements from packed[0] on, for k and v kv_heads*head_dim from packed[1] and packed[2] on, are read: " +
		"they may be the same product. sequence: i32[B], the batch element of k and v that each batch element of q reads, in place of its own number; one that they do not have is a run error. " +
		"pages, not with sequence: i32[B,P], for each batch element of q the P batch elements of k and v whose keys it reads, one after the other. So k and v are a pool of pages, of S_k keys each, and there are Sk = P*S_k keys; several elements may share pages. A page that k does not have is a run error. Scores need not be stored. " +
		"A score s is rounded in f32, which changes p by up to |s|*6e-8 of itself; beyond scores of about 50 that exceeds the tolerance.",
	Operands: "q, k, v, mask?, position?, kv_len?, sinks?, sequence?, pages?",
	Checked: []ir.Checked{{Operand: AttentionKVLen, Safe: 0}, {Operand: AttentionSequence, Safe: 0},
		{Operand: AttentionPages, Safe: 0}},
	Infer: func(s ir.Sig[AttentionAttrs]) (ir.Type, error) { return inferAttention(s) },
	Eval:  evalAttention,
	Memory: func(s ir.Sig[AttentionAttrs], _ ir.Type) int64 {
		shape, err := s.Attrs.SizesOf(s.In)
		if err != nil {
			panic("BUG: op: " + err.Error()) // Infer has checked the types
		}
		_, keys := s.Syms.Bounds(shape.Sk)
		return 8 * keys
	},
	FLOPs: attentionFLOPs,
	// An error of a score s is a relative error of its exponential. In f32 it is at least |s|*2^-24, so this tolerance
	// is for scores below about 50. devicetest knows the operands, and adds what larger scores need.
	Tol: func(_ AttentionAttrs, _ []ir.Type, out ir.Type) ir.Tolerance {
		return forDType(out.DType, 1e-5, 1e-5)
	},
	Cases: attentionCases,
})

// Attention adds attention of q, k and v. An empty attrs.Mask means none.
func Attention(q, k, v *ir.Node, o AttentionOperands, attrs AttentionAttrs) *ir.Node {
	if attrs.Mask == "" {
		attrs.Mask = MaskNone
	}
	return q.Graph.Add(AttentionDef, attrs, q, k, v, o.Mask, o.Position, o.KVLen, o.Sinks, o.Sequence, o.Pages)
}

// EffectiveScale returns the factor of q·k.
func (a AttentionAttrs) EffectiveScale(headDim int64) float64 {
	if a.Scale != 0 {
		return a.Scale
	}
	return 1 / math.Sqrt(float64(headDim))
}

// kvHeads returns the number of heads of k and v.
func (a AttentionAttrs) kvHeads() int {
	if a.KVHeads != 0 {
		return a.KVHeads
	}
	return a.Heads
}

// HeadStrides are the distances, in elements, between batches, positions and heads. The elements of one head are
// contiguous.
type HeadStrides struct{ Batch, Seq, Head int }

// AttentionGeometry says where the values of an attention are, for known sizes.
type AttentionGeometry struct {
	B, Sq, Sk, H, HKV, D, DV int // as in AttentionShape
	Q, K, V, Out             HeadStrides
	Start                    [3]int // index of the first element of q, k and v that is read
	// QOffset is the position of query 0 among the keys, unless an operand has the position or the number of keys; see
	// Batch.
	QOffset int
	// Mask has the distances in the mask, in elements, between batches, heads, queries and keys. A distance is 0 if the
	// mask is the same for all.
	Mask [4]int
	// Page is the number of keys of a page, with the operand pages: K.Batch and V.Batch are the distances between
	// pages. 0 without pages.
	Page int
}

// positional reports whether the mask compares the positions of queries and keys.
func (a AttentionAttrs) positional() bool { return a.Mask == MaskCausal || a.Mask == MaskSliding }

// Geometry computes where values are, from the shapes of q, k, v and the mask, which may be nil. The shapes must have
// passed type inference. It allocates nothing.
func (a AttentionAttrs) Geometry(q, k, v, mask []int) AttentionGeometry {
	g := AttentionGeometry{B: q[0], H: a.Heads, HKV: a.kvHeads()}
	g.Sq, g.D, g.Q = a.packing(q, g.H)
	g.Sk, _, g.K = a.packing(k, g.HKV)
	_, g.DV, g.V = a.packing(v, g.HKV)
	copy(g.Start[:], a.Packed)
	switch a.Layout {
	case BHSD:
		g.Out = HeadStrides{g.H * g.Sq * g.DV, g.DV, g.Sq * g.DV}
	default:
		g.Out = HeadStrides{g.H * g.Sq * g.DV, g.H * g.DV, g.DV}
	}
	g.QOffset = g.Sk - g.Sq
	if a.UseQOffset {
		g.QOffset = a.QOffset
	}
	if mask != nil {
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

// packing returns the sequence length, head dim and strides of q, k or v from its shape.
func (a AttentionAttrs) packing(s []int, heads int) (seq, d int, st HeadStrides) {
	switch d = s[len(s)-1]; {
	case len(a.Packed) > 0:
		d = a.HeadDim
	case a.Layout == BSE:
		d /= heads
	}
	seq, st = headStrides(a.Layout, s, d)
	return seq, d, st
}

// Batch returns the number of keys of batch element b, and the position of query 0 among them. position and kvLen are
// the values of those operands, or empty without the operand.
func Batch[T int32 | int64](a AttentionAttrs, g *AttentionGeometry, position, kvLen []T, b int) (
	keys, offset int, err error) {
	of := func(x []T) int { return int(x[min(b, len(x)-1)]) }
	keys, offset = g.Sk, g.QOffset
	if len(kvLen) > 0 {
		if keys = of(kvLen); keys < 0 || keys > g.Sk {
			return 0, 0, fmt.Errorf("kv_len %d of batch element %d is out of range 0 to %d", keys, b, g.Sk)
		}
		if !a.UseQOffset {
			offset = keys - g.Sq
		}
	}
	if len(position) > 0 {
		offset = of(position)
	}
	return keys, offset, nil
}

// Element returns the batch element of k and v that batch element b of q reads. sequence has the values of that
// operand, and is empty without the operand. have is the number of batch elements of k.
func Element[T int32 | int64](sequence []T, b, have int) (int, error) {
	if len(sequence) == 0 {
		return b, nil
	}
	if e := sequence[b]; e < 0 || int64(e) >= int64(have) {
		return 0, fmt.Errorf("sequence %d of batch element %d is out of range 0 to %d", e, b, have-1)
	}
	return int(sequence[b]), nil
}

// symbolicOffset returns AttentionGeometry.QOffset for sizes with symbols. ok is false if no dim is equal to it.
func (a AttentionAttrs) symbolicOffset(s AttentionShape) (offset ir.Dim, ok bool) {
	if a.UseQOffset {
		return ir.Static(int64(a.QOffset)), true
	}
	return s.Sk.Sub(s.Sq)
}

// maskShape extends the shape of a mask, [B,Sk], [B,Sq,Sk] or [B,H,Sq,Sk], to four dims. one is the dim 1.
func maskShape[D any](shape []D, one D) [4]D {
	switch len(shape) {
	case 2:
		return [4]D{shape[0], one, one, shape[1]}
	case 3:
		return [4]D{shape[0], one, shape[1], shape[2]}
	}
	return [4]D(shape)
}

// Sizes returns the sizes of an attention without the operand pages from the types of q, k and v.
func (a AttentionAttrs) Sizes(q, k, v ir.Type) (AttentionShape, error) {
	return a.sizes(q, k, v, false)
}

func (a AttentionAttrs) sizes(q, k, v ir.Type, paged bool) (AttentionShape, error) {
	s := AttentionShape{H: int64(a.Heads), HKV: int64(a.kvHeads())}
	if a.Heads < 1 || a.KVHeads < 0 || s.H%s.HKV != 0 || s.H > 1<<20 {
		return s, fmt.Errorf("heads is %d and kv_heads %d; want heads of 1 or more and kv_heads that divides them",
			a.Heads, a.KVHeads)
	}
	at, ok := attentionAxes[a.Layout]
	if !ok {
		return s, fmt.Errorf("layout is %q; want %q, %q or %q", a.Layout, BSE, BHSD, BSHD)
	}
	if !a.validPacked() {
		return s,
			fmt.Errorf(
				"packed is %v and head_dim %d with layout %q; want three numbers and head_dim with layout %q, or neither",
				a.Packed, a.HeadDim, a.Layout, BSE)
	}
	if q.Rank() != at.rank || k.Rank() != at.rank || v.Rank() != at.rank {
		return s, fmt.Errorf("q is %v, k %v and v %v; want rank %d for layout %q", q, k, v, at.rank, a.Layout)
	}
	var dims [3]ir.Dim
	for i, x := range []struct {
		name  string
		t     ir.Type
		heads int64
	}{{"q", q, s.H}, {"k", k, s.HKV}, {"v", v, s.HKV}} {
		var err error
		if dims[i], err = a.sizeOfHead(i, x.name, x.t, x.heads); err != nil {
			return s, err
		}
	}
	s.B, s.Sq, s.Sk, s.D, s.DV = q.Shape[0], q.Shape[at.seq], k.Shape[at.seq], dims[0].Const, dims[2].Const
	const want = "q is %v, k %v and v %v; want equal batches of k and v, not less than q's, as many keys as values, and static head dims of 1 or more, equal ones of q and k"
	for _, pair := range [][2]ir.Dim{{dims[1], dims[0]}, {v.Shape[0], k.Shape[0]}, {v.Shape[at.seq], s.Sk}} {
		if pair[0] != pair[1] {
			return s, ir.Differ(pair[0], pair[1], want, q, k, v)
		}
	}
	if b := k.Shape[0]; !paged && b != s.B && (!b.IsStatic() || s.B.IsStatic() && s.B.Const > b.Const) {
		return s, ir.Differ(b, s.B, want, q, k, v)
	}
	if !dims[0].IsStatic() || !dims[2].IsStatic() || s.D < 1 || s.DV < 1 {
		return s, fmt.Errorf(want, q, k, v)
	}
	return s, nil
}

// attentionAxes has the rank of q, k and v by layout, and the indices of their axes. In BSE, the heads lie beside each
// other on the last axis.
var attentionAxes = map[string]struct{ rank, seq, heads int }{BSE: {rank: 3, seq: 1}, BHSD: {rank: 4, seq: 2, heads: 1},
	BSHD: {rank: 4, seq: 1, heads: 2}}

// validPacked reports whether packed and head_dim are both given, for layout BSE, or neither.
func (a AttentionAttrs) validPacked() bool {
	if len(a.Packed) == 0 {
		return a.HeadDim == 0
	}
	return len(a.Packed) == 3 && a.Layout == BSE && a.HeadDim >= 1 && a.HeadDim <= maxHeadDim
}

// sizeOfHead returns the number of elements of a head of q, k or v, the operand i.
func (a AttentionAttrs) sizeOfHead(i int, name string, t ir.Type, heads int64) (ir.Dim, error) {
	at := attentionAxes[a.Layout]
	last := t.Shape[at.rank-1]
	switch {
	case len(a.Packed) > 0:
		from := int64(a.Packed[i])
		if from < 0 || from > ir.MaxDim || !last.IsStatic() || from+heads*int64(a.HeadDim) > last.Const {
			return last, fmt.Errorf("%s is %v; want a static last axis with %d heads of %d from %d on", name, t, heads,
				a.HeadDim, from)
		}
		return ir.Static(int64(a.HeadDim)), nil
	case a.Layout == BSE:
		d, ok := last.Div(ir.Static(heads))
		if !ok {
			return d, fmt.Errorf("%s is %v; want a last axis that %d heads divide", name, t, heads)
		}
		return d, nil
	case !t.Shape[at.heads].Is(heads):
		return last, ir.Differ(t.Shape[at.heads], ir.Static(heads), "%s is %v; want %d heads on axis %d (layout %q)",
			name, t, heads, at.heads, a.Layout)
	}
	return last, nil
}

func inferAttention(sig ir.Sig[AttentionAttrs]) (ir.Type, error) {
	a, in := sig.Attrs, sig.In
	s, err := checkAttention(a, in)
	if err != nil {
		return ir.Type{}, err
	}
	if b := in[1].Shape[0]; b != s.B && !in[AttentionPages].Present() {
		if _, most := sig.Syms.Bounds(s.B); most > b.Const {
			return ir.Type{}, fmt.Errorf("q is %v, up to %d on axis 0, and k %v, which has fewer", in[0], most, in[1])
		}
	}
	out := ir.Type{DType: in[0].DType, Shape: ir.Shape{s.B, s.Sq, ir.Static(s.H), ir.Static(s.DV)}}
	switch a.Layout {
	case BSE:
		out.Shape = ir.Shape{s.B, s.Sq, ir.Static(s.H * s.DV)}
	case BHSD:
		out.Shape[1], out.Shape[2] = out.Shape[2], out.Shape[1]
	}
	return out, nil
}

func checkAttention(a AttentionAttrs, in []ir.Type) (s AttentionShape, err error) {
	q, k, v := in[0], in[1], in[2]
	if err := isFloat("q", q); err != nil {
		return s, err
	}
	if k.DType != v.DType {
		return s, fmt.Errorf("k is %v and v %v; want equal element types", k, v)
	}
	if err := weightDType(q, k); err != nil {
		return s, fmt.Errorf("q is %v and k %v; want equal float types, or f32 with f16 or bf16", q, k)
	}
	if err := checkPages(q, in[AttentionSequence], in[AttentionPages]); err != nil {
		return s, err
	}
	if s, err = a.SizesOf(in); err != nil {
		return s, err
	}
	if err := a.checkMasking(); err != nil {
		return s, err
	}
	if err := a.checkPresence(in); err != nil {
		return s, err
	}
	if err := isPerBatch("position", "the position of query 0", in[AttentionPosition], s.B); err != nil {
		return s, err
	}
	if err := isPerBatch("kv_len", "the number of keys", in[AttentionKVLen], s.B); err != nil {
		return s, err
	}
	if sinks := in[AttentionSinks]; sinks.Present() {
		if err := vectorOf("sinks", sinks, q.DType, ir.Static(s.H)); err != nil {
			return s, err
		}
	}
	if sequence := in[AttentionSequence]; sequence.Present() {
		if err := vectorOf("sequence", sequence, dtype.I32, s.B); err != nil {
			return s, err
		}
	}
	if a.masked() {
		return s, checkMask(a, in[AttentionMask], q.DType, s)
	}
	return s, nil
}

// masked reports whether the kind of mask takes an operand.
func (a AttentionAttrs) masked() bool { return a.Mask == MaskCustom || a.Mask == MaskBias }

// checkMasking checks the attributes that say how scores are scaled and which of them count.
func (a AttentionAttrs) checkMasking() error {
	offset := a.QOffset != 0 || a.UseQOffset
	switch {
	case !(math.Abs(a.Scale) <= math.MaxFloat32) || !(a.Softcap >= 0 && a.Softcap <= math.MaxFloat32):
		return fmt.Errorf("scale is %v and softcap %v; want finite numbers, softcap not negative", a.Scale, a.Softcap)
	case offset && !(a.UseQOffset && a.positional()), a.QOffset > ir.MaxDim, a.QOffset < -ir.MaxDim:
		return fmt.Errorf("q_offset is %d with use_q_offset=%v and mask %q; it needs use_q_offset and a causal or sliding mask",
			a.QOffset, a.UseQOffset, a.Mask)
	case a.Window != 0 && a.Mask != MaskSliding, a.Window < 0, a.Window > ir.MaxDim:
		return fmt.Errorf("window is %d with mask %q; want 0 or more, and 0 unless the mask is sliding", a.Window, a.Mask)
	case !slices.Contains([]string{MaskNone, MaskCausal, MaskSliding, MaskCustom, MaskBias}, a.Mask):
		return fmt.Errorf("attribute mask is %q; want %q, %q, %q, %q or %q", a.Mask, MaskNone, MaskCausal,
			MaskSliding, MaskCustom, MaskBias)
	}
	return nil
}

// checkPresence checks that the optional operands are there which the kind of mask needs, and no others.
func (a AttentionAttrs) checkPresence(in []ir.Type) error {
	mask, position := in[AttentionMask].Present(), in[AttentionPosition].Present()
	switch {
	case a.masked() && !mask:
		return fmt.Errorf("operand mask is missing; want it with mask %q", a.Mask)
	case !a.masked() && mask:
		return fmt.Errorf("has an operand mask with mask %q; want it with %q or %q only", a.Mask, MaskCustom, MaskBias)
	case !a.positional() && position:
		return fmt.Errorf("has an operand position with mask %q; want it with %q or %q only", a.Mask, MaskCausal,
			MaskSliding)
	case a.UseQOffset && position:
		return fmt.Errorf("has an operand position and q_offset; want one of them")
	}
	return nil
}

// isPerBatch checks an operand that has one number for each batch element, or one for all. what describes the operand
// in errors.
func isPerBatch(name, what string, t ir.Type, batch ir.Dim) error {
	const want = "operand %s is %v; want i32[] or i32[%v], %s"
	switch {
	case !t.Present():
		return nil
	case t.DType != dtype.I32 || t.Rank() > 1:
		return fmt.Errorf(want, name, t, batch, what)
	case t.Rank() == 1 && t.Shape[0] != batch:
		return ir.Differ(t.Shape[0], batch, want, name, t, batch, what)
	}
	return nil
}

func checkMask(a AttentionAttrs, m ir.Type, d dtype.DType, s AttentionShape) error {
	full := ir.Shape{s.B, ir.Static(s.H), s.Sq, s.Sk}
	var want ir.Shape
	switch {
	case a.Mask == MaskBias && m.DType != d:
		return fmt.Errorf("operand mask is %v; want the element type of q, %v, with mask %q", m, d, a.Mask)
	case m.Rank() == 4:
		want = full
	case a.Mask == MaskCustom && m.Rank() == 3:
		want = ir.Shape{s.B, s.Sq, s.Sk}
	case a.Mask == MaskCustom && m.Rank() == 2:
		want = ir.Shape{s.B, s.Sk}
	default:
		return fmt.Errorf(
			"operand mask is %v with mask %q; want %v with dims of 1 repeated (custom: also [B,Sq,Sk] or [B,Sk])", m,
			a.Mask, full)
	}
	for i, dim := range m.Shape {
		if !dim.Is(1) && dim != want[i] {
			return ir.Differ(dim, want[i], "operand mask is %v with mask %q; axis %d must be 1 or %v", m, a.Mask, i,
				want[i])
		}
	}
	return nil
}

func attentionFLOPs(a AttentionAttrs, in []ir.Type, _ ir.Type) int64 {
	s, err := a.SizesOf(in)
	if err != nil {
		return 0
	}
	return s.B.Const * s.H * s.Sq.Const * s.Sk.Const * (2*s.D + 2*s.DV + 7)
}
