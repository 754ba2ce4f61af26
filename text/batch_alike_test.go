package text_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/text"
)

// TestBatchBits checks which texts are the same bit for bit: that of a Batch with a single text and a Generator's, and
// with Alike those of a Batch with any others. Some products of weights q8_0 round activations, so a difference in the
// last bit would soon show in the logits.
func TestBatchBits(t *testing.T) {
	t.Parallel()
	quantized := filepath.Join(t.TempDir(), "quantized.rlx")
	rlxtest.Compile(quantized, "../demo/llama", "--target", "cpu", "--batch", "7", "--quantize", "q8_0")
	for name, path := range map[string]string{"f32": goldenModel(t, "llama_rope3", "--batch", "7", "--context", "300"),
		"q8_0": quantized} {
		s := rlxtest.Session(t, rlxtest.Open(t, path), rlx.Options{Threads: 2})
		g, err := text.NewGenerator(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		facts, rng := g.Facts(), rand.New(rand.NewPCG(1, 2))
		var prompts [][]int
		for _, n := range []int{1, 3, 16, 17, 129, 140, 150, 7, 260} {
			p := make([]int, n)
			for k := range p {
				p[k] = rng.IntN(facts.Vocabulary)
			}
			prompts = append(prompts, p)
		}
		prompts = append(prompts, slices.Concat(prompts[4], prompts[3]), slices.Concat(prompts[4][:60], prompts[3]))
		options := make([]text.Options, len(prompts))
		for i := range options {
			options[i] = text.Options{Tokens: 12 + i%3, IgnoreEnd: true, Logits: true, Seed: uint64(i),
				Sampling: &text.Sampling{Temperature: float64(i%4) / 2, TopP: 0.95, TopK: 10 * (i % 2),
					RepeatPenalty: 1 + float64(i%3/2)/2}}
		}
		same := func(what string, i int, a, b *text.Result) {
			t.Helper()
			if !slices.Equal(a.IDs(), b.IDs()) || !slices.Equal(a.Logits, b.Logits) || a.Stop != b.Stop {
				t.Errorf("%s, %s: a prompt of %d tokens gives %v and %v", name, what, len(prompts[i]), a.IDs(), b.IDs())
			}
		}
		var alone [2][]*text.Result // without and with Alike
		for k, alike := range []bool{false, true} {
			for i, p := range prompts {
				alone[k] = append(alone[k], together(t, s, alike, [][]int{p}, options[i:])[0])
			}
		}
		for i, p := range prompts {
			if err := g.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			same("a batch and a generator", i, alone[0][i], generate(t, g, p, options[i]))
		}
		all := together(t, s, true, prompts, options)
		cached := 0
		for i := range prompts {
			same("alone and with others", i, alone[1][i], all[i])
			cached += all[i].Cached
		}
		if cached == 0 {
			t.Errorf("%s: no beginning of a prompt was computed once", name)
		}
	}
}

// together continues prompts in a Batch, as many at a time as it has room for. They join at different steps.
func together(t *testing.T, s *rlx.Session, alike bool, prompts [][]int, o []text.Options) (out []*text.Result) {
	t.Helper()
	b, err := text.NewBatch(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Alike = alike
	var texts []*text.BatchText
	for len(texts) < len(prompts) || b.Len() > 0 {
		for n := 0; n < 2 && len(texts) < len(prompts) && b.Free() > 0; n++ {
			x, err := b.Add(t.Context(), prompts[len(texts)], o[len(texts)])
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, x)
		}
		if err := b.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range texts {
		if x.Err() != nil || !x.Done() {
			t.Error(x.Err(), x.Done())
		}
		out = append(out, x.Result())
	}
	return out
}

// TestBatchShares checks that prompts with the same beginning compute it once, also if they begin together, that the
// next turn of a conversation computes only what is new, and that neither changes the text.
func TestBatchShares(t *testing.T) {
	t.Parallel()
	s := rlxtest.Session(t, rlxtest.Open(t, goldenModel(t, "llama_rope3", "--batch", "4", "--context", "200")),
		rlx.Options{Threads: 1})
	computed := 0
	b, err := text.NewBatch(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Budget = 64
	b.SetRunner(rlxtest.Runner{Session: s, Do: func(ctx context.Context, r rlx.Request) (*rlx.Result, error) {
		if ids, ok := r.Inputs["input_ids"]; ok {
			computed += ids.Shape[0] * ids.Shape[1]
		}
		return s.Run(ctx, r)
	}})
	system := make([]int, 100)
	for i := range system {
		system[i] = i * 7 % 31
	}
	o := text.Options{Tokens: 4, IgnoreEnd: true, Sampling: &text.Sampling{}}
	var texts []*text.BatchText
	var prompts [][]int
	add := func(p []int) {
		x, err := b.Add(t.Context(), p, o)
		if err != nil {
			t.Fatal(err)
		}
		texts, prompts = append(texts, x), append(prompts, p)
	}
	run := func() {
		for b.Len() > 0 {
			if err := b.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 4 {
		add(append(slices.Clone(system), 20+i, 3))
	}
	run()
	if most := 100 + 4*(2+3) + 3*36; computed > most {
		t.Errorf("four prompts of 102 tokens that begin with the same 100 computed %d tokens; want at most %d", computed,
			most)
	}
	computed = 0
	next := slices.Concat(prompts[1], texts[1].Result().IDs(), []int{9, 8, 7})
	add(next)
	run()
	if want := 4 + 3; computed != want { // the last token of the answer is not in the state yet
		t.Errorf("the next turn computed %d tokens; want %d", computed, want)
	}
	for i, p := range prompts {
		alone := together(t, s, false, [][]int{p}, []text.Options{o})[0]
		if x := texts[i].Result(); !slices.Equal(x.IDs(), alone.IDs()) {
			t.Errorf("prompt %d: %v; alone %v", i, x.IDs(), alone.IDs())
		}
	}
}

// TestBatchLeaves checks that a text that is removed, or whose Each fails, ends alone, and that its place is free at
// once.
func TestBatchLeaves(t *testing.T) {
	t.Parallel()
	s := rlxtest.Session(t, rlxtest.Open(t, goldenModel(t, "llama_rope3", "--batch", "2", "--context", "60")),
		rlx.Options{Threads: 1})
	b, err := text.NewBatch(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	gone := context.Canceled
	o := text.Options{Tokens: 6, IgnoreEnd: true}
	failing := o
	failing.Each = func(text.Token) error { return gone }
	add := func(p []int, o text.Options) *text.BatchText {
		x, err := b.Add(t.Context(), p, o)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	first, second := add([]int{1, 2}, o), add([]int{3}, failing)
	if _, err := b.Add(t.Context(), []int{4}, o); err == nil {
		t.Error("a third text joined")
	}
	if err := b.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !second.Done() || second.Err() != gone || first.Done() || b.Free() != 1 {
		t.Errorf("%v, %v; %v; %d", second.Done(), second.Err(), first.Done(), b.Free())
	}
	third := add([]int{5, 6, 7}, o)
	b.Remove(third)
	b.Remove(third)
	long := add(make([]int, 57), o)
	for b.Len() > 0 {
		if err := b.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !third.Done() || third.Err() != nil || third.Result().Stop != text.StopCancelled || b.Free() != 2 {
		t.Errorf("%+v, %v, %d", third.Result(), third.Err(), b.Free())
	}
	if len(first.Result().Tokens) != 6 {
		t.Errorf("%+v", first.Result())
	}
	rlxtest.WantError(t, "57 tokens and 6 in a context of 60", long.Err(), text.ErrContext)
}
