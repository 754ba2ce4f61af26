package text_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/text"
)

// drafting returns a generator of the tiny model that drafts n tokens at a time. Two of three drafts are right.
func drafting(t testing.TB, n int) *text.Generator {
	t.Helper()
	g := generator(t, tinymodel.WithDraft)
	if err := g.Draft(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return g
}

// TestDraft checks that drafts change no token, wherever a text ends and continues, and that log probabilities are
// those of the tokens.
func TestDraft(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2} {
		g := drafting(t, n)
		drafted, accepted := 0, 0
		for _, prompt := range [][]int{{5, 9}, {0}, {1, 2, 3, 4, 5}, {16, 0, 3, 2, 9, 12},
			{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}} {
			if err := g.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			all := slices.Clone(prompt)
			for i, next := range []struct {
				ids []int
				n   int
			}{{prompt, 4}, {nil, 1}, {[]int{7, 8}, 2}, {nil, 3}} {
				if i > 0 {
					all = append(all, next.ids...)
				}
				x, want := generate(t, g, next.ids, text.Options{Tokens: next.n, IgnoreEnd: true}),
					greedy(all, next.n, 1)
				for k, token := range x.Tokens {
					logits, total := logitsAfter(slices.Concat(all, want[:k])), 0.0
					for _, l := range logits {
						total += math.Exp(l)
					}
					if d := float64(token.LogProb) - (logits[want[k]] - math.Log(total)); math.Abs(d) > 1e-5 {
						t.Errorf("%d drafts after %v, part %d: log probability %v is off by %v", n, prompt, i,
							token.LogProb, d)
					}
				}
				if all = append(all, want...); !slices.Equal(x.IDs(), want) || !slices.Equal(g.IDs(), all) ||
					x.Stop != text.StopLength || x.Text != g.Decode(want) {
					t.Fatalf("%d drafts after %v, part %d: %v (%q), %s; want %v", n, prompt, i, x.IDs(), x.Text, x.Stop,
						want)
				}
				drafted, accepted = drafted+x.Drafted, accepted+x.Accepted
			}
		}
		// there must be drafts of both kinds
		if (n > 0) != (drafted > 0) || n > 0 && (accepted < 5 || accepted > drafted-5) {
			t.Errorf("%d drafts: %d of %d were accepted", n, accepted, drafted)
		}
	}
}

// TestDraftStops checks texts that end at a full context or in the middle of accepted drafts: they can be saved and
// continued.
func TestDraftStops(t *testing.T) {
	t.Parallel()
	g, plain := drafting(t, 2), generator(t, tinymodel.WithDraft)
	all := greedy([]int{3}, 24, 1)
	if x := generate(t, g, []int{3}, text.Options{IgnoreEnd: true}); !slices.Equal(x.IDs(), all) ||
		x.Stop != text.StopContext {
		t.Errorf("%v, %s; want %v", x.IDs(), x.Stop, all)
	}
	path, enough := filepath.Join(t.TempDir(), "s.safetensors"), errors.New("enough")
	for end := 1; end < 16; end++ {
		if err := g.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := 0
		x, err := g.Generate(t.Context(), []int{3}, text.Options{Each: func(text.Token) error {
			if n++; n == end {
				return enough
			}
			return nil
		}})
		if err != enough || !slices.Equal(x.IDs(), all[:end]) || !slices.Equal(g.IDs()[1:], all[:end]) {
			t.Fatalf("%d tokens: %v, %v, %v", end, x.IDs(), g.IDs(), err)
		}
		var file bytes.Buffer
		if err := g.Save(t.Context(), &file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, from := range []*text.Generator{g, plain} {
			if err := from.Load(t.Context(), path); err != nil {
				t.Fatal(err)
			}
			if got := generate(t, from, nil, text.Options{Tokens: 6, IgnoreEnd: true}); !slices.Equal(
				got.IDs(), all[end:end+6]) {
				t.Errorf("saved after %d tokens: %v; want %v", end, got.IDs(), all[end:end+6])
			}
		}
	}
}

// TestBadDraft checks the errors of Draft and its options.
func TestBadDraft(t *testing.T) {
	t.Parallel()
	g := drafting(t, 2)
	for name, o := range map[string]text.Options{
		"a temperature": {Sampling: &text.Sampling{Temperature: 1}},
		"a penalty":     {Sampling: &text.Sampling{RepeatPenalty: 2}}, "logits": {Logits: true},
	} {
		_, err := g.Generate(t.Context(), []int{1}, o)
		rlxtest.WantError(t, name, err, rlx.ErrUsage)
	}
	rlxtest.WantError(t, "more than a run takes", g.Draft(t.Context(), 3), rlx.ErrUsage)
	rlxtest.WantError(t, "no head", generator(t, func(_ *task.Text, graph string) string { return graph }).Draft(
		t.Context(), 1), rlx.ErrUsage)
}

// TestDraftMTP checks that Qwen3.5 with its draft head and recurrent layers generates Transformers' greedy text, with
// and without drafts. The weights are random, so all drafts are wrong.
func TestDraftMTP(t *testing.T) {
	t.Parallel()
	s := rlxtest.Session(t, rlxtest.Open(t, goldenModel(t, "qwen35_mtp", "--context", "64")), rlx.Options{Threads: 1})
	prompt, want := goldenIDs(t, "qwen35_mtp", "e2e.input_ids"), goldenIDs(t, "qwen35_mtp", "e2e.greedy")
	for _, n := range []int{0, 1, 3, 16} {
		g, err := text.NewGenerator(t.Context(), s)
		if err == nil {
			err = g.Draft(t.Context(), n)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		x := generate(t, g, prompt, text.Options{Tokens: len(want) - len(prompt), IgnoreEnd: true})
		if !slices.Equal(g.IDs(), want) || (n > 0) != (x.Drafted > 0) {
			t.Errorf("%d drafts: %v, %d drafted; want %v", n, g.IDs(), x.Drafted, want)
		}
	}
}
