package text_test

import (
	"math"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/text"
)

// TestEmbed checks the kinds of pooling against each other: in a causal model the vector of a token is the last one of
// the tokens up to it.
func TestEmbed(t *testing.T) {
	t.Parallel()
	g, err := text.NewGenerator(t.Context(), rlxtest.Session(t, rlxtest.Open(t, rlxtest.Llama()), rlx.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	ids, err := g.Encode("But soft, what light through yonder window breaks?")
	if err != nil {
		t.Fatal(err)
	}
	embed := func(ids []int, o text.EmbedOptions) []float32 {
		v, err := g.Embed(t.Context(), ids, o)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	near := func(what string, a, b []float32) {
		t.Helper()
		for i := range a {
			if d := math.Abs(float64(a[i] - b[i])); d > 1e-4*(1+math.Abs(float64(b[i]))) {
				t.Fatalf("%s: element %d is %v; want %v", what, i, a[i], b[i])
			}
		}
	}
	near("cls", embed(ids, text.EmbedOptions{Pooling: text.PoolCLS, Raw: true}),
		embed(ids[:1], text.EmbedOptions{Pooling: text.PoolLast, Raw: true}))
	var mean []float32
	for n := range ids {
		v := embed(ids[:n+1], text.EmbedOptions{Pooling: text.PoolLast, Raw: true})
		if mean == nil {
			mean = make([]float32, len(v))
		}
		for i := range v {
			mean[i] += v[i] / float32(len(ids))
		}
	}
	near("mean", embed(ids, text.EmbedOptions{Raw: true}), mean)
	length := 0.0
	for _, v := range mean {
		length += float64(v) * float64(v)
	}
	for i := range mean {
		mean[i] /= float32(math.Sqrt(length))
	}
	near("normalised", embed(ids, text.EmbedOptions{}), mean)
	if _, err := g.Embed(t.Context(), ids, text.EmbedOptions{Pooling: "most"}); err == nil {
		t.Error("an unknown pooling is taken")
	}
}
