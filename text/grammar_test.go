package text_test

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/text"
)

// tinyGrammar is for the vocabulary of tinymodel.Tokenizer, in which é takes two tokens.
const tinyGrammar = `root ::= ([a-f] "é"? | " " [i-p])+`

// tinyNext is tinyGrammar as a table: the state after a token, or -1. States 1 and 4 may end the text.
func tinyNext(state, id int) int {
	switch {
	case state == 2:
		if id == 7 {
			return 4
		}
	case state == 3:
		if id >= 8 && id <= 15 && id != 12 {
			return 4
		}
	case id < 6:
		return 1
	case id == 12:
		return 3
	case id == 6 && state == 1:
		return 2
	}
	return -1
}

// restricted continues a sequence by the most probable tokens that tinyGrammar allows.
func restricted(ids []int, n int, ignoreEnd bool) (out []int, state int) {
	for len(out) < n {
		logits := logitsAfter(slices.Concat(ids, out))
		best, next := -1, 0
		for id := range logits {
			to := tinyNext(state, id)
			if id == 16 && !ignoreEnd && (state == 1 || state == 4) {
				to = 5
			}
			if to >= 0 && (best < 0 || logits[id] > logits[best]) {
				best, next = id, to
			}
		}
		out = append(out, best)
		if next == 5 {
			return out, state
		}
		state = next
	}
	return out, state
}

// TestGrammar checks that the most probable token of those that fit is chosen, also with drafts, which propose tokens
// that do not fit and those that the model would not choose.
func TestGrammar(t *testing.T) {
	t.Parallel()
	g, err := text.ParseGrammar(tinyGrammar)
	if err != nil {
		t.Fatal(err)
	}
	changed, ended := 0, 0
	for _, drafts := range []int{0, 1, 2} {
		x := drafting(t, drafts)
		for prompt := range 6 {
			for _, ignoreEnd := range []bool{false, true} {
				for n := 1; n < 14; n += 3 {
					if err := x.Reset(t.Context()); err != nil {
						t.Fatal(err)
					}
					ids := []int{prompt, 3}
					got := generate(t, x, ids, text.Options{Tokens: n, Grammar: g, IgnoreEnd: ignoreEnd})
					want, state := restricted(ids, n, ignoreEnd)
					unfinished := state != 1 && state != 4
					if !slices.Equal(got.IDs(), want) || got.Unfinished != unfinished {
						t.Errorf("%d drafts after %v: %v (%q), unfinished %v; want %v, %v", drafts, ids, got.IDs(),
							got.Text, got.Unfinished, want, unfinished)
					}
					if !slices.Equal(got.IDs(), greedy(ids, len(want), 1)) {
						changed++
					}
					if got.Stop == text.StopEnd {
						ended++
					}
					for i, token := range got.Tokens {
						logits, total := logitsAfter(slices.Concat(ids, want[:i])), 0.0
						for _, l := range logits {
							total += math.Exp(l)
						}
						if d := float64(token.LogProb) - (logits[token.ID] - math.Log(total)); math.Abs(d) > 1e-4 {
							t.Errorf("%d drafts: the log probability of token %d is off by %v", drafts, i, d)
						}
					}
				}
			}
		}
	}
	if changed < 20 || ended < 3 {
		t.Errorf("%d texts differ from those without a grammar, and %d end", changed, ended)
	}
}

