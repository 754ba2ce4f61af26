package text_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/text"
)

// TestGreedy checks that a run chooses the same token, with the same log probability, by the greedy outputs and by the
// op sample at temperature 0, and that the greedy outputs alone give the same text.
func TestGreedy(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, model := range []string{"llama_rope3", "gemma2_tiny", "qwen3_moe_tiny", "qwen35_tiny"} {
		flags := []string{"--context", "64"}
		if model == "llama_rope3" {
			flags = append(flags, "--batch", "3")
		}
		m := rlxtest.Open(t, goldenModel(t, model, flags...))
		about := m.Task().(*task.Text)
		var prompts [][]int
		for range 5 {
			p := make([]int, 1+rng.IntN(30))
			for i := range p {
				p[i] = rng.IntN(about.Vocabulary)
			}
			prompts = append(prompts, p)
		}
		sameChoice(t, model, rlxtest.Session(t, m, rlx.Options{Threads: 1}), prompts)
	}
}

func sameChoice(t *testing.T, model string, s *rlx.Session, prompts [][]int) {
	t.Helper()
	g, err := text.NewGenerator(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	about := s.Model().Task().(*task.Text)
	out, chosen := &about.Outputs, 0
	both := func(ctx context.Context, r rlx.Request) (*rlx.Result, error) {
		chooses := slices.Contains(r.Outputs, out.Greedy)
		if chooses {
			r.Outputs = append(slices.Clone(r.Outputs), out.Token, out.LogProb)
		}
		res, err := s.Run(ctx, r)
		if err != nil || !chooses {
			return res, err
		}
		a, b := res.Outputs[out.Greedy], res.Outputs[out.Token]
		p, q := res.Outputs[out.GreedyLogProb], res.Outputs[out.LogProb]
		if !bytes.Equal(a.Data, b.Data) || !bytes.Equal(p.Data, q.Data) || !slices.Equal(a.Shape, b.Shape) ||
			!slices.Equal(p.Shape, q.Shape) {
			t.Errorf("%s, %s: greedy chooses %v with %v, and sample %v with %v", model, r.Method, a, p, b, q)
		}
		chosen += a.Shape[0]
		return res, nil
	}
	same := func(what string, a, b *text.Result) {
		t.Helper()
		if len(a.Tokens) != 20 ||
			!slices.EqualFunc(
				a.Tokens, b.Tokens, func(a, b text.Token) bool { return a.ID == b.ID && a.LogProb == b.LogProb }) {
			t.Errorf("%s, %s: with both outputs %v; with the greedy ones %v", model, what, a.Tokens, b.Tokens)
		}
	}
	o := text.Options{Tokens: 20, IgnoreEnd: true}
	compared := o
	compared.Runner = rlxtest.Runner{Session: s, Do: both}
	for _, p := range prompts {
		var texts [2]*text.Result
		for i, o := range []text.Options{compared, o} {
			if err := g.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			texts[i] = generate(t, g, p, o)
		}
		same("one sequence", texts[0], texts[1])
	}
	want := 20 * len(prompts)
	if about.Batch.Method != "" {
		a, err := text.GenerateBatch(t.Context(), s, prompts, compared, nil)
		b, err2 := text.GenerateBatch(t.Context(), s, prompts, o, nil)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for i := range prompts {
			same("several sequences", a[i], b[i])
		}
		want *= 2
	}
	if chosen < want {
		t.Errorf("%s: %d choices were compared; want %d", model, chosen, want)
	}
}

// TestGreedyTies checks that the first of equally probable tokens is chosen, as the op sample does; -0 equals 0.
func TestGreedyTies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to string
		tied     func(logits []float32) bool
	}{
		// The place of the largest logit is between two tokens.
		"two": {"s53 = add s5, three", "half = const {value=3.5} : f32[]\ns53 = add s5, half",
			func(logits []float32) bool {
				best := slices.Max(logits)
				i := slices.Index(logits, best)
				return slices.Contains(logits[i+1:], best)
			}},
		"zeros": {"l = add l0, three", "l1 = add l0, three : f32[17]\nno = const {value=-0} : f32[]\nl = mul l1, no",
			func(logits []float32) bool {
				return slices.Max(logits) == 0 && slices.Min(logits) == 0
			}},
	} {
		s := rlxtest.Session(
			t, rlxtest.Open(
				t, writeText(
					t, func(_ *task.Text, graph string) string { return strings.Replace(graph, c.from, c.to, 1) })),
			rlx.Options{Threads: 1})
		g, err := text.NewGenerator(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		x := generate(t, g, []int{3}, text.Options{Tokens: 20, IgnoreEnd: true, Logits: true})
		if err := g.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		drawn := generate(t, g, []int{3}, text.Options{Tokens: 20, IgnoreEnd: true, Runner: sampled(s)})
		ties := 0
		for i, token := range x.Tokens {
			logits := x.Logits[17*i:][:17]
			if c.tied(logits) {
				ties++
			}
			if want := slices.Index(logits, slices.Max(logits)); token.ID != want {
				t.Errorf("%s: token %d is %d; want %d", name, i, token.ID, want)
			}
		}
		if !slices.Equal(x.IDs(), drawn.IDs()) || ties < 10 {
			t.Errorf("%s: %v and by sample %v; %d ties", name, x.IDs(), drawn.IDs(), ties)
		}
	}
}

