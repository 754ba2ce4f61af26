package text_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/text"
)

// writeText writes the tiny model that continues text, with its tokenizer. change, if not nil, changes its task and
// returns its graph.
func writeText(t testing.TB, change func(about *task.Text, graph string) string) string {
	t.Helper()
	about, graph := tinymodel.TextTask(), tinymodel.Extend
	about.Tokenizer = "tokenizer.json"
	if change != nil {
		graph = change(about, graph)
	}
	path, file := filepath.Join(t.TempDir(), "t.rlx"), []byte(tinymodel.Tokenizer)
	var weights []format.Weight
	if about.Tokenizer != "" {
		weights = append(
			weights, format.Weight{Name: about.Tokenizer, Type: ir.TypeOf(dtype.U8, int64(len(file))),
				Write: func(w io.Writer) error { _, err := w.Write(file); return err }})
	}
	graphs := []string{graph}
	if about.Draft.Method != "" {
		graphs = append(graphs, tinymodel.Draft, tinymodel.Rewind)
	}
	programs, err := tinymodel.Compile("cpu", graphs...)
	if err != nil {
		t.Fatal(err)
	}
	a := format.Artifact{Programs: programs, Meta: format.Meta{Model: "tiny", Task: about}}
	if _, err := format.Write(t.Context(), path, a, weights); err != nil {
		t.Fatal(err)
	}
	return path
}