func TestGrammarEnds(t *testing.T) {
	t.Parallel()
	x := generator(t, nil)
	for source, want := range map[string]struct {
		text string
		stop text.Stop
	}{
		`root ::= "é" "ab"`:   {"éab", text.StopGrammar},
		`root ::= "a" | "ab"`: {"", ""},
		`root ::= "abcdefp"`:  {"abcde", text.StopLength},
	} {
		g, err := text.ParseGrammar(source)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := generate(t, x, []int{1}, text.Options{Tokens: 5, Grammar: g})
		if want.stop == "" {
			if got.Text != "a" && got.Text != "ab" || got.Unfinished {
				t.Errorf("%s: %q, %s, %v", source, got.Text, got.Stop, got.Unfinished)
			}
			continue
		}
		if got.Text != want.text || got.Stop != want.stop || got.Unfinished != (want.stop == text.StopLength) {
			t.Errorf("%s: %q, %s, %v; want %q, %s", source, got.Text, got.Stop, got.Unfinished, want.text, want.stop)
		}
	}
	g, err := text.ParseGrammar(`root ::= "a" "z"`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.Generate(t.Context(), []int{1}, text.Options{Grammar: g})
	rlxtest.WantError(t, "a character that no token has", err, text.ErrGrammar, rlx.ErrUsage)
	bare := generator(t, func(about *task.Text, graph string) string {
		about.Tokenizer = ""
		return graph
	})
	_, err = bare.Generate(t.Context(), []int{1}, text.Options{Grammar: g})
	rlxtest.WantError(t, "no tokenizer", err, text.ErrGrammar)
	if _, err = text.ParseSchema([]byte(`{"not":{}}`)); !errors.Is(err, text.ErrGrammar) {
		t.Error(err)
	}
	d := drafting(t, 2)
	_, err = d.Generate(t.Context(), []int{1}, text.Options{Top: 2})
	rlxtest.WantError(t, "drafts with the most probable tokens", err, rlx.ErrUsage)
}

// TestSchema checks that texts of a model with a real vocabulary fit a JSON schema, alone and in a batch, and that both
// are the same.
func TestSchema(t *testing.T) {
	t.Parallel()
	const schema = `{"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 6},
		"age": {"type": "integer", "minimum": 0, "maximum": 120}, "tags": {"type": "array", "maxItems": 2,
		"items": {"enum": ["king", "queen", "Tür"]}}, "born": {"type": "string", "format": "date"}},
		"required": ["name", "age", "tags"]}`
	g, err := text.ParseSchema([]byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("s.json", doc); err != nil {
		t.Fatal(err)
	}
	valid := c.MustCompile("s.json")
	path := filepath.Join(t.TempDir(), "llama.rlx")
	rlxtest.Compile(path, "../demo/llama", "--batch", "3", "--context", "256")
	s := rlxtest.Session(t, rlxtest.Open(t, path), rlx.Options{Threads: 1})
	x, err := text.NewGenerator(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var prompts [][]int
	for _, p := range []string{"ROMEO:", "The king is", "O, ", "JULIET:\n", "Who?"} {
		ids, err := x.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		prompts = append(prompts, ids)
	}
	for _, o := range []text.Options{
		{Sampling: &text.Sampling{}}, {Seed: 5, Sampling: &text.Sampling{Temperature: 1}},
		{Seed: 6, Sampling: &text.Sampling{Temperature: 1.5, TopP: 0.9, TopK: 40, RepeatPenalty: 1.1}},
		{Seed: 7, Sampling: &text.Sampling{Temperature: 1}, Adjust: &text.Adjust{Frequency: 1}, Top: 2},
	} {
		o.Tokens, o.Grammar = 230, g
		texts, err := text.GenerateBatch(t.Context(), s, prompts, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range prompts {
			if err := x.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			alone := generate(t, x, p, o)
			if alone.Text != texts[i].Text || alone.Stop != texts[i].Stop {
				t.Errorf("prompt %d, %+v: alone %q, and in a batch %q", i, o.Sampling, alone.Text, texts[i].Text)
			}
			if alone.Unfinished {
				t.Errorf("prompt %d, %+v: %q does not end", i, o.Sampling, alone.Text)
				continue
			}
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(alone.Text))
			if err == nil {
				err = valid.Validate(v)
			}
			if err != nil || alone.Stop != text.StopGrammar {
				t.Errorf("prompt %d, %+v: %q, %s: %v", i, o.Sampling, alone.Text, alone.Stop, err)
			}
		}
	}
}

// TestGrammarBatchError checks that a text that cannot go on ends alone.
func TestGrammarBatchError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "llama.rlx")
	rlxtest.Compile(path, "../demo/llama", "--batch", "2", "--context", "64")
	s := rlxtest.Session(t, rlxtest.Open(t, path), rlx.Options{Threads: 1})
	b, err := text.NewBatch(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	many, err := text.ParseGrammar(`root ::= [^x] ("a"? "a"?){9000}`)
	if err != nil {
		t.Fatal(err)
	}
	bad, err := b.Add(t.Context(), []int{5}, text.Options{Tokens: 9, Grammar: many})
	if err != nil {
		t.Fatal(err)
	}
	good, err := b.Add(t.Context(), []int{6}, text.Options{Tokens: 9, IgnoreEnd: true})
	if err != nil {
		t.Fatal(err)
	}
	for b.Len() > 0 {
		if err := b.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !errors.Is(bad.Err(), text.ErrGrammar) || good.Err() != nil || len(good.Result().Tokens) != 9 {
		t.Errorf("%v, %v, %d tokens", bad.Err(), good.Err(), len(good.Result().Tokens))
	}
}

func ExampleParseSchema() {
	g, err := text.ParseSchema([]byte(`{"type": "object", "properties": {"answer": {"type": "boolean"}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	o := text.Options{Grammar: g, Tokens: 50}
	fmt.Println(o.Grammar != nil)
	// Output: true
}