// sampled returns a Runner that gives greedy runs the token of the op sample.
func sampled(s *rlx.Session) rlx.Runner {
	out := &s.Model().Task().(*task.Text).Outputs
	return rlxtest.Runner{Session: s, Do: func(ctx context.Context, r rlx.Request) (*rlx.Result, error) {
		r.Outputs = slices.Clone(r.Outputs)
		for i, name := range r.Outputs {
			switch name {
			case out.Greedy:
				r.Outputs[i] = out.Token
			case out.GreedyLogProb:
				r.Outputs[i] = out.LogProb
			}
		}
		res, err := s.Run(ctx, r)
		if err == nil {
			res.Outputs[out.Greedy], res.Outputs[out.GreedyLogProb] = res.Outputs[out.Token], res.Outputs[out.LogProb]
		}
		return res, err
	}}
}

// TestGreedySteps checks that only runs that draw a token run the steps for drawing, and that a penalty needs them at
// temperature 0.
func TestGreedySteps(t *testing.T) {
	t.Parallel()
	s := rlxtest.Session(t, rlxtest.Open(t, goldenModel(t, "llama_rope3", "--context", "64", "--batch", "2")),
		rlx.Options{Threads: 1})
	g, err := text.NewGenerator(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	steps := func(x text.Sampling, several bool) (ops map[string]int, all int) {
		ops = map[string]int{}
		o := text.Options{Tokens: 3, IgnoreEnd: true, Sampling: &x,
			Runner: rlxtest.Runner{Session: s, Do: func(ctx context.Context, r rlx.Request) (*rlx.Result, error) {
				r.Profile = true
				res, err := s.Run(ctx, r)
				if err == nil {
					for _, x := range res.Steps {
						ops[x.Op]++
					}
					all += len(res.Steps)
				}
				return res, err
			}}}
		if several {
			if _, err := text.GenerateBatch(t.Context(), s, [][]int{{1, 2}, {3, 4}}, o, nil); err != nil {
				t.Fatal(err)
			}
			return ops, all
		}
		if err := g.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		generate(t, g, []int{1, 2}, o)
		return ops, all
	}
	for _, several := range []bool{false, true} {
		least := 0
		for _, c := range []struct {
			sampling text.Sampling
			draws    int
		}{
			{text.Sampling{}, 0}, {text.Sampling{RepeatPenalty: 1, TopK: 5, TopP: 0.5, MinP: 0.5}, 0},
			{text.Sampling{Temperature: 0.5}, 3}, {text.Sampling{RepeatPenalty: 1.5}, 3},
			{text.Sampling{RepeatPenalty: 0.5}, 3},
		} {
			ops, all := steps(c.sampling, several)
			if least == 0 {
				least = all
			}
			if ops["sample"] != c.draws || (ops["argmax"] == 0) != (c.draws > 0) || (all > least) != (c.draws > 0) {
				t.Errorf("several %v, %+v: %d steps, of which sample %d and argmax %d; want %d of sample", several,
					c.sampling, all, ops["sample"], ops["argmax"], c.draws)
			}
		}
	}
}

// TestGreedyAdded checks that an artifact without the greedy outputs gives the same text.
func TestGreedyAdded(t *testing.T) {
	t.Parallel()
	g := generator(t, func(about *task.Text, graph string) string {
		about.Outputs.Greedy, about.Outputs.GreedyLogProb = "", ""
		return strings.Replace(graph, "greedy=greedy, greedy_logprob=greedy_logprob, ", "", 1)
	})
	if x := generate(t, g, []int{5, 9}, text.Options{Tokens: 6}); !slices.Equal(x.IDs(), greedy([]int{5, 9}, 6, 1)) {
		t.Errorf("%v; want %v", x.IDs(), greedy([]int{5, 9}, 6, 1))
	}
}
