package text

import (
	"cmp"
	"context"
	"math"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
)

// Pooling is how the vectors of tokens become one.
type Pooling string

// The kinds of pooling.
const (
	PoolMean Pooling = "mean" // the mean of all tokens
	PoolLast Pooling = "last" // the last token
	PoolCLS  Pooling = "cls"  // the first token, which many encoders call [CLS]
)

// EmbedOptions holds the options of Embed. The zero value means the mean over all tokens, scaled to length 1.
type EmbedOptions struct {
	Pooling Pooling // "" means PoolMean
	Raw     bool    // do not scale the vector to length 1
}

// Embed returns a vector for tokens, of length 1 unless o.Raw is set. It is made of the inputs of the last layer: their
// mean, or that of one token. It replaces the sequence. Errors match rlx.ErrUsage if the model gives no such vectors,
// or are those of Generate.
func (g *Generator) Embed(ctx context.Context, ids []int, o EmbedOptions) ([]float32, error) {
	p := cmp.Or(o.Pooling, PoolMean)
	hidden := g.spec.Outputs.Hidden
	switch {
	case hidden == "":
		return nil, diag.New(diag.Usage, g.session.Model().Path(), "gives no embeddings").WithHint(
			"compile it again; an older rlxc did not describe them")
	case p != PoolMean && p != PoolLast && p != PoolCLS:
		return nil, diag.New(diag.Usage, "pooling", "is %q; allowed are %q, %q and %q", p, PoolMean, PoolLast, PoolCLS)
	}
	if err := g.Reset(ctx); err != nil {
		return nil, err
	}
	all, _, err := g.check(ids, nil)
	if err != nil {
		return nil, err
	}
	run, end := graceful(ctx)
	defer end()
	g.run.set(g.session, g.spec, Options{}, g.draft.count > 0)
	var sum []float64
	for at := 0; at < len(all); at += g.spec.Chunk {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		part := all[at:min(len(all), at+g.spec.Chunk)]
		res, err := g.step(run, part, []string{hidden})
		if err != nil {
			return nil, err
		}
		rows := tensor.View[float32](res.Outputs[hidden].Data)
		width := len(rows) / len(part)
		if sum == nil {
			sum = make([]float64, width)
		}
		first, last := 0, len(part)
		switch {
		case p == PoolLast:
			clear(sum)
			first = len(part) - 1
		case p == PoolCLS && at > 0:
			continue
		case p == PoolCLS:
			last = 1
		}
		for i, v := range rows[first*width : last*width] {
			sum[i%width] += float64(v)
		}
	}
	if !o.Raw {
		return divided(sum, lengthOf(sum)), nil
	}
	if p == PoolMean {
		return divided(sum, float64(len(all))), nil
	}
	return divided(sum, 1), nil
}

func lengthOf(x []float64) float64 {
	square := 0.0
	for _, v := range x {
		square += v * v
	}
	return math.Sqrt(square)
}

// divided returns x divided by a number, unless that is 0.
func divided(x []float64, length float64) []float32 {
	if length == 0 {
		length = 1
	}
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v / length)
	}
	return out
}
