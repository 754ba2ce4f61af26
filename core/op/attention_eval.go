package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

func evalAttention(a AttentionAttrs, in []*tensor.Array, out *tensor.Array) error {
	q, k, v := in[0], in[1], in[2]
	s, err := a.Sizes(ir.TypeOf(q.DType, sizes(q)...), ir.TypeOf(k.DType, sizes(k)...))
	if err != nil {
		return err
	}
	sq, sk, d := int(s.Sq.B), int(s.Sk.B), int(s.D)
	qb, qh, qs := a.headStrides(int(s.H), sq, d)
	kb, kh, ks := a.headStrides(int(s.HKV), sk, d)
	scale, offset := a.EffectiveScale(s.D), sk-sq
	if a.UseQOffset {
		offset = a.QOffset
	}
	var mask []int // strides of the mask over b, h, i, j
	if len(in) == 4 {
		mask = maskStrides(in[3].Shape, []int{int(s.B.B), int(s.H), sq, sk})
	}
	score := make([]float64, sk)
	for b := range int(s.B.B) {
		for h := range int(s.H) {
			hk := h * int(s.HKV) / int(s.H)
			for i := range sq {
				qi := q.F[b*qb+h*qh+i*qs:]
				for j := range sk {
					score[j] = scale * dot(qi, k.F[b*kb+hk*kh+j*ks:], d)
					if a.Softcap != 0 {
						score[j] = a.Softcap * math.Tanh(score[j]/a.Softcap)
					}
					switch at := i + offset; a.Mask {
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
				o := out.F[b*qb+h*qh+i*qs:]
				for j, p := range score {
					if p != 0 { // a key that takes no part may hold NaN
						addScaled(o, p, v.F[b*kb+hk*kh+j*ks:], d)
					}
				}
			}
		}
	}
	return nil
}

// headStrides are the strides of batch, head and position; the head dim is contiguous.
func (a AttentionAttrs) headStrides(heads, seq, d int) (batch, head, pos int) {
	if a.Layout == BHSD {
		return heads * seq * d, seq * d, d
	}
	return heads * seq * d, d, heads * d
}

// maskStrides read a mask of rank 2 [B,Sk], 3 [B,Sq,Sk] or 4 as if of the full shape [B,H,Sq,Sk].
func maskStrides(shape, full []int) []int {
	switch len(shape) {
	case 2:
		shape = []int{shape[0], 1, 1, shape[1]}
	case 3:
		shape = []int{shape[0], 1, shape[1], shape[2]}
	}
	return strides(shape, full)
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
