package op

import (
	"math"

	"github.com/rlx-go/rlx/core/tensor"
)

func evalAttention(a AttentionAttrs, in []*tensor.Array, out *tensor.Array) error {
	q, k, v := in[0], in[1], in[2]
	m := in[AttentionMask]
	var shape []int
	var position, kvLen []int64
	var sinks []float64
	if m != nil {
		shape = m.Shape
	}
	if x := in[AttentionPosition]; x != nil {
		position = x.Ints
	}
	if x := in[AttentionKVLen]; x != nil {
		kvLen = x.Ints
	}
	if x := in[AttentionSinks]; x != nil {
		sinks = x.Floats
	}
	g := a.Geometry(q.Shape, k.Shape, v.Shape, shape)
	scale, mask := a.EffectiveScale(int64(g.D)), g.Mask
	scores := make([]float64, g.Sk)
	for b := range g.B {
		keys, offset, err := Batch(a, &g, position, kvLen, b)
		if err != nil {
			return err
		}
		score := scores[:keys]
		for h := range g.H {
			ks, vs := g.Start[1]+b*g.K.Batch+h*g.HKV/g.H*g.K.Head, g.Start[2]+b*g.V.Batch+h*g.HKV/g.H*g.V.Head
			sink := math.Inf(-1)
			if sinks != nil {
				sink = sinks[h]
			}
			for i := range g.Sq {
				qi := g.Start[0] + b*g.Q.Batch + h*g.Q.Head + i*g.Q.Seq
				for j := range score {
					score[j] = scale * dot(q.Floats[qi:], k.Floats[ks+j*g.K.Seq:], g.D)
					if a.Softcap != 0 {
						score[j] = a.Softcap * math.Tanh(score[j]/a.Softcap)
					}
					switch at := i + offset; a.Mask {
					case MaskCausal:
						score[j] = keepIf(j <= at, score[j])
					case MaskSliding:
						score[j] = keepIf(j <= at && j >= at-a.Window, score[j])
					case MaskCustom:
						score[j] = keepIf(!(m.At(b*mask[0]+h*mask[1]+i*mask[2]+j*mask[3]) < 0.5), score[j])
					case MaskBias:
						score[j] += m.Floats[b*mask[0]+h*mask[1]+i*mask[2]+j*mask[3]]
					}
				}
				weigh(score, sink)
				o := out.Floats[b*g.Out.Batch+h*g.Out.Head+i*g.Out.Seq:]
				for j, p := range score {
					if p != 0 { // a key that is masked may hold NaN
						addScaled(o, p, v.Floats[vs+j*g.V.Seq:], g.DV)
					}
				}
			}
		}
	}
	return nil
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
