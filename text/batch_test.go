package text_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/text"
)

// TestBatch checks that several sequences in one run give the texts of single runs, for prompts of any length and more
// of them than fit.
func TestBatch(t *testing.T) {
	t.Parallel()
	for _, model := range []string{"llama_rope3", "mistral_tiny"} {
		s := rlxtest.Session(t, rlxtest.Open(t, goldenModel(t, model, "--batch", "3", "--context", "90")),
			rlx.Options{Threads: 1})
		g, err := text.NewGenerator(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		golden, want := goldenIDs(t, model, "input_ids"), goldenIDs(t, model, "greedy")
		prompts := [][]int{{5}, golden, {7, 8, 9}, golden[:13], {1, 2}, {3, 3, 3, 3, 3}, golden[:30]}
		for name, o := range map[string]text.Options{
			"greedy": {Tokens: len(want) - len(golden), IgnoreEnd: true},
			"drawn": {Tokens: 12, IgnoreEnd: true, Logits: true, Seed: 5,
				Sampling: &text.Sampling{Temperature: 0.9, TopK: 20, TopP: 0.95, MinP: 0.01, RepeatPenalty: 1.2}},
			"one": {Tokens: 1},
		} {
			seen := make([]int, len(prompts))
			texts, err := text.GenerateBatch(t.Context(), s, prompts, o, func(i int, x text.Token) error {
				seen[i]++
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range prompts {
				if err := g.Reset(t.Context()); err != nil {
					t.Fatal(err)
				}
				alone := generate(t, g, p, o)
				if !slices.Equal(texts[i].IDs(), alone.IDs()) || texts[i].Stop != alone.Stop ||
					seen[i] != len(alone.Tokens) || texts[i].Prompt != len(p) ||
					len(texts[i].Logits) != len(alone.Logits) {
					t.Errorf("%s, %s, prompt %d: %v, %s; alone %v, %s", model, name, i, texts[i].IDs(), texts[i].Stop,
						alone.IDs(), alone.Stop)
				}
				for k, x := range alone.Tokens {
					if d := x.LogProb - texts[i].Tokens[k].LogProb; d > 1e-4 || d < -1e-4 {
						t.Errorf("%s, %s, prompt %d: the log probability of token %d is off by %v", model, name, i, k,
							d)
					}
				}
			}
			if name == "greedy" && !slices.Equal(slices.Concat(golden, texts[1].IDs()), want) {
				t.Errorf("%s: %v; want %v", model, texts[1].IDs(), want)
			}
		}
	}
}

// TestBatchEnds checks that a full context ends only its own text, and that an error ends all.
func TestBatchEnds(t *testing.T) {
	t.Parallel()
	s := rlxtest.Session(t, rlxtest.Open(t, goldenModel(t, "llama_rope3", "--batch", "2", "--context", "20")),
		rlx.Options{Threads: 1})
	long := make([]int, 18)
	texts, err := text.GenerateBatch(t.Context(), s, [][]int{{1, 2}, long, {3}},
		text.Options{Tokens: 8, IgnoreEnd: true}, nil)
	rlxtest.WantError(t, "a prompt of 18 and 8 tokens", err, text.ErrContext)
	if len(texts) != 3 || len(texts[0].Tokens) != 8 || len(texts[1].Tokens) != 3 || texts[1].Stop != text.StopContext ||
		len(texts[2].Tokens) != 8 {
		t.Errorf("beside the error: %+v", texts)
	}
	enough := errors.New("enough")
	texts, err = text.GenerateBatch(t.Context(), s, [][]int{{1, 2}, {3}}, text.Options{Tokens: 8, IgnoreEnd: true},
		func(i int, _ text.Token) error {
			if i == 1 {
				return enough
			}
			return nil
		})
	if err != enough || len(texts[0].Tokens) != 1 || texts[0].Stop != text.StopCancelled ||
		texts[1].Stop != text.StopCancelled {
		t.Errorf("%v, %+v", err, texts)
	}
	for name, c := range map[string]struct {
		prompts [][]int
		o       text.Options
		want    error
	}{
		"a long prompt": {[][]int{{1}, make([]int, 21)}, text.Options{}, text.ErrContext},
		"no tokens":     {[][]int{{1}, {}}, text.Options{}, rlx.ErrUsage},
		"Each":          {[][]int{{1}}, text.Options{Each: func(text.Token) error { return nil }}, rlx.ErrUsage},
		"options":       {[][]int{{1}}, text.Options{Tokens: -1}, rlx.ErrUsage},
	} {
		_, err := text.GenerateBatch(t.Context(), s, c.prompts, c.o, nil)
		rlxtest.WantError(t, name, err, c.want)
	}
	one := rlxtest.Session(t, rlxtest.Open(t, goldenModel(t, "llama_rope3")), rlx.Options{Threads: 1})
	_, err = text.GenerateBatch(t.Context(), one, [][]int{{1}}, text.Options{}, nil)
	rlxtest.WantError(t, "a model for one sequence", err, rlx.ErrUsage)
}
