package text_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/text"
)

// TestPerplexity compares with Transformers 5 and PyTorch in float64, over the same windows:
//
//	for start in range(0, ..., stride): the tokens after start+done are predicted from ids[start:start+window]
func TestPerplexity(t *testing.T) {
	t.Parallel()
	var golden struct {
		Prompt []int `json:"prompt_ids"`
		IDs    []int `json:"ids"`
	}
	b, err := os.ReadFile("../demo/llama/golden.json")
	if err == nil {
		err = json.Unmarshal(b, &golden)
	}
	if err != nil {
		t.Fatal(err)
	}
	ids := slices.Concat(golden.Prompt, golden.IDs)
	s := rlxtest.Session(t, rlxtest.Open(t, rlxtest.Llama()), rlx.Options{})
	for _, c := range []struct {
		window, stride int
		loss           float64
	}{
		{64, 32, 1.9527989092884457}, {0, 0, 1.9527989092884457}, {16, 8, 2.0876307283925972},
		{16, 0, 2.0876307283925972},
		{16, 16, 2.2336423512445562}, {16, 3, 2.1135408908016284},
	} {
		last := 0
		r, err := text.Perplexity(t.Context(), s, ids, text.PerplexityOptions{Window: c.window, Stride: c.stride,
			Progress: func(done, total int) {
				if done <= last || total != 50 {
					t.Errorf("progress %d of %d after %d", done, total, last)
				}
				last = done
			}})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(r.Loss-c.loss) > 2e-6 || math.Abs(r.Perplexity-math.Exp(c.loss)) > 2e-5 || r.Tokens != 50 ||
			last != 50 {
			t.Errorf("window %d, stride %d: %+v; want loss %v", c.window, c.stride, r, c.loss)
		}
	}
	for what, c := range map[string]struct {
		ids  []int
		o    text.PerplexityOptions
		want error
	}{
		"no token":         {nil, text.PerplexityOptions{}, text.ErrPrompt},
		"one token":        {ids[:1], text.PerplexityOptions{}, text.ErrPrompt},
		"an unknown token": {[]int{1, 1024}, text.PerplexityOptions{}, text.ErrPrompt},
		"a large window":   {ids, text.PerplexityOptions{Window: 513}, rlx.ErrUsage},
		"a negative one":   {ids, text.PerplexityOptions{Window: -1}, rlx.ErrUsage},
		"a large stride":   {ids, text.PerplexityOptions{Window: 8, Stride: 9}, rlx.ErrUsage},
	} {
		_, err := text.Perplexity(t.Context(), s, c.ids, c.o)
		rlxtest.WantError(t, what, err, c.want)
	}
}
