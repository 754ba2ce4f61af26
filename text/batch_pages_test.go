package text_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/text"
)

// TestPages checks that texts whose keys and values are in pages are those of single runs without pages, bit for bit,
// while texts join and leave at random, share beginnings and give up their pages because there are too few.
func TestPages(t *testing.T) {
	t.Parallel()
	pagesTest{"cpu", 9, 300, 500, 60, 140, []int{1, 3, 64, 65, 129, 140, 150, 7, 240, 128, 100, 30}, 5, true}.run(t,
		rlx.Options{Threads: 1}, rlx.Options{Threads: 2})
}

// TestPagesGPU is TestPages on the wgpu backend, with fewer texts. With Alike, GPUs share a beginning only if more than
// 96 tokens of the prompt are left. These prompts are shorter.
func TestPagesGPU(t *testing.T) {
	o := rlxtest.OnGPU(t)
	pagesTest{"wgpu", 4, 192, 192, 9, 80, []int{60, 100, 110}, 1, false}.run(t, o, o)
}

// A pagesTest runs a number of texts, each of one of some prompts. It gets the lengths of these. Prompts after the
// fifth, or else the last one, begin like another. Texts with short prompts have long more tokens.
type pagesTest struct {
	target                string
	batch, context, cache int
	texts, long           int
	lengths               []int
	single                int  // prompts that generators continue, too
	shares                bool // some beginnings must be shared
}

func (c pagesTest) run(t *testing.T, slotted, inPages rlx.Options) {
	flags := []string{"--target", c.target, "--batch", strconv.Itoa(c.batch), "--context", strconv.Itoa(c.context)}
	slots := rlxtest.Session(t, rlxtest.Open(t, goldenModel(t, "llama_rope3", flags...)), slotted)
	flags = append(flags, "--cache", strconv.Itoa(c.cache))
	paged := rlxtest.Session(t, rlxtest.Open(t, goldenModel(t, "llama_rope3", flags...)), inPages)
	facts, err := text.FactsOf(paged.Model())
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	var prompts [][]int
	for i, n := range c.lengths {
		p := make([]int, n)
		for k := range p {
			p[k] = rng.IntN(facts.Vocabulary)
		}
		if like := min(4, len(c.lengths)-2); i > like {
			copy(p[:n*2/3], prompts[like])
		}
		prompts = append(prompts, p)
	}
	options := make([]text.Options, len(prompts))
	for i := range options {
		n := c.long / 14 * (2 + i%4)
		if len(prompts[i]) < 80 { // begins with one page and takes more
			n = c.long
		}
		options[i] = text.Options{Tokens: n, IgnoreEnd: true, Logits: true, Seed: uint64(i),
			Sampling: &text.Sampling{Temperature: float64(i%3) / 2, TopP: 0.95, RepeatPenalty: 1 + float64(i%3/2)/2}}
	}
	var alone []*text.Result
	for i, p := range prompts {
		alone = append(alone, together(t, slots, true, [][]int{p}, options[i:])[0])
	}
	for i, p := range prompts[:c.single] { // one sequence at a time, in the first pages
		var got [2]*text.Result
		for k, s := range []*rlx.Session{slots, paged} {
			g, err := text.NewGenerator(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			got[k] = generate(t, g, p, options[i])
			g.Close()
		}
		if !slices.Equal(got[0].IDs(), got[1].IDs()) || !slices.Equal(got[0].Logits, got[1].Logits) {
			t.Errorf("a generator, prompt %d: %v in pages and %v without", i, got[1].IDs(), got[0].IDs())
		}
	}
	b, err := text.NewBatch(t.Context(), paged)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Alike = true
	var texts []*text.BatchText
	var of []int
	left := map[*text.BatchText]bool{}
	for step, begun := 0, 0; begun < c.texts || b.Len() > 0; step++ {
		for begun < c.texts && b.Free() > 0 && rng.IntN(3) > 0 {
			i := rng.IntN(len(prompts))
			x, err := b.Add(t.Context(), prompts[i], options[i])
			if err != nil {
				t.Fatal(err)
			}
			texts, of, begun = append(texts, x), append(of, i), begun+1
			if s := b.Pages(); s.Used+s.Kept > s.Pages || s.Shared > s.Used {
				t.Fatalf("pages are %+v", s)
			}
		}
		if err := b.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(texts) > 0 && rng.IntN(20) == 0 {
			if x := texts[rng.IntN(len(texts))]; !x.Done() {
				b.Remove(x)
				left[x] = true
			}
		}
		if step > 10_000 {
			t.Fatal("texts do not end")
		}
	}
	cached := 0
	for k, x := range texts {
		want, got := alone[of[k]], x.Result()
		cached += got.Cached
		n := len(got.Tokens)
		if x.Err() != nil || !left[x] && n != len(want.Tokens) {
			t.Fatalf("text %d: %d tokens and error %v; want %d", k, n, x.Err(), len(want.Tokens))
		}
		if !slices.Equal(got.IDs(), want.IDs()[:n]) || !slices.Equal(got.Logits, want.Logits[:n*facts.Vocabulary]) {
			t.Errorf("text %d, prompt %d: %v; alone %v", k, of[k], got.IDs(), want.IDs())
		}
	}
	s := b.Pages()
	if c.shares && cached == 0 || s.Preempted == 0 || s.Evicted == 0 || s.Used != 0 || s.Shared != 0 {
		t.Errorf("%d tokens were cached, pages %+v; want all cases, and no page in use", cached, s)
	}
}
