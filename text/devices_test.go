package text_test

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/text"
)

// TestDevices checks that a model in stages on several devices generates the text of the undivided one: a Generator the
// same logits bit for bit, and a Batch, whose texts share runs in groups, the same tokens as each text alone. With
// pages there are fewer than the texts need, so they share some, give up others and wait.
func TestDevices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		name, checkpoint string
		flags            []string
		devices          []string
	}{
		{"f32", "../demo/llama", nil, []string{"0", "0", "0"}},
		{"q8_0", "../demo/llama", []string{"--quantize", "q8_0"}, []string{"0", "0"}},
		{"pages", "../demo/llama", []string{"--context", "320", "--cache", "384"}, []string{"0", "0", "0"}},
	} {
		compile := func(name string, flags ...string) *rlx.Model {
			path := filepath.Join(dir, name+".rlx")
			all := slices.Concat(c.flags, []string{"--target", "cpu", "--batch", "6"}, flags)
			rlxtest.Compile(path, c.checkpoint, all...)
			return rlxtest.Open(t, path)
		}
		whole := rlxtest.Session(t, compile("whole"), rlx.Options{Threads: 1})
		s := rlxtest.Session(t, compile("stages", "--stages", "3"),
			rlx.Options{Devices: c.devices, Threads: len(c.devices)})
		one, err := text.NewGenerator(t.Context(), whole)
		if err != nil {
			t.Fatal(err)
		}
		several, err := text.NewGenerator(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(4, 5))
		var prompts [][]int
		for _, n := range []int{1, 140, 16, 33, 7, 260, 2, 90} {
			p := make([]int, n)
			for k := range p {
				p[k] = rng.IntN(1000)
			}
			prompts = append(prompts, p)
		}
		prompts = append(prompts, slices.Concat(prompts[1], prompts[2]), slices.Concat(prompts[1][:70], prompts[2]))
		var alone []*text.Result
		options := make([]text.Options, len(prompts))
		for i, p := range prompts {
			options[i] = text.Options{Tokens: 5 + i%4, IgnoreEnd: true, Logits: true, Seed: uint64(i),
				Sampling: &text.Sampling{Temperature: float64(i % 2)}}
			for _, g := range []*text.Generator{one, several} {
				if err := g.Reset(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			a, b := generate(t, one, p, options[i]), generate(t, several, p, options[i])
			if !slices.Equal(a.IDs(), b.IDs()) || !slices.Equal(a.Logits, b.Logits) {
				t.Errorf("%s: a prompt of %d tokens gives %v; undivided %v", c.name, len(p), b.IDs(), a.IDs())
			}
			alone = append(alone, a)
		}
		for _, alike := range []bool{false, true} {
			cached := 0
			for i, x := range together(t, s, alike, prompts, options) {
				cached += x.Cached
				if !slices.Equal(x.IDs(), alone[i].IDs()) {
					t.Errorf("%s, alike %v: prompt %d of %d tokens: %v; alone %v", c.name, alike, i,
						len(prompts[i]), x.IDs(), alone[i].IDs())
				}
			}
			if cached == 0 {
				t.Errorf("%s, alike %v: no beginning of a prompt was computed once", c.name, alike)
			}
		}
	}
}

// TestDevicesLeave checks that texts may leave a Batch while their runs are in progress, that their places are free at
// once, and that the others go on; also if a text that leaves gives its pages to others, which have too few.
func TestDevicesLeave(t *testing.T) {
	t.Parallel()
	testDevicesLeave(t, 9)
	if s := testDevicesLeave(t, 45, "--cache", "200"); s.Preempted == 0 || s.Evicted == 0 || s.Used != 0 {
		t.Errorf("pages %+v; want all cases, and no page in use", s)
	}
}

func testDevicesLeave(t *testing.T, tokens int, flags ...string) text.PageStats {
	s := rlxtest.Session(t, rlxtest.Open(t, goldenModel(t, "llama_rope3", append(flags, "--batch", "4",
		"--context", "200", "--target", "cpu", "--stages", "2")...)),
		rlx.Options{Devices: []string{"0", "0"}, Threads: 2})
	b, err := text.NewBatch(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	rng := rand.New(rand.NewPCG(1, 9))
	o := text.Options{Tokens: tokens, IgnoreEnd: true, Sampling: &text.Sampling{}}
	var texts []*text.BatchText
	var prompts [][]int
	removed := 0
	for step := 0; len(texts) < 40 || b.Len() > 0; step++ {
		for len(texts) < 40 && b.Free() > 0 && (len(texts) == 0 || rng.IntN(3) > 0) {
			p := make([]int, 1+rng.IntN(150))
			for k := range p {
				p[k] = rng.IntN(31)
			}
			x, err := b.Add(t.Context(), p, o)
			if err != nil {
				t.Fatal(err)
			}
			texts, prompts = append(texts, x), append(prompts, p)
		}
		if x := texts[max(0, len(texts)-1-rng.IntN(4))]; step%(tokens/2+1) == tokens/2 && !x.Done() {
			b.Remove(x)
			removed++
		}
		if err := b.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if removed == 0 {
		t.Error("nothing was removed")
	}
	for i, x := range texts {
		want := together(t, s, false, prompts[i:i+1], []text.Options{o})[0].IDs()
		got := x.Result().IDs()
		if x.Result().Stop != text.StopCancelled && len(got) != len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Errorf("text %d: %v; alone %v", i, got, want)
		}
	}
	return b.Pages()
}
