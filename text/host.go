package text

import (
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/task"
)

// Adjust changes logits before a token is drawn.
type Adjust struct {
	Bias map[int]float64 // is added to the logits of these ids
	// Presence is subtracted once from the logit of each token that the text already has, and Frequency once for each
	// time that the text has it. The prompt does not count.
	Presence, Frequency float64
}

// A TokenLogProb is the logarithm of the probability of a token.
type TokenLogProb struct {
	ID      int
	LogProb float32
}

// onHost reports whether tokens are chosen by the host, from logits. This takes longer: each run copies the logits of
// all tokens.
func (o *Options) onHost() bool { return o.Adjust != nil || o.Top > 0 || o.Grammar != nil }

// choose completes a token that a run has drawn from logits, or draws another one if they are adjusted or if it does
// not fit the grammar. seen are the tokens before it, made those that were generated.
func (t *spec) choose(x Token, o *Options, logits []float32, seen []int, made []Token) (Token, error) {
	fits, id, err := true, x.ID, error(nil)
	sampling := t.sampling(*o)
	var y []float64
	if o.Adjust != nil {
		y = t.adjusted(o, logits, seen, made)
		if id, err = draw(y, sampling, o.Seed, uint64(len(seen))); err != nil {
			return x, err
		}
	}
	if o.guide != nil {
		if fits, err = o.guide.fits(id); err != nil {
			return x, err
		}
	}
	if fits && id == x.ID && o.Top == 0 {
		return x, nil
	}
	if !fits {
		if y == nil {
			y = t.adjusted(o, logits, seen, made)
		}
		if err = o.guide.restrict(y, sampling); err != nil {
			return x, err
		}
		if id, err = draw(y, sampling, o.Seed, uint64(len(seen))); err != nil {
			return x, err
		}
	}
	var sum float64
	if shift := float64(logits[x.ID]) - float64(x.LogProb); o.Top == 0 && math.Abs(shift) < math.MaxFloat32 {
		sum = shift // so the run has computed it
	} else {
		sum = logSumExp(logits)
	}
	if id != x.ID {
		x.ID, x.LogProb = id, float32(float64(logits[id])-sum)
	}
	x.Top = likeliest(logits, o.Top, sum)
	return x, nil
}

// adjusted returns the logits after all penalties.
func (t *spec) adjusted(o *Options, logits []float32, seen []int, made []Token) []float64 {
	y := make([]float64, len(logits))
	for i, v := range logits {
		y[i] = float64(v)
	}
	if p := t.sampling(*o).RepeatPenalty; p != 0 && p != 1 {
		recent := slices.Clone(seen[max(0, len(seen)-t.Window):])
		slices.Sort(recent)
		for _, id := range slices.Compact(recent) {
			if y[id] > 0 {
				y[id] /= p
			} else {
				y[id] *= p
			}
		}
	}
	if o.Adjust == nil {
		return y
	}
	count := map[int]float64{}
	for _, x := range made {
		count[x.ID]++
	}
	for id, n := range count {
		y[id] -= o.Adjust.Presence + n*o.Adjust.Frequency
	}
	for id, b := range o.Adjust.Bias {
		if id >= 0 && id < len(y) {
			y[id] += b
		}
	}
	return y
}

// draw draws a token like the op sample.
func draw(logits []float64, s task.Sampling, seed, step uint64) (int, error) {
	topP := s.TopP
	if topP == 0 {
		topP = 1
	}
	number := func(v float64) *tensor.Array { return &tensor.Array{Shape: []int{}, Floats: []float64{v}} }
	words := func(v uint64) *tensor.Array {
		return &tensor.Array{Shape: []int{2}, Ints: []int64{int64(uint32(v)), int64(v >> 32)}}
	}
	out := &tensor.Array{Shape: []int{1}, Ints: make([]int64, 1)}
	err := op.SampleDef.Eval(op.SampleAttrs{Alone: true}, []*tensor.Array{
		{Shape: []int{1, len(logits)}, Floats: logits}, number(s.Temperature),
		{Shape: []int{}, Ints: []int64{int64(s.TopK)}}, number(topP), words(seed), words(step), number(s.MinP)}, out)
	return int(out.Ints[0]), err
}

func logSumExp(x []float32) float64 {
	most := float64(slices.Max(x))
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - most)
	}
	return most + math.Log(sum)
}

// likeliest returns the n largest logits in order, the first of equal ones first.
func likeliest(logits []float32, n int, sum float64) (out []TokenLogProb) {
	for id, v := range logits {
		if len(out) == n && (n == 0 || v <= out[n-1].LogProb) {
			continue
		}
		at, _ := slices.BinarySearchFunc(out, v, func(x TokenLogProb, v float32) int {
			if x.LogProb >= v {
				return -1
			}
			return 1
		})
		out = slices.Insert(out, at, TokenLogProb{id, v})
		out = out[:min(len(out), n)]
	}
	for i := range out {
		out[i].LogProb = float32(float64(out[i].LogProb) - sum)
	}
	return out
}

// checkHost checks the options for the host.
func (t *spec) checkHost(o Options) error {
	if o.Top < 0 || o.Top > t.Vocabulary {
		return diag.New(diag.Usage, "Options.Top", "is %d; allowed are 0 to %d", o.Top, t.Vocabulary)
	}
	if o.Adjust == nil {
		return nil
	}
	all := []float64{o.Adjust.Presence, o.Adjust.Frequency}
	for id, b := range o.Adjust.Bias {
		if id < 0 || id >= t.Vocabulary {
			return diag.New(diag.Usage, "Options.Adjust", "has a bias of id %d; the vocabulary has 0 to %d", id,
				t.Vocabulary-1)
		}
		all = append(all, b)
	}
	if i := slices.IndexFunc(all, func(v float64) bool { return !(math.Abs(v) <= 1e6) }); i >= 0 {
		return diag.New(diag.Usage, "Options.Adjust", "has the number %v; allowed are -1e6 to 1e6", all[i])
	}
	return nil
}
