package op

import (
	"math"

	"github.com/rlx-go/rlx/core/tensor"
)

// attentionRows computes the weights of the keys for one query after another.
type attentionRows struct {
	AttentionAttrs
	g               AttentionGeometry
	q, k, v, mask   *tensor.Array // mask may be nil
	position, kvLen []int64
	sequence, pages []int64
	sinks           []float64
	scale           float64
	scores          []float64
	tanhs           []float64 // with a softcap, tanh(s/softcap) of each key; nil if it is not wanted
}

func newAttentionRows(a AttentionAttrs, in []*tensor.Array) *attentionRows {
	r := &attentionRows{AttentionAttrs: a, q: in[0], k: in[1], v: in[2], mask: in[AttentionMask]}
	var shape []int
	if r.mask != nil {
		shape = r.mask.Shape
	}
	if x := in[AttentionPosition]; x != nil {
		r.position = x.Ints
	}
	if x := in[AttentionKVLen]; x != nil {
		r.kvLen = x.Ints
	}
	if x := in[AttentionSinks]; x != nil {
		r.sinks = x.Floats
	}
	// attention_backward has no such operand
	if len(in) > AttentionSequence && in[AttentionSequence] != nil {
		r.sequence = in[AttentionSequence].Ints
	}
	r.g = a.Geometry(r.q.Shape, r.k.Shape, r.v.Shape, shape)
	if len(in) > AttentionPages && in[AttentionPages] != nil {
		r.g.InPages(a, in[AttentionPages].Shape[1])
		r.pages = in[AttentionPages].Ints
	}
	r.scale, r.scores = a.EffectiveScale(int64(r.g.D)), make([]float64, r.g.Sk)
	return r
}

// each calls f with the place of each query and the weights of its keys, which change with the next call.
func (r *attentionRows) each(f func(at attentionPlace, weights []float64)) error {
	g, perElement := &r.g, 0
	if g.B > 0 {
		perElement = len(r.pages) / g.B
	}
	if err := CheckPages(r.pages, perElement, r.k.Shape[0]); err != nil {
		return err
	}
	for b := range g.B {
		keys, offset, err := Batch(r.AttentionAttrs, g, r.position, r.kvLen, b)
		if err != nil {
			return err
		}
		e, err := Element(r.sequence, b, r.k.Shape[0])
		if err != nil {
			return err
		}
		var pages []int64
		if r.pages != nil { // which are counted from the first
			e, pages = 0, r.pages[b*perElement:][:perElement]
		}
		for h := range g.H {
			at := attentionPlace{head: h, pages: pages, k: g.Start[1] + e*g.K.Batch + h*g.HKV/g.H*g.K.Head,
				v: g.Start[2] + e*g.V.Batch + h*g.HKV/g.H*g.V.Head}
			for i := range g.Sq {
				at.q = g.Start[0] + b*g.Q.Batch + h*g.Q.Head + i*g.Q.Seq
				at.out = b*g.Out.Batch + h*g.Out.Head + i*g.Out.Seq
				at.mask = b*g.Mask[0] + h*g.Mask[1] + i*g.Mask[2]
				f(at, r.weights(at, i+offset, keys))
			}
		}
	}
	return nil
}

// attentionPlace has the head of a query and indices: of the query's first element, of its result's, of the first
// elements of k and v for key 0, and of the mask's element for key 0. With pages, k and v are those of page 0.
type attentionPlace struct {
	head, q, k, v, out, mask int
	pages                    []int64
}

// row returns the distance of key j from at.k or at.v.
func (at *attentionPlace) row(g *AttentionGeometry, s HeadStrides, j int) int {
	if at.pages == nil {
		return j * s.Seq
	}
	return int(at.pages[j/g.Page])*s.Batch + j%g.Page*s.Seq
}

// weights returns the weights of the first keys for a query at a position among them.
func (r *attentionRows) weights(at attentionPlace, position, keys int) []float64 {
	lo, hi := r.keyRange(position, keys)
	score := r.scores[:keys]
	for j := range score {
		s := r.scale * dot(r.q.Floats[at.q:], r.k.Floats[at.k+at.row(&r.g, r.g.K, j):], r.g.D)
		if r.Softcap != 0 {
			t := math.Tanh(s / r.Softcap)
			s = r.Softcap * t
			if r.tanhs != nil {
				r.tanhs[j] = t
			}
		}
		score[j] = keepIf(lo <= j && j < hi, s)
		switch m := at.mask + j*r.g.Mask[3]; r.Mask {
		case MaskCustom:
			score[j] = keepIf(!(r.mask.At(m) < 0.5), score[j])
		case MaskBias:
			score[j] += r.mask.Floats[m]
		}
	}
	sink := math.Inf(-1)
	if r.sinks != nil {
		sink = r.sinks[at.head]
	}
	weigh(score, sink)
	return score
}

// keyRange returns the keys [lo, hi) among which all those are that a query at a position may attend to. keys is their
// number.
func (a AttentionAttrs) keyRange(position, keys int) (lo, hi int) {
	lo, hi = 0, keys
	if a.positional() {
		hi = min(max(position+1, 0), keys)
	}
	if a.Mask == MaskSliding {
		lo = min(max(position-a.Window, 0), hi)
	}
	return lo, hi
}

func evalAttention(a AttentionAttrs, in []*tensor.Array, out *tensor.Array) error {
	r := newAttentionRows(a, in)
	return r.each(func(at attentionPlace, weights []float64) {
		for j, p := range weights {
			if p != 0 { // a key that is masked may hold NaN
				addScaled(out.Floats[at.out:], p, r.v.Floats[at.v+at.row(&r.g, r.g.V, j):], r.g.DV)
			}
		}
	})
}

// weigh replaces scores by their softmax weights. The softmax includes the score sink, which has no weight of its own.
// Scores of -Inf get the weight 0, even if all are -Inf.
func weigh(score []float64, sink float64) {
	m := sink
	for _, s := range score {
		m = max(m, s)
	}
	if math.IsInf(m, -1) {
		m = 0
	}
	sum := math.Exp(sink - m)
	for j, s := range score {
		score[j] = 0
		if !math.IsInf(s, -1) {
			score[j] = math.Exp(s - m)
		}
		sum += score[j]
	}
	if sum != 0 {
		for j, p := range score {
			if p != 0 {
				score[j] = p / sum
			}
		}
	}
}

func keepIf(keep bool, s float64) float64 {
	if keep {
		return s
	}
	return math.Inf(-1)
}

func dot(a, b []float64, n int) float64 {
	var sum float64
	for i, x := range a[:n] {
		sum += x * b[i]
	}
	return sum
}

func addScaled(y []float64, s float64, x []float64, n int) {
	for i, v := range x[:n] {
		y[i] += s * v
	}
}

func sizes(a *tensor.Array) []int64 {
	s := make([]int64, len(a.Shape))
	for i, d := range a.Shape {
		s[i] = int64(d)
	}
	return s
}