func generator(t testing.TB, change func(about *task.Text, graph string) string) *text.Generator {
	t.Helper()
	g, err := text.NewGenerator(
		t.Context(), rlxtest.Session(t, rlxtest.Open(t, writeText(t, change)), rlx.Options{Threads: 1}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// logitsAfter returns the logits of the tiny model after a sequence.
func logitsAfter(ids []int) []float64 {
	s := 0
	for _, id := range ids {
		s += id + 1
	}
	out := make([]float64, 17)
	for j := range out {
		d := float64(j - (5*s+3)%17)
		out[j] = 3 - d*d/2
	}
	return out
}

// greedy continues a sequence by n tokens, with a penalty on the last 6.
func greedy(ids []int, n int, penalty float64) []int {
	all := slices.Clone(ids)
	for range n {
		l := logitsAfter(all)
		for _, id := range slices.Compact(slices.Sorted(slices.Values(all[max(0, len(all)-6):]))) {
			if l[id] *= penalty; l[id] > 0 {
				l[id] /= penalty * penalty
			}
		}
		best := 0
		for j := range l {
			if l[j] > l[best] {
				best = j
			}
		}
		all = append(all, best)
	}
	return all[len(ids):]
}

func generate(t *testing.T, g *text.Generator, ids []int, o text.Options) *text.Result {
	t.Helper()
	x, err := g.Generate(t.Context(), ids, o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	g := generator(t, nil)
	for _, prompt := range [][]int{{5, 9}, {0}, {1, 2, 3, 4, 5}, {16, 0, 3, 2, 9, 12},
		{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}} {
		if err := g.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		x := generate(t, g, prompt, text.Options{Tokens: 6, Logits: true})
		want := greedy(prompt, 6, 1)
		if !slices.Equal(x.IDs(), want) || x.Stop != text.StopLength || x.Prompt != len(prompt) ||
			x.Text != g.Decode(want) {
			t.Errorf("after %v: %v (%q), %s, %d; want %v", prompt, x.IDs(), x.Text, x.Stop, x.Prompt, want)
		}
		if !slices.Equal(g.IDs(), slices.Concat(prompt, want)) {
			t.Errorf("the sequence is %v", g.IDs())
		}
		for i, token := range x.Tokens {
			logits, total := logitsAfter(slices.Concat(prompt, want[:i])), 0.0
			for j, l := range logits {
				if float64(x.Logits[17*i+j]) != l {
					t.Fatalf("logit %d of token %d is %v; want %v", j, i, x.Logits[17*i+j], l)
				}
				total += math.Exp(l)
			}
			if d := float64(token.LogProb) - (logits[want[i]] - math.Log(total)); math.Abs(d) > 1e-5 {
				t.Errorf("token %d: log probability %v is off by %v", i, token.LogProb, d)
			}
		}
		// The sequence continues with more text, and without.
		all := g.IDs()
		if x = generate(t, g, []int{8, 8}, text.Options{Tokens: 2}); !slices.Equal(
			x.IDs(), greedy(append(all, 8, 8), 2, 1)) || x.Prompt != 3 {
			t.Errorf("continued: %v, %d", x.IDs(), x.Prompt)
		}
		all = g.IDs()
		if x = generate(t, g, nil, text.Options{Tokens: 1}); !slices.Equal(x.IDs(), greedy(all, 1, 1)) ||
			x.Prompt != 1 {
			t.Errorf("continued: %v, %d", x.IDs(), x.Prompt)
		}
	}
}

func TestGenerateSampling(t *testing.T) {
	t.Parallel()
	g := generator(t, nil)
	draw := func(o text.Options) []int {
		t.Helper()
		if err := g.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.Tokens, o.IgnoreEnd = 12, true
		return generate(t, g, []int{5, 9}, o).IDs()
	}
	warm := text.Sampling{Temperature: 4}
	a, again, b := draw(text.Options{Sampling: &warm, Seed: 1}), draw(text.Options{Sampling: &warm, Seed: 1}),
		draw(text.Options{Sampling: &warm, Seed: 1 << 40})
	if !slices.Equal(a, again) || slices.Equal(a, b) {
		t.Errorf("seed 1: %v and %v; seed 2^40: %v", a, again, b)
	}
	most := greedy([]int{5, 9}, 12, 1)
	for name, s := range map[string]text.Sampling{"top-k": {Temperature: 4, TopK: 1},
		"top-p": {Temperature: 4, TopP: 1e-6}, "temperature": {Temperature: 1e-6}} {
		if got := draw(text.Options{Sampling: &s, Seed: 7}); !slices.Equal(got, most) {
			t.Errorf("%s: %v; want %v", name, got, most)
		}
	}
	if err := g.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := text.Options{Tokens: 12, Sampling: &text.Sampling{RepeatPenalty: 30}, IgnoreEnd: true}
	if got, want := generate(t, g, []int{0, 1}, o).IDs(), greedy([]int{0, 1}, 12, 30); !slices.Equal(got, want) ||
		slices.Equal(got, greedy([]int{0, 1}, 12, 1)) {
		t.Errorf("penalty: %v; want %v, which is not what there is without", got, want)
	}
	_, err := g.Generate(t.Context(), []int{1}, text.Options{Sampling: &text.Sampling{TopP: 2}})
	rlxtest.WantError(t, "top_p 2", err, rlx.ErrUsage)
	_, err = g.Generate(t.Context(), []int{1}, text.Options{Tokens: -1})
	rlxtest.WantError(t, "-1 tokens", err, rlx.ErrUsage)
}

// TestSuggested checks that tokens are drawn as the artifact suggests, unless options say otherwise.
func TestSuggested(t *testing.T) {
	t.Parallel()
	suggested := task.Sampling{Temperature: 4, TopK: 12, RepeatPenalty: 1.5}
	g := generator(t, func(about *task.Text, graph string) string {
		about.Sampling = suggested
		return graph
	})
	if f := g.Facts(); f.Sampling != text.Sampling(suggested) {
		t.Errorf("%+v; want %+v", f.Sampling, suggested)
	}
	draw := func(s *text.Sampling) []int {
		t.Helper()
		if err := g.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		return generate(t, g, []int{5, 9}, text.Options{Tokens: 12, IgnoreEnd: true, Seed: 3, Sampling: s}).IDs()
	}
	same := text.Sampling(suggested)
	most := greedy([]int{5, 9}, 12, 1)
	if a, b := draw(nil), draw(&same); !slices.Equal(a, b) || slices.Equal(a, most) {
		t.Errorf("as suggested %v; with the same parameters %v; the most probable are %v", a, b, most)
	}
	if got := draw(&text.Sampling{}); !slices.Equal(got, most) {
		t.Errorf("without sampling %v; want %v", got, most)
	}
}

// TestGenerateStops checks end tokens, stop texts and a full context.
func TestGenerateStops(t *testing.T) {
	t.Parallel()
	g := generator(t, func(about *task.Text, graph string) string {
		about.End = []int{7}
		return graph
	})
	reset := func() {
		if err := g.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// 3 is followed by 6 7 13 15 10 14 4 12 9 ...: "énpkoe j".
	for _, c := range []struct {
		o    text.Options
		text string
		ids  int
		stop text.Stop
	}{
		{text.Options{}, "\uFFFD", 2, text.StopEnd}, // 6 is half of a character, and the end token has no text
		{text.Options{IgnoreEnd: true, Tokens: 9}, "énpkoe j", 9, text.StopLength},
		{text.Options{IgnoreEnd: true, Stop: []string{"ko"}}, "énp", 6, text.StopString},
		{text.Options{IgnoreEnd: true, Stop: []string{"kok", "e j"}}, "énpko", 9, text.StopString},
		{text.Options{IgnoreEnd: true, Tokens: 5, Stop: []string{"kok", "é ", "npko!"}}, "énpk", 5, text.StopLength},
		{text.Options{IgnoreEnd: true, Stop: []string{"é", ""}}, "", 2, text.StopString},
	} {
		reset()
		x := generate(t, g, []int{3}, c.o)
		if x.Text != c.text || len(x.Tokens) != c.ids || x.Stop != c.stop {
			t.Errorf("%+v: %q, %v, %s; want %q, %d tokens, %s", c.o, x.Text, x.IDs(), x.Stop, c.text, c.ids, c.stop)
		}
	}
	prompt := make([]int, 20)
	reset()
	if x := generate(t, g, prompt, text.Options{IgnoreEnd: true}); x.Stop != text.StopContext || len(x.Tokens) != 5 {
		t.Errorf("a prompt of 20: %v, %s; want 5 tokens", x.IDs(), x.Stop)
	}
	_, err := g.Generate(t.Context(), nil, text.Options{})
	rlxtest.WantError(t, "a sequence of 25", err, text.ErrContext, rlx.ErrUsage)
	reset()
	x, err := g.Generate(t.Context(), prompt, text.Options{Tokens: 6, IgnoreEnd: true})
	rlxtest.WantError(t, "a prompt of 20 and 6 tokens", err, text.ErrContext)
	if x == nil || len(x.Tokens) != 5 {
		t.Errorf("beside the error: %+v", x)
	}
	reset()
	_, err = g.Generate(t.Context(), make([]int, 25), text.Options{})
	rlxtest.WantError(t, "a prompt of 25", err, text.ErrContext)
	if want := "prompt: has 25 tokens; the context has 24; give"; err != nil && !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v; want %s", err, want)
	}
}

// TestStream checks that the pieces are whole characters, and that text that may begin a stop text is held back.
func TestStream(t *testing.T) {
	t.Parallel()
	g := generator(t, nil)
	var pieces []string
	for token, err := range g.Stream(t.Context(), []int{3}, text.Options{Tokens: 6, Stop: []string{"pkx"}}) {
		if err != nil {
			t.Fatal(err)
		}
		pieces = append(pieces, token.Text)
	}
	if want := []string{"", "é", "n", "", "", "pko"}; !slices.Equal(pieces, want) {
		t.Errorf("%q; want %q", pieces, want)
	}
	for range g.Stream(t.Context(), []int{3}, text.Options{Tokens: 6}) {
		break
	}
	if n := len(g.IDs()); n != 9 {
		t.Errorf("a loop that was left after a token: %d tokens; want 9", n)
	}
	// When the context is done, the text that was held back comes with the error.
	if err := g.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	all := ""
	var last error
	for token, err := range g.Stream(ctx, []int{3}, text.Options{Tokens: 9, Stop: []string{"npq"}}) {
		all, last = all+token.Text, err
		if token.ID == 15 {
			cancel()
		}
	}
	if all != "énp" || !errors.Is(last, context.Canceled) {
		t.Errorf("%q, %v", all, last)
	}
}

// TestGenerateCancelled checks that the text so far is returned, and that the sequence can be continued.
func TestGenerateCancelled(t *testing.T) {
	t.Parallel()
	g := generator(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for range g.Stream(ctx, []int{5, 9}, text.Options{Tokens: 8}) {
		if n++; n == 3 {
			cancel()
		}
	}
	x := generate(t, g, nil, text.Options{Tokens: 5})
	if got := g.IDs()[2:]; !slices.Equal(got, greedy([]int{5, 9}, 8, 1)) || len(x.Tokens) != 5 {
		t.Errorf("%v; want %v", got, greedy([]int{5, 9}, 8, 1))
	}
	y, err := g.Generate(ctx, nil, text.Options{Tokens: 5})
	rlxtest.WantError(t, "a context that is done", err, context.Canceled)
	if y != nil && len(y.Tokens) > 0 {
		t.Errorf("it generated %v", y.IDs())
	}
}

// TestStateOfAnotherModel checks that a model refuses the state of another model with the same shapes, and that it
// takes its own state again from a second copy of the artifact.
func TestStateOfAnotherModel(t *testing.T) {
	t.Parallel()
	a, same := generator(t, nil), generator(t, nil)
	other := generator(t, func(_ *task.Text, graph string) string {
		return strings.Replace(graph, "five = const {value=5}", "five = const {value=6}", 1)
	})
	for _, g := range []*text.Generator{a, other} {
		if err := g.Append(t.Context(), []int{1, 2}); err != nil {
			t.Fatal(err)
		}
	}
	var file bytes.Buffer
	if err := a.Save(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s.safetensors")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := same.Load(t.Context(), path); err != nil {
		t.Errorf("the same artifact: %v", err)
	}
	err := other.Load(t.Context(), path)
	rlxtest.WantError(t, "another artifact", err, rlx.ErrOtherModel)
	if err != nil && !strings.Contains(err.Error(), "use it with the artifact that saved it") {
		t.Errorf("%v", err)
	}
	if !slices.Equal(other.IDs(), []int{1, 2}) {
		t.Error("a file that was refused changed the sequence")
	}
}

// TestGenerateState saves and loads a sequence, and computes a prefix once.
func TestGenerateState(t *testing.T) {
	t.Parallel()
	g := generator(t, nil)
	prefix := []int{1, 2, 3, 4, 5, 6, 7}
	if err := g.Append(t.Context(), prefix); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := g.Save(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s.safetensors")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	// A shorter list of ids, with the rest of the file as it was.
	short := bytes.Replace(file.Bytes(), []byte(`"1 2 3 4 5 6 7"`), []byte(`"1"            `), 1)
	if err := os.WriteFile(path+"x", short, 0o600); err != nil {
		t.Fatal(err)
	}
	rlxtest.WantError(t, "a shorter list of ids", g.Load(t.Context(), path+"x"), rlx.ErrDamaged)
	for _, more := range [][]int{nil, {8}, {8, 9}} {
		if err := g.Load(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		x := generate(t, g, more, text.Options{Tokens: 4})
		if want := greedy(slices.Concat(prefix, more), 4, 1); !slices.Equal(x.IDs(), want) || x.Prompt != 1+len(more) {
			t.Errorf("after %v: %v, %d; want %v", more, x.IDs(), x.Prompt, want)
		}
	}
	bad := signed(bytes.Replace(file.Bytes(), []byte("1 2 3 4 5 6 7"), []byte("1 2 3 4 5 6 x"), 1))
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	before := g.IDs()
	rlxtest.WantError(t, "a file with other tokens", g.Load(t.Context(), path), rlx.ErrInput)
	if !slices.Equal(g.IDs(), before) {
		t.Error("a file that was refused changed the sequence")
	}
}

// TestBadText checks input that is refused.
func TestBadText(t *testing.T) {
	t.Parallel()
	g := generator(t, nil)
	if ids, err := g.Encode("fénj é"); err != nil || !slices.Equal(ids, []int{5, 6, 7, 13, 9, 12, 6, 7}) {
		t.Errorf("%v, %v", ids, err)
	}
	for what, f := range map[string]func() error{
		"no tokens": func() error { _, err := g.Generate(t.Context(), nil, text.Options{}); return err },
		"a token beyond": func() error {
			_, err := g.Generate(t.Context(), []int{3, 17}, text.Options{})
			return err
		},
		"a negative token": func() error { return g.Append(t.Context(), []int{-1}) },
		"text without a model": func() error {
			_, err := text.NewGenerator(
				t.Context(),
				rlxtest.Session(
					t, rlxtest.Open(t, rlxtest.Artifact(t, nil, tinymodel.Program(t, tinymodel.Decode, "cpu"))),
					rlx.Options{}))
			return err
		},
		"text for a model without a tokenizer": func() error {
			_, err := generator(t, func(about *task.Text, graph string) string {
				about.Tokenizer = ""
				return graph
			}).Encode("a")
			return err
		},
	} {
		rlxtest.WantError(t, what, f(), rlx.ErrUsage)
	}
	_, err := g.Encode("fé\xffn")
	rlxtest.WantError(t, "invalid UTF-8", err, text.ErrText)
	if !strings.Contains(err.Error(), "byte 3") {
		t.Errorf("%v; want the place of the byte", err)
	}
	for _, c := range []struct {
		mask        string // the logits are NaN where this is not 0; for the most probable id, d is 0
		temperature float64
		want        error
	}{{"one", 0, rlx.ErrNaN}, {"one", 1, rlx.ErrInput}, {"d", 0, rlx.ErrNaN}, {"d", 1, rlx.ErrNaN}} {
		mask := c.mask
		nan := generator(t, func(_ *task.Text, graph string) string { // the square root of id-2
			return strings.Replace(graph, "l = add l0, three : f32[17]",
				"past2 = sub r1, three : f32[T]\nroot = sqrt past2 : f32[T]\nbad = reduce_sum root {axes=[0],keep_dims=true} : f32[1]\n"+
					"l1 = add l0, three : f32[17]\nl2 = add l1, bad : f32[17]\nl = where "+mask+", l2, l1 : f32[17]", 1)
		})
		x, err := nan.Generate(t.Context(), []int{5, 1},
			text.Options{Tokens: 3, Sampling: &text.Sampling{Temperature: c.temperature}})
		rlxtest.WantError(t, "NaN where "+mask+" is not 0", err, c.want)
		if x != nil && len(x.Tokens) > 0 {
			t.Errorf("NaN where %s is not 0: %v", mask, x.IDs())
		}
	}
}

// BenchmarkToken measures the time of host, process and protocol per token, with a model that only stores the tokens.
func BenchmarkToken(b *testing.B) {
	g := generator(b, func(_ *task.Text, graph string) string {
		head, _, _ := strings.Cut(graph, "one = const")
		return head +
			"next = kv_append seen, r, position {axis=0} : f32[24]\nlogits = const {value=0} : f32[1,17]\ntoken = const {value=3} : i32[1]\n" +
			"logprob = const {value=-1} : f32[1]\nreturn logits=logits, token=token, logprob=logprob, greedy=token, greedy_logprob=logprob\n"
	})
	tokens, took := 0, time.Duration(0)
	for b.Loop() {
		if err := g.Reset(b.Context()); err != nil {
			b.Fatal(err)
		}
		x, err := g.Generate(b.Context(), []int{5, 9}, text.Options{Tokens: 20, IgnoreEnd: true})
		if err != nil {
			b.Fatal(err)
		}
		tokens, took = tokens+19, took+x.Duration-x.Prefill
	}
	b.ReportMetric(float64(took.Nanoseconds())/1e3/float64(tokens), "us/token")
}

// signed replaces the digest at the end of a state file.
func signed(file []byte) []byte {
	file = slices.Clone(file)
	sum := sha256.Sum256(file[:len(file)-sha256.Size])
	copy(file[len(file)-sha256.Size:], sum[:])
	return file
}
