package op

import (
	"math"

	"github.com/rlx-go/rlx/core/tensor"
)

func evalAttention(a AttentionAttrs, in []*tensor.Array, out *tensor.Array) error {
	q, k, v := in[0], in[1], in[2]
	var shape []int // of the mask
	if len(in) == 4 {
		shape = in[3].Shape
	}
	g := a.Geometry(q.Shape, k.Shape, shape)
	if a.HasPosition(len(in)) {
		g.QOffset = int(in[3].I[0])
	}
	scale, mask := a.EffectiveScale(int64(g.D)), g.Mask
	score := make([]float64, g.Sk)
	for b := range g.B {
		for h := range g.H {
			kv := b*g.K.Batch + h*g.HKV/g.H*g.K.Head
			for i := range g.Sq {
				qi := b*g.Q.Batch + h*g.Q.Head + i*g.Q.Seq
				for j := range g.Sk {
					score[j] = scale * dot(q.F[qi:], k.F[kv+j*g.K.Seq:], g.D)
					if a.Softcap != 0 {
						score[j] = a.Softcap * math.Tanh(score[j]/a.Softcap)
					}
					switch at := i + g.QOffset; a.Mask {
					case MaskCausal:
						score[j] = keepIf(j <= at, score[j])
					case MaskSliding:
						score[j] = keepIf(j <= at && j >= at-a.Window, score[j])
					case MaskCustom:
						score[j] = keepIf(!(in[3].At(b*mask[0]+h*mask[1]+i*mask[2]+j*mask[3]) < 0.5), score[j])
					case MaskBias:
						score[j] += in[3].F[b*mask[0]+h*mask[1]+i*mask[2]+j*mask[3]]
					}
				}
				weigh(score)
				o := out.F[qi:]
				for j, p := range score {
					if p != 0 { // a key that takes no part may hold NaN
						addScaled(o, p, v.F[kv+j*g.K.Seq:], g.D)
					}
				}
			}
		}
	}
	return nil
}

// weigh turns scores into softmax weights. Scores of -Inf get 0, even where all are -Inf.
func weigh(score []float64) {
	m, sum := math.Inf(-1), 0.0
	for _, s := range score {
		m = max(m, s)
	}
	if math.IsInf(m, -1) {
		m = 0
	}
	for j, s := range score {
		score[j] = math.Exp(s - m)
		sum += score[j]
	}
	if sum != 0 {
		for j := range score {
			score[j] /= sum
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
