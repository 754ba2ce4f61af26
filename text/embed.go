package text

import (
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
)

// Embed returns a vector of length 1 for tokens: a mean of what the last layer computes from, or that of the last
// token. It replaces the sequence. Errors match rlx.ErrUsage if the model gives no such vectors, or are those of
// Generate.
func (g *Generator) Embed(ctx context.Context, ids []int, p Pooling) ([]float32, error) {
	hidden := g.spec.Outputs.Hidden
	switch {
	case hidden == "":
		return nil, diag.New(diag.Usage, g.session.Model().Path(), "gives no embeddings").WithHint(
			"compile it again; an older rlxc did not describe them")
	case p != PoolMean && p != PoolLast:
		return nil, diag.New(diag.Usage, "pooling", "is %q; allowed are %q and %q", p, PoolMean, PoolLast)
	}
	if err := g.Reset(ctx); err != nil {
		return nil, err
	}
	all, err := g.check(ids)
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
		first := 0
		if p == PoolLast {
			clear(sum)
			first = len(part) - 1
		}
		for i, v := range rows[first*width:] {
			sum[i%width] += float64(v)
		}
	}
	return normalised(sum), nil
}

// normalised returns x divided by its length, which makes a mean of a sum. Zeros stay zeros.
func normalised(x []float64) []float32 {
	square := 0.0
	for _, v := range x {
		square += v * v
	}
	length := math.Sqrt(square)
	if length == 0 {
		length = 1
	}
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v / length)
	}
	return out
}
